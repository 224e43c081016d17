"""The key that orders candidates is the nearest double, in this and in the torch backend."""

import math
from fractions import Fraction
from random import Random

import pytest
import torch

from helpers.kernels import from_python
from torch_geometric_simpool.topk.measures import COSINE, JACCARD
from torch_geometric_simpool.topk.numba import keys
from torch_geometric_simpool.topk.torch import describe

order = from_python(keys)


def key_of_torch(dot: float, norm2: float) -> float:
    node = torch.tensor([0])
    squares = torch.tensor([norm2], dtype=torch.float64)
    norms = describe.Norms(squares, torch.ones_like(squares), exact=False)
    value = torch.tensor([dot], dtype=torch.float64)
    return describe.order_key("cosine", norms, node, node, value).item()


@pytest.mark.parametrize("bits", [26, 27, 40, 49, 53])
def test_keys_are_the_nearest_doubles(bits: int) -> None:
    """Squares of dot products above 2^26 are not exact."""
    rng, rounded = Random(bits), 0
    for _ in range(500):
        dot = math.ldexp(rng.randrange(1, 2**bits), rng.randint(-40, 20)) * rng.choice([1, -1])
        norm2 = math.ldexp(rng.randrange(1, 2 ** rng.randint(1, bits)), rng.randint(-40, 20))
        expected = float(Fraction(dot) * abs(Fraction(dot)) / Fraction(norm2))
        assert order.order_key(dot, 1.0, norm2, COSINE) == expected
        assert key_of_torch(dot, norm2) == expected
        rounded += dot * abs(dot) / norm2 != expected
    assert (rounded > 10) == (bits > 26)


def test_equal_fractions_have_equal_keys() -> None:
    rng, different = Random(3), 0
    for _ in range(300):
        a, b = rng.randrange(1, 2**20), rng.randrange(1, 2**12)
        pairs = [(a * b * c, b * b * c * c) for c in (1, 3, 2**5, 1001, 2**12 + 1)]
        assert len({order.order_key(float(d), 1.0, float(n), COSINE) for d, n in pairs}) == 1
        different += len({float(d) * d / n for d, n in pairs}) > 1
    assert different > 50


def test_the_key_of_a_node_with_itself_is_its_squared_norm() -> None:
    rng = Random(4)
    for _ in range(100):
        norm2 = rng.uniform(0, 10) ** rng.randint(-20, 20)
        assert order.order_key(norm2, 1.0, norm2, COSINE) == key_of_torch(norm2, norm2) == norm2


def test_the_key_of_jaccard_is_the_similarity() -> None:
    assert order.order_key(2.0, 3.0, 5.0, JACCARD) == 2 / 6
    assert order.order_key(-2.0, 3.0, 5.0, JACCARD) == -0.2
    assert order.similarity_of_key(2 / 6, 3.0, JACCARD) == 2 / 6


def test_similarity_of_key() -> None:
    assert order.similarity_of_key(2.0, 8.0, COSINE) == 0.5
    assert order.similarity_of_key(-2.0, 8.0, COSINE) == -0.5
    assert order.similarity_of_key(9.0, 8.0, COSINE) == 1.0  # a cosine is at most 1 after rounding
    assert order.similarity_of_key(-9.0, 8.0, COSINE) == -1.0

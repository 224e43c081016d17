"""The key that orders candidates equals fractions and the key of the torch backend."""

import math
from fractions import Fraction
from random import Random

import pytest
import torch

from helpers.kernels import from_python
from torch_geometric_simpool.topk.numba import keys as order_kernels
from torch_geometric_simpool.topk.torch import describe

order = from_python(order_kernels)


@pytest.mark.parametrize("value", [1.0, 3.0, 12.0, 0.1, 2.0**60, 5e-324, 1.5e300, 2.0**53 - 1])
def test_odd_part(value: float) -> None:
    whole, exponent = order.odd_part(value)
    assert whole % 2 == 1
    assert Fraction(whole) * Fraction(2) ** exponent == Fraction(value)


def key_of_torch(dot: float, norm2: float) -> float:
    node = torch.tensor([0])
    squares = torch.tensor([norm2], dtype=torch.float64)
    norms = describe.Norms(squares, torch.ones_like(squares), torch.tensor([True]), exact=False)
    value = torch.tensor([dot], dtype=torch.float64)
    return describe.order_key("cosine", norms, node, node, value).item()


def fraction(dot: float, norm2: float) -> Fraction:
    return Fraction(dot) * abs(Fraction(dot)) / Fraction(norm2)


def test_keys_are_the_nearest_doubles_where_squares_are_exact() -> None:
    rng = Random(1)
    for _ in range(500):
        dot = float(rng.randrange(1, 2**26)) * rng.choice([1, -1])
        norm2 = float(rng.randrange(1, 2**52))
        expected = float(fraction(dot, norm2))
        assert order.order_key(dot, 1.0, norm2, False, True) == expected
        assert key_of_torch(dot, norm2) == expected


def test_keys_are_the_nearest_doubles_where_lowest_terms_are_small() -> None:
    """Squares of dot products above 2^26 would be rounded without lowest terms."""
    rng = Random(2)
    for _ in range(500):
        factor = rng.randrange(2**14 + 1, 2**24, 2)
        dot = float(factor * rng.randrange(2**13 + 1, 2**25, 2))
        norm2 = float(factor**2 * rng.choice([1, 3, 5, 7, 25]))
        if not 2**26 < dot < 2**50 or norm2 >= 2**53:
            continue
        lowest = fraction(dot, norm2)
        if lowest.numerator < 2**53:
            scale = 2.0 ** rng.randint(-30, 30)
            for sign in (1, -1):
                key = order.order_key(sign * dot * scale, 1.0, norm2, False, True)
                assert key == sign * float(lowest) * scale**2


def test_equal_fractions_have_equal_keys() -> None:
    rng = Random(3)
    beyond = 0
    for _ in range(300):
        a, b = rng.randrange(1, 2**20), rng.randrange(1, 2**12)
        if a * a * b > 2**52:
            continue
        keys = set()
        for factor in (1, 3, 2**5, 1001, 2**16 + 1):
            dot, norm2 = float(a * b * factor), float(b * b * factor**2)
            if norm2 < 2**53 and dot < 2**50:
                keys.add(order.order_key(dot, 1.0, norm2, False, True))
                beyond += dot >= 2**26
        assert len(keys) == 1
    assert beyond > 50


def test_keys_are_those_of_the_torch_backend() -> None:
    """The bits are equal, also at the bounds of the numbers that are reduced."""
    rng = Random(4)
    odd = [2**26 - 1, 2**26 + 1, 2**27 - 1, 2**27 + 1, 2**50 - 1, 2**50 + 1, 2**53 - 1]
    for number in range(600):
        whole = odd[number % len(odd)] if number < 100 else rng.randrange(2 ** rng.randint(1, 53))
        dot = math.ldexp(max(whole, 1), rng.randint(-40, 20)) * rng.choice([1, -1])
        norm2 = math.ldexp(rng.randrange(1, 2 ** rng.randint(1, 53)), rng.randint(-40, 20))
        key = order.order_key(dot, 1.0, norm2, False, True)
        assert key == key_of_torch(dot, norm2)
        assert math.isclose(key, float(fraction(dot, norm2)), rel_tol=1e-15)


def test_lowest_terms_are_taken_of_as_many_bits_as_in_the_other_backend() -> None:
    """Numbers with common factors are reduced if they have 27 to 50 bits, but not 26 or 51."""
    rng = Random(8)
    seen = set()
    for _ in range(3000):
        bits = rng.choice([26, 27, 50, 51])
        factor = rng.randrange(3, 2**12, 2)
        dot = float(factor * rng.randrange(2 ** (bits - 1) // factor + 1, 2**bits // factor, 1))
        norm2 = float(factor * rng.randrange(1, 2**40))
        key = order.order_key(dot, 1.0, norm2, False, True)
        assert key == key_of_torch(dot, norm2)
        seen.add((bits, key == dot * dot / norm2))
    assert seen >= {(27, False), (50, False), (51, True)}


def test_keys_of_reals_are_plain_quotients() -> None:
    """Real numbers have no lowest terms."""
    rng = Random(5)
    for _ in range(100):
        dot, norm2 = float(rng.randrange(2**26, 2**50)), float(rng.randrange(1, 2**53))
        assert order.order_key(dot, 1.0, norm2, False, False) == dot * dot / norm2
        assert order.order_key(-dot, 1.0, norm2, False, False) == -dot * dot / norm2


def test_the_key_of_jaccard_is_the_similarity() -> None:
    assert order.order_key(2.0, 3.0, 5.0, True, True) == 2 / 6
    assert order.order_key(-2.0, 3.0, 5.0, True, True) == -0.2
    assert order.similarity_of_key(2 / 6, 3.0, True) == 2 / 6


def test_similarity_of_key() -> None:
    assert order.similarity_of_key(2.0, 8.0, False) == 0.5
    assert order.similarity_of_key(-2.0, 8.0, False) == -0.5
    assert order.similarity_of_key(9.0, 8.0, False) == 1.0  # a cosine is at most 1 after rounding
    assert order.similarity_of_key(-9.0, 8.0, False) == -1.0

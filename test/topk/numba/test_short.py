"""Short rows: eight at a time, in the order of exact fractions."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from torch_geometric_simpool import topk_similarity
from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.numba import backend as numba_backend
from torch_geometric_simpool.topk.numba.short import MOST_TRIED, SHORT, id_mask_of
from torch_geometric_simpool.topk.parse import check_edges
from torch_geometric_simpool.topk.spec import TopKSettings


@pytest.mark.parametrize("measure", ["cosine", "jaccard", "dice", "overlap"])
@pytest.mark.parametrize("k", [1, 16, SHORT + 3])
@pytest.mark.parametrize("common", [1, 13])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_with_any_number_of_candidates(
    weighted: bool, common: int, k: int, measure: str
) -> None:
    """Each node has the `common` features of its group, and some features of its own."""
    generator = torch.Generator().manual_seed(k)
    sizes = torch.arange(1, SHORT + 5)
    group = sizes.repeat_interleave(sizes)[torch.randperm(int(sizes.sum()), generator=generator)]
    num_nodes = group.numel()
    node = torch.arange(num_nodes)
    own = torch.randint(0, 4, (num_nodes,), generator=generator)
    row = torch.cat([node.repeat(common), node.repeat_interleave(own)])
    groups = torch.cat([group + feature * (SHORT + 5) for feature in range(common)])
    col = torch.cat([groups, common * (SHORT + 5) + torch.arange(int(own.sum()))])
    edge_index, shape = torch.stack([row, col]), (num_nodes, int(col.max()) + 1)
    assert common == 1 or common * SHORT > MOST_TRIED  # there are rows with too many products
    weight = torch.randint(1, 4, row.shape, generator=generator) / 7 if weighted else None
    for loop in (True, False):
        settings = {"num_nodes": shape, "measure": measure, "loop": loop}
        values, index = topk_similarity(edge_index, k, weight, backend="numba", **settings)
        expected = topk_similarity(edge_index, k, weight, backend="torch", **settings)
        assert torch.equal(values, expected[0])
        assert torch.equal(index, expected[1])


def has_words(edge_index: Tensor, weight: Tensor, num_nodes: Any) -> bool:
    """Returns whether candidates are compared by words."""
    edges = check_edges(edge_index, weight, num_nodes)
    graph = numba_backend.prepare(edges, TopKSettings(), Budget(None, force=True)).description
    return id_mask_of(graph) > 0


def squares(number: int, largest: int = 2**30) -> Iterator[int]:
    """Yields integers up to `largest` whose squares add up to a number."""
    while number > 0:
        root = min(math.isqrt(number), largest)
        yield root
        number -= root * root


@pytest.mark.parametrize(("bits", "words"), [(3, True), (6, True), (9, False), (11, False)])
def test_fractions_that_are_about_equal(bits: int, words: bool) -> None:
    """Two keys, `a^2 / n` and `b^2 / m`, are as close as fractions can be: `a^2 m - b^2 n = 1`.

    Row 0 has the first feature alone. The word of a key has 42 bits of its mantissa.
    """
    a, b = 2**bits + 1, 2**bits - 1
    n = -pow(b * b, -1, a * a) % (a * a) + a * a
    m = (1 + b * b * n) // (a * a)
    assert a * a * m - b * b * n == 1
    weights = [[1], [b, *squares(m - b * b)], [a, *squares(n - a * a)]]  # the best comes last
    row = torch.arange(3).repeat_interleave(torch.tensor([len(part) for part in weights]))
    col = [c for i, part in enumerate(weights) for c in (0, *range(9 * i + 1, 9 * i + len(part)))]
    edge_index = torch.stack([row, torch.tensor(col)])
    weight = torch.tensor([value for part in weights for value in part])
    assert has_words(edge_index, weight, (1000, 30)) == words
    settings = {"num_nodes": (1000, 30), "nodes": [0], "backend": "numba"}
    _, index = topk_similarity(edge_index, 4, weight, **settings)
    assert index.tolist() == [[0, 2, 1, -1]]


def test_a_similarity_that_is_zero_in_float16() -> None:
    """The similarity of the two nodes is `2^-24`, which counts as zero in float16."""
    own = list(squares(2**24 - 1, largest=2047))  # a larger integer would be rounded in float16
    row = torch.tensor([0, 1] + [1] * len(own))
    col = torch.tensor([0, 0, *range(1, len(own) + 1)])
    weight = torch.tensor([1, 1, *own]).half()
    values, index = topk_similarity(
        torch.stack([row, col]), 2, weight, (2, len(own) + 1), measure="jaccard", backend="numba"
    )
    assert values.tolist() == [[1, 0], [1, 0]]
    assert index.tolist() == [[0, -1], [1, -1]]


def test_similarities_that_are_zero_come_last() -> None:
    """The square of a product underflows, and so does the key, where weights differ enough."""
    weight = torch.tensor([1.0, 1e-170, 1.0, 1e-9], dtype=torch.float64)
    edge_index = torch.tensor([[0, 0, 1, 2], [0, 1, 0, 1]])
    values, index = topk_similarity(edge_index, 3, weight, (3, 2), backend="numba")
    assert values.tolist() == [[1, 1, 0], [1, 1, 0], [1, 0, 0]]
    assert index.tolist() == [[0, 1, -1], [0, 1, -1], [2, -1, -1]]


def test_lanes_are_empty_after_a_node_without_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of a node whose weights are all zero is 0 / 0, which has no defined sign."""
    new_scratch, all_keys = numba_backend.new_scratch, []

    def recorded(graph: Any, k: int) -> Any:
        scratch = new_scratch(graph, k)
        all_keys.append(scratch.lanes.key)
        return scratch

    monkeypatch.setattr(numba_backend, "new_scratch", recorded)
    # Row 0 touches node 4 at both features, so last of all.
    edge_index = torch.tensor([[0, 1, 2, 3, 4, 0, 4], [0, 0, 0, 0, 0, 1, 1]])
    weight = torch.tensor([1, 1, 1, 1, 0, 1, 0])
    _, index = topk_similarity(edge_index, 4, weight, (5, 2), backend="numba")
    assert index.tolist() == [[0, 1, 2, 3], *[[1, 2, 3, 0]] * 3, [-1] * 4]
    assert all_keys
    assert all((keys == 0).all() for keys in all_keys)


def test_words_order_small_integers_alone() -> None:
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
    # The ids have two bits. Squared norms are `weight^2 + 1` at most, and their cube 2^47.
    for weight, words in ((1.0, True), (228.0, True), (229.0, False), (0.3, False)):
        assert has_words(edge_index, torch.tensor([1.0, 1.0, weight]), 3) == words

"""A prepared graph: queries equal the full call, also after edits."""

import copy
import pickle
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers import backends
from helpers.graphs import FLAVORS, draw, draw_all, union
from torch_geometric_simpool import SimilarityIndex, topk_similarity

BACKENDS = pytest.mark.parametrize("backend", backends.BACKENDS)
STAR = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
EVERY_SETTING: list[dict[str, Any]] = [
    {},
    {"measure": "jaccard", "lam": 1.0},
    {"p": 2},
    {"p": 3, "lam": 1.0},
    {"max_degree": 3},
    {"candidates": torch.tensor([0, 2, 3])},
    {"candidates": torch.tensor([0, 1, 4]), "max_degree": 2},
]


def assert_same(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> None:
    assert one[0].dtype == other[0].dtype
    assert torch.equal(one[0], other[0])
    assert torch.equal(one[1], other[1])


@BACKENDS
@pytest.mark.parametrize("settings", EVERY_SETTING)
def test_a_query_equals_the_full_call(settings: dict[str, Any], backend: str) -> None:
    graph, _ = union(draw_all(2))
    for weight in (None, graph.edge_weight(torch.float32)):
        given = {**settings, "num_nodes": graph.num_nodes, "backend": backend}
        index = SimilarityIndex(graph.edge_index, weight, **given)
        for k, loop, least in ((4, True, None), (2, False, 0.3)):
            full = topk_similarity(
                graph.edge_index, k, weight, loop=loop, min_similarity=least, **given
            )
            assert_same(index.query(None, k, loop, least), full)
            nodes = torch.randperm(graph.num_nodes)[:40]
            found = index.query(nodes, k, loop, least)
            assert_same(found, (full[0][nodes], full[1][nodes]))


@BACKENDS
def test_a_bipartite_index(backend: str) -> None:
    likes = torch.tensor([[0, 1, 2, 3, 0, 1], [0, 0, 0, 0, 1, 1]])
    index = SimilarityIndex(likes, num_nodes=(4, 3), backend=backend)
    assert index.query(torch.tensor([3, 0]), 2, loop=False)[1].tolist() == [[2, 0], [1, 2]]
    assert index.num_nodes == 4
    changed = index.add_edges(torch.tensor([[3], [2]]))
    assert changed.tolist() == [0, 1, 2, 3]
    assert index.add_edges(torch.tensor([[2], [2]])).tolist() == [0, 1, 2, 3]
    assert index.remove_edges(torch.tensor([[2], [0]])).tolist() == [0, 1, 2, 3]
    assert index.query(torch.tensor([2]), 3)[1].tolist() == [[2, 3, -1]]
    # Node 2 shares nothing with 0 and 1 any more.
    assert index.add_edges(torch.tensor([[2], [2]])).tolist() == [2, 3]


@BACKENDS
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("settings", EVERY_SETTING)
def test_edits_equal_a_full_computation(
    settings: dict[str, Any], weighted: bool, backend: str
) -> None:
    """Random sequences of edits. Rows that are not named as changed keep their bits."""
    unchanged = 0
    for seed in range(8):
        rng = Random(f"{settings} {weighted} {seed}")
        n = rng.randint(5, 25)
        pairs = [(rng.randrange(n), rng.randrange(n)) for _ in range(rng.randint(0, 2 * n))]
        weights = [float(rng.choice([-1, 1, 2, 3])) for _ in pairs]
        given = {**settings, "num_nodes": n, "backend": backend}

        def tensors(
            pairs: list[tuple[int, int]], weights: list[float]
        ) -> tuple[Tensor, Tensor | None]:
            edges = torch.tensor(pairs, dtype=torch.long).view(-1, 2).t()
            return edges, torch.tensor(weights) if weighted else None

        index = SimilarityIndex(*tensors(pairs, weights), **given)
        before = index.query(None, 4)
        for _ in range(6):
            if pairs and rng.random() < 0.5:
                gone = rng.sample(sorted(set(pairs)), min(2, len(set(pairs))))
                kept = [at for at, pair in enumerate(pairs) if pair not in gone]
                pairs, weights = [pairs[at] for at in kept], [weights[at] for at in kept]
                changed = index.remove_edges(tensors(gone, [])[0])
            else:
                new = [(rng.randrange(n), rng.randrange(n)) for _ in range(rng.randint(0, 3))]
                drawn = [float(rng.choice([-2, 1, 4])) for _ in new]
                pairs, weights = pairs + new, weights + drawn
                changed = index.add_edges(*tensors(new, drawn))
            edges, weight = tensors(pairs, weights)
            full = topk_similarity(edges, 4, weight, **given)
            assert_same(index.query(None, 4), full)
            before[0][changed], before[1][changed] = (rows[changed] for rows in full)
            assert_same(before, full)
            unchanged += n - changed.numel()
    assert unchanged > 0


def test_only_rows_near_an_edit_change() -> None:
    """On a long path: the two ends, and what shares a neighbor with them."""
    i = torch.arange(99)
    path = torch.cat([torch.stack([i, i + 1]), torch.stack([i + 1, i])], dim=1)
    for p, reach in ((1, 2), (2, 5)):
        index = SimilarityIndex(path, p=p)
        for edit in (index.remove_edges, index.add_edges):
            assert edit(torch.tensor([[50, 51], [51, 50]])).tolist() == list(
                range(50 - reach, 52 + reach)
            )


@pytest.mark.parametrize("flavor", ["dyadic", "parallel", "isolated", "nothing"])
def test_an_index_is_copied_and_pickled(flavor: str) -> None:
    graph = draw(flavor, 0)
    assert flavor in FLAVORS
    index = SimilarityIndex(graph.edge_index, graph.edge_weight(), graph.num_nodes)
    for other in (copy.deepcopy(index), pickle.loads(pickle.dumps(index))):
        assert_same(other.query(None, 3), index.query(None, 3))


def test_the_edges_are_copied() -> None:
    edges, weight = STAR.clone(), torch.ones(6)
    index = SimilarityIndex(edges, weight)
    expected = index.query(None, 2)
    edges.zero_()
    weight.zero_()
    index.add_edges(torch.empty(2, 0, dtype=torch.long), torch.empty(0))
    assert_same(index.query(None, 2), expected)


def test_the_repr() -> None:
    assert repr(SimilarityIndex(STAR, p=2)) == (
        "SimilarityIndex(num_nodes=4, num_edges=6, p=2, lam=0.0, measure='cosine')"
    )
    assert "num_nodes=(4, 9)" in repr(SimilarityIndex(STAR, num_nodes=(4, 9)))


@pytest.mark.parametrize(
    ("call", "error", "parts"),
    [
        (lambda i: i.query(torch.tensor([4]), 2), ValueError, ["`nodes`", "[0, 4)", "got 4"]),
        (lambda i: i.query([1], 2), TypeError, ["`nodes`", "torch.Tensor", "list"]),
        (lambda i: i.query(None, 0), ValueError, ["`k`", ">= 1"]),
        (lambda i: i.query(None, 2, loop=1), TypeError, ["`loop`"]),
        (lambda i: i.query(None, 2, min_similarity=2), ValueError, ["`min_similarity`"]),
        (lambda i: i.add_edges(torch.tensor([[0], [4]])), ValueError, ["`edge_index`", "got 4"]),
        (lambda i: i.add_edges(torch.tensor([0, 1])), ValueError, ["`edge_index`", "[2, E]"]),
        (lambda i: i.add_edges(STAR, torch.ones(6)), ValueError, ["`edge_weight`", "no weights"]),
        (lambda i: i.remove_edges(torch.tensor([[0, 1], [1, 2]])), ValueError, ["(1, 2)"]),
        (lambda i: SimilarityIndex(STAR, measure="l2"), ValueError, ["`measure`", "sparse"]),
        (lambda i: SimilarityIndex(STAR, p=0), ValueError, ["`p`", ">= 1"]),
    ],
)
def test_bad_input_changes_nothing(call: Any, error: type[Exception], parts: list[str]) -> None:
    index = SimilarityIndex(STAR)
    before = index.query(None, 2)
    with pytest.raises(error) as info:
        call(index)
    for part in parts:
        assert part in str(info.value)
    assert index.edge_index.size(1) == 6
    assert_same(index.query(None, 2), before)


def test_an_index_with_weights_takes_edges_with_weights() -> None:
    index = SimilarityIndex(STAR, torch.ones(6))
    with pytest.raises(ValueError, match="`edge_weight` must be given"):
        index.add_edges(torch.tensor([[0], [1]]))
    for weight in (torch.tensor([torch.nan]), torch.tensor([1e300], dtype=torch.float64)):
        with pytest.raises(ValueError, match="finite"):
            index.add_edges(torch.tensor([[0], [1]]), weight)
    whole = SimilarityIndex(STAR, torch.ones(6, dtype=torch.long))
    with pytest.raises(TypeError, match=r"`edge_weight` .* torch\.int64, got torch\.float32"):
        whole.add_edges(torch.tensor([[0], [1]]), torch.tensor([0.5]))
    for narrow, wrong in ((torch.int8, 300), (torch.uint8, -1)):
        index = SimilarityIndex(STAR, torch.ones(6, dtype=narrow))
        with pytest.raises(ValueError, match=rf"`edge_weight` must .*{narrow}.* to {wrong}"):
            index.add_edges(torch.tensor([[0], [1]]), torch.tensor([wrong]))
        assert index.edge_weight is not None
        assert index.edge_weight.tolist() == [1] * 6
        index.add_edges(torch.tensor([[0], [1]]), torch.tensor([100]))
        assert index.edge_weight.tolist() == [1] * 6 + [100]

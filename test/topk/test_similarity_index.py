"""The index: queries equal rows of the full call, also after edits."""

import copy
import pickle
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.graphs import draw, draw_all, union
from torch_geometric_simpool import SimilarityIndex, topk_similarity

STAR = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
EVERY_SETTING: list[dict[str, Any]] = [
    {},
    {"measure": "jaccard", "lam": 1.0},
    {"p": 2},
    {"p": 3, "lam": 1.0},
    {"max_degree": 3},
    {"candidates": torch.tensor([0, 2, 3])},
    {"candidates": torch.tensor([0, 1, 4]), "max_degree": 2},
    {"exclude_neighbors": True, "loop": False},
]


def assert_same(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> None:
    assert one[0].dtype == other[0].dtype
    assert torch.equal(one[0], other[0])
    assert torch.equal(one[1], other[1])


@pytest.mark.parametrize("settings", EVERY_SETTING)
def test_a_query_equals_the_full_call(settings: dict[str, Any], backend: str) -> None:
    graph, _ = union(draw_all(2))
    for weight in (None, graph.edge_weight(torch.float32)):
        for loop, least in ((True, None), (False, 0.3)):
            options = {"loop": loop, "min_similarity": least, **settings, "backend": backend}
            full = topk_similarity(graph.edge_index, 4, weight, graph.num_nodes, **options)
            index = SimilarityIndex(graph.edge_index, weight, graph.num_nodes, **options)
            assert_same(index.query(None, 4), full)
            nodes = torch.randperm(graph.num_nodes)[:40]
            for ids in (nodes, nodes.tolist()):
                assert_same(index.query(ids, 4), (full[0][nodes], full[1][nodes]))


def test_a_query_of_one_node_and_of_none(backend: str) -> None:
    index = SimilarityIndex(STAR, backend=backend)
    for node in (3, torch.tensor(3), torch.tensor([3])):
        assert index.query(node, 2)[1].tolist() == [[1, 2]]
    for nodes in ([], torch.tensor([]), torch.tensor([], dtype=torch.long)):
        values, similar = index.query(nodes, 2)
        assert values.shape == similar.shape == (0, 2)


def test_a_bipartite_index(backend: str) -> None:
    likes = torch.tensor([[0, 1, 2, 3, 0, 1], [0, 0, 0, 0, 1, 1]])
    index = SimilarityIndex(likes, num_nodes=(4, 3), loop=False, backend=backend)
    assert index.query([3, 0], 2)[1].tolist() == [[2, 0], [1, 2]]
    assert index.edges.num_nodes == 4
    assert index.add_edges(torch.tensor([[3], [2]])).tolist() == [0, 1, 2, 3]
    assert index.add_edges(torch.tensor([[2], [2]])).tolist() == [0, 1, 2, 3]
    assert index.remove_edges(torch.tensor([[2], [0]])).tolist() == [0, 1, 2, 3]
    assert index.query(2, 3)[1].tolist() == [[3, -1, -1]]
    # Node 2 no longer shares a neighbor with nodes 0 and 1.
    assert index.add_edges(torch.tensor([[2], [2]])).tolist() == [2, 3]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("settings", EVERY_SETTING)
def test_edits_equal_a_full_computation(
    settings: dict[str, Any], weighted: bool, backend: str
) -> None:
    """After random edits, rows that are not reported as changed keep their bits."""
    unchanged = 0
    for seed in range(4):
        rng = Random(f"{settings} {weighted} {seed}")
        n = rng.randint(5, 25)
        pairs = [(rng.randrange(n), rng.randrange(n)) for _ in range(rng.randint(0, 2 * n))]
        weights = [float(rng.choice([-1, 1, 2, 3])) for _ in pairs]
        options = {**settings, "num_nodes": n, "backend": backend}

        def tensors(
            pairs: list[tuple[int, int]], weights: list[float]
        ) -> tuple[Tensor, Tensor | None]:
            edges = torch.tensor(pairs, dtype=torch.long).view(-1, 2).t()
            return edges, torch.tensor(weights) if weighted else None

        index = SimilarityIndex(*tensors(pairs, weights), **options)
        before = index.query(None, 4)
        for _ in range(6):
            if pairs and rng.random() < 0.5:
                gone = rng.sample(sorted(set(pairs)), min(2, len(set(pairs))))
                left = [at for at, pair in enumerate(pairs) if pair not in gone]
                pairs, weights = [pairs[at] for at in left], [weights[at] for at in left]
                changed = index.remove_edges(tensors(gone, [])[0])
            else:
                new = [(rng.randrange(n), rng.randrange(n)) for _ in range(rng.randint(0, 3))]
                drawn = [float(rng.choice([-2, 1, 4])) for _ in new]
                pairs, weights = pairs + new, weights + drawn
                changed = index.add_edges(*tensors(new, drawn))
            edges, weight = tensors(pairs, weights)
            full = topk_similarity(edges, 4, weight, **options)
            assert_same(index.query(None, 4), full)
            before[0][changed], before[1][changed] = (rows[changed] for rows in full)
            assert_same(before, full)
            unchanged += n - changed.numel()
    assert unchanged > 0


def test_only_rows_near_an_edit_change() -> None:
    """On a long path, only the ends of the edge and nodes that share a neighbor change."""
    i = torch.arange(99)
    path = torch.cat([torch.stack([i, i + 1]), torch.stack([i + 1, i])], dim=1)
    for p, reach in ((1, 2), (2, 5)):
        index = SimilarityIndex(path, p=p)
        for edit in (index.remove_edges, index.add_edges):
            assert edit(torch.tensor([[50, 51], [51, 50]])).tolist() == list(
                range(50 - reach, 52 + reach)
            )


def test_an_index_is_copied_and_pickled() -> None:
    for flavor in ("dyadic", "parallel", "nothing"):
        graph = draw(flavor, 0)
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


def test_the_repr_shows_what_is_not_the_default() -> None:
    assert repr(SimilarityIndex(STAR, p=2)) == "SimilarityIndex(num_nodes=4, num_edges=6, p=2)"
    assert "num_nodes=(4, 9)" in repr(SimilarityIndex(STAR, num_nodes=(4, 9)))


@pytest.mark.parametrize(
    ("call", "error", "part"),
    [
        (lambda i: i.query(torch.tensor([4]), 2), ValueError, "`nodes`"),
        (lambda i: i.query([-1], 2), ValueError, "`nodes`"),
        (lambda i: i.query(["a"], 2), TypeError, "`nodes`"),
        (lambda i: i.query(1.5, 2), TypeError, "`nodes`"),
        (lambda i: i.query(True, 2), TypeError, "`nodes`"),
        (lambda i: i.query(torch.ones(4).bool(), 2), TypeError, "`nodes`"),
        (lambda i: i.query(None, 0), ValueError, "`k`"),
        (lambda i: i.add_edges(torch.tensor([[0], [4]])), ValueError, "`edge_index`"),
        (lambda i: i.add_edges(torch.tensor([0, 1])), ValueError, "`edge_index`"),
        (lambda i: i.add_edges(STAR, torch.ones(6)), ValueError, "`edge_weight`"),
        (lambda i: i.remove_edges(torch.tensor([[0, 1], [1, 2]])), ValueError, r"\(1, 2\)"),
        (lambda i: SimilarityIndex(STAR, measure="l2"), ValueError, "`measure`"),
        (lambda i: SimilarityIndex(STAR, p=0), ValueError, "`p`"),
        (lambda i: SimilarityIndex(STAR, nods=0), TypeError, "`nods`"),
    ],
)
def test_wrong_arguments_change_nothing(call: Any, error: type[Exception], part: str) -> None:
    index = SimilarityIndex(STAR)
    before = index.query(None, 2)
    with pytest.raises(error, match=part):
        call(index)
    assert index.edges.edge_index.size(1) == 6
    assert_same(index.query(None, 2), before)


def test_an_index_with_weights_takes_edges_with_weights() -> None:
    index = SimilarityIndex(STAR, torch.ones(6))
    with pytest.raises(ValueError, match="`edge_weight` must be as in the index"):
        index.add_edges(torch.tensor([[0], [1]]))
    with pytest.raises(ValueError, match="finite"):
        index.add_edges(torch.tensor([[0], [1]]), torch.tensor([torch.nan]))
    for dtype in (torch.float64, torch.long):
        with pytest.raises(ValueError, match=rf"`edge_weight` .*torch.float32, got {dtype}"):
            index.add_edges(torch.tensor([[0], [1]]), torch.ones(1, dtype=dtype))
    assert index.edges.edge_weight is not None
    assert index.edges.edge_weight.tolist() == [1] * 6

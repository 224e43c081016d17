"""Recommendations equal a dense computation in NumPy."""

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from torch_geometric_simpool import TooExpensiveError, recommend, structural_similarity
from torch_geometric_simpool.topk.numba import product as numba_product
from torch_geometric_simpool.topk.numba import threads

P3, L3 = (1, 1, 0, 1), (0.5, 0.5, 0, 1)
TABLE = [
    P3,
    L3,
    (0.7, 0.7, 0, 1),
    (1, 1, 0.4, 1),
    (0, 0.5, 0.5, 1),
    (0.8, 0.3, 0.3, 0.5),
    (1, 0, 2, 3),
]
#: Three users and three items. A fourth user and item have no edges.
BOUGHT = torch.tensor([[0, 0, 1, 1, 2], [0, 1, 1, 2, 0]])
Sizes = int | tuple[int, int]


def inverse_power(degree: np.ndarray, exponent: float) -> np.ndarray:
    return np.where(degree > 0, np.where(degree > 0, degree, 1) ** -exponent, 0)


def largest(entries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the largest positive entries of each row, best first, then 0 and -1."""
    width = max(k, entries.shape[1])
    entries = np.pad(entries, ((0, 0), (0, width - entries.shape[1])))
    index = np.argsort(-entries, axis=1, kind="stable")[:, :k]
    values = np.take_along_axis(entries, index, axis=1)
    return np.where(values > 0, values, 0), np.where(values > 0, index, -1)


def dense_similarity(
    adj: np.ndarray, exponents: tuple[float, ...] | None, measure: str | None, bipartite: bool
) -> np.ndarray:
    if measure is None:
        a, b, c, s = exponents or P3
        sums = (adj.T * inverse_power(adj.sum(axis=1), a)) @ adj
        columns = adj.sum(axis=0)
        return sums**s * inverse_power(columns, b)[:, None] * inverse_power(columns, c)
    if bipartite:  # items become nodes whose only edges come from users
        num_users = len(adj)
        adj = np.pad(adj, ((0, adj.shape[1]), (num_users, 0)))
        return structural_similarity(torch.from_numpy(adj), measure=measure).numpy()[
            num_users:, num_users:
        ]
    return structural_similarity(torch.from_numpy(adj), measure=measure).numpy()


def dense_recommend(
    edge_index: Tensor,
    k: int,
    weight: np.ndarray,
    sizes: Sizes,
    exponents: tuple[float, ...] | None,
    measure: str | None,
    num_similar: int | None,
    dtype: type,
    candidates: list[int] | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns all scores, and the values and indices of the largest scores."""
    shape = sizes if isinstance(sizes, tuple) else (sizes, sizes)
    adj, is_neighbor = np.zeros(shape), np.zeros(shape, dtype=bool)
    place = tuple(edge_index.numpy())
    np.add.at(adj, place, weight)
    is_neighbor[place] = True
    if not isinstance(sizes, tuple):
        np.fill_diagonal(is_neighbor, True)
    similarity: np.ndarray = dense_similarity(
        adj, exponents, measure, isinstance(sizes, tuple)
    ).astype(dtype)
    np.fill_diagonal(similarity, 0)
    if candidates is not None:
        similarity = similarity * np.isin(np.arange(shape[1]), candidates)
    if num_similar is not None:
        _, index = largest(similarity, num_similar)
        row, column = (index >= 0).nonzero()
        pruned = np.zeros_like(similarity)
        pruned[row, index[row, column]] = similarity[row, index[row, column]]
        similarity = pruned
    scores: np.ndarray = (adj @ similarity.astype(np.float64)).astype(dtype)
    scores[is_neighbor] = 0
    return scores, *largest(scores, k)


def random_graph(
    seed: int, bipartite: bool, weighted: bool
) -> tuple[Tensor, np.ndarray | None, Sizes]:
    """Returns edges with duplicates, weights of few distinct values, and the numbers of nodes."""
    rng = np.random.default_rng(seed)
    sizes = tuple(rng.integers(2, 14, 2).tolist())
    num_edges = rng.integers(0, 40)
    if not bipartite:
        sizes = (sizes[0], sizes[0])
    edges = np.stack([rng.integers(0, size, num_edges) for size in sizes])
    weight = rng.choice([0.5, 1.0, 2.0, 0.3], num_edges) if weighted else None
    return torch.from_numpy(edges), weight, sizes if bipartite else sizes[0]


@pytest.mark.filterwarnings("ignore:.*one direction only")
@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    bipartite=st.booleans(),
    weights=st.sampled_from([None, torch.float32, torch.float64]),
    k=st.integers(1, 16),
    num_similar=st.sampled_from([None, 1, 3, 500]),
    measure=st.sampled_from([None, None, "cosine", "jaccard"]),
    exponents=st.sampled_from(TABLE),
    candidates=st.sampled_from([None, None, [], [1], [0, 1, 1]]),
)
def test_equals_the_dense_form(
    seed: int,
    bipartite: bool,
    weights: torch.dtype | None,
    k: int,
    num_similar: int | None,
    measure: str | None,
    exponents: tuple[float, ...],
    candidates: list[int] | None,
) -> None:
    edges, weight, sizes = random_graph(seed, bipartite, weights is not None)
    if weights == torch.float64 and num_similar is not None:
        num_similar = 500  # with fewer, rounding would choose among equal similarities
    edge_weight = None if weight is None else torch.from_numpy(weight).to(weights)
    options: dict[str, Any] = {"measure": measure} if measure else {"exponents": exponents}
    values, index = recommend(
        edges, k, edge_weight, sizes, num_similar=num_similar, candidates=candidates, **options
    )
    dtype = np.float64 if weights == torch.float64 else np.float32
    exact = np.ones(edges.size(1)) if edge_weight is None else edge_weight.double().numpy()
    scores, *best = dense_recommend(
        edges, k, exact, sizes, exponents, measure, num_similar, dtype, candidates
    )
    tolerance = 1e-12 if dtype == np.float64 else 1e-6
    np.testing.assert_allclose(values.numpy(), best[0], rtol=tolerance, atol=0)
    row, place = (index >= 0).nonzero(as_tuple=True)
    chosen = scores[row, index[row, place]]
    np.testing.assert_allclose(values[row, place].numpy(), chosen, rtol=tolerance, atol=0)
    pairs = set(zip(row.tolist(), index[row, place].tolist()))
    assert len(pairs) == row.numel()
    ahead, behind = values[:, :-1], values[:, 1:]
    is_tie = (ahead == behind) & (index[:, 1:] >= 0)
    assert bool((ahead >= behind).all())
    assert bool((index[:, :-1] < index[:, 1:])[is_tie].all())


def test_ties_are_in_the_order_of_indices() -> None:
    """A user has one item, to which nine items are equally similar."""
    users = torch.arange(1, 10)
    edges = torch.cat([torch.stack([users, users]), torch.stack([users, users * 0])], dim=1)
    edges = torch.cat([edges, torch.tensor([[0], [0]])], dim=1)[:, torch.randperm(19)]
    for exponents in ((1, 1, 0, 1), (0.3, 0.7, 0.9, 0.5)):
        values, index = recommend(edges, 4, num_nodes=(10, 10), exponents=exponents, nodes=0)
        assert index.tolist() == [[1, 2, 3, 4]]
        assert len(values.unique()) == 1
        _, index = recommend(edges, 4, num_nodes=(10, 10), num_similar=2, nodes=[0, 5, 0])
        assert index[[0, 2]].tolist() == [[1, 2, -1, -1]] * 2


def large_graph(num_items: int) -> Tensor:
    rng = np.random.default_rng(2)
    items = (rng.random(20_000) ** 3 * num_items).astype(np.int64)
    return torch.from_numpy(np.stack([rng.integers(0, 1000, 20_000), items]))


@pytest.mark.parametrize("num_items", [300, 30_000])  # rows with many products, and with few
def test_threads_and_room_for_candidates_give_the_same_bits(
    num_items: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges, sizes = large_graph(num_items), (1000, num_items)
    num_threads = torch.get_num_threads()
    for options in ({}, {"measure": "dice"}, {"exponents": (0.5, 1, 0.2, 1), "num_similar": None}):
        expected = recommend(edges, 10, num_nodes=sizes, **options)
        assert (expected[1] >= 0).float().mean() > 0.9
        nodes = torch.randint(0, 1000, (50,), generator=torch.Generator().manual_seed(1))
        monkeypatch.setattr(threads, "SMALLEST", 1000)
        monkeypatch.setattr(numba_product, "CANDIDATES", 1)
        for count in (3, 1):
            torch.set_num_threads(count)
            try:
                values, index = recommend(edges, 10, num_nodes=sizes, nodes=nodes, **options)
            finally:
                torch.set_num_threads(num_threads)
            assert torch.equal(index, expected[1][nodes])
            assert torch.equal(values, expected[0][nodes])
        monkeypatch.undo()


def test_signed_weights_and_edges_of_weight_zero() -> None:
    """Scores up to zero have no place, and items joined by an edge of any weight are left out."""
    edges = torch.tensor([[0, 1, 1, 2, 2, 3, 3], [0, 0, 1, 0, 2, 3, 0]])
    weight = torch.tensor([1.0, 2.0, 2.0, 2.0, -2.0, 1.0, 0.0])
    values, index = recommend(edges, 3, weight, (4, 4), measure="cosine", nodes=[0])
    assert index.tolist() == [[1, -1, -1]]
    torch.testing.assert_close(values, torch.tensor([[2 / 3, 0, 0]]))
    edges = torch.tensor([[0, 1, 1, 0], [0, 0, 1, 1]])
    assert recommend(edges, 1, num_nodes=(2, 2), nodes=0)[1].tolist() == [[-1]]
    weight = torch.tensor([1, 1, 1, 0])
    assert recommend(edges, 1, weight, (2, 2), nodes=0)[1].tolist() == [[-1]]
    assert recommend(edges[:, :3], 1, num_nodes=(2, 2), nodes=0)[1].item() == 1


def test_empty_rows_and_graphs() -> None:
    values, index = recommend(BOUGHT, 5, num_nodes=(4, 4))
    assert index[3].tolist() == [-1] * 5
    assert values[3].tolist() == [0] * 5
    assert index[0].tolist() == [2, -1, -1, -1, -1]
    none = torch.empty(2, 0, dtype=torch.long)
    for sizes in ((3, 2), (3, 0), 3):
        values, index = recommend(none, 2, num_nodes=sizes)
        assert index.tolist() == [[-1, -1]] * 3
    for measure in (None, "cosine"):
        assert recommend(none, 2, measure=measure)[1].shape == (0, 2)
        assert recommend(BOUGHT, 2, nodes=[], num_nodes=(3, 3))[1].shape == (0, 2)


def test_types() -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.half):
        weight = torch.ones(5, dtype=dtype, requires_grad=True)
        for options in ({}, {"measure": "cosine"}):
            values, index = recommend(BOUGHT.int(), 1, weight, (3, 3), **options)
            assert values.dtype == dtype
            assert not values.requires_grad
            assert index.view(-1).tolist() == [2, 0, 1]


HUGE = torch.full((5,), 1e200, dtype=torch.float64)
WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"edge_index": BOUGHT.double()}, TypeError, "edge_index"),
    ({"num_nodes": (2, 3)}, ValueError, r"edge_index\[0\]"),
    ({"num_nodes": (3, 2)}, ValueError, r"edge_index\[1\]"),
    ({"num_nodes": 2}, ValueError, "edge_index"),
    ({"k": 0}, ValueError, "k"),
    ({"num_similar": 0}, ValueError, "num_similar"),
    ({"num_similar": 2.0}, TypeError, "num_similar"),
    ({"exponents": (1, 1, 0)}, ValueError, "exponents"),
    ({"exponents": 1.0}, ValueError, "exponents"),
    ({"exponents": "1101"}, ValueError, "exponents"),
    ({"exponents": (1, 1, 0, float("nan"))}, ValueError, "exponents"),
    ({"exponents": (float("inf"), 1, 0, 1)}, ValueError, "exponents"),
    ({"exponents": (1, 1, 0, 0)}, ValueError, "exponents"),
    ({"exponents": (1, "1", 0, 1)}, TypeError, "exponents"),
    ({"exponents": (1, 100, 0, 0.01)}, ValueError, "exponents"),
    ({"exponents": P3, "measure": "cosine"}, ValueError, "exponents"),
    ({"measure": "l2"}, ValueError, "measure"),
    ({"edge_weight": -torch.ones(5)}, ValueError, "edge_weight"),
    ({"edge_weight": HUGE, "exponents": (0, 0, 0, 9)}, ValueError, "edge_weight"),
    ({"nodes": [3]}, ValueError, "nodes"),
    ({"memory_budget": 100}, TooExpensiveError, "memory_budget"),
]  # fmt: skip


def test_wrong_arguments() -> None:
    for options, error, name in WRONG:
        arguments: dict[str, Any] = {
            "edge_index": BOUGHT,
            "k": 2,
            "num_nodes": (3, 3),
        }
        with pytest.raises(error, match=f"`{name}`"):
            recommend(**(arguments | options))

"""Greedy matching against the same in exact rational arithmetic."""

from fractions import Fraction

import pytest
import torch

from helpers import oracle
from helpers.graphs import FLAVORS, Graph, draw, draw_all, union
from torch_geometric_simpool.topk.matching import match_similar

SETTINGS = [(1, 0.0, "cosine"), (1, 1.0, "jaccard"), (2, 1.0, "cosine"), (2, 0.0, "jaccard")]


def expected(graph: Graph, k: int, p: int, lam: float, measure: str) -> list[int]:
    """The clusters, by fractions, one pair after the other."""
    adj = graph.exact_adj
    rows, _ = oracle.descriptions(adj, p, lam)
    dot = oracle.dots(rows)
    pairs = set()
    for i, row in enumerate(oracle.candidates(adj, p, lam, measure, loop=False)):
        pairs |= {(min(i, c.node), max(i, c.node)) for c in row[:k]}

    def key(i: int, j: int) -> Fraction:
        if measure == "cosine":
            return Fraction(dot[i][j] * abs(dot[i][j]), dot[i][i] * dot[j][j])
        return Fraction(dot[i][j], dot[i][i] + dot[j][j] - dot[i][j])

    first = list(range(graph.num_nodes))
    free = set(first)
    for value, i, j in sorted((-key(i, j), i, j) for i, j in pairs):
        if value < 0 and {i, j} <= free:
            free -= {i, j}
            first[j] = i
    numbers = {node: number for number, node in enumerate(sorted(set(first)))}
    return [numbers[node] for node in first]


@pytest.mark.parametrize(("p", "lam", "measure"), SETTINGS)
@pytest.mark.parametrize("flavor", FLAVORS)
def test_clusters(flavor: str, p: int, lam: float, measure: str) -> None:
    for seed in range(8):
        graph = draw(flavor, seed)
        assert oracle.float64_is_exact(graph.exact_adj, p, lam)
        for k in (1, 3, 20):
            found = match_similar(
                graph.edge_index, k, graph.edge_weight(), graph.num_nodes, p, lam, measure
            )
            assert found.tolist() == expected(graph, k, p, lam, measure)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_equal_cosines_tie(order: tuple[int, int, int]) -> None:
    """1 / sqrt(1 * 7) and 3 / sqrt(7 * 9), which round to different doubles."""
    small, middle, large = order
    features = {small: range(3, 4), middle: range(3, 10), large: range(7, 16)}
    graph = Graph(16, tuple((i, j) for i, shared in features.items() for j in shared))
    found = match_similar(graph.edge_index, 2, num_nodes=16)
    assert found.tolist() == expected(graph, 2, 1, 0.0, "cosine")
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_batch_equals_single(seed: int, real: bool) -> None:
    """Also where weights are not exact, and their scale is that of the largest in the batch."""
    graphs = draw_all(seed)
    batched, _ = union(graphs)
    weight = batched.edge_weight()
    assert weight is not None
    if real:
        weight = weight * torch.rand_like(weight)
    found = match_similar(batched.edge_index, 3, weight, batched.num_nodes)
    first_node = first_edge = first_cluster = 0
    for graph in graphs:
        own = weight[first_edge : first_edge + len(graph.edges)]
        single = match_similar(graph.edge_index, 3, own, graph.num_nodes)
        part = found[first_node : first_node + graph.num_nodes]
        assert (part - first_cluster).tolist() == single.tolist()
        first_node += graph.num_nodes
        first_edge += len(graph.edges)
        first_cluster += len(set(single.tolist()))


def test_real_weights_pair_up_the_most_similar() -> None:
    """Nodes 0 and 2 have the same description up to a factor, 1 and 3 nearly so."""
    weight = torch.tensor([0.3, 0.1, 0.7, 0.2, 0.9, 0.3, 1.4, 0.41])
    edge_index = torch.tensor([[0, 0, 1, 1, 2, 2, 3, 3], [4, 5, 4, 5, 4, 5, 4, 5]])
    found = match_similar(edge_index, 5, weight, 6)
    assert found.tolist() == [0, 1, 0, 1, 2, 2]
    assert match_similar(edge_index, 5, 1e30 * weight.double(), 6).tolist() == found.tolist()


def test_a_hub_costs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node 0 alone is similar to each of 1 ... 50: for each, the shorter row is read."""
    middle = torch.arange(51, 101)
    edges = torch.stack([torch.cat([torch.zeros_like(middle), middle - 50]), middle.repeat(2)])
    edge_index = torch.cat([edges, edges.flip(0)], dim=1)
    read = []

    def counted(sorted_sequence: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        read.append(values.numel())
        return plain(sorted_sequence, values)

    plain = torch.searchsorted
    monkeypatch.setattr(torch, "searchsorted", counted)
    found = match_similar(edge_index, 3)
    assert found[0] == found[1]
    assert 0 < sum(read) <= 3 * edge_index.size(1)


def test_bad_input() -> None:
    edge_index = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match=r"`k` must be an integer >= 1, got 0"):
        match_similar(edge_index, 0)
    with pytest.raises(ValueError, match=r"`measure` must be one of"):
        match_similar(edge_index, 1, measure="l2")
    with pytest.raises(TypeError, match=r"`num_nodes` must be an integer >= 0, got \(2, 3\)"):
        match_similar(edge_index, 1, num_nodes=(2, 3))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"`edge_weight` must have shape \[2\]"):
        match_similar(edge_index, 1, torch.ones(3))

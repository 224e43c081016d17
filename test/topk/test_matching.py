"""Greedy matching against exact rational arithmetic."""

from fractions import Fraction

import pytest
import torch

from helpers import oracle
from helpers.graphs import FLAVORS, Graph, draw, draw_all, union
from torch_geometric_simpool.topk.matching import match_similar

SETTINGS = [(1, 0.0, "cosine"), (1, 1.0, "jaccard"), (2, 1.0, "dice"), (2, 0.0, "overlap")]


def expected(graph: Graph, k: int, p: int, lam: float, measure: str) -> list[int]:
    """Matches one pair after the other, with exact fractions."""
    adj = graph.exact_adj
    rows, _ = oracle.descriptions(adj, p, lam)
    dot = oracle.dots(rows)
    pairs = set()
    for i, row in enumerate(oracle.candidates(adj, p, lam, measure, loop=False)):
        pairs |= {(min(i, c.node), max(i, c.node)) for c in row[:k]}

    def key(i: int, j: int) -> Fraction:
        if measure == "cosine":
            return Fraction(dot[i][j] * abs(dot[i][j]), dot[i][i] * dot[j][j])
        return oracle.QUOTIENTS[measure](dot[i][j], dot[i][i], dot[j][j])

    first = list(range(graph.num_nodes))
    free = set(first)
    for value, i, j in sorted((-key(i, j), i, j) for i, j in pairs):
        if value < 0 and {i, j} <= free:
            free -= {i, j}
            first[j] = i
    numbers = {node: number for number, node in enumerate(sorted(set(first)))}
    return [numbers[node] for node in first]


@pytest.mark.parametrize("flavor", FLAVORS)
def test_clusters_equal_the_oracle(flavor: str) -> None:
    for seed in range(12):
        graph, (p, lam, measure) = draw(flavor, seed), SETTINGS[seed % 4]
        assert oracle.float64_is_exact(graph.exact_adj, p, lam)
        for k in (1, 3, 20):
            clusters = match_similar(
                graph.edge_index,
                k,
                graph.edge_weight(),
                graph.num_nodes,
                p=p,
                lam=lam,
                measure=measure,
            )
            assert clusters.tolist() == expected(graph, k, p, lam, measure)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_equal_cosines_tie(order: tuple[int, int, int]) -> None:
    """The equal cosines 1 / sqrt(1 * 7) and 3 / sqrt(7 * 9) round to different doubles."""
    small, middle, large = order
    features = {small: range(3, 4), middle: range(3, 10), large: range(7, 16)}
    graph = Graph(16, tuple((i, j) for i, shared in features.items() for j in shared))
    clusters = match_similar(graph.edge_index, 2, num_nodes=16)
    assert clusters.tolist() == expected(graph, 2, 1, 0.0, "cosine")
    assert clusters[0] == clusters[1] != clusters[2]


@pytest.mark.parametrize("real", [False, True])
def test_batched_equals_single(real: bool) -> None:
    graphs = draw_all(1)
    if real:
        generator = torch.Generator().manual_seed(1)
        graphs = [
            Graph(
                g.num_nodes, g.edges, tuple(torch.rand(len(g.edges), generator=generator).tolist())
            )
            for g in graphs
        ]
    joined, batch = union(graphs)
    clusters = match_similar(joined.edge_index, 3, joined.edge_weight(), joined.num_nodes, lam=1.0)
    for number, graph in enumerate(graphs):
        weight = torch.tensor(graph.weights or [1.0] * len(graph.edges), dtype=torch.float64)
        alone = match_similar(graph.edge_index, 3, weight, graph.num_nodes, lam=1.0)
        mine = clusters[batch == number]
        assert torch.equal(mine - mine.min() if mine.numel() else mine, alone)


def test_a_hub_costs_as_much_as_its_partners() -> None:
    """The entries of the shorter description are looked up in the longer one."""
    leaves = torch.arange(1, 50_000)
    star = torch.stack([torch.zeros_like(leaves), leaves])
    star = torch.cat([star, star.flip(0)], dim=1)
    clusters = match_similar(star, 2, lam=1.0, memory_budget=200_000_000)
    assert clusters.max() < 49_999


def test_wrong_arguments() -> None:
    edge_index = torch.tensor([[0, 1], [1, 0]])
    for options, error, name in (
        ({"k": 0}, ValueError, "`k`"),
        ({"k": 1, "num_nodes": (2, 2)}, TypeError, "`num_nodes`"),
        ({"k": 1, "loop": True}, TypeError, "loop"),
        ({"k": 1, "measures": "dice"}, TypeError, "`measures`"),
    ):
        with pytest.raises(error, match=name):
            match_similar(edge_index, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("flavor", ["undirected", "directed", "dyadic", "path", "star"])
def test_twins_are_merged_without_loss(flavor: str) -> None:
    """If all nodes have a twin, `A = S D^-1 A' D^-1 S^T` recovers the adjacency matrix."""
    graph = draw(flavor, 4)
    number = torch.randperm(2 * graph.num_nodes)
    copies = torch.tensor([[i, j] for i in (0, 1) for j in (0, 1)])
    pairs = 2 * graph.edge_index.repeat_interleave(4, dim=1) + copies.t().repeat(
        1, len(graph.edges)
    )
    weight = graph.edge_weight()
    weight = torch.ones(len(graph.edges)).double() if weight is None else weight
    edges = torch.sparse_coo_tensor(number[pairs], weight.repeat_interleave(4), 2 * (len(number),))
    adj = edges.to_dense()
    cluster = match_similar(number[pairs], 4, weight.repeat_interleave(4), len(number))
    s = torch.nn.functional.one_hot(cluster).double()
    inverse = torch.diag(1 / s.sum(dim=0))
    pooled = s.t() @ adj @ s
    torch.testing.assert_close(s @ inverse @ pooled @ inverse @ s.t(), adj)
    # As a control, clusters of two random nodes lose edges.
    s = s[torch.randperm(len(number))]
    assert not torch.allclose(s @ inverse @ s.t() @ adj @ s @ inverse @ s.t(), adj)

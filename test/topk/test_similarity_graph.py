"""The top k as a graph: its edges, their directions and weights."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.utils import coalesce, is_undirected

from helpers import oracle
from helpers.graphs import FLAVORS, Graph, draw, draw_all, union
from torch_geometric_simpool import similarity_graph, structural_similarity, topk_similarity

Edges = dict[tuple[int, int], float]
MODES = [None, "union", "mutual"]
STAR = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])


def as_dict(graph: tuple[Tensor, Tensor]) -> Edges:
    """Returns the weights by edge, and asserts that the graph is coalesced."""
    edge_index, weight = graph
    assert edge_index.dtype == torch.long
    assert weight.shape == (edge_index.size(1),)
    assert torch.equal(edge_index, coalesce(edge_index))
    return {(i, j): w for (i, j), w in zip(edge_index.t().tolist(), weight.tolist(), strict=True)}


def expected_edges(rows: list[list[oracle.Candidate]], k: int, mode: str | None) -> Edges:
    """Returns edges by the definition. Directed edges start at the similar node."""
    top = {(c.node, i): c.value for i, row in enumerate(rows) for c in row[:k]}
    back = {(i, j): value for (j, i), value in top.items()}
    if mode == "union":
        return {**top, **back}
    if mode == "mutual":
        return {edge: value for edge, value in top.items() if edge in back}
    return top


def graph_of(graph: Graph, k: int, **settings: Any) -> tuple[Tensor, Tensor]:
    return similarity_graph(graph.edge_index, k, graph.edge_weight(), graph.num_nodes, **settings)


# ------------------------------------------------------------------ which edges


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("flavor", FLAVORS)
def test_equals_the_oracle(flavor: str, mode: str | None) -> None:
    for seed in range(3):
        graph = draw(flavor, seed)
        rows = oracle.candidates(graph.exact_adj, 1, 0.0, loop=False)
        for k in (1, 3, graph.num_nodes + 1):
            result = as_dict(graph_of(graph, k, symmetrize=mode))
            assert result == pytest.approx(expected_edges(rows, k, mode))


@pytest.mark.parametrize("flavor", ["directed", "star", "dyadic"])
def test_flows(flavor: str) -> None:
    """The flow `target_to_source` reverses directed edges, and keeps undirected graphs."""
    graph = draw(flavor, 4)
    to_node = as_dict(graph_of(graph, 1))
    from_node = as_dict(graph_of(graph, 1, flow="target_to_source"))
    assert from_node == {(i, j): w for (j, i), w in to_node.items()}
    assert from_node != to_node
    for mode in ("union", "mutual"):
        one = graph_of(graph, 1, symmetrize=mode)
        other = graph_of(graph, 1, symmetrize=mode, flow="target_to_source")
        assert as_dict(one) == as_dict(other)


def test_every_node_receives_from_its_k_most_similar() -> None:
    """With the default flow, each node has `k` incoming edges, as in PyG's `knn_graph`."""
    edge_index, _ = similarity_graph(STAR, 1)
    assert edge_index.tolist() == [[1, 1, 2], [2, 3, 1]]


@pytest.mark.parametrize("mode", MODES)
def test_settings_are_handed_on(mode: str | None) -> None:
    graph, _ = union(draw_all(3))
    for settings in (
        {"p": 2, "lam": 0.5},
        {"min_similarity": 0.5},
        {"max_degree": 3},
        {"measure": "dice", "exclude_neighbors": True},
        {"backend": "torch"},
    ):
        options: dict[str, Any] = {"loop": False, **settings}
        values, index = topk_similarity(
            graph.edge_index, 3, graph.edge_weight(), graph.num_nodes, **options
        )
        top = {
            (j, i): values[i, place].item()
            for i in range(graph.num_nodes)
            for place, j in enumerate(index[i].tolist())
            if j >= 0
        }
        expected = {**{(i, j): w for (j, i), w in top.items()}, **top} if mode else top
        if mode == "mutual":
            expected = {(i, j): w for (i, j), w in top.items() if (j, i) in top}
        result = as_dict(graph_of(graph, 3, symmetrize=mode, **settings))
        assert result == pytest.approx(expected, rel=1e-12)


# ------------------------------------------------------------------ weights of undirected graphs


def real_weights(seed: int) -> tuple[Graph, Tensor]:
    graph = draw("undirected", seed)
    generator = torch.Generator().manual_seed(seed)
    return graph, torch.rand(len(graph.edges), dtype=torch.float64, generator=generator) - 0.3


@pytest.mark.parametrize("mode", ["union", "mutual"])
def test_both_directions_have_the_same_bits(mode: str) -> None:
    """The bits are equal even if two rows of the top k round a similarity differently."""
    rounded = 0
    for seed in range(40):
        graph, weight = real_weights(seed)
        n = graph.num_nodes
        values, index = topk_similarity(graph.edge_index, n, weight, n, loop=False)
        dense = torch.zeros(n, n, dtype=torch.float64)
        row, place = (index >= 0).nonzero(as_tuple=True)
        dense[row, index[row, place]] = values[row, place]
        rounded += int((dense != dense.t()).sum())
        edge_index, similarity = similarity_graph(graph.edge_index, n, weight, n, symmetrize=mode)
        assert is_undirected(edge_index, similarity, num_nodes=n)
        torch.testing.assert_close(similarity, dense[edge_index[0], edge_index[1]])
    assert rounded > 0  # otherwise no case is tested


# ------------------------------------------------------------------ nodes, candidates, two kinds


def test_rows_of_some_nodes() -> None:
    graph = draw("undirected", 5)
    full = as_dict(graph_of(graph, 3))
    for nodes in ([1, 3], [3, 1, 3, 3, 1]):
        chosen = {edge: w for edge, w in full.items() if edge[1] in nodes}
        assert chosen
        for dtype in (torch.long, torch.int32):
            ids = torch.tensor(nodes, dtype=dtype)
            assert as_dict(graph_of(graph, 3, nodes=ids)) == chosen
            back = {(i, j): w for (j, i), w in chosen.items()}
            assert as_dict(graph_of(graph, 3, nodes=ids, symmetrize="union")) == {**chosen, **back}
            both = {edge: w for edge, w in chosen.items() if edge in back}
            assert as_dict(graph_of(graph, 3, nodes=ids, symmetrize="mutual")) == both


def test_a_node_named_three_times_keeps_its_bits() -> None:
    """The mean of three equal values may be rounded, so the graph takes their maximum."""
    for seed in range(20):
        graph, weight = real_weights(seed)
        full = as_dict(similarity_graph(graph.edge_index, 3, weight, graph.num_nodes))
        nodes = torch.tensor([2, 2, 2])
        some = similarity_graph(graph.edge_index, 3, weight, graph.num_nodes, nodes=nodes)
        assert as_dict(some) == {edge: w for edge, w in full.items() if edge[1] == 2}


def test_candidates() -> None:
    """Edges lead from the candidates to the nodes."""
    edges = as_dict(
        similarity_graph(STAR, 3, nodes=torch.tensor([1, 2]), candidates=torch.tensor([3]))
    )
    assert edges == {(3, 1): 1.0, (3, 2): 1.0}


def test_two_kinds_of_nodes() -> None:
    """Users 0 and 1 like item 0, and user 2 likes item 1. Ids of users and items overlap."""
    likes = torch.tensor([[0, 1, 2], [0, 0, 1]])
    assert as_dict(similarity_graph(likes, 2, num_nodes=(3, 2))) == {(0, 1): 1.0, (1, 0): 1.0}
    assert as_dict(similarity_graph(likes.flip(0), 2, num_nodes=(2, 3))) == {}


# ------------------------------------------------------------------ identities


@pytest.mark.parametrize("mode", MODES)
def test_batched_equals_single(mode: str | None) -> None:
    graphs = draw_all(2)
    joined, _ = union(graphs)
    edge_index, weight = graph_of(joined, 3, symmetrize=mode)
    first, alone = 0, []
    for graph in graphs:
        weights = torch.ones(len(graph.edges), dtype=torch.float64)
        own = graph.edge_weight() if graph.weights is not None else weights
        edges, w = similarity_graph(graph.edge_index, 3, own, graph.num_nodes, symmetrize=mode)
        alone.append((edges + first, w))
        first += graph.num_nodes
    assert torch.equal(edge_index, torch.cat([edges for edges, _ in alone], dim=1))
    torch.testing.assert_close(weight, torch.cat([w for _, w in alone]), rtol=1e-12, atol=0)


@pytest.mark.parametrize("mode", MODES)
def test_permuted_nodes(mode: str | None) -> None:
    """Every non-zero similarity has a place, so no tie is broken by index."""
    for flavor in FLAVORS:
        graph = draw(flavor, 3)
        n = graph.num_nodes
        order = torch.randperm(n)
        there = similarity_graph(
            order[graph.edge_index], n + 1, graph.edge_weight(), n, symmetrize=mode
        )
        here = as_dict(graph_of(graph, n + 1, symmetrize=mode))
        back = order.argsort()
        assert {
            (int(back[i]), int(back[j])): w for (i, j), w in as_dict(there).items()
        } == pytest.approx(here)


def test_types_of_weights() -> None:
    for weight, dtype in (
        (None, torch.float32),
        (torch.ones(6, dtype=torch.long), torch.float32),
        (torch.ones(6, dtype=torch.float64), torch.float64),
        (torch.ones(6, dtype=torch.float16), torch.float16),
    ):
        for mode in MODES:
            edge_index, similarity = similarity_graph(STAR, 2, weight, symmetrize=mode)
            assert similarity.dtype == dtype
            assert (similarity == 1).all()
            assert edge_index.size(1) == 6


# ------------------------------------------------------------------ gradients


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("p", [1, 2])
def test_gradient(p: int, mode: str | None) -> None:
    graph = draw("directed", 1)
    weight = torch.rand(len(graph.edges), dtype=torch.float64) + 0.5
    weight.requires_grad_()

    def similarities(weight: Tensor) -> Tensor:
        return similarity_graph(
            graph.edge_index, 3, weight, graph.num_nodes, p=p, lam=0.3, symmetrize=mode
        )[1]

    assert similarities(weight).numel() > 0
    assert torch.autograd.gradcheck(similarities, (weight,), fast_mode=True)


@pytest.mark.parametrize("mode", MODES)
def test_gradient_with_repeated_nodes(mode: str | None) -> None:
    """The gradient equals the gradient of the dense matrix."""
    graph = draw("directed", 2)
    weight = torch.rand(len(graph.edges), dtype=torch.float64).requires_grad_()
    edge_index, similarity = similarity_graph(
        graph.edge_index,
        3,
        weight,
        graph.num_nodes,
        nodes=torch.tensor([1, 0, 1, 1, 2]),
        symmetrize=mode,
    )
    upstream = torch.randn_like(similarity)
    (result,) = torch.autograd.grad((similarity * upstream).sum(), weight)
    other = weight.detach().clone().requires_grad_()
    adj = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    dense = structural_similarity(adj.index_put(tuple(graph.edge_index), other, accumulate=True))
    picked = dense[edge_index[0], edge_index[1]]
    (expected,) = torch.autograd.grad((picked * upstream).sum(), other)
    torch.testing.assert_close(result, expected)
    assert result.abs().sum() > 0

"""The pooling operators equal `reference`, graph by graph, and satisfy the identities."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from helpers.gradients import assert_same_gradients
from helpers.graphs import draw, draw_all, union
from helpers.largest import LargestTensor
from helpers.per_graph import GraphBatch, OneGraph, per_graph
from torch_geometric_simpool import (
    cluster_loss,
    dense_sim_pool,
    entropy_loss,
    reference,
    sim_pool,
)

#: Two graphs of every flavor, empty ones included.
GRAPHS = [*draw_all(0), *draw_all(1)]


def leaf(values: Tensor) -> Tensor:
    return values.detach().clone().requires_grad_()


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.fixture
def batch() -> GraphBatch:
    graph, of_node = union(GRAPHS)
    weight = graph.edge_weight()
    assert weight is not None
    return GraphBatch(graph.edge_index, weight, of_node, len(GRAPHS))


def expected_of(
    pooled: list[tuple[Tensor, Tensor, Tensor]], graphs: list[OneGraph]
) -> list[Tensor]:
    """Returns the result of an operator from `S`, `X'` and `A'` of each graph."""
    s, x, adj = zip(*pooled, strict=True)
    full = [s_g for s_g, graph in zip(s, graphs, strict=True) if graph.num_nodes > 0]
    losses = [
        torch.stack([loss(s_g) for s_g in full]).mean()
        for loss in (reference.entropy_loss, reference.cluster_loss)
    ]
    return [torch.stack(x), torch.stack(adj), *losses]


# ------------------------------------------------------------------ against the reference


@pytest.mark.parametrize("weighted", [True, False])
def test_sim_pool(batch: GraphBatch, weighted: bool) -> None:
    x, logits = random(batch.num_nodes, 7), random(batch.num_nodes, 5)
    weight = leaf(batch.edge_weight if weighted else torch.ones_like(batch.edge_weight))
    pooled = per_graph(
        lambda graph, x, logits: reference.sim_pool(x, graph.adj(weight), logits),
        batch.graphs,
        x,
        logits,
    )
    out = sim_pool(
        x, batch.edge_index, logits, batch.batch, weight if weighted else None, batch.batch_size
    )
    inputs = [x, logits, weight] if weighted else [x, logits]
    assert out._fields == ("x", "adj", "entropy_loss", "cluster_loss")
    assert_same_gradients(out, expected_of(pooled, batch.graphs), inputs, 1e-9)


def test_dense_sim_pool(batch: GraphBatch) -> None:
    """NaN in padding is not read."""
    x = leaf(batch.padded(random(batch.num_nodes, 7), fill=torch.nan))
    logits = leaf(batch.padded(random(batch.num_nodes, 5), fill=torch.nan))
    adj = leaf(batch.padded_adj(fill=torch.nan))
    pooled = []
    for b, graph in enumerate(batch.graphs):
        n = graph.num_nodes
        pooled.append(reference.sim_pool(x[b, :n], adj[b, :n, :n], logits[b, :n]))
    out = dense_sim_pool(x, adj, logits, batch.mask)
    assert_same_gradients(out, expected_of(pooled, batch.graphs), [x, adj, logits], 1e-9)


@pytest.mark.parametrize("name", ["sim_pool", "dense_sim_pool"])
def test_second_derivatives(name: str) -> None:
    graph = draw("parallel", 0)
    x, logits = random(graph.num_nodes, 2), random(graph.num_nodes, 2)
    weight = random(len(graph.edges))
    if name == "sim_pool":
        inputs = [x, logits, weight]
        call: Any = lambda x, s, w: sim_pool(x, graph.edge_index, s, None, w, 1)  # noqa: E731
    else:
        inputs = [x, leaf(graph.adj()), logits]
        call = dense_sim_pool
    assert torch.autograd.gradgradcheck(call, inputs)


def test_by_hand() -> None:
    """The pooled graph keeps directions, adds parallel edges and counts self-loops."""
    logits = torch.tensor([[1e4, 0], [1e4, 0], [0, 1e4]])
    edges = torch.tensor([[0, 1, 0, 2], [1, 2, 2, 2]])
    out = sim_pool(torch.eye(3), edges, logits)
    assert out.x[0].tolist() == [[1, 1, 0], [0, 0, 1]]
    torch.testing.assert_close(out.adj[0], torch.tensor([[1.0, 2], [0, 1]]).tanh())
    assert out.entropy_loss == 0


# ------------------------------------------------------------------ identities


def test_batched_equals_single(batch: GraphBatch) -> None:
    x, logits = torch.randn(batch.num_nodes, 3), torch.randn(batch.num_nodes, 4)
    weight = batch.edge_weight.float()
    out = sim_pool(x, batch.edge_index, logits, batch.batch, weight, batch.batch_size)
    for b, graph in enumerate(batch.graphs):
        single = sim_pool(
            x[graph.nodes], graph.edge_index, logits[graph.nodes], None, weight[graph.edges]
        )
        torch.testing.assert_close((out.x[b], out.adj[b]), (single.x[0], single.adj[0]))


def test_nodes_and_edges_in_any_order(batch: GraphBatch) -> None:
    """Nodes and edges may be permuted, so that `batch` is unsorted, and edges may be strided."""
    x, logits, order = (
        random(batch.num_nodes, 3),
        random(batch.num_nodes, 4),
        torch.randperm(batch.num_nodes),
    )
    weight = leaf(batch.edge_weight)
    shuffled = torch.randperm(weight.numel())
    edges = order.argsort()[batch.edge_index][:, shuffled].t().contiguous().t()
    expected = sim_pool(x, batch.edge_index, logits, batch.batch, weight, batch.batch_size)
    out = sim_pool(
        x[order], edges, logits[order], batch.batch[order], weight[shuffled], batch.batch_size
    )
    assert_same_gradients(out, expected, [x, logits, weight], 1e-9)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=6), st.integers(1, 5), st.integers(0, 99))
def test_sparse_equals_dense(sizes: list[int], num_clusters: int, seed: int) -> None:
    """Sparse and dense results are equal for all sizes of graphs and of padding, which is NaN."""
    torch.manual_seed(seed)
    nodes = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    size = max(sizes) + seed % 3
    mask = torch.arange(size) < torch.tensor(sizes).unsqueeze(1)
    adj = torch.full((len(sizes), size, size), torch.nan)
    real = mask.unsqueeze(1) & mask.unsqueeze(2)
    adj[real] = (torch.rand(int(real.sum())) - 0.7).relu()
    graph, row, col = ((adj > 0) & real).nonzero().t()
    number = (mask.flatten().cumsum(0) - 1).view(mask.shape)
    edges = torch.stack([number[graph, row], number[graph, col]])
    x, logits = torch.randn(len(nodes), 3), torch.randn(len(nodes), num_clusters)

    def padded(rows: Tensor) -> Tensor:
        return rows.new_full((*mask.shape, rows.size(1)), torch.nan).masked_scatter(
            mask.unsqueeze(-1), rows
        )

    out = sim_pool(x, edges, logits, nodes, adj[graph, row, col], len(sizes))
    expected = dense_sim_pool(padded(x), adj, padded(logits), mask)
    torch.testing.assert_close(tuple(out), tuple(expected), rtol=1e-4, atol=1e-5)


def test_losses_are_the_public_ones(batch: GraphBatch) -> None:
    logits = torch.randn(batch.num_nodes, 4)
    out = sim_pool(logits, batch.edge_index, logits, batch.batch)
    s = logits.softmax(dim=-1)
    assert out.entropy_loss == entropy_loss(s, batch.batch)
    assert out.cluster_loss == cluster_loss(s, batch.batch)


# ------------------------------------------------------------------ edge cases


@pytest.mark.parametrize("batch_size", [0, 1, 3])
def test_no_nodes(batch_size: int) -> None:
    x = torch.zeros(0, 2, requires_grad=True)
    none = torch.zeros(2, 0, dtype=torch.long)
    out = sim_pool(x, none, x, torch.zeros(0, dtype=torch.long), None, batch_size)
    assert out.x.shape == (batch_size, 2, 2)
    assert out.entropy_loss == out.cluster_loss == 0
    sum(t.sum() for t in out).backward()
    size = (batch_size, 0)
    out = dense_sim_pool(torch.zeros(*size, 2), torch.zeros(*size, 0), torch.zeros(*size, 2))
    assert out.adj.shape == (batch_size, 2, 2)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e4, 1e30])
def test_gradients_are_finite(scale: float) -> None:
    """Gradients are finite for isolated nodes and for empty clusters."""
    graph, nodes = union(draw_all(0))
    logits = (scale * torch.randn(graph.num_nodes, 4)).requires_grad_()
    x = torch.ones(graph.num_nodes, 2)
    out = sim_pool(x, graph.edge_index, logits, nodes, batch_size=len(draw_all(0)))
    (gradient,) = torch.autograd.grad(sum(t.sum() for t in out), logits)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("autocast", [False, True])
def test_half_precision(dtype: torch.dtype, autocast: bool) -> None:
    """Losses are float32, because half precision cannot count the nodes of a large graph."""
    n = 6000
    x, logits = torch.rand(n, 3), torch.randn(n, 4)
    edges = torch.stack([torch.arange(n), torch.arange(n).roll(1)])
    expected = sim_pool(x, edges, logits)
    if autocast:
        with torch.autocast("cpu", dtype):
            out = sim_pool(x, edges, logits)
    else:
        out = sim_pool(x.to(dtype), edges, logits.to(dtype))
    assert out.x.dtype == dtype
    assert out.entropy_loss.dtype == torch.float32
    torch.testing.assert_close(out[2:], expected[2:], rtol=0.01, atol=0.01)
    torch.testing.assert_close(out.x.float(), expected.x, rtol=0.05, atol=0.05)


def test_types() -> None:
    """Results have the larger type of `x` and `s`, in which weights must be finite."""
    x, logits, edges = torch.rand(3, 2), torch.rand(3, 2), torch.tensor([[0, 1], [1, 2]])
    weight = torch.tensor([1, 2])
    expected = sim_pool(x, edges, logits, edge_weight=weight.float())
    assert torch.equal(sim_pool(x, edges.int(), logits, edge_weight=weight).adj, expected.adj)
    assert sim_pool(x, edges, logits.double(), edge_weight=weight).x.dtype == torch.float64
    huge = torch.tensor([1e300, 1.0], dtype=torch.float64)
    with pytest.raises(ValueError, match="`edge_weight` must be finite in"):
        sim_pool(x, edges, logits, edge_weight=huge)
    with pytest.raises(ValueError, match="`adj` must be finite in"):
        dense_sim_pool(x, torch.full((3, 3), 1e300, dtype=torch.float64), logits)


def test_a_large_graph_among_small_ones_is_not_padded() -> None:
    sizes = torch.tensor([3000] + [30] * 200)
    nodes = torch.arange(201).repeat_interleave(sizes)
    n = nodes.numel()
    x, logits = torch.randn(n, 8, requires_grad=True), torch.randn(n, 4, requires_grad=True)
    edges = torch.stack([torch.arange(n), torch.arange(n)])
    with LargestTensor() as seen:
        out = sim_pool(x, edges, logits, nodes, batch_size=201)
        sum(t.sum() for t in out).backward()
    assert seen.numel < 20 * n


def test_dense_edge_features() -> None:
    """Dense edge features are reduced to a binary adjacency matrix."""
    x, logits, adj = torch.rand(2, 3, 2), torch.rand(2, 3, 2), torch.zeros(2, 3, 3, 2)
    adj[0, 0, 1, 1] = -2
    binary = (adj != 0).any(dim=-1).float()
    for a, b in zip(dense_sim_pool(x, adj, logits), dense_sim_pool(x, binary, logits)):
        assert torch.equal(a, b)
    one, expected = (dense_sim_pool(x[0], a[0], logits[0]) for a in (adj, binary))
    assert torch.equal(one.adj, expected.adj)

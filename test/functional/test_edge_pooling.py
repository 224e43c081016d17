"""Edge features through the pooling: against the dense form, per graph, and at its edges."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import MLP

from helpers.gradients import assert_same_gradients
from helpers.graphs import FLAVORS, draw, draw_all, union
from torch_geometric_simpool import SimPool, sim_pool


def dense(
    edge_index: Tensor, attr: Tensor, logits: Tensor, batch: Tensor, batch_size: int
) -> Tensor:
    """`S^T A_f S` with all matrices built."""
    n = logits.size(0)
    adj = attr.new_zeros(n, n, attr.size(1))
    adj = adj.index_put((edge_index[0], edge_index[1]), attr, accumulate=True)
    one_hot = torch.nn.functional.one_hot(batch, batch_size).to(attr.dtype)
    s = torch.einsum("nb,nk->bnk", one_hot, logits.softmax(dim=-1))
    return torch.einsum("bnk,nmf,bml->bklf", s, adj, s)


@pytest.mark.parametrize("num_features", [1, 3])
@pytest.mark.parametrize("seed", range(2))
def test_equals_the_dense_form(seed: int, num_features: int) -> None:
    """Values and gradients, of every kind of graph: parallel edges, loops, no nodes."""
    graph, batch = union(draw_all(seed))
    batch_size = len(FLAVORS) + 2
    x = torch.randn(graph.num_nodes, 2, dtype=torch.float64)
    logits = torch.randn(graph.num_nodes, 4, dtype=torch.float64, requires_grad=True)
    attr = torch.randn(len(graph.edges), num_features, dtype=torch.float64, requires_grad=True)
    out = sim_pool(x, graph.edge_index, logits, batch, None, batch_size, edge_attr=attr)
    assert out[4].shape == (batch_size, 4, 4, num_features)
    expected = dense(graph.edge_index, attr, logits, batch, batch_size)
    assert_same_gradients([out[4]], [expected], [logits, attr], 1e-10)
    without = sim_pool(x, graph.edge_index, logits, batch, None, batch_size)
    for a, b in zip(out[:4], without, strict=True):
        assert torch.equal(a, b)


def test_second_derivatives() -> None:
    graph = draw("parallel", 0)
    x = torch.ones(graph.num_nodes, 1, dtype=torch.float64)
    logits = torch.randn(graph.num_nodes, 2, dtype=torch.float64, requires_grad=True)
    attr = torch.randn(len(graph.edges), 2, dtype=torch.float64, requires_grad=True)

    def pooled(logits: Tensor, attr: Tensor) -> Tensor:
        return sim_pool(x, graph.edge_index, logits, edge_attr=attr)[4]

    assert torch.autograd.gradgradcheck(pooled, (logits, attr))
    # torch.func takes the way that keeps the products.
    jacobian = torch.func.jacrev(pooled)(logits.detach(), attr.detach())
    expected = torch.autograd.functional.jacobian(lambda s: pooled(s, attr), logits)
    torch.testing.assert_close(jacobian, expected)


def test_forward_mode_derivatives() -> None:
    graph = draw("parallel", 0)
    x = torch.ones(graph.num_nodes, 1, dtype=torch.float64)
    logits = torch.randn(graph.num_nodes, 2, dtype=torch.float64, requires_grad=True)
    attr = torch.randn(len(graph.edges), 2, dtype=torch.float64, requires_grad=True)

    def pooled(logits: Tensor, attr: Tensor) -> Tensor:
        return sim_pool(x, graph.edge_index, logits, edge_attr=attr)[4]

    assert torch.autograd.gradcheck(pooled, (logits, attr), check_forward_ad=True)


@pytest.mark.parametrize("create_graph", [False, True])
def test_hooks_on_the_assignment_run_once(create_graph: bool) -> None:
    """Whatever the number of features: a gradient that is kept is the gradient."""
    graph = draw("undirected", 0)
    x, attr = torch.randn(graph.num_nodes, 2), torch.randn(len(graph.edges), 3)
    pool = SimPool(MLP([2, 3], norm=None), "node")
    out = pool(x, graph.edge_index, edge_attr=attr, pool_edge_attr=True)
    out.s.retain_grad()
    calls: list[Tensor] = []
    out.s.register_hook(calls.append)
    out.edge_attr.square().sum().backward(create_graph=create_graph)
    leaf = out.s.detach().requires_grad_()
    n = graph.num_nodes
    adj = torch.zeros(n, n, 3).index_put(tuple(graph.edge_index), attr, accumulate=True)
    expected = torch.einsum("nk,nmf,ml->klf", leaf, adj, leaf)
    (grad,) = torch.autograd.grad(expected.square().sum(), leaf)
    assert len(calls) == 1
    torch.testing.assert_close(out.s.grad, grad)


def test_by_hand() -> None:
    """Sums without a tanh; directions are kept, and edge weights do not count."""
    logits = torch.tensor([[1e4, 0], [1e4, 0], [0, 1e4]])
    edges = torch.tensor([[0, 1, 0, 0], [1, 2, 2, 2]])
    attr = torch.tensor([[1.0, 10], [2, 20], [3, -30], [4, 0]])
    weight = torch.tensor([9.0, 9, 9, 9])
    out = sim_pool(torch.ones(3, 1), edges, logits, edge_weight=weight, edge_attr=attr)[4]
    assert out[0, :, :, 0].tolist() == [[1, 9], [0, 0]]
    assert out[0, :, :, 1].tolist() == [[10, -10], [0, 0]]


def test_batched_equals_single() -> None:
    graphs = draw_all(3)
    graph, batch = union(graphs)
    logits, attr = torch.randn(graph.num_nodes, 3), torch.randn(len(graph.edges), 2)
    x = torch.randn(graph.num_nodes, 1)
    out = sim_pool(x, graph.edge_index, logits, batch, batch_size=len(graphs), edge_attr=attr)[4]
    first = 0
    for b, alone in enumerate(graphs):
        own, edges = batch == b, slice(first, first + len(alone.edges))
        single = sim_pool(x[own], alone.edge_index, logits[own], edge_attr=attr[edges])[4]
        torch.testing.assert_close(out[b], single[0])
        first += len(alone.edges)


def test_no_features_and_no_edges() -> None:
    x, none = torch.ones(3, 1), torch.zeros(2, 0, dtype=torch.long)
    out = sim_pool(x, none, torch.zeros(3, 2), edge_attr=torch.zeros(0, 4))[4]
    assert torch.equal(out, torch.zeros(1, 2, 2, 4))
    edges = torch.tensor([[0], [1]])
    assert sim_pool(x, edges, x, edge_attr=torch.zeros(1, 0))[4].shape == (1, 1, 1, 0)


@pytest.mark.parametrize("name", ["logits", "attr"])
def test_other_types(name: str) -> None:
    """As for `x` and the logits: in the larger one of these two; `edge_attr` follows."""
    graph = draw("undirected", 0)
    given: dict[str, Any] = {
        "logits": torch.randn(graph.num_nodes, 2),
        "attr": torch.randn(len(graph.edges), 2),
    }
    given[name] = given[name].double()
    out = sim_pool(
        torch.ones(graph.num_nodes, 1), graph.edge_index, given["logits"], edge_attr=given["attr"]
    )
    assert out[4].dtype == (torch.float64 if name == "logits" else torch.float32)


@pytest.mark.parametrize("pool_x", [False, True])
def test_the_layer_passes_it_through(pool_x: bool) -> None:
    graph, batch = union(draw_all(0))
    x, attr = torch.randn(graph.num_nodes, 2), torch.randn(len(graph.edges), 3)
    pool = SimPool(MLP([2, 3], norm=None), "node")
    given: dict[str, Any] = {"batch": batch, "edge_attr": attr}
    if pool_x:
        given["pool_x"] = lambda x, s, *_: x.new_zeros(1)
    out = pool(x, graph.edge_index, pool_edge_attr=True, **given)
    expected = sim_pool(x, graph.edge_index, pool.assignment(x), batch, edge_attr=attr)
    assert torch.equal(out.edge_attr, expected[4])
    assert torch.equal(out.adj, expected[1])
    assert not hasattr(pool(x, graph.edge_index, **given), "edge_attr")


@pytest.mark.parametrize(
    ("edge_attr", "error", "message"),
    [
        (torch.ones(4), ValueError, r"\[4, D\], one row per edge, got \[4\]"),
        (torch.ones(3, 2), ValueError, r"\[4, D\], one row per edge, got \[3, 2\]"),
        (torch.ones(4, 2, 2), ValueError, r"\[4, D\], one row per edge, got \[4, 2, 2\]"),
        (torch.ones(4, 2).long(), TypeError, r"floating point, got torch.int64"),
        (torch.ones(4, 2) / 0, ValueError, r"finite, got 8 NaN or infinite"),
        ([[1.0]] * 4, TypeError, r"torch.Tensor, got list"),
    ],
)
def test_bad_input(edge_attr: Any, error: type[Exception], message: str) -> None:
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    with pytest.raises(error, match=rf"`edge_attr` must .*{message}"):
        sim_pool(torch.ones(3, 1), edges, torch.zeros(3, 2), edge_attr=edge_attr)
    pool = SimPool(torch.nn.Linear(1, 2), "node")
    with pytest.raises(error, match=rf"`edge_attr` must .*{message}"):
        pool(torch.ones(3, 1), edges, edge_attr=edge_attr, pool_edge_attr=True)

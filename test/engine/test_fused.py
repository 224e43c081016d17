"""The operator in one piece: against the plain one, in both layouts, and differentiated twice."""

import pytest
import torch
from torch import Tensor
from torch_geometric.utils import to_dense_adj

from helpers.gradients import assert_same_gradients
from helpers.graphs import FLAVOURS, Graph, draw, draw_all, union
from torch_geometric_simpool import dense_sim_pool, sim_pool
from torch_geometric_simpool.engine import fused, ragged
from torch_geometric_simpool.engine.fused import fused_pool, plain_pool
from torch_geometric_simpool.engine.fusible import fusible
from torch_geometric_simpool.engine.ragged import Ragged, ragged_product


@pytest.fixture(params=["compiled", "blocks"], autouse=True)
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(ragged, "COMPILED", 0 if request.param == "compiled" else 1 << 62)
    return request.param


def shuffled(graph: Graph) -> Tensor:
    """The edges in no order, as hardly any loader leaves them."""
    return torch.randperm(len(graph.edges))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("num_clusters", [1, 5])
def test_equals_the_plain_operator(
    num_clusters: int, dtype: torch.dtype, tolerance: float, in_order: bool, weighted: bool
) -> None:
    """Values and gradients, of the assignment matrix as well, with empty graphs in the batch."""
    graph, batch = union(draw_all(1))
    order = graph.edge_index[0].argsort(stable=True) if in_order else shuffled(graph)
    edge_index = graph.edge_index[:, order]
    x = torch.randn(graph.num_nodes, 4, dtype=dtype, requires_grad=True)
    s = (2 * torch.randn(graph.num_nodes, num_clusters, dtype=dtype)).requires_grad_()
    inputs, weight = [x, s], None
    if weighted:
        weight = graph.edge_weight(dtype)
        assert weight is not None
        weight = weight[order].requires_grad_()
        inputs.append(weight)
    assert fusible(x, s)
    rest = (weight, edge_index, batch, len(FLAVOURS) + 2)
    found, expected = fused_pool(x, s, *rest), plain_pool(x, s, *rest)
    assert torch.equal(found[0], expected[0])
    assert_same_gradients(found, expected, inputs, tolerance)


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_gradients_of_some_inputs(wanted: tuple[int, ...]) -> None:
    graph, batch = union([draw("directed", 0), draw("undirected", 1)])
    given = [
        torch.randn(graph.num_nodes, 2, dtype=torch.float64),
        torch.randn(graph.num_nodes, 3, dtype=torch.float64),
        torch.rand(len(graph.edges), dtype=torch.float64),
    ]
    for i in wanted:
        given[i].requires_grad_()
    inputs = [given[i] for i in wanted]
    gradients = [
        torch.autograd.grad(
            sum(t.square().sum() for t in pool(*given, graph.edge_index, batch, 2)), inputs
        )
        for pool in (fused_pool, plain_pool)
    ]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b)


def test_first_and_second_derivative() -> None:
    graph, batch = union([draw("directed", 1), draw("edgeless", 1)])
    inputs = (
        torch.randn(graph.num_nodes, 2, dtype=torch.float64, requires_grad=True),
        torch.randn(graph.num_nodes, 3, dtype=torch.float64, requires_grad=True),
        torch.rand(len(graph.edges), dtype=torch.float64, requires_grad=True),
    )

    def pool(x: Tensor, s: Tensor, weight: Tensor) -> fused.Pooled:
        return fused_pool(x, s, weight, graph.edge_index, batch, 3)

    assert torch.autograd.gradcheck(pool, inputs)
    assert torch.autograd.gradgradcheck(pool, inputs, fast_mode=True)


def test_nothing_is_kept_without_a_gradient() -> None:
    graph, batch = union(draw_all(2))
    x, s = torch.randn(graph.num_nodes, 2), torch.randn(graph.num_nodes, 3)
    out = fused_pool(x, s, None, graph.edge_index, batch, len(FLAVOURS))
    assert all(t.grad_fn is None for t in out)


def test_types_that_are_not_fused() -> None:
    x = torch.randn(3, 2)
    assert fusible(x, x)
    assert not fusible(x.half(), x.half())
    assert not fusible(x.double(), x)
    assert not fusible(x[:0], x[:0])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not fusible(x, x)


def test_under_a_transform_of_functions() -> None:
    """`torch.func` gets the plain operator, which it can see through."""
    graph = draw("undirected", 0)
    x, s = torch.randn(graph.num_nodes, 2), torch.randn(graph.num_nodes, 3)

    def loss(s: Tensor) -> Tensor:
        return sum(t.sum() for t in sim_pool(x, graph.edge_index, s, batch_size=1))

    expected = torch.autograd.grad(loss(s.requires_grad_()), s)[0]
    torch.testing.assert_close(torch.func.grad(loss)(s.detach()), expected)


@pytest.mark.parametrize("sizes", [[1], [0, 1, 0], [64, 64], [31, 32, 33], [300, 1, 0, 7], [0, 5]])
@pytest.mark.parametrize("look", [True, False])
def test_products_of_rows(look: bool, sizes: list[int]) -> None:
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    left = torch.randn(sum(sizes), 3, dtype=torch.float64)
    right = torch.randn(sum(sizes), 2, dtype=torch.float64)
    layout = Ragged(batch, len(sizes), look, work=1)
    assert (layout.parts is not None) == (look and ragged.COMPILED == 0)
    product = layout.product(layout.lay_out(left), layout.lay_out(right))
    spread = layout.spread((layout.lay_out(left), product))
    for b in range(len(sizes)):
        mine = batch == b
        torch.testing.assert_close(product[b], left[mine].t() @ right[mine])
        torch.testing.assert_close(spread[mine], left[mine] @ product[b])
        torch.testing.assert_close(layout.total(left)[b], left[mine].sum(dim=0))
    assert torch.equal(layout.count, torch.tensor(sizes))


def test_upstream_gradients_are_read_alone() -> None:
    """Of the assignment matrix: of any strides, and left as it was."""
    graph, batch = union([draw("directed", 0), draw("undirected", 1)])
    x = torch.randn(graph.num_nodes, 4, dtype=torch.float64)
    logits = torch.randn(graph.num_nodes, 5, dtype=torch.float64, requires_grad=True)
    rest = (None, graph.edge_index, batch, 2)
    upstream = torch.randn(5, graph.num_nodes, dtype=torch.float64).t()
    assert not upstream.is_contiguous()
    for given in (upstream, upstream.contiguous(), upstream[:, :1].expand(-1, 5)):
        before = given.clone()
        found, expected = (
            torch.autograd.grad([out[0], out[1].sum()], logits, [given, None])[0]
            for out in (pool(x, logits, *rest) for pool in (fused_pool, plain_pool))
        )
        torch.testing.assert_close(found, expected)
        assert torch.equal(given, before)


def test_gradients_under_autocast() -> None:
    """Are those of the forward pass, which was not."""
    graph, batch = union([draw("directed", 0), draw("undirected", 1)])
    inputs = [torch.randn(graph.num_nodes, n, requires_grad=True) for n in (4, 3)]
    out = sim_pool(inputs[0], graph.edge_index, inputs[1], batch)
    product = ragged_product(*inputs, batch, 2)
    for loss in (sum(t.sum() for t in out), product.square().sum()):
        expected = torch.autograd.grad(loss, inputs, retain_graph=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = torch.autograd.grad(loss, inputs)
        for a, b in zip(found, expected, strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("sizes", [[0, 1000], [600, 0, 5], [0, 0, 1100]])
def test_graphs_cut_in_parts_beside_empty_ones(sizes: list[int]) -> None:
    """Each graph by itself, by the dense operator."""
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    first = torch.tensor([0, *sizes[:-1]]).cumsum(0)
    edge_index = torch.cat(
        [start + torch.randint(n, (2, 2 * n)) for start, n in zip(first, sizes) if n], 1
    )
    x = torch.randn(sum(sizes), 6, dtype=torch.float64)
    s = torch.randn(sum(sizes), 4, dtype=torch.float64)
    pooled, adj, _, _ = sim_pool(x, edge_index, s, batch, batch_size=len(sizes))
    dense = to_dense_adj(edge_index, max_num_nodes=sum(sizes))[0].double()
    for b, n in enumerate(sizes):
        own = batch == b
        if n == 0:
            assert not pooled[b].any()
            assert not adj[b].any()
            continue
        expected = dense_sim_pool(x[own], dense[own][:, own], s[own])
        torch.testing.assert_close(pooled[b], expected[0][0])
        torch.testing.assert_close(adj[b], expected[1][0])

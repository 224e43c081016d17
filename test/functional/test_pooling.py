"""The operator, dense and sparse: against plain loops, against each other, and at its edges."""

import pytest
import torch
from torch import Tensor
from torch_geometric.utils import to_dense_adj, to_dense_batch

from helpers import oracle
from helpers.gradients import assert_same_gradients
from helpers.graphs import FLAVORS, draw, draw_all, union
from helpers.largest import LargestTensor
from helpers.pretend import needs_gpu
from torch_geometric_simpool import cluster_loss, dense_sim_pool, entropy_loss, sim_pool

Result = tuple[Tensor, Tensor, Tensor, Tensor]


def dense_of_sparse(
    x: Tensor,
    edge_index: Tensor,
    s: Tensor,
    batch: Tensor,
    edge_weight: Tensor | None,
    batch_size: int,
) -> Result:
    """The same batch by PyG's own padding: the specification of `sim_pool`."""
    # PyG measures the largest graph by the batch, so all three agree.
    dense_x, mask = to_dense_batch(x, batch, batch_size=batch_size)
    dense_s, _ = to_dense_batch(s, batch, batch_size=batch_size)
    adj = to_dense_adj(
        edge_index, batch, edge_weight, max_num_nodes=mask.size(1), batch_size=batch_size
    )
    return dense_sim_pool(dense_x, adj.to(x.dtype), dense_s, mask)


def assert_all_close(left: tuple[Tensor, ...], right: tuple[Tensor, ...], tolerance: float) -> None:
    for name, a, b in zip(("x", "adj", "entropy_loss", "cluster_loss"), left, right, strict=True):

        def named(message: str, name: str = name) -> str:
            return name + message

        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, msg=named)


def gradients(outputs: Result, inputs: list[Tensor]) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    parts = [(o * torch.randn(o.shape, generator=generator, dtype=o.dtype)).sum() for o in outputs]
    total = sum(parts[1:], parts[0])
    return torch.autograd.grad(total, inputs)


@pytest.mark.parametrize("flavor", [f for f in FLAVORS if f != "nothing"])
def test_equals_plain_loops(flavor: str) -> None:
    for seed in range(2):
        graph = draw(flavor, seed)
        x = torch.randn(graph.num_nodes, 2, dtype=torch.float64)
        logits = torch.randn(graph.num_nodes, 3, dtype=torch.float64)
        s = [oracle.softmax(row) for row in logits.tolist()]
        pooled, coarse = oracle.pool(x.tolist(), graph.exact_adj, s)
        naive = (
            torch.tensor([pooled], dtype=torch.float64),
            torch.tensor([coarse], dtype=torch.float64),
            torch.tensor(oracle.entropy_loss(s), dtype=torch.float64),
            torch.tensor(oracle.cluster_loss(s), dtype=torch.float64),
        )
        sparse = sim_pool(x, graph.edge_index, logits, edge_weight=graph.edge_weight())
        assert_all_close(sparse, naive, 1e-10)
        assert_all_close(dense_sim_pool(x, graph.adj(), logits), naive, 1e-10)
        batched = dense_sim_pool(x[None], graph.adj()[None], logits[None])
        assert_all_close(batched, naive, 1e-10)


def test_by_hand() -> None:
    """Two nodes to each of two clusters, a path through all: one edge between, one within."""
    path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    logits = torch.tensor([[1e4, 0], [1e4, 0], [0, 1e4], [0, 1e4]])
    x, adj, entropy, cluster = sim_pool(torch.tensor([[1.0], [2], [4], [8]]), path, logits)
    assert x.tolist() == [[[3], [12]]]
    # No self loop is removed: an edge within a cluster counts, once for each end.
    torch.testing.assert_close(adj, torch.tensor([[[2.0, 1], [1, 2]]]).tanh())
    assert entropy.item() == 0
    assert cluster.item() == pytest.approx(0, abs=1e-7)


def test_direction_is_kept() -> None:
    """`S^T A S`: an edge from cluster 0 to cluster 1, and none back."""
    logits = torch.tensor([[1e4, 0], [0, 1e4]])
    _, adj, _, _ = sim_pool(torch.ones(2, 1), torch.tensor([[0], [1]]), logits)
    torch.testing.assert_close(adj, torch.tensor([[[0.0, 1], [0, 0]]]).tanh())


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("seed", range(3))
def test_sparse_equals_dense(seed: int, dtype: torch.dtype, tolerance: float) -> None:
    """Values and gradients, of a batch of every flavor with empty graphs in it."""
    graph, batch = union(draw_all(seed))
    batch_size = len(FLAVORS) + 2
    weight = graph.edge_weight(dtype)
    assert weight is not None
    for edge_weight in (weight.requires_grad_(), None):
        x = torch.randn(graph.num_nodes, 4, dtype=dtype, requires_grad=True)
        s = (2 * torch.randn(graph.num_nodes, 5, dtype=dtype)).requires_grad_()
        inputs = [x, s] if edge_weight is None else [x, s, edge_weight]
        sparse = sim_pool(x, graph.edge_index, s, batch, edge_weight, batch_size)
        dense = dense_of_sparse(x, graph.edge_index, s, batch, edge_weight, batch_size)
        assert sparse[0].shape == (batch_size, 5, 4)
        assert sparse[1].shape == (batch_size, 5, 5)
        assert_all_close(sparse, dense, tolerance)
        for a, b in zip(gradients(sparse, inputs), gradients(dense, inputs)):
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "sizes",
    [
        [1],
        [0, 1, 0],
        [8],
        [64, 64],
        [63, 64, 65],
        [1] * 200,
        [300, 1, 2, 0, 7, 150],
        [0, 0, 129],
        [5, 0, 0],
    ],
)
def test_sparse_equals_dense_for_all_sizes(sizes: list[int]) -> None:
    """Blocks that are full, just not full, and just over; graphs at either end that are empty."""
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    num_nodes = batch.numel()
    first = torch.tensor([0, *torch.tensor(sizes).cumsum(0).tolist()])[batch]
    row = torch.randint(num_nodes, (4 * num_nodes,))
    place = torch.rand(row.numel(), dtype=torch.float64)
    col = first[row] + (place * torch.tensor(sizes)[batch[row]]).long()
    edge_index = torch.stack([row, col])
    x = torch.randn(num_nodes, 3, dtype=torch.float64, requires_grad=True)
    s = torch.randn(num_nodes, 2, dtype=torch.float64, requires_grad=True)
    sparse = sim_pool(x, edge_index, s, batch, batch_size=len(sizes))
    dense = dense_of_sparse(x, edge_index, s, batch, None, len(sizes))
    assert_all_close(sparse, dense, 1e-10)
    for a, b in zip(gradients(sparse, [x, s]), gradients(dense, [x, s])):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_batch_size_is_found_in_batch() -> None:
    graph, batch = union(draw_all(3))
    last = int(batch.max()) + 1
    x, s = torch.randn(graph.num_nodes, 2), torch.randn(graph.num_nodes, 3)
    found = sim_pool(x, graph.edge_index, s, batch, graph.edge_weight())
    given = sim_pool(x, graph.edge_index, s, batch, graph.edge_weight(), last)
    for a, b in zip(found, given):
        assert torch.equal(a, b)


def test_batched_equals_single() -> None:
    graphs = [graph for graph in draw_all(4) if graph.num_nodes > 0]
    graph, batch = union(graphs)
    x = torch.randn(graph.num_nodes, 2, dtype=torch.float64)
    s = torch.randn(graph.num_nodes, 3, dtype=torch.float64)
    pooled, adj, entropy, cluster = sim_pool(x, graph.edge_index, s, batch, graph.edge_weight())
    losses = []
    for b, alone in enumerate(graphs):
        of_alone = sim_pool(
            x[batch == b], alone.edge_index, s[batch == b], edge_weight=alone.edge_weight()
        )
        torch.testing.assert_close(pooled[b : b + 1], of_alone[0])
        torch.testing.assert_close(adj[b : b + 1], of_alone[1])
        losses.append(torch.stack(of_alone[2:]))
    torch.testing.assert_close(torch.stack([entropy, cluster]), torch.stack(losses).mean(0))


def test_losses_are_the_public_ones() -> None:
    graph, batch = union(draw_all(5))
    x, s = torch.randn(graph.num_nodes, 2), torch.randn(graph.num_nodes, 3)
    out = sim_pool(x, graph.edge_index, s, batch, graph.edge_weight())
    torch.testing.assert_close(out[2], entropy_loss(s.softmax(-1), batch))
    torch.testing.assert_close(out[3], cluster_loss(s.softmax(-1), batch))


@pytest.mark.parametrize("poison", [0.0, 7.0, float("nan"), float("inf")])
def test_padded_equals_unpadded(poison: float) -> None:
    """Forward and backward, whatever the padding of all three arguments holds."""
    sizes, n = (3, 5, 1), 7
    shape = (len(sizes), n)
    mask = torch.arange(n) < torch.tensor(sizes).unsqueeze(1)
    real = mask.unsqueeze(1) & mask.unsqueeze(2)
    x = torch.randn(*shape, 2, dtype=torch.float64).masked_fill(~mask.unsqueeze(-1), poison)
    s = torch.randn(*shape, 3, dtype=torch.float64).masked_fill(~mask.unsqueeze(-1), poison)
    adj = torch.rand(*shape, n, dtype=torch.float64).masked_fill(~real, poison)
    inputs = [t.requires_grad_() for t in (x, adj, s)]
    padded = dense_sim_pool(x, adj, s, mask)
    losses = []
    for b, size in enumerate(sizes):
        alone = [x[b, :size], adj[b, :size, :size], s[b, :size]]
        alone = [t.detach().requires_grad_() for t in alone]
        pooled = dense_sim_pool(*alone)
        torch.testing.assert_close(padded[0][b], pooled[0][0])
        torch.testing.assert_close(padded[1][b], pooled[1][0])
        losses.append(torch.stack(pooled[2:]))
    torch.testing.assert_close(torch.stack(padded[2:]), torch.stack(losses).mean(0))
    for gradient, where in zip(gradients(padded, inputs), (mask, real, mask)):
        assert torch.isfinite(gradient).all()
        assert (gradient[~where] == 0).all()
        assert gradient[where].abs().sum() > 0


def test_gradient_of_the_padded_batch_equals_that_of_the_graph() -> None:
    x, adj, s = torch.randn(1, 4, 2), torch.rand(1, 4, 4), torch.randn(1, 4, 3)
    inputs = [t.double().requires_grad_() for t in (x, adj, s)]
    alone = gradients(dense_sim_pool(*inputs), inputs)
    wide = [
        torch.full((1, 6, 2), torch.nan, dtype=torch.float64),
        torch.full((1, 6, 6), torch.nan, dtype=torch.float64),
        torch.full((1, 6, 3), torch.nan, dtype=torch.float64),
    ]
    wide[0][:, :4], wide[1][:, :4, :4], wide[2][:, :4] = (t.detach() for t in inputs)
    wide = [t.requires_grad_() for t in wide]
    mask = torch.arange(6).unsqueeze(0) < 4
    padded = gradients(dense_sim_pool(wide[0], wide[1], wide[2], mask), wide)
    torch.testing.assert_close(padded[0][:, :4], alone[0])
    torch.testing.assert_close(padded[1][:, :4, :4], alone[1])
    torch.testing.assert_close(padded[2][:, :4], alone[2])


@pytest.mark.parametrize("flavor", ["undirected", "directed", "parallel", "isolated"])
def test_gradient_of_sim_pool(flavor: str) -> None:
    graph, batch = union([draw(flavor, 1), draw("single", 3), draw("edgeless", 1)])
    inputs = (
        torch.randn(graph.num_nodes, 2, dtype=torch.float64, requires_grad=True),
        torch.randn(graph.num_nodes, 3, dtype=torch.float64, requires_grad=True),
        torch.randn(len(graph.edges), dtype=torch.float64, requires_grad=True),
    )

    def pool(x: Tensor, s: Tensor, edge_weight: Tensor) -> Result:
        return sim_pool(x, graph.edge_index, s, batch, edge_weight, 4)

    assert torch.autograd.gradcheck(pool, inputs, fast_mode=True)


def test_gradient_of_dense_sim_pool() -> None:
    mask = torch.tensor([[True, True, True, True], [True, False, True, False]])
    inputs = (
        torch.randn(2, 4, 2, dtype=torch.float64, requires_grad=True),
        torch.rand(2, 4, 4, dtype=torch.float64, requires_grad=True),
        torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True),
    )
    assert torch.autograd.gradcheck(lambda x, adj, s: dense_sim_pool(x, adj, s, mask), inputs)


@pytest.mark.parametrize("size", [0.0, 1.0, 200.0, 1e4])
def test_gradients_are_finite(size: float) -> None:
    """One-hot assignments, empty clusters, isolated nodes, graphs without edges."""
    graph, batch = union(draw_all(6))
    x = torch.randn(graph.num_nodes, 2, requires_grad=True)
    sign = torch.randint(-1, 2, (graph.num_nodes, 4)).float()
    sign[:, 3] = -1  # nobody's cluster
    s = (size * sign).requires_grad_()
    weight = graph.edge_weight(torch.float32)
    assert weight is not None
    inputs = [x, s, weight.requires_grad_()]
    sparse = sim_pool(x, graph.edge_index, s, batch, weight)
    dense = dense_of_sparse(x, graph.edge_index, s, batch, weight, int(batch.max()) + 1)
    for result in (sparse, dense):
        assert all(torch.isfinite(t).all() for t in result)
        assert all(torch.isfinite(t).all() for t in gradients(result, inputs))


@pytest.mark.parametrize("batch_size", [0, 1, 3])
def test_a_batch_of_nothing(batch_size: int) -> None:
    x, s = torch.randn(0, 2, requires_grad=True), torch.randn(0, 3, requires_grad=True)
    edge_index, batch = torch.zeros(2, 0, dtype=torch.long), torch.zeros(0, dtype=torch.long)
    out = sim_pool(x, edge_index, s, batch, batch_size=batch_size)
    assert out[0].shape == (batch_size, 3, 2)
    assert out[1].shape == (batch_size, 3, 3)
    assert all((t == 0).all() for t in out)
    for gradient in gradients(out, [x, s]):
        assert gradient.numel() == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_assignments_are_pooled_without_features(dtype: torch.dtype) -> None:
    """`adj`, the losses and their gradients are what they are with features."""
    graph, batch = union(draw_all(2))
    s = torch.randn(graph.num_nodes, 3, dtype=dtype, requires_grad=True)
    x = torch.randn(graph.num_nodes, 4, dtype=dtype)
    rest = (graph.edge_index, s, batch, graph.edge_weight(dtype))
    pooled, *found = sim_pool(x[:, :0], *rest)
    _, *expected = sim_pool(x, *rest)
    assert pooled.shape == (int(batch.max()) + 1, 3, 0)
    assert_same_gradients(found, expected, [s], 1e-10 if dtype == torch.float64 else 1e-5)


def test_coarse_weights_stay_below_one() -> None:
    """Of a graph whose edges are few enough for `tanh` not to round up to it."""
    _, adj, _, _ = sim_pool(
        torch.ones(4, 1), torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.randn(4, 2)
    )
    assert adj.min() >= 0
    assert adj.max() < 1


def test_types() -> None:
    """Half precision features stay so; an assignment in float32 widens them."""
    edge_index = torch.tensor([[0, 1], [1, 0]])
    x, s = torch.randn(2, 3), torch.randn(2, 2)
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        sparse = sim_pool(x.to(dtype), edge_index, s.to(dtype), edge_weight=torch.ones(2))
        dense = dense_sim_pool(x.to(dtype), torch.ones(2, 2), s.to(dtype))
        assert sparse[0].dtype == sparse[1].dtype == dense[0].dtype == dense[1].dtype == dtype
    assert sim_pool(x.bfloat16(), edge_index, s)[0].dtype == torch.float32


def test_integer_weights() -> None:
    """Multiplicities, say, of edges that were merged."""
    x, s, edge_index = torch.randn(2, 3), torch.randn(2, 2), torch.tensor([[0, 1], [1, 0]])
    weight = torch.tensor([2, 3])
    whole = sim_pool(x, edge_index, s, edge_weight=weight)
    assert_all_close(whole, sim_pool(x, edge_index, s, edge_weight=weight.float()), 0)
    one = torch.func.vmap(lambda w: sim_pool(x, edge_index, s, edge_weight=w)[1])(weight[None])
    torch.testing.assert_close(one[0], whole[1])


def test_weights_that_overflow_in_the_type_of_the_assignment() -> None:
    """Infinite, they would make NaN of empty clusters."""
    x, s = torch.randn(2, 3).half(), torch.tensor([[20.0, 0], [20, 0]]).half()
    edge_index, weight = torch.tensor([[0, 1], [1, 0]]), torch.full((2,), 1e5)
    message = r"must be finite in torch.float16, the type of the assignment, got 100000"
    with pytest.raises(ValueError, match=f"`edge_weight` {message}"):
        sim_pool(x, edge_index, s, edge_weight=weight)
    with pytest.raises(ValueError, match=f"`edge_attr` {message}"):
        sim_pool(x, edge_index, s, edge_attr=weight.unsqueeze(-1))
    with pytest.raises(ValueError, match=f"`adj` {message}"):
        dense_sim_pool(x, torch.full((2, 2), 1e5), s)


def test_under_autocast() -> None:
    """Products in bfloat16, and sparse still equals dense."""
    graph, batch = union(draw_all(2))
    x, s = torch.randn(graph.num_nodes, 4), torch.randn(graph.num_nodes, 3)
    weight = graph.edge_weight(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        sparse = sim_pool(x, graph.edge_index, s, batch, weight, len(FLAVORS))
        dense = dense_of_sparse(x, graph.edge_index, s, batch, weight, len(FLAVORS))
    exact = sim_pool(x, graph.edge_index, s, batch, weight, len(FLAVORS))
    for result in (sparse, dense):
        assert_all_close(tuple(t.float() for t in result), exact, 0.1)


def test_one_large_graph_among_small_ones_is_not_padded() -> None:
    """`[B, N, N]` would be 5e10 numbers, and even `[B, N]` a million."""
    sizes = [50_000] + [10] * 19
    batch = torch.arange(20).repeat_interleave(torch.tensor(sizes))
    n = batch.numel()
    near = torch.arange(n - 1)
    within = near[batch[:-1] == batch[1:]]
    edge_index = torch.stack([within, within + 1])
    x = torch.randn(n, 4, requires_grad=True)
    s = torch.randn(n, 8, requires_grad=True)
    with LargestTensor() as seen:
        out = sim_pool(x, edge_index, s, batch)
        gradients(out, [x, s])
    assert seen.numel <= 2 * n * (8 + 4)
    alone = sim_pool(x[-10:], torch.stack([near[:9], near[:9] + 1]), s[-10:])
    torch.testing.assert_close(out[0][-1:], alone[0])
    torch.testing.assert_close(out[1][-1:], alone[1])


def test_compiles_without_graph_breaks() -> None:
    """Traced whole, forward and backward; no backend that needs a compiler of C++."""
    graph, batch = union(draw_all(7))
    x, s = torch.randn(graph.num_nodes, 4), torch.randn(graph.num_nodes, 3)
    x.requires_grad_()
    s.requires_grad_()
    weight = graph.edge_weight(torch.float32)
    arguments = (x, graph.edge_index, s, batch, weight, len(FLAVORS))
    compiled = torch.compile(sim_pool, fullgraph=True, backend="aot_eager")
    assert_all_close(compiled(*arguments), sim_pool(*arguments), 1e-5)
    torch.testing.assert_close(
        gradients(compiled(*arguments), [x, s]), gradients(sim_pool(*arguments), [x, s])
    )

    adj, mask = torch.rand(2, 5, 5), torch.arange(5) < torch.tensor([[5], [3]])
    dense = (torch.randn(2, 5, 4), adj, torch.randn(2, 5, 3), mask)
    compiled_dense = torch.compile(dense_sim_pool, fullgraph=True, backend="aot_eager")
    assert_all_close(compiled_dense(*dense), dense_sim_pool(*dense), 1e-5)


@needs_gpu
def test_on_a_gpu() -> None:
    graph, batch = union(draw_all(8))
    x, s = torch.randn(graph.num_nodes, 4), torch.randn(graph.num_nodes, 3)
    weight = graph.edge_weight(torch.float32)
    assert weight is not None
    here = sim_pool(x, graph.edge_index, s, batch, weight, len(FLAVORS))
    there = sim_pool(
        x.cuda(), graph.edge_index.cuda(), s.cuda(), batch.cuda(), weight.cuda(), len(FLAVORS)
    )
    assert_all_close(here, tuple(t.cpu() for t in there), 1e-4)


@needs_gpu
def test_does_not_synchronize_with_batch_size() -> None:
    graph, batch = union(draw_all(8))
    x, s = torch.randn(graph.num_nodes, 4), torch.randn(graph.num_nodes, 3)
    x, edge_index, s, batch = (t.cuda() for t in (x, graph.edge_index, s, batch))
    torch.cuda.set_sync_debug_mode("error")
    try:
        out = sim_pool(x, edge_index, s, batch, batch_size=len(FLAVORS))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.isfinite(out[0]).all()

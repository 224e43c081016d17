"""The losses, `lift` and the mask of clusters equal `reference`, graph by graph."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.gradients import assert_same_gradients
from helpers.graphs import draw_all, union
from helpers.per_graph import GraphBatch, per_graph
from torch_geometric_simpool import cluster_loss, cluster_mask, entropy_loss, lift, reference

LOSSES = [entropy_loss, cluster_loss]


@pytest.fixture
def batch() -> GraphBatch:
    graph, nodes = union(draw_all(0))
    return GraphBatch(graph.edge_index, torch.ones(len(graph.edges)), nodes, len(draw_all(0)))


def padded(rows: Tensor, batch: GraphBatch) -> Tensor:
    """Returns differentiable dense rows with NaN as padding."""
    out = rows.new_full((*batch.mask.shape, rows.size(1)), torch.nan)
    return out.masked_scatter(batch.mask.unsqueeze(-1), rows)


@pytest.mark.parametrize("form", ["sparse", "unsorted", "dense"])
@pytest.mark.parametrize("spread", [1.0, 1e4])  # confident assignments have zeros
@pytest.mark.parametrize("loss", LOSSES)
def test_losses(batch: GraphBatch, loss: Any, spread: float, form: str) -> None:
    logits = (spread * torch.randn(batch.num_nodes, 4, dtype=torch.float64)).requires_grad_()
    s = logits.softmax(dim=1)
    plain = getattr(reference, loss.__name__)
    values = per_graph(lambda _, s: plain(s), batch.graphs, s)
    full = [graph.num_nodes > 0 for graph in batch.graphs]
    mean = torch.stack([value for value, present in zip(values, full) if present]).mean()
    order = torch.randperm(batch.num_nodes) if form == "unsorted" else torch.arange(s.size(0))
    args: dict[str, Any] = {"batch": batch.batch[order], "batch_size": batch.batch_size}
    s = s[order]
    if form == "dense":
        s, args = padded(s, batch), {"mask": batch.mask}
    assert_same_gradients([loss(s, **args)], [mean], [logits], 1e-9)


def test_extremes() -> None:
    confident, balanced = torch.eye(4), torch.full((4, 4), 0.25)
    one_cluster = torch.eye(4)[[0, 0, 0, 0]]
    assert entropy_loss(confident) == entropy_loss(one_cluster) == 0
    assert cluster_loss(confident) == cluster_loss(balanced) == 0
    assert entropy_loss(balanced) == pytest.approx(math.log(4))
    assert cluster_loss(one_cluster) == pytest.approx(math.log(4))
    assert entropy_loss(torch.ones(3, 1)) == cluster_loss(torch.ones(3, 1)) == 0


@pytest.mark.parametrize("loss", LOSSES)
def test_no_nodes_and_zeros(loss: Any) -> None:
    assert loss(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long), batch_size=0) == 0
    assert loss(torch.zeros(2, 3, 4), mask=torch.zeros(2, 3, dtype=torch.bool)) == 0
    s = torch.eye(3).requires_grad_()
    (gradient,) = torch.autograd.grad(loss(s), s)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("loss", LOSSES)
def test_half_precision_counts_large_graphs(loss: Any, dtype: torch.dtype) -> None:
    s = torch.full((70_000, 4), 0.25)
    torch.testing.assert_close(loss(s.to(dtype)), loss(s))


@pytest.mark.parametrize("form", ["sparse", "unsorted", "dense"])
def test_lift(batch: GraphBatch, form: str) -> None:
    x = torch.randn(batch.batch_size, 4, 3, dtype=torch.float64, requires_grad=True)
    s = torch.randn(batch.num_nodes, 4, dtype=torch.float64, requires_grad=True)
    parts = [reference.lift(one, s[graph.nodes]) for one, graph in zip(x, batch.graphs)]
    expected = torch.cat(parts)
    if form == "dense":
        out = lift(x, padded(s, batch), mask=batch.mask)
        assert (out[~batch.mask] == 0).all()
        out = out[batch.mask]
    else:
        order = torch.randperm(s.size(0)) if form == "unsorted" else torch.arange(s.size(0))
        out, expected = lift(x, s[order], batch.batch[order]), expected[order]
    assert_same_gradients([out], [expected], [x, s], 1e-9)


def test_lift_one_graph() -> None:
    x, s = torch.randn(3, 2), torch.rand(5, 3)
    torch.testing.assert_close(lift(x, s), s @ x)
    mask = torch.tensor([True, True, False, True, True])
    torch.testing.assert_close(lift(x, s, mask=mask), mask.unsqueeze(1) * (s @ x))
    for batch_size in (0, 2):
        nodes = torch.zeros(0, dtype=torch.long)
        assert lift(torch.rand(batch_size, 3, 2), s[:0], nodes).shape == (0, 2)


@pytest.mark.parametrize("tied", [False, True])
def test_cluster_mask(batch: GraphBatch, tied: bool) -> None:
    s = torch.rand(batch.num_nodes, 50)
    s = torch.ones_like(s) if tied else s
    expected = torch.stack(per_graph(lambda _, s: reference.cluster_mask(s), batch.graphs, s))
    order = torch.randperm(batch.num_nodes)
    for mask in (
        cluster_mask(s, batch.batch, batch_size=batch.batch_size),
        cluster_mask(s[order], batch.batch[order], batch_size=batch.batch_size),
        cluster_mask(padded(s, batch), mask=batch.mask),
    ):
        assert torch.equal(mask, expected)


def test_cluster_mask_in_half_precision() -> None:
    """Sums that differ in float32 are equal in half precision, so the mask uses float32."""
    s = torch.ones(2000, 3, dtype=torch.bfloat16)
    s[0, :2] = 0
    batch = torch.cat([torch.zeros(2000), torch.ones(1)]).long()
    s = torch.cat([s, torch.tensor([[0.1, 0.2, 0.7]], dtype=torch.bfloat16)])
    assert cluster_mask(s, batch).tolist() == [[True] * 3, [False, False, True]]
    assert cluster_mask(s[:1], torch.zeros(1, dtype=torch.long)).tolist() == [[False, False, True]]

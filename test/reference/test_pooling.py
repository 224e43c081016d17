"""The pooling and the losses of the reference, by hand and term by term."""

import math

import pytest
import torch

from helpers import oracle
from helpers.graphs import FLAVORS, draw
from torch_geometric_simpool.reference import (
    cluster_loss,
    cluster_mask,
    entropy_loss,
    lift,
    sim_pool,
)


@pytest.mark.parametrize("flavor", [f for f in FLAVORS if f != "nothing"])
def test_equals_sums_over_the_nodes(flavor: str) -> None:
    graph = draw(flavor, 0)
    x = torch.randn(graph.num_nodes, 2, dtype=torch.float64)
    logits = torch.randn(graph.num_nodes, 3, dtype=torch.float64)
    s, x_pooled, adj_pooled = sim_pool(x, graph.adj(), logits)
    rows = [oracle.softmax(row) for row in logits.tolist()]
    torch.testing.assert_close(s, torch.tensor(rows, dtype=torch.float64))
    expected = oracle.pool(x.tolist(), graph.exact_adj, rows)
    for found, naive in zip((x_pooled, adj_pooled), expected, strict=True):
        torch.testing.assert_close(found, torch.tensor(naive, dtype=torch.float64))
    assert entropy_loss(s).item() == pytest.approx(oracle.entropy_loss(rows))
    assert cluster_loss(s).item() == pytest.approx(oracle.cluster_loss(rows), abs=1e-12)


def test_by_hand() -> None:
    """The halves of the directed path 0 -> 1 -> 2 -> 3 are the clusters."""
    adj = torch.diag(torch.ones(3), 1)
    logits = torch.tensor([[1e4, 0], [1e4, 0], [0, 1e4], [0, 1e4]])
    s, x_pooled, adj_pooled = sim_pool(torch.tensor([[1.0], [2], [4], [8]]), adj, logits)
    assert s.tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]
    assert x_pooled.tolist() == [[3], [12]]
    # Edges within a cluster become self-loops. The edge between the clusters keeps its direction.
    torch.testing.assert_close(adj_pooled, torch.tensor([[1.0, 1], [0, 1]]).tanh())
    assert lift(x_pooled, s).tolist() == [[3], [3], [12], [12]]


def test_losses_by_hand() -> None:
    """Assignments are confident and balanced, confident and in one cluster, or undecided."""
    certain, one = torch.eye(2), torch.tensor([[1.0, 0], [1, 0]])
    undecided = torch.full((3, 2), 0.5)
    losses = [[entropy_loss(s).item(), cluster_loss(s).item()] for s in (certain, one, undecided)]
    expected = [[0, 0], [0, math.log(2)], [math.log(2), 0]]
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected))


def test_losses_have_finite_gradients() -> None:
    """Gradients of `0 log 0` are finite, for a node and for a cluster."""
    s = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]], requires_grad=True)
    for loss in (entropy_loss, cluster_loss):
        (gradient,) = torch.autograd.grad(loss(s), s)
        assert torch.isfinite(gradient).all()
        assert (gradient[:, 2] == 0).all()


def test_gradients() -> None:
    inputs = [torch.rand(4, size, dtype=torch.float64, requires_grad=True) for size in (2, 4, 3)]
    assert torch.autograd.gradcheck(sim_pool, inputs)
    s = inputs[2].softmax(dim=1).detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda s: (entropy_loss(s), cluster_loss(s)), s)


def test_cluster_mask_by_hand() -> None:
    assert cluster_mask(torch.tensor([[0.1, 0.6, 0.3]])).tolist() == [False, True, False]
    two = torch.tensor([[0.4, 0.2, 0.4], [0.2, 0.4, 0.4]])
    assert cluster_mask(two).tolist() == [True, False, True]
    assert cluster_mask(torch.ones(4, 3)).all()
    assert not cluster_mask(torch.ones(0, 3)).any()

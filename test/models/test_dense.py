"""The dense GCN adds a self-connection to the one that is present."""

import torch

from helpers import weights
from torch_geometric_simpool.models import DenseGCN


def test_equals_the_papers_formula() -> None:
    """Values and gradients are equal on pooled graphs, which have self-loops."""
    for act in (True, False):
        model = DenseGCN(3, 4, act).double()
        torch.nn.init.normal_(model.bias)
        x = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
        adj = torch.rand(2, 5, 5, dtype=torch.float64, requires_grad=True)
        out = model(x, adj)
        expected = torch.stack([weights.gcn(model, x[b], adj[b]) for b in range(2)])
        torch.testing.assert_close(out, expected)
        leaves = [x, adj, *model.parameters()]
        grads = [torch.autograd.grad(o.square().sum(), leaves) for o in (out, expected)]
        torch.testing.assert_close(*grads)


def test_isolated_clusters_keep_their_features() -> None:
    model, x, adj = DenseGCN(3, 4, act=False), torch.randn(1, 5, 3), torch.zeros(1, 5, 5)
    torch.testing.assert_close(model(x, adj)[0], model.lin(x[0]) + model.bias)
    assert torch.equal(adj, torch.zeros(1, 5, 5))


def test_mask_and_no_nodes() -> None:
    mask = torch.tensor([[True, True, False]])
    assert (DenseGCN(3, 4)(torch.randn(1, 3, 3), torch.rand(1, 3, 3), mask)[0, 2] == 0).all()
    assert DenseGCN(3, 4)(torch.ones(2, 0, 3), torch.ones(2, 0, 0)).shape == (2, 0, 4)

"""The dense GCN: a self-connection is added to the one that is there."""

import pytest
import torch

from helpers import weights
from torch_geometric_simpool.models import DenseGCN


@pytest.mark.parametrize("act", [True, False])
def test_equals_the_papers_formula(act: bool) -> None:
    """On a pooled graph: weights, and a diagonal that holds edges within the clusters."""
    model = DenseGCN(3, 4, act).double()
    torch.nn.init.normal_(model.bias)
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    adj = torch.rand(2, 5, 5, dtype=torch.float64)
    adj = adj + adj.mT
    assert (adj.diagonal(dim1=1, dim2=2) > 0).all()
    out = model(x, adj)
    for b in range(2):
        torch.testing.assert_close(out[b], weights.gcn(model, x[b], adj[b]))


def test_the_diagonal_counts() -> None:
    model = DenseGCN(3, 4, act=False)
    x, adj = torch.randn(1, 5, 3), torch.rand(1, 5, 5)
    emptied = adj * (1 - torch.eye(5))
    assert not torch.allclose(model(x, adj), model(x, emptied))


def test_the_matrix_that_goes_in_is_not_changed() -> None:
    adj = torch.rand(1, 5, 5)
    before = adj.clone()
    DenseGCN(3, 4)(torch.randn(1, 5, 3), adj)
    assert torch.equal(adj, before)


def test_isolated_clusters_keep_their_features() -> None:
    """`A + I` of nothing is I."""
    model = DenseGCN(3, 4, act=False)
    x = torch.randn(1, 5, 3)
    torch.testing.assert_close(model(x, torch.zeros(1, 5, 5))[0], model.lin(x[0]) + model.bias)


def test_mask() -> None:
    model = DenseGCN(3, 4)
    mask = torch.tensor([[True, True, False]])
    out = model(torch.randn(1, 3, 3), torch.rand(1, 3, 3), mask)
    assert (out[0, 2] == 0).all()


def test_no_nodes() -> None:
    mask = torch.ones(2, 0, dtype=torch.bool)
    assert DenseGCN(3, 4)(torch.ones(2, 0, 3), torch.ones(2, 0, 0), mask).shape == (2, 0, 4)


def test_one_matrix_for_all_graphs() -> None:
    model = DenseGCN(2, 3)
    x, adj = torch.randn(2, 4, 2), torch.rand(4, 4)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    expected = model(x, adj.expand(2, 4, 4), mask)
    torch.testing.assert_close(model(x, adj, mask), expected)
    torch.testing.assert_close(model(x, adj[None], mask), expected)


def test_a_matrix_of_another_type() -> None:
    message = r"`adj` must have the type of `x`, torch.float32, got torch.float64"
    with pytest.raises(TypeError, match=message):
        DenseGCN(2, 3)(torch.randn(2, 4, 2), torch.ones(2, 4, 4, dtype=torch.float64))


def test_gradient() -> None:
    model = DenseGCN(2, 2, act=False).double()
    x = torch.randn(1, 3, 2, dtype=torch.float64, requires_grad=True)
    adj = torch.rand(1, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(model, (x, adj))

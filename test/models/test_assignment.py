"""Assignment networks without a GNN."""

import torch

from torch_geometric_simpool.models import GRUAssignment, MLPAssignment


def test_mlp_is_two_dense_layers() -> None:
    """ReLU, then linear; the same in training and evaluation, on any number of dimensions."""
    network = MLPAssignment(3, 5, 2)
    assert [tuple(p.shape) for p in network.parameters()] == [(5, 3), (5,), (2, 5), (2,)]
    x = torch.randn(4, 6, 3)
    expected = network.lins[1](network.lins[0](x).relu())
    assert expected.min() < 0
    assert torch.equal(network.train()(x), expected)
    assert torch.equal(network.eval()(x), expected)


def test_gru_and_a_dense_layer() -> None:
    network = GRUAssignment(5, 2, node_channels=3)
    x, sizes = torch.rand(4, 6 + 3), torch.tensor([6, 6, 2, 1])
    out = network(x, sizes)
    assert out.shape == (4, 2)
    assert torch.equal(out, network.lin(network.encoder(x, sizes)))
    assert network.lin.weight.shape == (2, 5 + 3)


def test_gru_takes_node_features_at_their_place() -> None:
    """Behind the row, where `features='both'` puts them."""
    network = GRUAssignment(5, 2, node_channels=3)
    x, sizes = torch.rand(1, 6 + 3, requires_grad=True), torch.tensor([2])
    (gradient,) = torch.autograd.grad(network(x, sizes).sum(), x)
    assert (gradient[0, 2:6] == 0).all()
    assert (gradient[0, 6:] != 0).all()

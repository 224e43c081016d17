"""The GRU over rows of C: all of each row, and nothing of what pads it."""

import pytest
import torch

from helpers.graphs import draw
from torch_geometric_simpool import structural_similarity
from torch_geometric_simpool.models import GMN, GMNEncoder, GRUEncoder


def test_reads_each_row_as_a_sequence() -> None:
    """The ReLU of the last state of PyG's and torch's own GRU, row by row."""
    encoder = GRUEncoder(5)
    sizes = torch.tensor([4, 4, 2, 1, 3])
    x = torch.rand(5, 4) * (torch.arange(4) < sizes.unsqueeze(1))
    out = encoder(x, sizes)
    for row, size, state in zip(x, sizes.tolist(), out, strict=True):
        alone = encoder.gru(row[:size].view(1, -1, 1))[1].view(-1).relu()
        torch.testing.assert_close(state, alone)


def test_padding_is_not_read() -> None:
    encoder = GRUEncoder(5)
    x, sizes = torch.rand(3, 4), torch.tensor([4, 3, 2])
    wide = torch.cat([x, torch.full((3, 6), torch.nan)], dim=1)
    wide[torch.arange(10) >= sizes.unsqueeze(1)] = torch.nan
    torch.testing.assert_close(encoder(wide, sizes), encoder(x, sizes))


def test_the_end_of_a_row_is_read() -> None:
    """No information is lost: every place counts, the first and the last."""
    encoder = GRUEncoder(5)
    sizes = torch.tensor([6])
    x = torch.rand(1, 6, requires_grad=True)
    (gradient,) = torch.autograd.grad(encoder(x, sizes).sum(), x)
    assert (gradient != 0).all()


def test_node_features_are_appended() -> None:
    encoder, plain = GRUEncoder(5, node_channels=2), GRUEncoder(5)
    plain.load_state_dict(encoder.state_dict())
    row, node, sizes = torch.rand(3, 4), torch.randn(3, 2), torch.tensor([4, 3, 2])
    out = encoder(torch.cat([row, node], dim=1), sizes)
    assert torch.equal(out, torch.cat([plain(row, sizes), node], dim=1))


def test_leading_dimensions() -> None:
    encoder = GRUEncoder(5, 1)
    x, sizes = torch.rand(2, 3, 5), torch.tensor([[4, 4, 4], [2, 2, 2]])
    out = encoder(x, sizes)
    assert out.shape == (2, 3, 6)
    torch.testing.assert_close(out[1], encoder(x[1], sizes[1]))


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0), (2, 0, 4), (2, 3, 0)])
def test_nothing_to_read(shape: tuple[int, ...]) -> None:
    out = GRUEncoder(5)(torch.zeros(shape), torch.zeros(shape[:-1], dtype=torch.long))
    assert out.shape == (*shape[:-1], 5)
    assert (out == 0).all()


@pytest.mark.parametrize("shape", [(3, 4), (3, 1)])
def test_rows_that_are_too_short(shape: tuple[int, int]) -> None:
    """As are mapped features, `k` of them, which are no row of C."""
    with pytest.raises(ValueError, match=rf"`x` must hold a row of C.*got \[3, {shape[1]}\]"):
        GRUEncoder(5, node_channels=2)(torch.rand(shape), torch.tensor([3, 3, 3]))


def test_gradients_reach_the_similarities() -> None:
    adj = torch.rand(4, 4, requires_grad=True)
    row = structural_similarity(adj)
    out = GRUEncoder(5)(row, torch.full((4,), 4))
    (gradient,) = torch.autograd.grad(out.sum(), adj)
    assert torch.isfinite(gradient).all()
    assert gradient.abs().sum() > 0


def test_in_the_encoder_and_the_model() -> None:
    """In place of the dense layer of the nodes, with its units and its activation."""
    graph = draw("undirected", 0)
    row = structural_similarity(graph.adj(torch.float32))
    sizes = torch.full((graph.num_nodes,), graph.num_nodes)
    encoder = GMNEncoder(2, 5, gru=True)
    x = torch.cat([row, torch.randn(graph.num_nodes, 2)], dim=1)
    h, edge = encoder(x, num_nodes=sizes)
    assert edge is None
    assert encoder.gru is not None
    assert torch.equal(h, encoder.gru(x, sizes))
    assert h.size(1) == encoder.out_channels == 7

    model = GMN(2, 5, (6, 7), (8, 3), gru=True)
    assert model.conv1.in_channels == 7
    assert model(x, graph.edge_index, num_nodes=sizes).shape == (graph.num_nodes, 3)
    with pytest.raises(ValueError, match=r"`num_nodes` must be a tensor.*got None"):
        model(x, graph.edge_index)

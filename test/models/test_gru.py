"""The GRU reads each whole row of C, and no padding."""

import pytest
import torch

from helpers.graphs import draw
from torch_geometric_simpool import structural_similarity
from torch_geometric_simpool.models import GMN, GRUEncoder


def test_reads_each_row_as_a_sequence() -> None:
    """The result is the ReLU of the last state of PyTorch's GRU, with node features appended."""
    encoder = GRUEncoder(5, node_channels=2)
    sizes = torch.tensor([[4, 4, 2], [1, 3, 4]])
    x = torch.rand(2, 3, 4 + 2)
    padding = torch.arange(4) >= sizes.unsqueeze(-1)
    x[..., :4][padding] = torch.nan
    out = encoder(x, sizes)
    assert torch.equal(out[..., 5:], x[..., 4:])
    for b in range(2):
        for i in range(3):
            row = x[b, i, : sizes[b, i]].view(1, -1, 1)
            torch.testing.assert_close(out[b, i, :5], encoder.gru(row)[1].view(-1).relu())


def test_every_place_of_a_row_counts() -> None:
    adj = torch.rand(6, 6, requires_grad=True)
    row = structural_similarity(adj)
    row.retain_grad()
    GRUEncoder(5)(row, torch.full((6,), 6)).sum().backward()
    assert (row.grad != 0).all()
    assert torch.isfinite(adj.grad).all()


def test_nothing_to_read() -> None:
    for shape in ((0, 4), (3, 0), (2, 0, 4)):
        out = GRUEncoder(5)(torch.zeros(shape), torch.zeros(shape[:-1], dtype=torch.long))
        assert torch.equal(out, torch.zeros(*shape[:-1], 5))


def test_rows_that_are_too_short() -> None:
    """Mapped features, which are too short for rows of C, are refused."""
    for shape, sizes in (((3, 4), [3, 3, 3]), ((3, 1), [0, 0, 0]), ((3, 9), [3, 3])):
        with pytest.raises(ValueError, match=r"`(x|num_nodes)` must"):
            GRUEncoder(5, node_channels=2)(torch.rand(shape), torch.tensor(sizes))


def test_in_a_network() -> None:
    graph = draw("undirected", 0)
    n = graph.num_nodes
    row, sizes = structural_similarity(graph.adj(torch.float32)), torch.full((n,), n)
    x = torch.cat([row, torch.randn(n, 2)], dim=1)
    model = GMN(2, 5, (6, 7), (8, 3), gru=True)
    assert torch.equal(model.encoder(x, None, sizes)[0], model.encoder.gru(x, sizes))
    assert model(x, graph.edge_index, None, sizes).shape == (n, 3)
    with pytest.raises(TypeError, match="`num_nodes`"):
        model(x, graph.edge_index)

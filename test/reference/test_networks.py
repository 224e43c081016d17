"""The networks of the reference equal loops over messages and nodes."""

import pytest
import torch
from torch import Tensor

from helpers.graphs import FLAVORS, draw
from torch_geometric_simpool.reference import encoder, gcn, gmn, propagation


def weights(width_in: int, width_out: int) -> tuple[Tensor, Tensor]:
    return (
        torch.randn(width_out, width_in, dtype=torch.float64),
        torch.randn(width_out, dtype=torch.float64),
    )


@pytest.mark.parametrize("edge_dim", [0, 2])
@pytest.mark.parametrize("act", [True, False])
@pytest.mark.parametrize("flavor", FLAVORS)
def test_propagation_equals_loops(flavor: str, act: bool, edge_dim: int) -> None:
    """Each edge `(j, i)` sends a message from `j` to `i`, parallel edges included."""
    graph = draw(flavor, 0)
    h = torch.randn(graph.num_nodes, 3, dtype=torch.float64)
    e = torch.randn(len(graph.edges), edge_dim, dtype=torch.float64)
    message, node = weights(3 + 3 + edge_dim, 4), weights(3 + 4, 5)
    total = torch.zeros(graph.num_nodes, 4, dtype=torch.float64)
    for number, (j, i) in enumerate(graph.edges):
        m = message[0] @ torch.cat([h[i], h[j], e[number]]) + message[1]
        total[i] += m.relu() if act else m
    expected = torch.zeros(graph.num_nodes, 5, dtype=torch.float64)
    for i in range(graph.num_nodes):
        out = node[0] @ torch.cat([h[i], total[i]]) + node[1]
        expected[i] = out.relu() if act else out
    found = propagation(h, graph.edge_index, message, node, e if edge_dim else None, act)
    torch.testing.assert_close(found, expected)


def test_propagation_by_hand() -> None:
    """An edge from node 0 to node 1 sends only node 1 a message, `h_1 - 2 h_0 + e + 1`."""
    message = torch.tensor([[1.0, -2.0, 1.0]]), torch.tensor([1.0])
    node = torch.tensor([[10.0, 1.0]]), None
    h, edge_index = torch.tensor([[1.0], [2.0]]), torch.tensor([[0], [1]])
    out = propagation(h, edge_index, message, node, e=torch.tensor([[4.0]]))
    assert out.tolist() == [[10], [20 + 5]]
    out = propagation(h, edge_index, message, node, e=torch.tensor([[-4.0]]), act=False)
    assert out.tolist() == [[10], [20 - 3]]
    out = propagation(h, edge_index, message, node, e=torch.tensor([[-4.0]]))
    assert out.tolist() == [[10], [20]]


def test_encoder_by_hand() -> None:
    node = torch.tensor([[1.0], [-1.0]]), torch.tensor([0.0, 1.0])
    edge = torch.tensor([[2.0, -1.0]]), None
    h, e = encoder(torch.tensor([[3.0], [-3.0]]), node, torch.tensor([[1.0, 1], [0, 1]]), edge)
    assert h.tolist() == [[3, 0], [0, 4]]
    assert e is not None
    assert e.tolist() == [[1], [0]]
    assert encoder(torch.ones(2, 1), node)[1] is None


def test_gmn_is_an_encoder_and_two_propagations() -> None:
    """The last propagation is linear, so it has negative values."""
    graph = draw("directed", 1)
    x = torch.randn(graph.num_nodes, 2, dtype=torch.float64)
    x_edge = torch.randn(len(graph.edges), 1, dtype=torch.float64)
    encoders = weights(2, 3), weights(1, 3)
    first, last = (weights(9, 4), weights(7, 5)), (weights(13, 6), weights(11, 2))
    h, e = encoder(x, encoders[0], x_edge, encoders[1])
    h = propagation(h, graph.edge_index, *first, e)
    expected = propagation(h, graph.edge_index, *last, e, act=False)
    found = gmn(x, graph.edge_index, encoders, first, last, x_edge)
    assert torch.equal(found, expected)
    assert found.min() < 0


def test_gcn_by_hand() -> None:
    """The first of two nodes has a self-loop of weight 2. Degrees are 2 + 1 + 1 and 1 + 1."""
    adj = torch.tensor([[2.0, 1.0], [1.0, 0.0]])
    x, weight, bias = torch.tensor([[1.0], [-4.0]]), torch.tensor([[1.0]]), torch.tensor([0.5])
    first = 3 / 4 * 1 + 1 / 8**0.5 * -4 + 0.5
    second = 1 / 8**0.5 * 1 + 1 / 2 * -4 + 0.5
    expected = torch.tensor([[first], [second]])
    torch.testing.assert_close(gcn(x, adj, weight, bias, act=False), expected)
    torch.testing.assert_close(gcn(x, adj, weight, bias), expected.relu())

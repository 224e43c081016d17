"""Sums of messages, and propagation on labels: against one message after another."""

from typing import Optional

import pytest
import torch
from torch import Tensor

from helpers import weights
from helpers.graphs import FLAVORS, Graph, draw
from helpers.largest import LargestTensor
from torch_geometric_simpool.functional.messages import sum_messages
from torch_geometric_simpool.models import GMN, GMNConv, GMNEncoder


def inputs_of(graph: Graph, edge: bool) -> list[Tensor]:
    shapes = [(graph.num_nodes, 3), (graph.num_nodes, 3)]
    shapes += [(len(graph.edges), 3)] if edge else []
    return [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]


def one_by_one(target: Tensor, source: Tensor, edge: Tensor | None, edge_index: Tensor) -> Tensor:
    rows = [torch.zeros_like(row) for row in target]
    for number, (j, i) in enumerate(edge_index.t().tolist()):
        message = target[i] + source[j] + (0 if edge is None else edge[number])
        rows[i] = rows[i] + message.clamp(min=0)
    return torch.stack(rows) if rows else torch.zeros_like(target)


@pytest.mark.parametrize("edge", [False, True])
@pytest.mark.parametrize("flavor", FLAVORS)
def test_equals_one_message_after_another(flavor: str, edge: bool) -> None:
    graph = draw(flavor, 0)
    inputs = inputs_of(graph, edge)
    rest = (inputs[2] if edge else None, graph.edge_index)
    found, expected = (f(inputs[0], inputs[1], *rest) for f in (sum_messages, one_by_one))
    torch.testing.assert_close(found, expected)
    if graph.num_nodes == 0:
        return
    upstream = torch.randn_like(found)
    for a, b in zip(
        torch.autograd.grad((found * upstream).sum(), inputs),
        torch.autograd.grad((expected * upstream + 0 * sum(t.sum() for t in inputs)).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("wanted", [[0, 1], [0], [1]])
def test_first_and_second_derivative(wanted: list[int]) -> None:
    graph = draw("directed", 1)
    inputs = inputs_of(graph, edge=False)
    for i, tensor in enumerate(inputs):
        tensor.requires_grad_(i in wanted)

    def function(*given: Tensor) -> Tensor:
        return sum_messages(given[0], given[1], None, graph.edge_index)

    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 37, 128])
@pytest.mark.parametrize("hub", [False, True])
def test_whole_numbers_are_summed_exactly(hub: bool, width: int, dtype: torch.dtype) -> None:
    """Many edges of one node too, whose gradients are added in parts."""
    target, source = (torch.randint(-3, 4, (50, width)).to(dtype) for _ in range(2))
    edge_index = torch.randint(0, 2 if hub else 50, (2, 700))
    inputs = [target.requires_grad_(), source.requires_grad_()]
    message = (target[edge_index[1]] + source[edge_index[0]]).relu()
    expected = torch.zeros_like(target).index_add(0, edge_index[1], message)
    found = sum_messages(target, source, None, edge_index)
    assert torch.equal(found, expected)
    upstream = torch.randint(-3, 4, found.t().shape).to(dtype).t()  # not contiguous
    for a, b in zip(
        *(torch.autograd.grad(out, inputs, upstream) for out in (found, expected)), strict=True
    ):
        assert torch.equal(a, b)


def test_nan_and_infinity_go_through() -> None:
    x = torch.tensor([[float("nan"), 1.0], [-1.0, float("inf")], [0.5, 2.0]], requires_grad=True)
    y = torch.tensor([[0.0, 1.0], [-1.0, -2.0], [1.0, float("nan")]])
    edge_index = torch.tensor([[0, 1, 1, 2, 2], [0, 0, 1, 2, 0]])
    found, expected = (f(x, y, None, edge_index) for f in (sum_messages, one_by_one))
    assert found.isnan().tolist() == [[True, True], [False, False], [False, True]]
    message = (x[edge_index[1]] + y[edge_index[0]]).relu()
    expected = torch.zeros_like(x).index_add(0, edge_index[1], message)
    torch.testing.assert_close(found, expected, equal_nan=True)
    first, second = (torch.autograd.grad(out.sum(), x)[0] for out in (found, expected))
    torch.testing.assert_close(first, second, equal_nan=True)


def test_views_and_other_integers() -> None:
    wide = torch.randn(9, 10, dtype=torch.float64, requires_grad=True)
    edge_index = torch.randint(0, 9, (40, 2)).t()
    target, source = wide[:, 3:6], wide.t().contiguous().t()[:, 6:9]
    expected = one_by_one(target, source, None, edge_index)
    for ids in (edge_index, edge_index.int()):
        torch.testing.assert_close(sum_messages(target, source, None, ids), expected)


def test_another_default_device() -> None:
    conv, x = GMNConv(3, 4), torch.randn(70, 3)
    model, label = GMN(3, 8, (8, 8), (8, 3)), torch.randint(0, 3, (70,))
    edge_index = torch.randint(0, 70, (2, 300))
    expected = conv(x, edge_index), model(label, edge_index)
    with torch.device("meta"):
        found = conv(x, edge_index), model(label, edge_index)
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)


def test_hooks_run_where_messages_are_stored() -> None:
    """As the documentation of the layer says."""
    graph = draw("directed", 0)
    conv = GMNConv(4, 5).double()
    x = torch.randn(graph.num_nodes, 4, dtype=torch.float64)
    seen: list[torch.Size] = []
    conv.register_message_forward_hook(lambda module, inputs, output: seen.append(output.shape))
    expected = conv(x, graph.edge_index)
    assert not seen
    conv.fused = False
    torch.testing.assert_close(conv(x, graph.edge_index), expected)
    assert seen == [(len(graph.edges), 5)]


@pytest.mark.parametrize("act", [True, False])
def test_other_directions_and_messages(act: bool) -> None:
    graph = draw("directed", 0)
    conv = GMNConv(4, 5, act=act).double()
    x = torch.randn(graph.num_nodes, 4, dtype=torch.float64)
    expected = conv(x, graph.edge_index)
    back = GMNConv(4, 5, flow="target_to_source", act=act).double()
    back.load_state_dict(conv.state_dict())
    torch.testing.assert_close(back(x, graph.edge_index.flip(0)), expected)

    class Nothing(GMNConv):
        def update(self, inputs: Tensor) -> Tensor:
            return 0 * inputs

    none = Nothing(4, 5, act=act).double()
    none.load_state_dict(conv.state_dict())
    no_edges = torch.zeros(2, 0, dtype=torch.long)
    torch.testing.assert_close(none(x, graph.edge_index), conv(x, no_edges))

    class Doubled(GMNConv):
        def message(  # PyG reads the annotations
            self, target_i: Tensor, source_j: Tensor, edge: Optional[Tensor]
        ) -> Tensor:
            return 2 * super().message(target_i, source_j, edge)

    other = Doubled(4, 5, act=act).double()
    other.load_state_dict(conv.state_dict())
    twice = GMNConv(4, 5, act=act).double()
    twice.load_state_dict(conv.state_dict())
    with torch.no_grad():
        twice.lin_node.weight[:, 4:] *= 2
    torch.testing.assert_close(other(x, graph.edge_index), twice(x, graph.edge_index))


def test_weights_can_be_parametrized() -> None:
    conv, x = GMNConv(3, 4), torch.randn(9, 3)
    edge_index = torch.randint(0, 9, (2, 30))
    before = conv(x, edge_index)
    torch.nn.utils.parametrizations.weight_norm(conv.lin_message)
    torch.testing.assert_close(conv(x, edge_index), before)
    with torch.no_grad():
        conv.lin_message.parametrizations.weight.original0.zero_()
        conv.lin_message.bias.zero_()
    assert not torch.allclose(conv(x, edge_index), before)


# Labels.


@pytest.mark.parametrize("edge_dim", [None, 2])
@pytest.mark.parametrize("num_nodes", [3, 12, 200])
def test_labels_stand_for_one_hot_features(num_nodes: int, edge_dim: int | None) -> None:
    """Few nodes and many, of four labels, one of which does not occur; with gradients."""
    model = GMN(4, 8, (7, 6), (5, 3), edge_dim).double()
    label = torch.randint(0, 3, (num_nodes,))
    one_hot = torch.nn.functional.one_hot(label, 4).double()
    edge_index = torch.randint(0, num_nodes, (2, 3 * num_nodes))
    edge = None if edge_dim is None else torch.randn(3 * num_nodes, edge_dim).double()
    found, expected = (model(x, edge_index, edge) for x in (label, one_hot))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found, weights.gmn(model, one_hot, edge_index, edge))
    torch.testing.assert_close(model(label.int(), edge_index, edge), found)
    upstream, inputs = torch.randn_like(found), list(model.parameters())
    for a, b in zip(
        *(torch.autograd.grad(out, inputs, upstream) for out in (found, expected)), strict=True
    ):
        torch.testing.assert_close(a, b)
    h, _ = model.encoder(label, edge)
    torch.testing.assert_close(h, model.encoder(one_hot, edge)[0])


def test_messages_between_labels_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = GMN(3, 8, (40, 6), (5, 3))
    label, edge_index = torch.randint(0, 3, (100,)), torch.randint(0, 100, (2, 900))
    with LargestTensor() as seen:
        model.conv1.forward_labels(
            model.encoder.encode_all_labels(), label, edge_index
        ).sum().backward()
    # A message of each edge would be 900 times 40 numbers.
    assert seen.numel <= 900 * 6


def test_labels_out_of_range() -> None:
    encoder = GMNEncoder(3, 4)
    for wrong in (3, -1):
        with pytest.raises(ValueError, match=rf"`x` must hold labels in \[0, 3\), got {wrong}"):
            encoder(torch.tensor([0, wrong]))
    with pytest.raises(ValueError, match=r"`x` must hold labels in \[0, 3\), got 7"):
        GMN(3, 4, (4, 4), (4, 2))(torch.tensor([0, 7]), torch.tensor([[0], [1]]))

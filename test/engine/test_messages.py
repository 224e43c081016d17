"""The edge step: against one message after another, some at a time and all at once."""

import pytest
import torch
from torch import Tensor

from helpers.graphs import FLAVOURS, Graph, draw
from helpers.largest import LargestTensor
from torch_geometric_simpool.engine import messages
from torch_geometric_simpool.engine.messages import sum_relu
from torch_geometric_simpool.models import GMNConv


@pytest.fixture(params=[1, 7, 10**6, "compiled"])
def step(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """One edge at a time, two at a time with one left over, all of them; compiled loops."""
    if request.param == "compiled":
        monkeypatch.setattr(messages, "COMPILED", 0)
    else:
        monkeypatch.setitem(messages.STEP, "cpu", request.param)


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


@pytest.mark.usefixtures("step")
@pytest.mark.parametrize("edge", [False, True])
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_equals_one_message_after_another(flavour: str, edge: bool) -> None:
    graph = draw(flavour, 0)
    inputs = inputs_of(graph, edge)
    given = (*inputs, *([] if edge else [None]), graph.edge_index)
    found, expected = sum_relu(*given), one_by_one(*given)
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


@pytest.mark.usefixtures("step")
@pytest.mark.parametrize("edge", [False, True])
def test_first_and_second_derivative(edge: bool) -> None:
    graph = draw("directed", 1)
    inputs = inputs_of(graph, edge)

    def function(*given: Tensor) -> Tensor:
        return sum_relu(given[0], given[1], given[2] if edge else None, graph.edge_index)

    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)


def test_many_messages_are_summed_by_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one type, on any strides; each part's gradient only where it is wanted."""
    calls: list[int] = []
    apply = messages._CompiledSumReLU.apply
    monkeypatch.setattr(
        messages._CompiledSumReLU, "apply", lambda *given: calls.append(1) or apply(*given)
    )
    graph = draw("directed", 0)
    target, source = torch.randn(graph.num_nodes, 8, dtype=torch.float64).split(4, dim=1)
    few = sum_relu(target, source, None, graph.edge_index)
    assert not calls
    monkeypatch.setattr(messages, "COMPILED", 0)
    torch.testing.assert_close(sum_relu(target, source, None, graph.edge_index), few)
    for wanted in ([0], [1]):
        inputs = [
            t.detach().clone().requires_grad_(n in wanted) for n, t in enumerate((target, source))
        ]
        chosen = [inputs[n] for n in wanted]
        upstream = torch.randn_like(few).t().contiguous().t()
        found, expected = (
            torch.autograd.grad(function(*inputs, None, graph.edge_index), chosen, upstream)
            for function in (sum_relu, one_by_one)
        )
        torch.testing.assert_close(found, expected)
    assert len(calls) == 3
    sum_relu(target.float(), source, None, graph.edge_index)
    sum_relu(target, source, torch.zeros(len(graph.edges), 4).double(), graph.edge_index)
    assert len(calls) == 3


def test_types_and_strides() -> None:
    graph = draw("undirected", 2)
    wide = torch.randn(graph.num_nodes, 8)
    target, source = wide[:, :4], wide[:, 4:]
    found = sum_relu(target.bfloat16(), source, None, graph.edge_index)
    assert found.dtype == torch.float32
    expected = sum_relu(target.bfloat16().float().clone(), source.clone(), None, graph.edge_index)
    assert torch.equal(found, expected)


def test_what_watches_the_messages_sees_them() -> None:
    """PyG's hooks, and its other direction, take its own way, to the same result."""
    graph = draw("directed", 0)
    conv = GMNConv(4, 5).double()
    x = torch.randn(graph.num_nodes, 4, dtype=torch.float64)
    expected = conv(x, graph.edge_index)
    seen = []
    conv.register_message_forward_hook(lambda module, inputs, output: seen.append(output.shape))
    torch.testing.assert_close(conv(x, graph.edge_index), expected)
    assert seen == [(len(graph.edges), 5)]
    back = GMNConv(4, 5, flow="target_to_source").double()
    back.load_state_dict(conv.state_dict())
    torch.testing.assert_close(back(x, graph.edge_index.flip(0)), expected)


def test_no_message_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many edges between few nodes, whether forward or backward."""
    monkeypatch.setitem(messages.STEP, "cpu", 100)
    edge_index = torch.randint(0, 10, (2, 2000))
    target, source = torch.randn(2, 10, 4, requires_grad=True)
    with LargestTensor() as seen:
        sum_relu(target, source, None, edge_index).sum().backward()
    assert seen.numel <= 2 * 2000  # that of the edges themselves

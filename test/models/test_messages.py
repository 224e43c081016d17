"""The edge step: against one message after another, some at a time and all at once."""

import pytest
import torch
from torch import Tensor

from graphs import FLAVOURS, Graph, draw
from largest import LargestTensor
from torch_geometric_simpool.models import GMNConv, messages
from torch_geometric_simpool.models.messages import sum_relu


@pytest.fixture(params=[1, 7, 10**6])
def step(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """One edge at a time, two at a time with one left over, all of them."""
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


GRAPHS = ("directed", "unsorted", "parallel", "loops", "one way", "isolated", "no edges", "empty")


def edges_of(name: str, num_nodes: int) -> Tensor:
    """Many edges, in any order, of the kind that the name says."""
    edge_index = torch.randint(0, max(num_nodes, 1), (2, 6 * num_nodes))
    if name == "directed":
        return edge_index[:, edge_index[1].argsort(stable=True)]
    if name == "parallel":
        return edge_index.repeat(1, 3)
    if name == "loops":
        return edge_index[:1].repeat(2, 1)
    if name == "one way":
        return edge_index.sort(dim=0).values
    if name == "isolated":
        return edge_index // 2
    return edge_index[:, :0] if name == "no edges" else edge_index


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Has messages summed by the compiled loops, however few; and counts the calls."""
    monkeypatch.setattr(messages, "COMPILED", 0)
    calls: list[int] = []
    apply = messages._CompiledSumReLU.apply

    def counted(*args: Tensor) -> Tensor:
        calls.append(args[2].size(1))
        return apply(*args)

    monkeypatch.setattr(messages._CompiledSumReLU, "apply", counted)
    return calls


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 37, 128])
@pytest.mark.parametrize("name", GRAPHS)
def test_compiled_equals_plain(
    name: str, width: int, dtype: torch.dtype, compiled: list[int]
) -> None:
    torch.manual_seed(0)
    num_nodes = 0 if name == "empty" else 50
    edge_index = edges_of(name, num_nodes)
    inputs = list(torch.randn(2, num_nodes, width, dtype=dtype).requires_grad_().unbind())
    found = sum_relu(*inputs, None, edge_index)
    expected = messages._plain(*inputs, None, edge_index)
    assert compiled == ([edge_index.size(1)] if edge_index.numel() else [])
    tolerance = {"rtol": 0, "atol": 1e-5 if dtype == torch.float32 else 1e-10}
    torch.testing.assert_close(found, expected, **tolerance)
    upstream = torch.randn_like(found)
    for a, b in zip(
        torch.autograd.grad(found, inputs, upstream),
        torch.autograd.grad(expected, inputs, upstream),
        strict=True,
    ):
        torch.testing.assert_close(a, b, **tolerance)


@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)])
def test_compiled_derivatives(wanted: tuple[bool, bool], compiled: list[int]) -> None:
    torch.manual_seed(0)
    edge_index = edges_of("parallel", 4)
    given = [torch.randn(4, 3, dtype=torch.float64, requires_grad=need) for need in wanted]

    def function(target: Tensor, source: Tensor) -> Tensor:
        return sum_relu(target, source, None, edge_index)

    assert torch.autograd.gradcheck(function, given)
    assert torch.autograd.gradgradcheck(function, given)
    assert compiled


def test_compiled_on_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, compiled: list[int]
) -> None:
    """Bit for bit, with blocks so small that all threads have some."""
    from torch_geometric_simpool.cpu import edges, threads

    monkeypatch.setattr(edges, "PER_THREAD", 1)
    monkeypatch.setattr(threads, "SMALLEST", 100)
    torch.manual_seed(0)
    edge_index = edges_of("unsorted", 200)
    inputs = list(torch.randn(2, 200, 37).requires_grad_().unbind())
    upstream = torch.randn(200, 37)
    found = []
    for number in (1, 2, 5):
        monkeypatch.setattr(torch, "get_num_threads", lambda number=number: number)
        out = sum_relu(*inputs, None, edge_index)
        found.append((out, *torch.autograd.grad(out, inputs, upstream)))
    for others in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], others, strict=True))
    assert len(compiled) == 3


def test_compiled_lets_nan_through(compiled: list[int]) -> None:
    target = torch.tensor([[float("nan"), 1.0], [-1.0, float("inf")]], requires_grad=True)
    edge_index = torch.tensor([[0, 1, 1], [0, 0, 1]])
    found, expected = (
        function(target, target.detach(), None, edge_index)
        for function in (sum_relu, messages._plain)
    )
    torch.testing.assert_close(found, expected, equal_nan=True)
    first, second = (torch.autograd.grad(out.sum(), target)[0] for out in (found, expected))
    torch.testing.assert_close(first, second)
    assert compiled


def test_compiled_of_two_node_sets_and_strides(compiled: list[int]) -> None:
    torch.manual_seed(0)
    wide = torch.randn(9, 10, requires_grad=True)
    edge_index = torch.stack([torch.randint(0, 9, (40,)), torch.randint(0, 4, (40,))])
    given = (wide[:4, 3:6], wide[:, ::4], None, edge_index.t().contiguous().t())
    found, expected = sum_relu(*given), messages._plain(*given)
    torch.testing.assert_close(found, expected)
    of_sum, of_plain = (torch.autograd.grad(out.sum(), wide)[0] for out in (found, expected))
    torch.testing.assert_close(of_sum, of_plain)
    assert compiled


@pytest.mark.parametrize("wrong", [[[5], [0]], [[0], [5]], [[-1], [0]], [[0], [-1]]])
def test_ids_out_of_range_never_reach_compiled_code(wrong: list, compiled: list[int]) -> None:
    with pytest.raises((IndexError, RuntimeError), match="index"):
        sum_relu(torch.zeros(5, 3), torch.zeros(5, 3), None, torch.tensor(wrong))
    assert not compiled


def test_compiled_keeps_no_message(compiled: list[int]) -> None:
    edge_index = torch.randint(0, 10, (2, 2000))
    target, source = torch.randn(2, 10, 40, requires_grad=True)
    with LargestTensor() as seen:
        sum_relu(target, source, None, edge_index).sum().backward()
    assert seen.numel <= 2 * 2000
    assert compiled


def test_few_messages_or_edge_features_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Tensor) -> Tensor:
        raise AssertionError("compiled")

    monkeypatch.setattr(messages._CompiledSumReLU, "apply", refuse)
    few, many = edges_of("unsorted", 10), torch.zeros(2, messages.COMPILED // 3 + 1).long()
    rows = torch.randn(10, 3)
    sum_relu(rows, rows, None, few)
    sum_relu(rows, rows, torch.randn(many.size(1), 3), many)
    with pytest.raises(AssertionError, match="compiled"):
        sum_relu(rows, rows, None, many)

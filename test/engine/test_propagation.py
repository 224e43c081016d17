"""A propagation in one piece: against the operations it is made of, and against the equations."""

from typing import Optional

import pytest
import torch
from torch import Tensor
from torch.nn.utils import prune

from helpers import literal
from helpers.graphs import FLAVOURS, draw
from helpers.largest import LargestTensor
from torch_geometric_simpool.engine.propagation import propagate
from torch_geometric_simpool.models import (
    GMN,
    GMNConv,
    GMNEncoder,
    distinct,
    messages,
    propagation,
)

GRAPHS = ("directed", "unsorted", "parallel", "loops", "one way", "isolated", "no edges", "empty")
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


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
    """Has all messages summed by the compiled loops, however few; and counts the calls."""
    monkeypatch.setattr(messages, "COMPILED", 0)
    calls: list[int] = []
    apply = propagation._Propagate.apply

    def counted(*args: Tensor) -> Tensor:
        calls.append(args[5].size(1))
        return apply(*args)

    monkeypatch.setattr(propagation._Propagate, "apply", counted)
    return calls


def weights_of(
    num_features: int, width: int, out: int, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    """`W`, `b`, `V` and `c`."""
    shapes = [(width, 2 * num_features), (width,), (out, num_features + width), (out,)]
    return [torch.randn(shape, dtype=dtype).div_(3).requires_grad_() for shape in shapes]


def both(inputs: list[Tensor], edge_index: Tensor) -> tuple[Tensor, Tensor]:
    x, *weights = inputs
    found = propagate(x, tuple(weights[:2]), tuple(weights[2:]), edge_index)
    return found, literal.propagation(*inputs, edge_index)


def compare(inputs: list[Tensor], edge_index: Tensor) -> None:
    """Values and gradients, relative to the largest of each."""
    found, expected = both(inputs, edge_index)
    tolerance = TOLERANCE[found.dtype]
    upstream = torch.randn_like(found)
    pairs = [
        (found, expected),
        *zip(
            torch.autograd.grad(found, inputs, upstream),
            torch.autograd.grad(expected, inputs, upstream),
            strict=True,
        ),
    ]
    for a, b in pairs:
        scale = max(float(b.detach().abs().max()), 1.0) if b.numel() else 1.0
        torch.testing.assert_close(a / scale, b / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("width", [1, 37, 128])
@pytest.mark.parametrize("name", GRAPHS)
def test_equals_its_operations(
    name: str, width: int, dtype: torch.dtype, compiled: list[int]
) -> None:
    torch.manual_seed(0)
    num_nodes = 0 if name == "empty" else 50
    edge_index = edges_of(name, num_nodes)
    x = torch.randn(num_nodes, 3, dtype=dtype, requires_grad=True)
    compare([x, *weights_of(3, width, 5, dtype)], edge_index)
    assert compiled == ([edge_index.size(1)] if edge_index.numel() else [])


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_equals_one_message_per_edge(flavour: str, compiled: list[int]) -> None:
    """The layer, against its equations; self loops, repeated edges, and none."""
    graph = draw(flavour, 0)
    conv = GMNConv(4, 5, 6).double()
    x = torch.randn(graph.num_nodes, 4, dtype=torch.float64, requires_grad=True)
    out, expected = conv(x, graph.edge_index), literal.gmn_conv(conv, x, graph.edge_index)
    torch.testing.assert_close(out, expected)
    inputs, upstream = [x, *conv.parameters()], torch.randn_like(out)
    found = torch.autograd.grad((out * upstream).sum(), inputs)
    naive = torch.autograd.grad((expected * upstream).sum(), inputs, materialize_grads=True)
    for a, b in zip(found, naive, strict=True):
        torch.testing.assert_close(a, b)
    assert bool(compiled) == bool(graph.edges)


@pytest.mark.parametrize("wanted", ["all", "x", "weights", "message", "node", "biases", "bias"])
def test_derivatives(wanted: str, compiled: list[int]) -> None:
    torch.manual_seed(0)
    edge_index = edges_of("parallel", 4)
    x = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    inputs = [x, *weights_of(2, 3, 2)]
    chosen = {"all": range(5), "x": [0], "weights": [1, 3], "message": [1, 2]}
    chosen |= {"node": [3, 4], "biases": [2, 4], "bias": [2]}
    for i, tensor in enumerate(inputs):
        tensor.requires_grad_(i in chosen[wanted])

    def function(x: Tensor, *weights: Tensor) -> Tensor:
        return propagate(x, weights[:2], weights[2:], edge_index)

    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)
    assert compiled


def test_without_biases(compiled: list[int]) -> None:
    torch.manual_seed(0)
    x = torch.randn(9, 3, dtype=torch.float64, requires_grad=True)
    message, _, node, _ = weights_of(3, 4, 5)
    edge_index = edges_of("unsorted", 9)
    found = propagate(x, (message, None), (node, None), edge_index)
    expected = literal.propagation(x, message, None, node, None, edge_index)
    torch.testing.assert_close(found, expected)
    for a, b in zip(
        *(torch.autograd.grad(out.sum(), [x, message, node]) for out in (found, expected)),
        strict=True,
    ):
        torch.testing.assert_close(a, b)
    assert compiled


def test_what_compiled_sums_cannot_read(compiled: list[int]) -> None:
    """Ids of another type, and sources that are not the targets, are summed by PyTorch."""
    torch.manual_seed(0)
    target, source = torch.randn(30, 7), torch.randn(20, 7)
    edge_index = torch.stack([torch.randint(0, n, (50,)) for n in (20, 30)])
    for given, ids in ((source, edge_index), (target, edge_index.int())):
        message = target[edge_index[1]] + given[edge_index[0]]
        expected = torch.zeros(30, 7).index_add(0, edge_index[1], message.relu())
        torch.testing.assert_close(messages.sum_relu(target, given, None, ids), expected)


def test_nan_and_infinity_go_through(compiled: list[int]) -> None:
    x = torch.tensor([[float("nan"), 1.0], [-1.0, float("inf")], [0.5, 2.0]], requires_grad=True)
    edge_index = torch.tensor([[0, 1, 1, 2, 2], [0, 0, 1, 2, 0]])
    weights = [w.detach().float().abs() for w in weights_of(2, 3, 2)]
    found, expected = both([x, *weights], edge_index)
    torch.testing.assert_close(found, expected, equal_nan=True)
    first, second = (torch.autograd.grad(out.sum(), x)[0] for out in (found, expected))
    torch.testing.assert_close(first, second, equal_nan=True)
    assert compiled


def test_strides(compiled: list[int]) -> None:
    torch.manual_seed(0)
    wide = torch.randn(9, 10, dtype=torch.float64, requires_grad=True)
    weights = weights_of(3, 4, 5)
    edge_index = torch.randint(0, 9, (40, 2)).t()
    found, expected = both([wide[:, 3:6], *weights], edge_index)
    torch.testing.assert_close(found, expected)
    upstream = torch.randn(5, 9, dtype=torch.float64).t()
    for a, b in zip(
        *(torch.autograd.grad(out, [wide, *weights], upstream) for out in (found, expected)),
        strict=True,
    ):
        torch.testing.assert_close(a, b)
    assert compiled


@pytest.mark.parametrize("edge", [(5, 0), (0, 5), (-1, 0), (0, -1), (0, 0)])
def test_ids_out_of_range_never_reach_compiled_code(
    edge: tuple[int, int], compiled: list[int]
) -> None:
    weights = weights_of(3, 4, 5)
    given = (torch.zeros(5, 3).double(), tuple(weights[:2]), tuple(weights[2:]))
    edge_index = torch.tensor(edge).view(2, 1)
    if edge == (0, 0):
        propagate(*given, edge_index)
        assert compiled
        return
    with pytest.raises((IndexError, RuntimeError), match="index"):
        propagate(*given, edge_index)
    assert not compiled


def test_no_message_is_kept(compiled: list[int]) -> None:
    edge_index = torch.randint(0, 10, (2, 2000))
    x = torch.randn(10, 8, requires_grad=True)
    weights = [w.detach().float() for w in weights_of(8, 40, 5)]
    with LargestTensor() as seen:
        propagate(x, tuple(weights[:2]), tuple(weights[2:]), edge_index).sum().backward()
    assert seen.numel <= 2 * 2000  # that of the edges themselves
    assert compiled


def test_few_messages_and_other_types_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Tensor) -> Tensor:
        raise AssertionError("compiled")

    monkeypatch.setattr(propagation._Propagate, "apply", refuse)
    conv = GMNConv(3, 4)
    few, many = edges_of("unsorted", 10), torch.zeros(2, messages.COMPILED // 4 + 1).long()
    x = torch.randn(10, 3)
    conv(x, few)
    conv.bfloat16()(x.bfloat16(), many)
    conv.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        conv(x, many)
    GMNConv(3, 4, edge_dim=2)(x, many, torch.randn(many.size(1), 2))
    with pytest.raises(AssertionError, match="compiled"):
        conv(x, many)


def test_what_watches_a_layer_sees_it(compiled: list[int]) -> None:
    """PyG's hooks, PyTorch's, and the other direction take their own way, to the same result."""
    graph = draw("directed", 0)
    conv = GMNConv(4, 5).double()
    x = torch.randn(graph.num_nodes, 4, dtype=torch.float64)
    expected = conv(x, graph.edge_index)
    assert len(compiled) == 1
    seen: list[str] = []
    for register, name in (
        (conv.register_message_forward_hook, "messages"),
        (conv.lin_node.register_forward_hook, "node"),
    ):
        handle = register(lambda module, inputs, output, name=name: seen.append(name))
        torch.testing.assert_close(conv(x, graph.edge_index), expected)
        handle.remove()
    assert seen == ["messages", "node"]
    back = GMNConv(4, 5, flow="target_to_source").double()
    back.load_state_dict(conv.state_dict())
    torch.testing.assert_close(back(x, graph.edge_index.flip(0)), expected)
    assert len(compiled) == 1


def test_a_model_on_labels_computes_products_of_each_once(
    compiled: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values and gradients of a network whose nodes share features, as its equations have them."""
    torch.manual_seed(0)
    model = GMN(4, 5, (6, 7), (8, 3)).double()
    x = torch.eye(4, dtype=torch.float64)[torch.randint(0, 4, (600,))]
    edge_index = edges_of("unsorted", 600)
    rows: list[int] = []
    encode = GMNEncoder.forward

    def counted(encoder: GMNEncoder, x: Tensor, *more: Tensor | None) -> object:
        rows.append(x.size(0))
        return encode(encoder, x, *more)

    monkeypatch.setattr(GMNEncoder, "forward", counted)
    out, expected = model(x, edge_index), literal.gmn(model, x, edge_index)
    assert rows[0] == 4
    assert len(compiled) == 0  # nor are there messages of every edge
    torch.testing.assert_close(out, expected)
    upstream = torch.randn_like(out)
    gradients = [
        torch.autograd.grad(o, list(model.parameters()), upstream) for o in (out, expected)
    ]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b)


def test_noise_of_an_encoder_is_drawn_for_every_node(compiled: list[int]) -> None:
    """Nodes that share features are computed as one only where nothing tells them apart."""
    torch.manual_seed(0)
    x = torch.eye(3)[torch.randint(0, 3, (700,))]
    no_edges = torch.zeros(2, 0, dtype=torch.long)
    model = GMN(3, 8, (8, 8), (8, 3))
    assert model.encoder.lin_node is not None
    plain, _ = model.hidden(x, no_edges)
    assert plain.unique(dim=0).size(0) == 3
    handle = model.encoder.lin_node.register_forward_hook(
        lambda module, given, out: out + torch.rand_like(out)
    )
    assert model.hidden(x, no_edges)[0].unique(dim=0).size(0) == 700
    handle.remove()
    model.encoder.lin_node = torch.nn.Sequential(model.encoder.lin_node, torch.nn.Dropout(0.5))
    assert model.hidden(x, no_edges)[0].unique(dim=0).size(0) > 20


def test_pruned_layers(compiled: list[int]) -> None:
    """Whose weights are made by a hook, anew in every pass."""
    conv, x = GMNConv(3, 4), torch.randn(9, 3)
    edge_index = edges_of("unsorted", 9)
    expected = conv(x, edge_index)
    for lin in (conv.lin_message, conv.lin_node):
        prune.identity(lin, "weight")
    torch.testing.assert_close(conv(x, edge_index), expected)
    for _ in range(2):  # a graph of its own each time
        conv(x, edge_index).sum().backward()
    with torch.no_grad():
        conv.lin_message.weight_orig.zero_()
    assert not torch.allclose(conv(x, edge_index), expected)


@pytest.mark.parametrize("act", [True, False])
def test_layers_derived_from_it_send_their_own_messages(act: bool, compiled: list[int]) -> None:
    class Silent(GMNConv):
        def message(  # in annotations that PyG reads
            self, target_i: Optional[Tensor], source_j: Tensor, edge: Optional[Tensor]
        ) -> Tensor:
            return 0 * super().message(target_i, source_j, edge)

    conv, x = GMNConv(3, 4, act=act), torch.randn(9, 3)
    silent = Silent(3, 4, act=act)
    silent.load_state_dict(conv.state_dict())
    edge_index = edges_of("unsorted", 9)
    torch.testing.assert_close(silent(x, edge_index), conv(x, edge_index[:, :0]))


def test_a_layer_derived_from_it_is_as_fast(compiled: list[int]) -> None:
    """PyG writes a `propagate` for every class, which is no way of its own."""

    class Named(GMNConv):
        pass

    Named(3, 4)(torch.randn(9, 3), edges_of("unsorted", 9))
    assert len(compiled) == 1


@pytest.mark.parametrize("act", [True, False])
def test_pre_hooks_see_what_a_layer_gets(act: bool, compiled: list[int]) -> None:
    """Once, as wide as the layer is, where it is called."""
    conv, x = GMNConv(3, 4, act=act), torch.randn(9, 3)
    widths: list[int] = []
    conv.lin_node.register_forward_pre_hook(lambda module, given: widths.append(given[0].size(1)))
    conv(x, edges_of("unsorted", 9))
    assert widths == ([3 + 4] if act else [3])


def test_backward_under_autocast(compiled: list[int]) -> None:
    """Of a forward pass outside of it."""
    conv, x = GMNConv(3, 4), torch.randn(9, 3, requires_grad=True)
    out = conv(x, edges_of("unsorted", 9)).sum()
    (expected,) = torch.autograd.grad(out, x, retain_graph=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (found,) = torch.autograd.grad(out, x)
    assert torch.equal(found, expected)


def test_another_default_device(compiled: list[int]) -> None:
    conv, x = GMNConv(3, 4), torch.eye(3)[torch.randint(0, 3, (700,))]
    model, edge_index = GMN(3, 8, (8, 8), (8, 3)), edges_of("unsorted", 700)
    expected = conv(x, edge_index), model(x, edge_index)
    distinct._direction.cache_clear()
    with torch.device("meta"):
        found = conv(x, edge_index), model(x, edge_index)
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)


def test_traced_and_transformed(compiled: list[int]) -> None:
    """Then the plain operations serve."""
    conv, x, edge_index = GMNConv(3, 4), torch.randn(9, 3), edges_of("unsorted", 9)
    expected = conv(x, edge_index)
    assert len(compiled) == 1
    tangent = torch.randn_like(x)
    out, along = torch.func.jvp(lambda x: conv(x, edge_index), (x,), (tangent,))
    torch.testing.assert_close(out, expected)
    near = [conv.double()(x.double() + h * tangent, edge_index) for h in (1e-6, -1e-6)]
    torch.testing.assert_close(along.double(), (near[0] - near[1]) / 2e-6, rtol=1e-3, atol=1e-3)
    parts = parts_of(conv)
    traced = torch.jit.trace(lambda x: propagate(x, *parts, edge_index), (x.double(),))
    torch.testing.assert_close(traced(x.double()), conv(x.double(), edge_index))


def parts_of(conv: GMNConv) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    return tuple(
        (lin.weight.detach(), lin.bias.detach()) for lin in (conv.lin_message, conv.lin_node)
    )

"""Graph matching networks, products per node: the same numbers as products per edge."""

import copy
from typing import Any

import pytest
import torch
import torch_geometric.transforms as T
from torch import Tensor

from helpers import weights
from helpers.graphs import FLAVORS, draw, draw_all, union
from helpers.largest import LargestTensor
from torch_geometric_simpool.models import GMN, GMNConv, GMNEncoder


@pytest.mark.parametrize("edge_dim", [None, 3])
@pytest.mark.parametrize("act", [True, False])
@pytest.mark.parametrize("flavor", FLAVORS)
def test_equals_one_message_per_edge(flavor: str, act: bool, edge_dim: int | None) -> None:
    """Directed, repeated and looped edges, and none; values and gradients of the weights."""
    graph = draw(flavor, 0)
    conv = GMNConv(4, 5, 6, edge_dim, act).double()
    x = torch.randn(graph.num_nodes, 4, dtype=torch.float64, requires_grad=True)
    edge = None
    if edge_dim is not None:
        edge = torch.randn(len(graph.edges), edge_dim, dtype=torch.float64)
    out = conv(x, graph.edge_index, edge)
    expected = weights.gmn_conv(conv, x, graph.edge_index, edge)
    torch.testing.assert_close(out, expected)
    inputs = [x, *conv.parameters()]
    upstream = torch.randn_like(out)
    found = torch.autograd.grad((out * upstream).sum(), inputs)
    naive = torch.autograd.grad((expected * upstream).sum(), inputs, materialize_grads=True)
    for a, b in zip(found, naive, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("edge_dim", [None, 3])
@pytest.mark.parametrize("act", [True, False])
@pytest.mark.parametrize("aggr", ["sum", "mean", "max"])
def test_other_aggregations(aggr: str, act: bool, edge_dim: int | None) -> None:
    """A keyword of every `MessagePassing`: means and maxima of the very same messages."""
    graph = draw("directed", 2)
    conv = GMNConv(4, 5, 6, edge_dim, act, aggr=aggr)
    x = torch.randn(graph.num_nodes, 4)
    edge = None if edge_dim is None else torch.randn(len(graph.edges), edge_dim)
    source, target = graph.edge_index
    parts = [x[target], x[source]] + ([] if edge is None else [edge])
    message = conv.lin_message(torch.cat(parts, dim=1))
    message = message.relu() if act else message
    reduced = torch.zeros(graph.num_nodes, 6)
    for i in range(graph.num_nodes):
        if (target == i).any():
            own = message[target == i]
            reduced[i] = own.max(dim=0).values if aggr == "max" else getattr(own, aggr)(dim=0)
    expected = conv.lin_node(torch.cat([x, reduced], dim=1))
    expected = expected.relu() if act else expected
    torch.testing.assert_close(conv(x, graph.edge_index, edge), expected)


def test_messages_flow_from_source_to_target() -> None:
    """`j -> i`: only the target of the only edge hears of the source."""
    conv = GMNConv(2, 2)
    x = torch.randn(3, 2)
    changed = x.clone()
    changed[0] += 1
    out, after = (conv(h, torch.tensor([[0], [1]])) for h in (x, changed))
    assert torch.equal(out[2], after[2])
    conv.act = False
    out, after = (conv(h, torch.tensor([[0], [1]])) for h in (x, changed))
    assert not torch.allclose(out[1], after[1])
    assert torch.equal(out[2], after[2])


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo])
@pytest.mark.parametrize("act", [True, False])
def test_adj_t_of_torch(act: bool, layout: torch.layout) -> None:
    graph = draw("directed", 3)
    conv, x = GMNConv(4, 5, act=act), torch.randn(graph.num_nodes, 4)
    data = T.ToSparseTensor(layout=layout)(graph.data())
    torch.testing.assert_close(conv(x, data.adj_t), conv(x, graph.edge_index))


@pytest.mark.parametrize("act", [True, False])
def test_adj_t_of_torch_sparse(act: bool) -> None:
    torch_sparse = pytest.importorskip("torch_sparse")
    graph = draw("directed", 3)
    conv, x = GMNConv(4, 5, act=act), torch.randn(graph.num_nodes, 4)
    adj_t = T.ToSparseTensor()(graph.data()).adj_t
    assert isinstance(adj_t, torch_sparse.SparseTensor)
    torch.testing.assert_close(conv(x, adj_t), conv(x, graph.edge_index))


def test_products_are_taken_per_node() -> None:
    """Of a graph with many edges, none of which gets a concatenation of wide features."""
    num_nodes, num_edges = 10, 5000
    edge_index = torch.randint(0, num_nodes, (2, num_edges))
    x = torch.randn(num_nodes, 64)
    with LargestTensor() as seen:
        GMNConv(64, 4, 4)(x, edge_index)
    assert seen.numel <= num_edges * 4
    # Without an activation, not even a message as wide as its layer.
    with LargestTensor() as seen:
        GMNConv(4, 4, 256, act=False)(x[:, :4].contiguous(), edge_index)
    assert seen.numel <= num_edges * (4 + 1)


def test_widths() -> None:
    """Those of `f_message` and `f_node` can differ, and are one if not told."""
    conv = GMNConv(4, 5, 6, 3)
    assert conv.lin_message.weight.shape == (6, 4 + 4 + 3)
    assert conv.lin_node.weight.shape == (5, 4 + 6)
    assert GMNConv(4, 5).lin_message.weight.shape == (5, 8)
    for part in ("GMNConv(4, 5", "message_channels=6", "edge_dim=3", "act=True"):
        assert part in repr(conv)


@pytest.mark.parametrize("edge_dim", [None, 3])
def test_encoder(edge_dim: int | None) -> None:
    """Nodes and edges, each by itself, by a dense layer and a ReLU."""
    encoder = GMNEncoder(2, 5, edge_dim)
    x, attr = torch.randn(4, 2), None if edge_dim is None else torch.randn(7, edge_dim)
    h, edge = encoder(x, attr)
    assert encoder.lin_node is not None
    assert torch.equal(h, (x @ encoder.lin_node.weight.t() + encoder.lin_node.bias).relu())
    assert encoder.out_channels == h.size(1) == 5
    if edge_dim is None:
        assert edge is None
    else:
        assert encoder.lin_edge is not None
        assert torch.equal(edge, encoder.lin_edge(attr).relu())


@pytest.mark.parametrize("edge_dim", [None, 3])
@pytest.mark.parametrize("flavor", ["undirected", "directed", "parallel", "edgeless"])
def test_model_equals_one_message_per_edge(flavor: str, edge_dim: int | None) -> None:
    graph = draw(flavor, 1)
    model = GMN(2, 5, (6, 7), (8, 3), edge_dim).double()
    x = torch.randn(graph.num_nodes, 2, dtype=torch.float64)
    attr = None
    if edge_dim is not None:
        attr = torch.randn(len(graph.edges), edge_dim, dtype=torch.float64)
    out = model(x, graph.edge_index, attr)
    assert out.shape == (graph.num_nodes, 3)
    torch.testing.assert_close(out, weights.gmn(model, x, graph.edge_index, attr))
    # The last propagation is linear: nothing cuts its negative values off.
    assert out.min() < 0


def test_integer_edge_features_are_features() -> None:
    """Bond types, as molecules have them."""
    model = GMN(2, 4, (4, 4), (4, 3), edge_dim=1)
    edge_index, x = torch.tensor([[0, 1], [1, 0]]), torch.randn(2, 2)
    types = torch.tensor([[1], [2]])
    assert torch.equal(model(x, edge_index, types), model(x, edge_index, types.float()))


def test_reset_parameters() -> None:
    for model in (GMN(2, 4, (4, 4), (4, 3), 2), GMN(0, 4, (4, 4), (4, 3), gru=True)):
        before = {name: value.clone() for name, value in model.named_parameters()}
        model.reset_parameters()
        weights = [name for name in before if "weight" in name]
        assert len(weights) >= 5
        for name in weights:
            assert not torch.equal(before[name], model.get_parameter(name))


def test_state_dict_round_trip() -> None:
    one, other = (GMN(2, 4, (4, 4), (4, 3)) for _ in range(2))
    other.load_state_dict(one.state_dict())
    x, edge_index = torch.randn(3, 2), torch.tensor([[0, 1], [1, 2]])
    assert torch.equal(one(x, edge_index), other(x, edge_index))


@pytest.mark.parametrize(
    ("edge_dim", "edge_attr", "came"),
    [
        (3, None, "None"),
        (3, torch.ones(2, 4), r"\[2, 4\]"),
        (3, torch.ones(2), r"\[2\]"),
        (3, torch.ones(5, 3), r"\[5, 3\]"),
        (3, torch.ones(1, 3), r"\[1, 3\]"),  # which would be broadcast, silently
        (None, torch.ones(2, 3), r"\[2, 3\]"),
    ],
)
@pytest.mark.parametrize("act", [True, False, None])
def test_edge_features_that_do_not_fit(
    act: bool | None, edge_dim: int | None, edge_attr: Tensor | None, came: str
) -> None:
    model: torch.nn.Module = GMN(2, 3, (3, 3), (3, 3), edge_dim)
    if act is not None:
        model = GMNConv(2, 3, edge_dim=edge_dim, act=act)
    with pytest.raises(ValueError, match=rf"`edge_attr` must .*, got {came}"):
        model(torch.randn(2, 2), torch.tensor([[0, 1], [1, 0]]), edge_attr)


@pytest.mark.parametrize("without", [("lin_node",), ("lin_message",), ("lin_node", "lin_message")])
@pytest.mark.parametrize("channels", [(5, 6), (2, 8)])
def test_layers_without_a_bias(channels: tuple[int, int], without: tuple[str, ...]) -> None:
    """As with a bias of zeros: where products come first, where sums do, and after pooling."""
    graph, batch = union([draw("directed", 0), draw("undirected", 1)])
    conv = GMNConv(4, *channels, act=False).double()
    x = torch.randn(graph.num_nodes, 4, dtype=torch.float64)
    s = torch.rand(graph.num_nodes, 3, dtype=torch.float64)
    for name in without:
        torch.nn.init.zeros_(getattr(conv, name).bias)
    expected = conv(x, graph.edge_index), conv.pooled(x, s, graph.edge_index, batch, 2)
    for name in without:
        getattr(conv, name).bias = None
    found = conv(x, graph.edge_index), conv.pooled(x, s, graph.edge_index, batch, 2)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("channels", [(5, 6), (2, 8)])
def test_linear_layer_under_autocast(channels: tuple[int, int]) -> None:
    graph = draw("undirected", 0)
    conv, x = GMNConv(4, *channels, act=False), torch.randn(graph.num_nodes, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = conv(x, graph.edge_index)
    torch.testing.assert_close(found.float(), conv(x, graph.edge_index), rtol=0.1, atol=0.1)


@pytest.mark.parametrize("edge_dim", [None, 3])
@pytest.mark.parametrize("channels", [(5, 6), (2, 8)])
def test_pooled_equals_pooling_what_comes_out(
    channels: tuple[int, int], edge_dim: int | None
) -> None:
    """`S^T (layer)`, values and gradients, on directed, repeated, looped edges and none."""
    graph, batch = union(draw_all(3))
    batch_size = len(FLAVORS) + 1
    out_channels, message_channels = channels
    conv = GMNConv(4, out_channels, message_channels, edge_dim, act=False).double()
    x = torch.randn(graph.num_nodes, 4, dtype=torch.float64, requires_grad=True)
    s = torch.randn(graph.num_nodes, 3, dtype=torch.float64, requires_grad=True)
    inputs = [x, s, *conv.parameters()]
    edge = None
    if edge_dim is not None:
        edge = torch.randn(len(graph.edges), edge_dim, dtype=torch.float64, requires_grad=True)
        inputs.append(edge)

    def per_graph(rows: Tensor) -> Tensor:
        """`S^T rows` of each graph, one after the other."""
        return torch.stack([s[batch == b].t() @ rows[batch == b] for b in range(batch_size)])

    expected = per_graph(conv(x, graph.edge_index, edge))
    found = conv.pooled(x, s, graph.edge_index, batch, batch_size, edge)
    torch.testing.assert_close(found, expected)
    upstream = torch.randn_like(found)
    for a, b in zip(
        torch.autograd.grad((found * upstream).sum(), inputs),
        torch.autograd.grad((expected * upstream).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_clusters_are_counted_under_autocast() -> None:
    """Nodes and messages of a graph with more of them than a narrow type can count."""
    conv = GMNConv(2, 3, 4, act=False)
    x, s = torch.zeros(70_000, 2), torch.ones(70_000, 1)
    edge_index = torch.arange(70_000).repeat(2, 1)
    batch = torch.zeros(70_000, dtype=torch.long)
    expected = conv.pooled(x, s, edge_index, batch, 1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = conv.pooled(x, s, edge_index, batch, 1)
    torch.testing.assert_close(found.float(), expected, rtol=0.02, atol=0.1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_pooled_in_a_narrow_type(dtype: torch.dtype) -> None:
    """The counts of nodes and messages are wider; the result is not."""
    layer = GMNConv(4, 3, act=False)
    x, s = torch.rand(5, 4), torch.rand(5, 2).softmax(dim=-1)
    edge_index, batch = (
        torch.tensor([[0, 1, 2, 3, 4], [1, 0, 1, 4, 3]]),
        torch.tensor([0, 0, 0, 1, 1]),
    )
    expected = layer.pooled(x, s, edge_index, batch, 2)
    found = copy.deepcopy(layer).to(dtype).pooled(x.to(dtype), s.to(dtype), edge_index, batch, 2)
    assert found.dtype == dtype
    torch.testing.assert_close(found.float(), expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("aggr", [None, ["add", "max"]])
def test_several_aggregations_are_refused(aggr: Any) -> None:
    with pytest.raises(ValueError, match="`aggr` must be the name of one aggregation"):
        GMNConv(4, 3, aggr=aggr)

"""The networks equal `reference` and the formulas of the paper.

Graph matching networks compute one message per edge there. The GRU reads each whole row of C, and
no padding. The dense GCN adds a self-loop to the one that is present.
"""

import pytest
import torch
import torch_geometric.transforms as T
from torch import Tensor
from torch_geometric.nn.inits import reset

from helpers import weights
from helpers.graphs import FLAVORS, draw
from helpers.largest import LargestTensor
from torch_geometric_simpool import structural_similarity
from torch_geometric_simpool.models import GMN, DenseGCN, GMNConv, GMNEncoder, GRUEncoder
from torch_geometric_simpool.transforms.add_similarity_edges import AddSimilarityEdges


def inputs(flavor: str, seed: int, channels: int, edge_dim: int | None) -> list[Tensor | None]:
    """Returns features, edges and edge features of a graph, in double precision."""
    graph = draw(flavor, seed)
    x = torch.randn(graph.num_nodes, channels, dtype=torch.float64, requires_grad=True)
    size = (len(graph.edges), edge_dim or 0)
    attr = torch.randn(size, dtype=torch.float64, requires_grad=True)
    return [x, graph.edge_index, None if edge_dim is None else attr]


def assert_same(model: torch.nn.Module, plain: object, arguments: list[Tensor | None]) -> None:
    """Asserts that a module has the values and gradients of the function."""
    out, expected = model(*arguments), plain(model, *arguments)  # type: ignore[operator]
    torch.testing.assert_close(out, expected)
    leaves = [a for a in arguments if a is not None and a.requires_grad]
    leaves += list(model.parameters())
    upstream = torch.randn_like(out)
    found, naive = (
        torch.autograd.grad((o * upstream).sum(), leaves, materialize_grads=True)
        for o in (out, expected)
    )
    torch.testing.assert_close(found, naive)


@pytest.mark.parametrize("flavor", FLAVORS)
def test_equals_one_message_per_edge(flavor: str) -> None:
    """Graphs have directed and repeated edges, self-loops or no edges. Outputs vary in width."""
    for act in (True, False):
        for edge_dim, out, message in ((None, 5, 6), (3, 9, None)):
            conv = GMNConv(4, out, message, edge_dim, act).double()
            assert_same(conv, weights.gmn_conv, inputs(flavor, 0, 4, edge_dim))


@pytest.mark.parametrize("flavor", ["undirected", "directed", "parallel", "edgeless", "nothing"])
def test_network(flavor: str) -> None:
    for edge_dim in (None, 3):
        model = GMN(2, 5, (6, 7), (8, 3), edge_dim).double()
        assert_same(model, weights.gmn, inputs(flavor, 1, 2, edge_dim))


def test_labels_stand_for_one_hot_features() -> None:
    graph = draw("directed", 2)
    label, x = torch.arange(graph.num_nodes) % 4, torch.randn(4, 5)
    for act in (True, False):
        conv = GMNConv(5, 6, act=act)
        expected = conv(x[label], graph.edge_index)
        torch.testing.assert_close(conv(x, graph.edge_index, label=label), expected)
    for edge_dim in (None, 3):
        model = GMN(4, 5, (6, 7), (8, 3), edge_dim).double()
        _, edge_index, attr = inputs("directed", 2, 4, edge_dim)
        label = torch.arange(graph.num_nodes) % 4
        one_hot = torch.nn.functional.one_hot(label, 4).double()
        outs = [model(x, edge_index, attr) for x in (label.int(), one_hot)]
        torch.testing.assert_close(*outs)
        grads = [torch.autograd.grad(o.square().sum(), list(model.parameters())) for o in outs]
        torch.testing.assert_close(*grads)
    with pytest.raises(ValueError, match="`x` must hold labels"):
        model(label + 1, edge_index, attr)


def test_second_derivatives() -> None:
    conv, edge_index = GMNConv(2, 2, 6).double(), torch.tensor([[0, 1, 2, 0, 1], [1, 2, 0, 2, 1]])
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: conv(x, edge_index), x)
    assert torch.autograd.gradgradcheck(lambda x: conv(x, edge_index), x)


@pytest.mark.parametrize("edge_dim", [None, 3])
def test_pooled_layer_equals_pooled_nodes(edge_dim: int | None) -> None:
    """Values and gradients are equal for one graph and for two, one of which has no edges."""
    for flavor in ("directed", "parallel", "edgeless"):
        x, edge_index, attr = inputs(flavor, 0, 4, edge_dim)
        x = torch.cat([x, x.detach()[:3]])
        batch = torch.arange(len(x)) // (len(x) - 3)
        s = torch.rand(len(x), 2, dtype=torch.float64, requires_grad=True)
        conv = GMNConv(4, 5, 6, edge_dim, act=False).double()
        out = conv.pooled(x, edge_index, s, batch, 2, attr)
        nodes = weights.gmn_conv(conv, x, edge_index, attr)
        expected = torch.stack([s[batch == b].t() @ nodes[batch == b] for b in range(2)])
        torch.testing.assert_close(out, expected)
        leaves = [t for t in (s, attr, *conv.parameters()) if t is not None]
        grads = [torch.autograd.grad(o.square().sum(), leaves) for o in (out, expected)]
        torch.testing.assert_close(*grads)


def test_encoder() -> None:
    encoder = GMNEncoder(2, 5, 3).double()
    x, attr = torch.randn(4, 2).double(), torch.randn(7, 3).double()
    torch.testing.assert_close(encoder(x, attr), weights.gmn_encoder(encoder, x, attr))
    assert encoder(x)[1] is None


def test_messages_flow_from_source_to_target() -> None:
    for act in (True, False):
        conv, x = GMNConv(2, 2, act=act), torch.randn(3, 2)
        changed = x + torch.tensor([[1.0], [0.0], [0.0]])
        out, after = (conv(h, torch.tensor([[0], [1]])) for h in (x, changed))
        assert torch.equal(out[2], after[2])
        if not act:
            assert not torch.allclose(out[1], after[1])


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo])
def test_adj_t(layout: torch.layout) -> None:
    graph = draw("directed", 3)
    x, data = torch.randn(graph.num_nodes, 4), T.ToSparseTensor(layout=layout)(graph.data())
    conv = GMNConv(4, 5)
    torch.testing.assert_close(conv(x, data.adj_t), conv(x, graph.edge_index))


def test_products_are_taken_per_node() -> None:
    edge_index = torch.randint(0, 10, (2, 5000))
    with LargestTensor() as seen:
        GMNConv(64, 4, 4)(torch.randn(10, 64), edge_index)
        GMNConv(4, 4, 256, act=False)(torch.randn(10, 4), edge_index)
    assert seen.numel <= 5000 * 4


def test_weights_and_similarities_as_edge_features() -> None:
    """The edge features are `(A_ij, C_ij)`, which AddSimilarityEdges writes."""
    graph = draw("undirected", 5)
    data = AddSimilarityEdges(k=2, edge_attr=True)(graph.data())
    dense = graph.adj(torch.float32)
    similarity = structural_similarity(dense)
    source, target = data.edge_index
    expected = torch.stack([dense[source, target], similarity[source, target]], dim=1)
    torch.testing.assert_close(data.edge_attr, expected)
    conv, x = GMNConv(4, 5, edge_dim=2), torch.randn(graph.num_nodes, 4)
    expected = weights.gmn_conv(conv, x, data.edge_index, expected)
    torch.testing.assert_close(conv(x, data.edge_index, data.edge_attr), expected)


def test_integer_edge_features_are_features() -> None:
    model = GMN(2, 4, (4, 4), (4, 3), edge_dim=1)
    edge_index, x = torch.tensor([[0, 1], [1, 0]]), torch.randn(2, 2)
    types = torch.tensor([[1], [2]])
    assert torch.equal(model(x, edge_index, types), model(x, edge_index, types.float()))


def test_reset_and_state_dict() -> None:
    for model in (GMN(2, 4, (4, 4), (4, 3), 2), GMN(0, 4, (4, 4), (4, 3), gru=True)):
        before = {name: value.clone() for name, value in model.state_dict().items()}
        reset(model)
        assert not any(torch.equal(before[n], p) for n, p in model.named_parameters() if "w" in n)
        model.load_state_dict(before)


WRONG_EDGE_ATTR = [
    (3, None),
    (3, torch.ones(2, 4)),
    (3, torch.ones(2)),
    (3, torch.ones(1, 3)),  # would be broadcast
    (None, torch.ones(2, 3)),
]


def test_edge_features_that_do_not_fit() -> None:
    edge_index = torch.tensor([[0, 1], [1, 0]])
    for edge_dim, edge_attr in WRONG_EDGE_ATTR:
        for model in (GMN(2, 3, (3, 3), (3, 3), edge_dim), GMNConv(2, 3, edge_dim=edge_dim)):
            with pytest.raises((TypeError, ValueError), match="`edge_attr`"):
                model(torch.randn(2, 2), edge_index, edge_attr)


def test_ids_out_of_range() -> None:
    for edge in ([[0], [2]], [[-1], [0]], [[2], [0]]):
        with pytest.raises(IndexError):
            GMNConv(2, 3)(torch.randn(2, 2), torch.tensor(edge))
        with pytest.raises(IndexError):
            GMN(2, 3, (3, 3), (3, 3))(torch.tensor([0, 1]), torch.tensor(edge))


# ------------------------------------------------------------------ GRU


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


# ------------------------------------------------------------------ dense GCN


def test_equals_the_papers_formula() -> None:
    """Values and gradients are equal on pooled graphs, which have self-loops."""
    for act in (True, False):
        model = DenseGCN(3, 4, act).double()
        torch.nn.init.normal_(model.bias)
        x = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
        adj = torch.rand(2, 5, 5, dtype=torch.float64, requires_grad=True)
        out = model(x, adj)
        expected = torch.stack([weights.gcn(model, x[b], adj[b]) for b in range(2)])
        torch.testing.assert_close(out, expected)
        leaves = [x, adj, *model.parameters()]
        grads = [torch.autograd.grad(o.square().sum(), leaves) for o in (out, expected)]
        torch.testing.assert_close(*grads)


def test_isolated_clusters_keep_their_features() -> None:
    model, x, adj = DenseGCN(3, 4, act=False), torch.randn(1, 5, 3), torch.zeros(1, 5, 5)
    torch.testing.assert_close(model(x, adj)[0], model.lin(x[0]) + model.bias)
    assert torch.equal(adj, torch.zeros(1, 5, 5))


def test_mask_and_no_nodes() -> None:
    mask = torch.tensor([[True, True, False]])
    assert (DenseGCN(3, 4)(torch.randn(1, 3, 3), torch.rand(1, 3, 3), mask)[0, 2] == 0).all()
    assert DenseGCN(3, 4)(torch.ones(2, 0, 3), torch.ones(2, 0, 0)).shape == (2, 0, 4)

"""The pooling layer: features, assignment networks and wrong arguments."""

import copy
import pickle
from typing import Any, Optional

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch_geometric.data import Batch, Data
from torch_geometric.nn import MLP, GCNConv, Sequential
from torch_geometric.utils import to_dense_adj, to_dense_batch

from helpers.gradients import assert_same_gradients
from helpers.graphs import draw, draw_all, union
from helpers.per_graph import GraphBatch, OneGraph, per_graph
from torch_geometric_simpool import (
    SimPool,
    StructuralSimilarity,
    cluster_mask,
    dense_sim_pool,
    reference,
    sim_pool,
    structural_similarity,
)

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


class Reader(torch.nn.Module):
    """Stores its arguments, and returns the first columns of the features as logits."""

    def __init__(self, clusters: int = 3) -> None:
        super().__init__()
        self.clusters = clusters

    def forward(self, x: Tensor, **inputs: Any) -> Tensor:
        self.x, self.inputs = x, inputs
        return x[..., : self.clusters]


class SparseReader(Reader):
    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        edge_index: Optional[Tensor] = None,
        edge_weight: Optional[Tensor] = None,
        edge_attr: Optional[Tensor] = None,
        batch: Optional[Tensor] = None,
        batch_size: Optional[int] = None,
        num_nodes: Optional[Tensor] = None,
    ) -> Tensor:
        inputs = (edge_index, edge_weight, edge_attr, batch, batch_size, num_nodes)
        return super().forward(x, inputs=inputs)


class DenseReader(Reader):
    def forward(self, x: Tensor, adj: Tensor, mask: Tensor, num_nodes: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, inputs=(adj, mask, num_nodes))


def draw_data(seed: int) -> Batch:
    """Returns a batch of graphs of every flavor, with features and weights."""
    graphs = []
    for graph in draw_all(seed):
        data = graph.data(x=torch.randn(graph.num_nodes, 2))
        data.edge_weight = torch.rand(data.num_edges) + 0.5
        graphs.append(data)
    return Batch.from_data_list(graphs)


def shuffled(data: Batch) -> tuple[Data, Tensor]:
    """Returns a batch with mixed nodes, and their order. Nodes of a graph keep their order."""
    mixed = data.batch[torch.randperm(data.num_nodes)]
    order = torch.empty_like(mixed)
    order[mixed.argsort(stable=True)] = torch.arange(data.num_nodes)
    edge_index = order.argsort()[data.edge_index]
    return (
        Data(data.x[order], edge_index, edge_weight=data.edge_weight, batch=data.batch[order]),
        order,
    )


# ------------------------------------------------------------------ from the graph to the clusters


@pytest.mark.parametrize("dense", [False, True])
def test_against_the_reference(dense: bool) -> None:
    """Values and gradients are equal, on sparse batches (mapped features) and dense ones (C)."""
    graph, nodes = union(draw_all(0))
    weight = graph.edge_weight()
    assert weight is not None
    batch = GraphBatch(graph.edge_index, weight.requires_grad_(), nodes, len(draw_all(0)))
    x = torch.randn(batch.num_nodes, 3, dtype=torch.float64, requires_grad=True)
    width = batch.mask.size(1) if dense else 6
    network = torch.nn.Linear(width, 4).double()

    def pooled(graph: OneGraph, x: Tensor) -> tuple[Tensor, ...]:
        adj = graph.adj(weight)
        if dense:
            c = reference.structural_similarity(adj)
            features = torch.nn.functional.pad(c, (0, width - graph.num_nodes))
        else:
            values, index = reference.topk_similarity(adj, 6)
            features = reference.map_indices(values, index, graph.num_nodes, 0.8)
        return reference.sim_pool(x, adj, network(features))

    s, *expected = (list(parts) for parts in zip(*per_graph(pooled, batch.graphs, x), strict=True))
    inputs = [x, weight, *network.parameters()]
    if dense:
        layer = SimPool(assignment=network, k=None)
        padded = x.new_zeros(*batch.mask.shape, 3).masked_scatter(batch.mask.unsqueeze(-1), x)
        out = layer(padded, adj=batch.padded_adj(), mask=batch.mask)
        assert (out.s[~batch.mask] == 0).all()
        out = out._replace(s=out.s[batch.mask])
    else:
        layer = SimPool(assignment=network, k=6, alpha=0.8, order=None)
        args = {"edge_weight": weight, "batch_size": batch.batch_size}
        out = layer(x, batch.edge_index, batch.batch, **args)
    results = [out.s, out.x, out.adj]
    tensors = [torch.cat(s), *(torch.stack(parts) for parts in expected)]
    # Features that the layer computes are float32, as `data.sim` is.
    assert_same_gradients(results, tensors, inputs, 1e-9 if dense else 1e-5)
    assert torch.equal(out.mask, cluster_mask(torch.cat(s), nodes, batch_size=batch.batch_size))


@pytest.mark.parametrize("features", ["structural", "node", "both"])
def test_the_operator_pools_what_the_network_assigns(features: str) -> None:
    """The layer pools by the logits of its network, on the first and on the next level."""
    data = draw_data(0)
    layer = SimPool(num_clusters=5, k=4, features=features, in_channels=2, hidden_channels=8)
    out = layer(data.x, data.edge_index, data.batch)
    sim = layer.transform()(
        Data(edge_index=data.edge_index, batch=data.batch, num_nodes=len(data.x))
    )
    read = {"structural": sim.sim, "node": data.x, "both": torch.cat([sim.sim, data.x], dim=-1)}
    logits = layer.assignment(read[features])
    expected = sim_pool(data.x, data.edge_index, logits, data.batch)
    for name in expected._fields:
        assert torch.equal(getattr(out, name), getattr(expected, name))
    deeper = SimPool(num_clusters=2, k=None, features=features)
    top = deeper(out.x, adj=out.adj, mask=out.mask)
    assert top.x.shape == (len(out.x), 2, 2)
    assert (top.s[~out.mask] == 0).all()
    gradients = torch.autograd.grad(top.adj.sum() + top.x.sum(), list(layer.parameters()))
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_gradients_reach_the_graph() -> None:
    """Gradients flow through similarities to edge weights and to a dense matrix."""
    graph = draw("dyadic", 3)
    weight, x = torch.rand(len(graph.edges), requires_grad=True), torch.ones(graph.num_nodes, 1)
    adj = torch.rand(5, 5, requires_grad=True)
    for k in (4, None):
        layer = SimPool(assignment=Reader(), k=k)
        results = [(layer(x, graph.edge_index, edge_weight=weight).s, weight)]
        results += [(layer(torch.ones(5, 1), adj=adj).s, adj)]
        for s, leaf in results:
            assert torch.autograd.grad(s.square().sum(), leaf)[0].abs().sum() > 0


@pytest.mark.parametrize("order", [None, "bfs"])
def test_forward_mode_is_refused(order: Optional[str]) -> None:
    edge_index, x = torch.tensor([[0, 0, 1, 2], [1, 2, 0, 0]]), torch.rand(3, 3)
    layer = SimPool(2, k=2, in_channels=3, order=order)
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match=r"`edge_weight` "):
        layer(x, edge_index, edge_weight=forward_ad.make_dual(torch.ones(4), torch.ones(4)))


@pytest.mark.parametrize("scale", [1e-30, 1e-10, 1e30])
def test_gradients_through_rows_of_tiny_clusters_are_finite(scale: float) -> None:
    adj = (scale * torch.rand(2, 4, 4)).requires_grad_()
    s = SimPool(assignment=Reader(), k=None)(torch.rand(2, 4, 3), adj=adj).s
    assert torch.autograd.grad(s.square().sum(), adj)[0].isfinite().all()


# ------------------------------------------------------------------ features


SETTINGS: list[dict[str, Any]] = [
    {},
    {"order": None},
    {"p": 2, "lam": 0.5, "alpha": 0.8},
    {"measure": "jaccard", "loop": False, "min_similarity": 0.2},
    {"weight_attr": None, "max_degree": 2},
    {"order": "rcm", "backend": "torch"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_features_on_the_fly_are_those_of_the_transform(settings: dict[str, Any]) -> None:
    """The bits are equal on sparse batches, unsorted batches and padded graphs."""
    data, reader = draw_data(0), Reader()
    transform = StructuralSimilarity(4, **settings)
    layer = SimPool(assignment=reader, **transform.parameters())
    sim = transform(data).sim
    out = layer(data.x, data.edge_index, data.batch, edge_weight=data.edge_weight)
    assert torch.equal(reader.x, sim)
    given = layer(data.x, data.edge_index, data.batch, sim, edge_weight=data.edge_weight)
    assert all(torch.equal(a, b) for a, b in zip(out, given, strict=True))
    mixed, order = shuffled(data)
    layer(mixed.x, mixed.edge_index, mixed.batch, edge_weight=mixed.edge_weight)
    assert torch.equal(reader.x, sim[order])

    adj, mask = torch.full((2, 9, 9), torch.nan), torch.zeros(2, 9, dtype=torch.bool)
    mask[0, :7], mask[1, 2:] = True, True
    real = mask.unsqueeze(1) & mask.unsqueeze(2)
    adj[real] = (torch.rand(int(real.sum())) - 0.3).relu()
    dense = Data(adj=adj, mask=mask, num_nodes=9)
    layer(torch.randn(2, 9, 2), adj=adj, mask=mask)
    assert torch.equal(reader.x, transform(dense).sim[mask])


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_settings_of_a_layer(settings: dict[str, Any]) -> None:
    """A layer and its copy have the settings of the transform, and `repr` shows them."""
    layer = SimPool(num_clusters=3, k=5, **settings)
    expected = repr(StructuralSimilarity(5, **settings))
    for one in (layer, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert repr(one.transform()) == expected
    assert repr(SimPool(3, **layer.transform().parameters()).transform()) == expected
    for name, value in settings.items():
        assert f"{name}={value!r}" in repr(layer)


@pytest.mark.parametrize("measure", ["cosine", "jaccard", "l2", "hamming"])
def test_rows_of_c(measure: str) -> None:
    """A row has the similarities within its graph, then zeros, for any position of padding."""
    data, reader = draw_data(0), Reader()
    rows = {"p": 2, "lam": 0.5, "measure": measure}
    layer = SimPool(assignment=reader, k=None, **rows)
    assert "measure=" + repr(measure) in repr(layer)
    layer(data.x, data.edge_index, data.batch, edge_weight=data.edge_weight)
    read = reader.x
    x, mask = to_dense_batch(data.x, data.batch, batch_size=data.num_graphs)
    adj = to_dense_adj(data.edge_index, data.batch, data.edge_weight, batch_size=data.num_graphs)
    torch.testing.assert_close(read, structural_similarity(adj, mask=mask, **rows)[mask])
    layer(x.flip(1), adj=adj.flip(1, 2), mask=mask.flip(1))
    sizes = mask.sum(dim=1)
    for number, (row, node) in enumerate(zip(reader.x, mask.flip(1).nonzero(), strict=True)):
        n = int(sizes[node[0]])
        first = int(sizes[: node[0]].sum())
        expected = read[first + n - 1 - (number - first), :n].flip(0)
        torch.testing.assert_close(row[:n], expected)
        assert (row[n:] == 0).all()
    mixed, order = shuffled(data)
    layer(mixed.x, mixed.edge_index, mixed.batch, edge_weight=mixed.edge_weight)
    torch.testing.assert_close(reader.x, read[order])


def test_given_features_of_any_width_without_k() -> None:
    sim, reader = torch.rand(3, 7), Reader()
    SimPool(assignment=reader, k=None)(torch.ones(3, 1), PATH, sim=sim)
    assert torch.equal(reader.x, sim)


# ------------------------------------------------------------------ networks


def test_inputs_of_a_network_on_a_sparse_batch() -> None:
    """A network also gets its inputs if the batch is a transposed sparse matrix."""
    data, reader = draw_data(0), SparseReader()
    layer = SimPool(assignment=reader, features="node")
    attr = torch.rand(data.num_edges, 2)
    args = {"edge_weight": data.edge_weight, "edge_attr": attr, "batch_size": data.num_graphs}
    layer(data.x, data.edge_index, data.batch, **args)
    edge_index, weight, edge_attr, batch, size, num_nodes = reader.inputs["inputs"]
    expected = (data.edge_index, data.edge_weight, attr, data.batch)
    assert all(map(torch.equal, (edge_index, weight, edge_attr, batch), expected))
    assert size == data.num_graphs
    assert torch.equal(num_nodes, data.batch.bincount()[data.batch])
    adj_t = torch.sparse_coo_tensor(PATH.flip(0), torch.arange(4.0), (3, 3)).to_sparse_csr()
    out = layer(torch.ones(3, 3), adj_t)
    rows, columns = reader.inputs["inputs"][0]
    dense = torch.zeros(3, 3).index_put((rows, columns), reader.inputs["inputs"][1])
    assert torch.equal(dense, adj_t.to_dense().t())
    assert torch.equal(out.adj, layer(torch.ones(3, 3), adj=dense).adj)


def test_inputs_of_a_network_on_a_dense_batch() -> None:
    """A network with an input `adj` or `mask` gets padded features, whose padding is zero."""
    reader = DenseReader()
    x, adj, sim = torch.randn(2, 4, 3), torch.ones(2, 4, 4), torch.rand(2, 4, 5)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    sim[~mask] = torch.nan
    SimPool(assignment=reader, k=5)(x, adj=adj, mask=mask, sim=sim)
    read_adj, read_mask, num_nodes = reader.inputs["inputs"]
    assert torch.equal(reader.x, sim.masked_fill(~mask.unsqueeze(-1), 0))
    assert torch.equal(read_adj[1, 2:], torch.zeros(2, 4))
    assert torch.equal(read_mask, mask)
    assert num_nodes.tolist() == [[4] * 4, [2] * 4]


@pytest.mark.parametrize("norm", [None, "batch_norm", "layer_norm"])
@pytest.mark.parametrize("padded", [False, True])
def test_a_network_of_rows_serves_both_batches(norm: Optional[str], padded: bool) -> None:
    """Values, gradients and the statistics of PyG's default batch norm are equal in training."""
    sizes = torch.tensor([8, 3, 6]) if padded else torch.tensor([8, 8, 8])
    nodes = torch.arange(3).repeat_interleave(sizes)
    mask = torch.arange(8) < sizes.unsqueeze(1)
    adj = (torch.rand(3, 8, 8) < 0.4).float() * (mask.unsqueeze(1) & mask.unsqueeze(2))
    graph, row, col = adj.nonzero().t()
    number = (mask.flatten().cumsum(0) - 1).view(3, 8)
    edges = torch.stack([number[graph, row], number[graph, col]])
    x = torch.randn(int(sizes.sum()), 8, requires_grad=True)
    dense_x = x.new_zeros(3, 8, 8).masked_scatter(mask.unsqueeze(-1), x)
    net = MLP([8 + 8, 16, 4], norm=norm)
    twin = copy.deepcopy(net)
    sparse = SimPool(assignment=net, k=8, features="both")(x, edges, nodes)
    dense = SimPool(assignment=twin, k=8, features="both")(dense_x, adj=adj, mask=mask)
    torch.testing.assert_close(dense.s[mask], sparse.s)
    torch.testing.assert_close(dense[1:], sparse[1:])
    for (name, a), b in zip(net.state_dict().items(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, msg=name)
    gradients = [torch.autograd.grad(out.x.sum() + out.adj.sum(), x)[0] for out in (sparse, dense)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def test_a_network_that_is_assigned_later_gets_its_own_inputs() -> None:
    x, sim = torch.randn(3, 2), torch.rand(3, 4)
    layer = SimPool(num_clusters=3, k=4)
    net = GCNConv(4, 3)
    layer.assignment = net
    expected = sim_pool(x, PATH, net(sim, PATH))
    assert torch.equal(layer(x, PATH, sim=sim).x, expected.x)
    layer.assignment = Sequential("x, edge_index", [(net, "x, edge_index -> x")])
    assert torch.equal(layer(x, PATH, sim=sim).x, expected.x)
    layer.assignment = torch.compile(net, backend="eager")
    torch.testing.assert_close(layer(x, PATH, sim=sim).x, expected.x)
    layer.assignment = MLP([4, 3], norm=None)
    assert layer(x, PATH, sim=sim).s.shape == (3, 3)


def test_modules() -> None:
    """The layer saves, loads and resets parameters."""
    layer, other = SimPool(num_clusters=3, k=4), SimPool(num_clusters=3, k=4)
    other.load_state_dict(layer.state_dict())
    x, sim = torch.randn(3, 2), torch.rand(3, 4)
    expected = layer(x, PATH, sim=sim).s
    assert torch.equal(other(x, PATH, sim=sim).s, expected)
    layer.reset_parameters()
    assert not torch.equal(layer(x, PATH, sim=sim).s, expected)


def test_k_cannot_be_changed() -> None:
    """The network reads `k` columns, so `k` cannot become another number or `None`."""
    for layer in (SimPool(3, k=4), SimPool(3, k=None)):
        with pytest.raises(AttributeError, match="'k'"):
            layer.k = 5  # type: ignore[misc]
    assert (SimPool(3, k=4).k, SimPool(3, k=None).k) == (4, None)


def test_rows_of_c_of_graphs_of_another_size() -> None:
    layer = SimPool(4, k=None)
    layer(torch.ones(3, 2), PATH)
    for size in (2, 5):
        with pytest.raises(ValueError, match="`k=None` pass graphs of the size of the first"):
            layer(torch.ones(size, 2), torch.zeros(2, 1).long())
        with pytest.raises(ValueError, match="`k=None`"):
            layer(torch.ones(1, size, 2), adj=torch.ones(1, size, size))


# ------------------------------------------------------------------ identities and edge cases


def test_a_graph_alone_and_in_a_batch() -> None:
    data, layer = draw_data(1), SimPool(num_clusters=3, k=4)
    out = layer(data.x, data.edge_index, data.batch, edge_weight=data.edge_weight)
    for number in data.batch.unique().tolist():
        nodes = data.batch == number
        edges = nodes[data.edge_index[0]]
        edge_index = data.edge_index[:, edges] - int(nodes.nonzero()[0])
        single = layer(data.x[nodes], edge_index, edge_weight=data.edge_weight[edges])
        torch.testing.assert_close((single.x[0], single.adj[0]), (out.x[number], out.adj[number]))


def test_one_dense_graph() -> None:
    x, adj, sim, mask = torch.randn(4, 2), torch.rand(4, 4), torch.rand(4, 5), torch.ones(4) > 0
    mask[3] = False
    layer = SimPool(num_clusters=3, k=5)
    out = layer(x, adj=adj, mask=mask, sim=sim)
    batched = layer(x[None], adj=adj[None], mask=mask[None], sim=sim[None])
    assert all(map(torch.equal, out, batched))
    expected = dense_sim_pool(x, adj, layer.assignment(sim), mask)
    torch.testing.assert_close(out.x, expected.x)


@pytest.mark.parametrize("k", [3, None])
def test_no_nodes(k: Optional[int]) -> None:
    layer = SimPool(assignment=Reader(1), k=k)
    x, none, nodes = torch.zeros(0, 2), torch.zeros(2, 0).long(), torch.zeros(0).long()
    if k is None:
        layer = SimPool(assignment=MLP([-1, 3], norm=None), features="node")
    out = layer(x, none, nodes, batch_size=2)
    assert out.adj.shape[0] == 2
    assert not out.mask.any()
    assert out.entropy_loss == out.cluster_loss == 0


# ------------------------------------------------------------------ wrong arguments

X, SIM, ADJ = torch.ones(3, 2), torch.ones(3, 4), torch.ones(3, 3)


def call(**changes: Any) -> Any:
    args = {"x": X, "edge_index": PATH, "sim": SIM, **changes}
    return SimPool(num_clusters=3, k=4)(**args)


WRONG: list[tuple[str, Any]] = [
    ("num_clusters", lambda: SimPool()),
    ("num_clusters", lambda: SimPool(3, assignment=Reader())),
    ("num_clusters", lambda: SimPool(0)),
    ("assignment", lambda: SimPool(assignment=torch.relu)),
    ("features", lambda: SimPool(3, features="edge")),
    ("k", lambda: SimPool(3, k=0)),
    ("p", lambda: SimPool(3, k=None, p=0)),
    ("measure", lambda: SimPool(3, k=None, measure="l3")),
    ("measure", lambda: SimPool(3, k=4, measure="l2")),
    ("order", lambda: SimPool(3, k=None, order="bfs")),
    ("alpha", lambda: SimPool(3, k=None, alpha=0.5)),
    ("in_channels", lambda: SimPool(3, features="node", in_channels="2")),
    ("hidden_channels", lambda: SimPool(3, hidden_channels=2.5)),
    ("k", lambda: SimPool(3, k=None).transform()),
    ("x", lambda: call(x=Data(edge_index=PATH))),
    ("edge_index", lambda: call(edge_index=None)),
    ("edge_index", lambda: call(adj=ADJ)),
    ("edge_index", lambda: call(edge_index=ADJ)),
    ("edge_index", lambda: call(edge_index=PATH + 1)),
    ("mask", lambda: call(mask=torch.ones(3) > 0)),
    ("batch", lambda: call(edge_index=None, adj=ADJ, batch=torch.zeros(3).long())),
    ("edge_weight", lambda: call(edge_index=None, adj=ADJ, edge_weight=torch.ones(4))),
    ("sim", lambda: call(sim=torch.ones(3, 5))),
    ("sim", lambda: call(sim=torch.ones(2, 4))),
    ("sim", lambda: call(sim=torch.ones(3, 4).long())),
    ("sim", lambda: call(sim=torch.ones(()))),
    ("edge_attr", lambda: call(edge_attr=torch.ones(3, 2))),
    ("edge_attr", lambda: call(edge_attr=torch.ones(()))),
    ("edge_attr", lambda: call(edge_attr=[1, 2, 3, 4])),
    ("edge_attr", lambda: call(edge_attr=torch.ones(4, device="meta"))),
    ("assignment", lambda: SimPool(4, features="node", in_channels=3)(X, PATH)),
    ("assignment", lambda: SimPool(assignment=DenseReader())(X, PATH)),
    ("assignment", lambda: SimPool(assignment=GCNConv(4, 3), k=4)(X, adj=ADJ)),
    ("assignment", lambda: SimPool(assignment=torch.nn.Flatten(0))(X, PATH)),
    ("s", lambda: SimPool(assignment=Reader(0))(X, PATH)),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_wrong_arguments_are_named(case: int) -> None:
    name, wrong = WRONG[case]
    with pytest.raises((TypeError, ValueError), match=rf"`?\b{name}\b`?"):
        wrong()

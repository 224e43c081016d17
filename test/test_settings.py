"""One source of settings: what a transform writes, and what a layer or a net computes itself."""

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.nn import MLP, GCNConv
from torch_geometric.transforms import BaseTransform

from helpers.graphs import draw, draw_all
from torch_geometric_simpool import SimPool, StructuralSimilarity
from torch_geometric_simpool.models import SimPoolNet

SETTINGS: list[dict[str, Any]] = [
    {},
    {"p": 2, "lam": 0.5, "alpha": 0.8},
    {"measure": "jaccard"},
    {"loop": False},
    {"min_similarity": 0.6},
    {"max_degree": 2},
    {"weight_attr": None},
    {"order": "rcm"},
    {"order": "fiedler", "order_attr": "x"},
    {"order": "bfs", "order_attr": "color", "loop": False, "min_similarity": 0.2, "lam": 1.0},
    {"backend": "torch"},
    {"order": "random"},
]


class Reader(torch.nn.Module):
    """Keeps the features."""

    def forward(self, x: Tensor) -> Tensor:
        self.seen = x
        return x[..., :3]


def graphs(weighted: bool) -> list[Data]:
    """Of every kind, with features and colors of the nodes, weighted or not."""
    made = []
    for graph in [*draw_all(0), *draw_all(1)]:
        data = graph.data(x=torch.randn(graph.num_nodes, 2))
        data.color = torch.randint(3, (graph.num_nodes,))
        data.edge_weight = torch.rand(data.num_edges) + 0.5 if weighted else None
        made.append(data)
    return made


def attr_of(data: Data, pool: SimPool) -> Tensor | None:
    return None if pool.order_attr is None else data[pool.order_attr]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_on_the_fly_is_what_the_transform_writes(settings: dict[str, Any], weighted: bool) -> None:
    """Of single graphs, written one by one, and served in a batch; and of padded graphs."""
    transform, reader = StructuralSimilarity(4, **settings), Reader()
    pool = SimPool.from_transform(transform, reader)
    data = graphs(weighted)
    torch.manual_seed(0)
    written = Batch.from_data_list([transform(one) for one in data])
    torch.manual_seed(0)
    served = {"edge_weight": written.edge_weight, "batch_size": len(data)}
    graph = (written.x, written.edge_index, written.batch)
    fly = pool(*graph, node_attr=attr_of(written, pool), **served)
    assert torch.equal(reader.seen, written.sim)
    given = pool(*graph, sim=written.sim, **served)
    for a, b in zip(fly[:-1], given[:-1], strict=True):
        assert torch.equal(a, b)
    # Other settings do give other features.
    if settings not in ({}, {"backend": "torch"}) and (weighted or settings != SETTINGS[6]):
        others = Batch.from_data_list([StructuralSimilarity(4, order=None)(one) for one in data])
        assert not torch.equal(others.sim, written.sim)

    adj, mask = torch.full((2, 9, 9), torch.nan), torch.zeros(2, 9, dtype=torch.bool)
    mask[0, :7], mask[1, 2:] = True, True
    real = mask.unsqueeze(1) & mask.unsqueeze(2)
    adj[real] = (torch.rand(int(real.sum())) - 0.3).relu()
    x, color = torch.randn(2, 9, 2), torch.randint(3, (2, 9))
    dense = Data(adj=adj, mask=mask, x=x, color=color, num_nodes=9)
    torch.manual_seed(0)
    expected = transform(dense).sim
    torch.manual_seed(0)
    pool(x, adj=adj, mask=mask, node_attr=attr_of(dense, pool))
    assert torch.equal(reader.seen, expected)
    assert expected.abs().sum() > 0


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_there_and_back(settings: dict[str, Any]) -> None:
    """Also of a copy; and the layer shows the settings."""
    transform = StructuralSimilarity(5, attr="features", **settings)
    pool = SimPool.from_transform(transform, MLP([5, 3], norm=None))
    for one in (pool, copy.deepcopy(pool), pickle.loads(pickle.dumps(pool))):
        assert repr(one.transform()) == repr(transform)
    for name, value in settings.items():
        assert f"{name}={value!r}" in repr(pool)
    net = SimPoolNet.from_transform(transform, 3, 2, width=0.02)
    assert repr(net.transform()) == repr(transform)
    topk = transform.settings.topk
    assert (net.pool1.p, net.pool1.lam, net.pool1.measure) == (topk.p, topk.lam, topk.measure)


def test_transform_of_a_layer() -> None:
    pool = SimPool(MLP([5, 3]), k=5, p=2, lam=0.5, alpha=0.8, measure="jaccard")
    expected = StructuralSimilarity(5, order=None, p=2, lam=0.5, alpha=0.8, measure="jaccard")
    assert repr(pool.transform()) == repr(expected)
    net = SimPoolNet.from_preset("enzymes-10fold", 3, 2, width=0.02, p=2)
    assert repr(net.transform()) == repr(StructuralSimilarity(15, order=None, p=2, alpha=0.8))


@pytest.mark.parametrize("settings", SETTINGS[:-1], ids=str)
def test_the_net_trains_as_it_serves(settings: dict[str, Any]) -> None:
    """Logits and losses; `x` is the attribute of that name."""
    transform = StructuralSimilarity(4, **settings)
    net = SimPoolNet.from_transform(transform, 2, 3, width=0.02)
    data = Batch.from_data_list([transform(one) for one in graphs(True)])
    settings = {"edge_weight": data.edge_weight, "batch_size": data.num_graphs}
    given = net(data.x, data.edge_index, data.batch, data.sim, **settings)
    node_attr = data.color if transform.order_attr == "color" else None
    fly = net(data.x, data.edge_index, data.batch, node_attr=node_attr, **settings)
    for a, b in zip(given[:3], fly[:3], strict=True):
        assert torch.equal(a, b)


def test_double_precision_too() -> None:
    """`data.sim` is float32, so features on the fly are rounded to it."""
    (data,) = [draw("dyadic", 3).data()]
    data = StructuralSimilarity(4, order=None)(data)
    reader = Reader()
    x, weight = torch.ones(data.num_nodes, 1, dtype=torch.float64), data.edge_weight.double()
    SimPool(reader, k=4)(x, data.edge_index, edge_weight=weight)
    assert torch.equal(reader.seen, data.sim.double())


def test_gradients_reach_the_weights() -> None:
    """Through the features of both kinds of batch."""
    graph = draw("dyadic", 3)
    weight = torch.rand(len(graph.edges), requires_grad=True)
    pool = SimPool(Reader(), k=4, alpha=0.8)
    adj = torch.rand(5, 5, requires_grad=True)
    for s, leaf in (
        (pool(torch.ones(graph.num_nodes, 1), graph.edge_index, edge_weight=weight).s, weight),
        (pool(torch.ones(5, 1), adj=adj).s, adj),
    ):
        (gradient,) = torch.autograd.grad(s.square().sum(), leaf)
        assert gradient.abs().sum() > 0


# ------------------------------------------------------------------ what is refused

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def test_an_attribute_that_is_not_given() -> None:
    pool = SimPool.from_transform(StructuralSimilarity(2, order="bfs", order_attr="x"), Reader())
    x = torch.ones(3, 2)
    message = r"`node_attr` must be given where `order_attr` is 'x' and `sim` is not given.*None"
    with pytest.raises(ValueError, match=message):
        pool(x, PATH)
    with pytest.raises(ValueError, match=message):
        pool(x, adj=torch.ones(3, 3))
    with pytest.raises(ValueError, match=r"`node_attr` must have shape \[3\] or \[3, F\].*\[4\]"):
        pool(x, PATH, node_attr=torch.ones(4))


@pytest.mark.parametrize("transform", [BaseTransform, StructuralSimilarity, None])
def test_another_transform(transform: Any) -> None:
    with pytest.raises(TypeError, match=r"`transform` must be a StructuralSimilarity, got"):
        SimPool.from_transform(transform, Reader())
    with pytest.raises(TypeError, match=r"`transform` must be a StructuralSimilarity, got"):
        SimPoolNet.from_transform(transform, 3, 2)


def test_no_transform() -> None:
    for pool in (SimPool(Reader()), SimPoolNet.from_preset("enzymes", 3, 2, 0.02, gru=True)):
        with pytest.raises(ValueError, match=r"`k` must be set for a transform.*got None"):
            pool.transform()
    with pytest.raises(ValueError, match=r"`measure`.*no sparse form"):
        SimPool(Reader(), k=3, measure="hamming").transform()
    with pytest.raises(ValueError, match=r"`gru` must be False.*got True"):
        SimPoolNet.from_transform(StructuralSimilarity(3), 3, 2, gru=True)


@pytest.mark.parametrize("network", [MLP([12, 3], norm=None), torch.nn.Linear(12, 3)])
def test_neither_sim_nor_k(network: torch.nn.Module) -> None:
    """Rows of C, which such a network does not take: on both kinds of batch."""
    message = rf"`sim` or `k` must be given.*{type(network).__name__}.*got neither.*3\]"
    with pytest.raises(ValueError, match=message):
        SimPool(network)(torch.ones(3, 2), PATH)
    with pytest.raises(ValueError, match=message):
        SimPool(network)(torch.ones(3, 2), adj=torch.ones(3, 3))
    # Errors that have another reason stay what they are, but for the name of the network.
    with pytest.raises(ValueError, match=r"`assignment` \(GCNConv\) must take.*mat1 and mat2"):
        SimPool(GCNConv(12, 3), k=4)(torch.ones(3, 2), PATH)

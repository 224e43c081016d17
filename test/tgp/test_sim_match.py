"""SimMatch: its clusters, and tgp's precoarsening."""

from typing import Any

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.utils import coalesce, remove_self_loops

from helpers.graphs import FLAVORS, draw, draw_all, union
from torch_geometric_simpool.topk.matching import match_similar

pytest.importorskip("tgp.poolers", reason="needs torch-geometric-pool")
registered: Any = pytest.importorskip("torch_geometric_simpool.tgp")
transforms: Any = pytest.importorskip("tgp.data.transforms")
loaders: Any = pytest.importorskip("tgp.data.loaders")
STAR = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])


def with_features(data: Data) -> Data:
    data.x = torch.randn(data.num_nodes, 3)
    return data


@pytest.mark.parametrize("flavor", FLAVORS)
def test_pools_by_the_matching(flavor: str) -> None:
    data = with_features(draw(flavor, 3).data())
    settings: dict[str, Any] = {"lam": 1.0, "measure": "jaccard"}
    cluster = match_similar(data.edge_index, 3, data.edge_weight, data.num_nodes, **settings)
    size = int(cluster.max()) + 1 if cluster.numel() > 0 else 0
    out = registered.SimMatch(num_similar=3, **settings)(
        x=data.x, adj=data.edge_index, edge_weight=data.edge_weight
    )
    torch.testing.assert_close(out.x, torch.zeros(size, 3).index_add(0, cluster, data.x))
    edges, weight = coalesce(cluster[data.edge_index], data.edge_weight, size)
    edges, weight = remove_self_loops(edges, weight)
    if weight is not None:  # tgp removes edges whose weights cancel
        edges, weight = edges[:, weight.abs() > 1e-8], weight[weight.abs() > 1e-8]
        torch.testing.assert_close(out.edge_weight, weight)
    assert torch.equal(out.edge_index, edges)
    lifted = registered.SimMatch()(x=out.x, so=out.so, lifting=True)
    assert torch.equal(lifted, out.x[cluster])


def test_batch_equals_single() -> None:
    graphs = [graph for graph in draw_all(4) if graph.num_nodes > 0]
    joined, batch = union(graphs)
    data = with_features(joined.data())
    pooler = registered.SimMatch(num_similar=2)
    out = pooler(x=data.x, adj=data.edge_index, edge_weight=data.edge_weight, batch=batch)
    for number, graph in enumerate(graphs):
        single, x = graph.data(), data.x[batch == number]
        alone = pooler(x=x, adj=single.edge_index, edge_weight=single.edge_weight)
        assert torch.equal(out.x[out.batch == number], alone.x)


def test_precoarsening() -> None:
    """The transform computes the levels of the pooler, also in a batch."""
    graphs = [with_features(graph.data()) for graph in draw_all(5) if graph.num_nodes > 0]
    for data in graphs:
        if data.edge_weight is None:
            data.edge_weight = torch.ones(data.num_edges)
    settings = {"num_similar": 3}
    transform = transforms.PreCoarsening([("simmatch", settings), ("simmatch", settings)])
    coarse = [transform(data.clone()) for data in graphs]
    pooler = registered.SimMatch(**settings)
    for data, levels in zip(graphs, coarse, strict=True):
        x, adj, weight = data.x, data.edge_index, data.edge_weight
        for level in levels.pooled_data:
            out = pooler(x=x, adj=adj, edge_weight=weight)
            assert torch.equal(level.edge_index, out.edge_index)
            assert torch.equal(level.so.s.to_dense(), out.so.s.to_dense())
            torch.testing.assert_close(level.edge_weight, out.edge_weight)
            x, adj, weight = out.x, out.edge_index, out.edge_weight
    (batch,) = loaders.PoolDataLoader(coarse, batch_size=len(coarse))
    whole = Batch.from_data_list(graphs)
    out = pooler(x=whole.x, adj=whole.edge_index, edge_weight=whole.edge_weight, batch=whole.batch)
    assert torch.equal(batch.pooled_data[0].edge_index, out.edge_index)
    assert torch.equal(batch.pooled_data[0].batch, out.batch)
    with pytest.raises(ValueError, match="must not be trainable"):
        transforms.PreCoarsening([("sim", {"in_channels": 3, "k": 2})])


def test_integer_features_and_cache() -> None:
    pooler = registered.SimMatch(num_similar=2, cached=True)
    out = pooler(x=torch.tensor([[1], [2], [3], [4]]), adj=STAR)
    assert out.x.T.tolist() == [[1, 5, 4]]
    assert pooler(x=torch.ones(4, 1), adj=STAR).so is out.so


def test_gradients() -> None:
    data = with_features(draw("integer", 1).data())
    weight, x = data.edge_weight.requires_grad_(), data.x.requires_grad_()
    out = registered.SimMatch(remove_self_loops=False)(x=x, adj=data.edge_index, edge_weight=weight)
    (out.x.sum() + out.edge_weight.sum()).backward()
    assert torch.equal(x.grad, torch.ones_like(x))
    assert torch.equal(weight.grad, torch.ones_like(weight))


def test_wrong_arguments() -> None:
    cases: list[dict[str, Any]] = [
        {"num_similar": 0},
        {"measure": "hamming"},
        {"lift": "sum"},
        {"s_inv_op": "sum"},
        {"p": 0},
    ]
    for settings in cases:
        (name,) = settings
        with pytest.raises(ValueError, match=f"`{name}` must"):
            registered.SimMatch(**settings)
    x = torch.randn(3, 2)
    for adj, message in [
        (None, "`adj` must"),
        (torch.ones(3, 3), "`adj` must be sparse"),
        (torch.tensor([[0, 5], [5, 0]]), "`edge_index` must hold node ids in"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            registered.SimMatch()(x=x, adj=adj)

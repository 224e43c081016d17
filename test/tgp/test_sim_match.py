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


def with_features(data: Data) -> Data:
    data.x = torch.randn(data.num_nodes, 3)
    return data


@pytest.mark.parametrize("flavor", FLAVORS)
def test_pools_by_the_matching(flavor: str) -> None:
    data = with_features(draw(flavor, 3).data())
    cluster = match_similar(data.edge_index, 3, data.edge_weight, data.num_nodes)
    size = int(cluster.max()) + 1 if cluster.numel() > 0 else 0
    out = registered.SimMatch(num_similar=3)(
        x=data.x, adj=data.edge_index, edge_weight=data.edge_weight
    )
    torch.testing.assert_close(out.x, torch.zeros(size, 3).index_add(0, cluster, data.x))
    edges, weight = coalesce(cluster[data.edge_index], data.edge_weight, size)
    edges, weight = remove_self_loops(edges, weight)
    if weight is not None:  # tgp leaves out what cancels
        edges, weight = edges[:, weight.abs() > 1e-8], weight[weight.abs() > 1e-8]
        torch.testing.assert_close(out.edge_weight, weight)
    assert torch.equal(out.edge_index, edges)
    lifted = registered.SimMatch()(x=out.x, so=out.so, lifting=True)
    assert torch.equal(lifted, out.x[cluster])


def test_batch_equals_single() -> None:
    graphs = [graph for graph in draw_all(4) if graph.num_nodes > 0]
    union_of_all, of_node = union(graphs)
    data = with_features(union_of_all.data())
    pooler = registered.SimMatch(num_similar=2)
    out = pooler(x=data.x, adj=data.edge_index, edge_weight=data.edge_weight, batch=of_node)
    for number, graph in enumerate(graphs):
        single = graph.data()
        single.x = data.x[of_node == number]
        alone = pooler(x=single.x, adj=single.edge_index, edge_weight=single.edge_weight)
        assert torch.equal(out.x[out.batch == number], alone.x)


def test_precoarsening() -> None:
    """By a transform, in batches, and the same as pooling while training."""
    graphs = [with_features(graph.data()) for graph in draw_all(5) if graph.num_nodes > 0]
    for data in graphs:
        if data.edge_weight is None:
            data.edge_weight = torch.ones(data.num_edges)
    settings = {"num_similar": 3}
    transform = transforms.PreCoarsening([("simmatch", settings), ("simmatch", settings)])
    coarse = [transform(data.clone()) for data in graphs]
    pooler = registered.SimMatch(**settings)
    for data, given in zip(graphs, coarse, strict=True):
        x, adj, weight = data.x, data.edge_index, data.edge_weight
        for level in given.pooled_data:
            out = pooler(x=x, adj=adj, edge_weight=weight)
            assert torch.equal(level.edge_index, out.edge_index)
            torch.testing.assert_close(level.edge_weight, out.edge_weight)
            assert torch.equal(level.so.s.to_dense(), out.so.s.to_dense())
            assert level.num_nodes == out.x.size(0)
            x, adj, weight = out.x, out.edge_index, out.edge_weight
    (batch,) = loaders.PoolDataLoader(coarse, batch_size=len(coarse))
    whole = Batch.from_data_list(graphs)
    out = pooler(x=whole.x, adj=whole.edge_index, edge_weight=whole.edge_weight, batch=whole.batch)
    assert torch.equal(batch.pooled_data[0].edge_index, out.edge_index)
    assert torch.equal(batch.pooled_data[0].batch, out.batch)
    assert torch.equal(batch.pooled_data[0].so.s.to_dense(), out.so.s.to_dense())


def test_sim_does_not_precoarsen() -> None:
    with pytest.raises(ValueError, match="must not be trainable"):
        transforms.PreCoarsening([("sim", {"in_channels": 3, "k": 2})])


def test_cached() -> None:
    data = with_features(draw("undirected", 0).data())
    pooler = registered.SimMatch(cached=True)
    out = pooler(x=data.x, adj=data.edge_index)
    assert pooler(x=data.x, adj=data.edge_index).so is out.so
    pooler.clear_cache()
    assert pooler(x=data.x, adj=data.edge_index).so is not out.so


def test_gradients() -> None:
    data = with_features(draw("integer", 1).data())
    weight = data.edge_weight.requires_grad_()
    x = data.x.requires_grad_()
    out = registered.SimMatch(remove_self_loops=False)(x=x, adj=data.edge_index, edge_weight=weight)
    (out.x.sum() + out.edge_weight.sum()).backward()
    assert torch.equal(x.grad, torch.ones_like(x))
    assert torch.equal(weight.grad, torch.ones_like(weight))


def test_integer_features() -> None:
    star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
    out = registered.SimMatch(num_similar=2)(x=torch.tensor([[1], [2], [3], [4]]), adj=star)
    assert out.x.T.tolist() == [[1, 5, 4]]


def test_bad_input() -> None:
    x, edge_index = torch.randn(3, 2), torch.tensor([[0, 5], [5, 0]])
    cases: list[tuple[dict[str, Any], str]] = [
        ({"num_similar": 0}, "`num_similar` must be an integer >= 1"),
        ({"measure": "hamming"}, "`measure` must be one of"),
        ({"lift": "sum"}, "`lift` must be one of"),
        ({"s_inv_op": "sum"}, "`s_inv_op` must be one of"),
    ]
    for settings, message in cases:
        with pytest.raises(ValueError, match=message):
            registered.SimMatch(**settings)
    with pytest.raises(ValueError, match="`adj` must be given, got None"):
        registered.SimMatch()(x=x)
    with pytest.raises(ValueError, match="`adj` must be `edge_index` or a sparse matrix"):
        registered.SimMatch()(x=x, adj=torch.ones(3, 3))
    with pytest.raises(ValueError, match="`edge_index` must hold node ids below"):
        registered.SimMatch()(x=x, adj=edge_index)
    ids = torch.tensor([[0, 1], [2, 1]])
    with pytest.raises(ValueError, match="`edge_index` must join nodes of one graph"):
        registered.SimMatch()(x=x, adj=ids, batch=torch.tensor([0, 0, 1]))
    with pytest.raises(ValueError, match=r"`adj` must have shape \[3, 3\].*got \[9, 9\]"):
        registered.SimMatch()(x=x, adj=torch.sparse_coo_tensor(ids, torch.ones(2), (9, 9)))
    with pytest.raises(ValueError, match=r"`x` must have shape \[N, F\], got \[3\]"):
        registered.SimMatch()(x=x[:, 0], adj=ids)

"""SimPooling computes the results of the package's own operators."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.nn import DenseGraphConv, GraphConv
from torch_geometric.utils import to_dense_adj, to_dense_batch

from helpers.gradients import assert_same_gradients
from helpers.graphs import draw_all, union
from torch_geometric_simpool import StructuralSimilarity, dense_sim_pool, sim_pool
from torch_geometric_simpool import lift as lift_to_nodes

pytest.importorskip("tgp.poolers", reason="needs torch-geometric-pool")
tgp: Any = pytest.importorskip("torch_geometric_simpool.tgp")

K = 3


@pytest.fixture
def batch() -> Batch:
    """Returns random graphs of all flavors in float64."""
    graph, batch = union([graph for graph in draw_all(1) if graph.num_nodes > 0])
    return Batch(
        x=torch.randn(graph.num_nodes, 5, dtype=torch.float64),
        edge_index=graph.edge_index,
        edge_weight=graph.edge_weight(),
        batch=batch,
        sim=torch.rand(graph.num_nodes, 4, dtype=torch.float64),
    )


def make(**settings: Any) -> Any:
    torch.manual_seed(0)
    return tgp.SimPooling(**{"in_channels": [5, 6], "k": K, "num_similar": 4} | settings).double()


def arguments(data: Batch, **other: Any) -> dict[str, Any]:
    graph = {"x": data.x, "adj": data.edge_index, "batch": data.batch, "sim": data.sim}
    return {**graph, "edge_weight": data.edge_weight, **other}


def matrices(out: Any, size: int) -> tuple[Tensor, Tensor]:
    """Returns features and matrices of edges."""
    return out.x.view(size, K, -1), to_dense_adj(
        out.edge_index, out.batch, out.edge_weight, K, size
    )


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("sparse_output", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_is_sim_pool(batch: Batch, batched: bool, sparse_output: bool, transposed: bool) -> None:
    pooler = make(batched=batched, sparse_output=sparse_output, adj_transpose=transposed)
    assert batch.edge_weight is not None
    leaves = [batch.x.requires_grad_(), batch.edge_weight.requires_grad_()]
    leaves.append(batch.sim.requires_grad_())
    out = pooler(**arguments(batch))
    logits = pooler.selector.mlp(batch.sim)
    expected = sim_pool(batch.x, batch.edge_index, logits, batch.batch, batch.edge_weight)
    size = expected[0].size(0)
    if sparse_output:
        x, adj = matrices(out, size)
        assert out.batch.tolist() == torch.arange(size).repeat_interleave(K).tolist()
    else:
        x, adj = out.x, out.edge_index.mT if transposed else out.edge_index
    assert list(out.loss) == ["entropy_loss", "cluster_loss"]
    result = [x, adj, *out.loss.values()]
    assert_same_gradients(result, expected, [*leaves, *pooler.parameters()], 1e-10)


@pytest.mark.parametrize("sparse_output", [False, True])
def test_is_dense_sim_pool(batch: Batch, sparse_output: bool) -> None:
    """The pooler equals `dense_sim_pool`, and NaN in padding is not read."""
    x, mask = to_dense_batch(batch.x, batch.batch)
    adj = to_dense_adj(batch.edge_index, batch.batch, batch.edge_weight)
    sim = torch.rand(*mask.shape, 4, dtype=torch.float64)
    pooler = make(sparse_output=sparse_output, adj_transpose=False)
    x_nan = x.masked_fill(~mask.unsqueeze(-1), torch.nan).requires_grad_()
    adj_nan = adj.masked_fill(~(mask.unsqueeze(-1) & mask.unsqueeze(-2)), torch.nan)
    out = pooler(x=x_nan, adj=adj_nan, mask=mask, sim=sim)
    expected = dense_sim_pool(x_nan, adj_nan, pooler.selector.mlp(sim), mask)
    pooled = matrices(out, x.size(0)) if sparse_output else (out.x, out.edge_index)
    result = [*pooled, *out.loss.values()]
    assert_same_gradients(result, expected, [x_nan, *pooler.parameters()], 1e-10)
    single = pooler(x=x[0], adj=adj[0], mask=mask[0], sim=sim[0])
    torch.testing.assert_close(single.x.view(K, 5), out.x.view(-1, K, 5)[0])


@pytest.mark.parametrize("order", [None, "bfs"])
@pytest.mark.parametrize("batched", [False, True])
def test_data_transforms_have_the_settings_of_the_pooler(
    batch: Batch, batched: bool, order: str
) -> None:
    """Precomputed features equal the features that the pooler computes."""
    settings: dict[str, Any] = {"p": 2, "lam": 0.5, "alpha": 0.3, "measure": "jaccard"}
    pooler = make(batched=batched, order=order, **settings)
    transform = pooler.data_transforms()
    assert repr(transform) == repr(StructuralSimilarity(4, order=order, **settings))
    assert repr(tgp.SimPooling.data_transforms()) == repr(StructuralSimilarity(16))
    computed = pooler(**arguments(batch, sim=None))
    stored = pooler(**arguments(batch, sim=transform(batch).sim))
    torch.testing.assert_close(computed.so.s, stored.so.s, rtol=0, atol=1e-6)
    other = make(batched=batched)(**arguments(batch, sim=None))
    assert not torch.allclose(computed.so.s, other.so.s)
    if batched:  # matrices are transposed
        edge_index = torch.tensor([[0, 1, 2, 0, 3, 5, 3], [1, 2, 3, 2, 4, 2, 5]])
        x = batch.x[:6]
        matrix = to_dense_adj(edge_index)[0].mT
        for adj in (edge_index, matrix):
            sim = transform(Batch(x=x, edge_index=edge_index)).sim
            expected = pooler(x=x, adj=adj, sim=sim).so.s
            torch.testing.assert_close(pooler(x=x, adj=adj).so.s, expected)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("settings", [{"attr": "features"}, {"weight_attr": "weight"}], ids=str)
def test_names_of_attributes_do_not_matter(
    batch: Batch, batched: bool, settings: dict[str, str]
) -> None:
    """The names are for data objects, and a pooler gets tensors."""
    named, plain = (
        make(batched=batched, **s)(**arguments(batch, sim=None)) for s in (settings, {})
    )
    assert torch.equal(named.so.s, plain.so.s)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize(("name", "width"), [("structural", 4), ("node", 5), ("both", 9)])
def test_features(batch: Batch, name: str, width: int, batched: bool) -> None:
    pooler = make(features=name, batched=batched)
    out = pooler(**arguments(batch))
    features = {4: batch.sim, 5: batch.x, 9: torch.cat([batch.sim, batch.x], dim=-1)}[width]
    assert pooler.selector.mlp.in_channels == width
    s = out.so.s[out.so.in_mask] if batched else out.so.s
    torch.testing.assert_close(s, pooler.selector.mlp(features).softmax(dim=-1))


def test_gradients_reach_the_level_above(batch: Batch) -> None:
    """Gradients flow through the pooled matrices and their structural features."""
    first, second = make(batched=False), make(k=2, num_similar=K)
    out = first(**arguments(batch))
    adj = out.edge_index.detach().requires_grad_()
    coarse = second(x=out.x.detach(), adj=adj)
    (gradient,) = torch.autograd.grad(coarse.so.s.square().sum(), adj)
    assert (gradient != 0).any()
    second(x=out.x, adj=out.edge_index).x.square().sum().backward()
    assert all((p.grad != 0).any() for p in first.parameters())


@pytest.mark.parametrize("batched", [False, True])
def test_losses_are_scaled(batch: Batch, batched: bool) -> None:
    plain = make(batched=batched)(**arguments(batch)).loss
    scaled = make(batched=batched, ent_loss_coeff=2.0, cluster_loss_coeff=0.5)(**arguments(batch))
    assert torch.equal(scaled.loss["entropy_loss"], 2 * plain["entropy_loss"])
    assert torch.equal(scaled.loss["cluster_loss"], 0.5 * plain["cluster_loss"])


@pytest.mark.parametrize("batched", [False, True])
def test_directed_messages(batch: Batch, batched: bool) -> None:
    """Dense and sparse layers send equal messages between clusters."""
    dense = make(batched=batched)(**arguments(batch))
    sparse = make(batched=batched, sparse_output=True)(**arguments(batch))
    assert not torch.allclose(dense.edge_index, dense.edge_index.mT)
    conv, dense_conv = GraphConv(5, 2).double(), DenseGraphConv(5, 2).double()
    dense_conv.lin_rel, dense_conv.lin_root = conv.lin_rel, conv.lin_root
    messages = dense_conv(dense.x, dense.edge_index).flatten(0, 1)
    expected = conv(sparse.x, sparse.edge_index, sparse.edge_weight)
    torch.testing.assert_close(messages, expected)


@pytest.mark.parametrize("lift", ["precomputed", "transpose", "inverse"])
@pytest.mark.parametrize("sparse_output", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_lift(batch: Batch, batched: bool, sparse_output: bool, lift: str) -> None:
    pooler = make(batched=batched, sparse_output=sparse_output, lift=lift).float()
    out = pooler(**arguments(batch.apply(lambda v: v.float() if v.is_floating_point() else v)))
    lifted = pooler(x=out.x, so=out.so, lifting=True)
    matrix = out.so.s if lift != "inverse" else torch.linalg.pinv(out.so.s.float()).mT
    if batched:
        matrix, lifted = matrix[out.so.in_mask], lifted[out.so.in_mask]
    expected = lift_to_nodes(out.x.view(-1, K, 5), matrix, batch.batch)
    torch.testing.assert_close(lifted, expected)


@pytest.mark.parametrize("sparse_output", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_graphs_without_nodes_or_edges(batched: bool, sparse_output: bool) -> None:
    """Graphs 0 and 2 have no nodes, graph 1 has two isolated nodes, graph 3 a single node."""
    pooler = make(batched=batched, sparse_output=sparse_output)
    x, batch = torch.rand(3, 5, dtype=torch.float64), torch.tensor([1, 1, 3])
    edge_index = torch.zeros(2, 0, dtype=torch.long)
    out = pooler(x=x, adj=edge_index, batch=batch)
    pooled = out.x.view(4, K, 5)
    assert pooled[[0, 2]].eq(0).all()
    torch.testing.assert_close(pooled[3].sum(dim=0), x[2])
    (out.x.sum() + sum(out.loss.values())).backward()
    assert all(p.grad.isfinite().all() for p in pooler.parameters())
    assert pooler(x=out.x, so=out.so, batch=batch, lifting=True).isfinite().all()
    single = {"x": x[:2], "adj": torch.tensor([[0, 1], [1, 0]]), "batch": batch[:2]}
    if batched:
        assert pooler(**single).x.view(-1, K, 5).shape == (2, K, 5)
    else:
        with pytest.raises(ValueError, match=r"`batch` must be .* 0 for a single graph"):
            pooler(**single)
    alone = pooler(x=x, adj=torch.tensor([[0], [1]]))  # the last node is isolated
    torch.testing.assert_close(alone.x.view(K, 5).sum(dim=0), x.sum(dim=0))


def test_matrices_without_nodes() -> None:
    out = make()(x=torch.zeros(2, 0, 5).double(), adj=torch.zeros(2, 0, 0).double())
    assert out.x.shape == (2, K, 5)
    assert out.x.eq(0).all()
    assert [float(value.detach()) for value in out.loss.values()] == [0.0, 0.0]


def test_wrong_settings() -> None:
    cases: list[dict[str, Any]] = [
        {"k": 0},
        {"num_similar": 0},
        {"in_channels": []},
        {"in_channels": [5, 0]},
        {"features": "all"},
        {"measure": "l2"},
        {"alpha": 2.0},
        {"order": "random order"},
        {"lift": "sum"},
        {"s_inv_op": "sum"},
    ]
    for settings in cases:
        (name,) = settings
        with pytest.raises(ValueError, match=f"`{name}` must"):
            make(**settings)


@pytest.mark.parametrize("batched", [False, True])
def test_wrong_arguments(batch: Batch, batched: bool) -> None:
    pooler, n = make(batched=batched), batch.num_nodes
    cases: list[tuple[str, dict[str, Any]]] = [
        ("adj", {"adj": None}),
        ("adj", {"adj": [[0], [1]]}),
        ("sim", {"sim": batch.sim.tolist()}),
        ("sim", {"sim": batch.sim[:, :3]}),
        ("x", {"x": batch.x[0]}),
        ("edge_index", {"x": batch.x[:3], "batch": None}),
        ("edge_weight", {"edge_weight": torch.ones(1)}),
    ]
    unsorted = {"adj": torch.zeros(2, 0).long(), "batch": batch.batch.flip(0), "edge_weight": None}
    cases.append(("batch", unsorted))
    if batched:
        dense = {"x": torch.ones(2, 3, 5).double(), "batch": None, "sim": None}
        cases += [("mask", {**dense, "adj": torch.ones(2, 3, 3), "mask": torch.ones(1, 3) > 0})]
        cases += [("adj", {**dense, "adj": torch.ones(2, 3, 2)})]
    else:
        cases += [("adj", {"adj": torch.ones(n, n)})]
    no_nodes = {"x": batch.x[:0], "adj": batch.edge_index[:, :0], "edge_weight": None}
    cases.append(("x", {**no_nodes, "batch": None}))
    for name, changed in cases:
        with pytest.raises((TypeError, ValueError), match=f"`{name}` must"):
            pooler(**arguments(batch, **changed))

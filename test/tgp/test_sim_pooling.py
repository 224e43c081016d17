"""SimPooling computes what SimPool's own functions do."""

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.nn import DenseGCNConv, DenseGraphConv, GCNConv, GraphConv
from torch_geometric.utils import to_dense_adj, to_dense_batch

from helpers.gradients import assert_same_gradients
from helpers.graphs import draw_all, union
from torch_geometric_simpool import (
    StructuralSimilarity,
    dense_sim_pool,
    map_indices,
    sim_pool,
    topk_similarity,
)
from torch_geometric_simpool import lift as lift_to_nodes

pytest.importorskip("tgp.poolers", reason="needs torch-geometric-pool")
tgp: Any = pytest.importorskip("torch_geometric_simpool.tgp")

K = 3


@pytest.fixture
def batch() -> Batch:
    """Random graphs of every kind in float64, directed and weighted ones included."""
    graph, of_node = union([graph for graph in draw_all(1) if graph.num_nodes > 0])
    return Batch(
        x=torch.randn(graph.num_nodes, 5, dtype=torch.float64),
        edge_index=graph.edge_index,
        edge_weight=graph.edge_weight(),
        batch=of_node,
        sim=torch.rand(graph.num_nodes, 4, dtype=torch.float64),
    )


def make(**settings: Any) -> Any:
    torch.manual_seed(0)
    return tgp.SimPooling(**{"in_channels": [5, 6], "k": K, "num_similar": 4} | settings).double()


def padded(data: Batch, transposed: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    x, mask = to_dense_batch(data.x, data.batch)
    adj = to_dense_adj(data.edge_index, data.batch, data.edge_weight)
    return x, adj.mT if transposed else adj, mask


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("sparse_output", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_is_sim_pool(batch: Batch, batched: bool, sparse_output: bool, transposed: bool) -> None:
    """Values and gradients, on the way from edges to matrices or edges."""
    pooler = make(batched=batched, sparse_output=sparse_output, adj_transpose=transposed)
    assert batch.edge_weight is not None
    inputs = [batch.x.requires_grad_(), batch.edge_weight.requires_grad_(), batch.sim]
    inputs[2].requires_grad_()
    x, weight, sim = inputs
    out = pooler(x=x, adj=batch.edge_index, edge_weight=weight, batch=batch.batch, sim=sim)
    expected = sim_pool(x, batch.edge_index, pooler.selector.mlp(sim), batch.batch, weight)
    size = expected[0].size(0)
    if sparse_output:
        adj = to_dense_adj(out.edge_index, out.batch, out.edge_weight, K, size)
        assert out.batch.tolist() == torch.arange(size).repeat_interleave(K).tolist()
        pooled_x = out.x.view(size, K, -1)
    else:
        adj = out.edge_index.mT if transposed else out.edge_index
        pooled_x = out.x
        assert out.edge_weight is None
    parameters = [*inputs, *pooler.parameters()]
    assert list(out.loss) == ["entropy_loss", "cluster_loss"]
    found = [pooled_x, adj, *out.loss.values()]
    assert_same_gradients(found, expected, parameters, 1e-10)


@pytest.mark.parametrize("sparse_output", [False, True])
def test_is_dense_sim_pool(batch: Batch, sparse_output: bool) -> None:
    """From matrices; NaN in padded places."""
    x, adj, mask = padded(batch)
    x, adj = x.requires_grad_(), adj.requires_grad_()
    nan = torch.where(mask.unsqueeze(-1) & mask.unsqueeze(-2), 0.0, torch.nan)
    sim = torch.rand(*mask.shape, 4, dtype=torch.float64)
    pooler = make(sparse_output=sparse_output, adj_transpose=False)
    given = x + torch.where(mask, 0.0, torch.nan).unsqueeze(-1)
    out = pooler(x=given, adj=adj + nan, mask=mask, sim=sim)
    expected = dense_sim_pool(x, adj, pooler.selector.mlp(sim), mask)
    pooled_x, pooled_adj = out.x, out.edge_index
    if sparse_output:
        pooled_x = out.x.view_as(expected[0])
        pooled_adj = to_dense_adj(out.edge_index, out.batch, out.edge_weight, K, x.size(0))
    found = [pooled_x, pooled_adj, *out.loss.values()]
    # An edge of weight 0 is none: no gradient flows back to it.
    inputs = [x, *pooler.parameters()] if sparse_output else [x, adj, *pooler.parameters()]
    assert_same_gradients(found, expected, inputs, 1e-10)


def test_one_graph_as_a_matrix() -> None:
    x, adj = torch.rand(6, 5, dtype=torch.float64), torch.rand(6, 6, dtype=torch.float64)
    mask = torch.tensor([True] * 5 + [False])
    out = make(adj_transpose=False)(x=x, adj=adj, mask=mask)
    expected = dense_sim_pool(x, adj, make().selector.mlp(features(x, adj, mask)), mask)
    torch.testing.assert_close((out.x, out.edge_index), expected[:2])


def features(x: Tensor, adj: Tensor, mask: Tensor) -> Tensor:
    nodes = int(mask.sum())
    edge_index = adj[:nodes, :nodes].nonzero().T
    values, index = topk_similarity(edge_index, 4, adj[edge_index[0], edge_index[1]], nodes)
    out = x.new_zeros(x.size(0), 4)
    out[:nodes] = map_indices(values, index, nodes)
    return out


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("measure", ["cosine", "jaccard"])
def test_structural_features(batch: Batch, measure: str, batched: bool) -> None:
    """Without `sim` they are those of the transform."""
    settings: dict[str, Any] = {"p": 2, "lam": 0.5, "alpha": 0.8, "measure": measure}
    pooler = make(batched=batched, **settings)
    sim = StructuralSimilarity(4, order=None, **settings)(batch).sim
    graph = {"adj": batch.edge_index, "edge_weight": batch.edge_weight, "batch": batch.batch}
    given = pooler(x=batch.x, sim=sim, **graph)
    computed = pooler(x=batch.x, **graph)
    torch.testing.assert_close(computed.so.s, given.so.s, rtol=0, atol=1e-6)
    assert not torch.allclose(given.so.s, make(p=1)(x=batch.x, **graph).so.s.flatten(0, 1)[:1])


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize(("name", "width"), [("structural", 4), ("node", 5), ("both", 9)])
def test_what_the_network_reads(batch: Batch, name: str, width: int, batched: bool) -> None:
    pooler = make(features=name, batched=batched)
    out = pooler(x=batch.x, adj=batch.edge_index, batch=batch.batch, sim=batch.sim)
    read = {"structural": [batch.sim], "node": [batch.x], "both": [batch.sim, batch.x]}[name]
    s = pooler.selector.mlp(torch.cat(read, dim=-1)).softmax(dim=-1)
    assert pooler.selector.mlp.in_channels == width
    found = out.so.s[out.so.in_mask] if batched else out.so.s
    torch.testing.assert_close(found, s)


def test_gradients_reach_the_level_above(batch: Batch) -> None:
    """Through the structural features of pooled graphs, and through their matrices."""
    first = make(batched=False)
    second = make(k=2, in_channels=5, num_similar=K, threshold=0.0)
    out = first(x=batch.x, adj=batch.edge_index, batch=batch.batch, sim=batch.sim)
    adj = out.edge_index.detach().requires_grad_()
    coarse = second(x=out.x.detach(), adj=adj)
    (gradient,) = torch.autograd.grad(coarse.so.s.square().sum(), adj)
    assert (gradient != 0).any()
    coarse = second(x=out.x, adj=out.edge_index)
    coarse.x.square().sum().backward()
    assert all((p.grad != 0).any() for p in first.parameters())


@pytest.mark.parametrize("batched", [False, True])
def test_losses_are_scaled(batch: Batch, batched: bool) -> None:
    graph = {"x": batch.x, "adj": batch.edge_index, "batch": batch.batch, "sim": batch.sim}
    plain = make(batched=batched)(**graph).loss
    scaled = make(batched=batched, ent_loss_coeff=2.0, cluster_loss_coeff=0.5)(**graph).loss
    assert torch.equal(scaled["entropy_loss"], 2 * plain["entropy_loss"])
    assert torch.equal(scaled["cluster_loss"], 0.5 * plain["cluster_loss"])


@pytest.mark.parametrize("batched", [False, True])
def test_threshold(batch: Batch, batched: bool) -> None:
    graph = {"x": batch.x, "adj": batch.edge_index, "batch": batch.batch, "sim": batch.sim}
    every = make(batched=batched, sparse_output=True)(**graph)
    bound = float(every.edge_weight.detach().median())
    some = make(batched=batched, sparse_output=True, threshold=bound)(**graph)
    kept = every.edge_weight.abs() > bound
    assert 0 < int(kept.sum()) < kept.numel()
    assert some.edge_index.tolist() == every.edge_index[:, kept].tolist()
    assert some.edge_weight.tolist() == every.edge_weight[kept].tolist()


def test_num_neighbors() -> None:
    """The best edges into each cluster; weights that the tanh rounds to 1 are told apart."""
    product = torch.tensor([[[50.0, 1.0, 0.0], [60.0, 1.0, 0.0], [-70.0, 0.5, 0.0]]])
    connect = make(sparse_output=True, num_neighbors=2).connector
    edges, weight = connect._edges(product)
    assert edges.tolist() == [[0, 1, 1, 2], [1, 0, 1, 0]]
    assert weight.tolist() == [float(torch.tensor(1.0).tanh()), 1.0, weight[0], -1.0]
    every, _ = make(sparse_output=True).connector._edges(torch.cat([product, product]))
    assert every[:, every.size(1) // 2 :].tolist() == (every[:, : every.size(1) // 2] + 3).tolist()


@pytest.mark.parametrize("batched", [False, True])
def test_directed_messages(batch: Batch, batched: bool) -> None:
    """Layers for matrices and layers for edges send the same messages between the clusters."""
    graph = {
        "x": batch.x,
        "adj": batch.edge_index,
        "edge_weight": batch.edge_weight,
        "batch": batch.batch,
    }
    dense = make(batched=batched)(**graph)
    sparse = make(batched=batched, sparse_output=True)(**graph)
    assert not torch.allclose(dense.edge_index, dense.edge_index.mT)
    conv, dense_conv = GraphConv(5, 2).double(), DenseGraphConv(5, 2).double()
    dense_conv.lin_rel, dense_conv.lin_root = conv.lin_rel, conv.lin_root
    found = dense_conv(dense.x, dense.edge_index).flatten(0, 1)
    expected = conv(sparse.x, sparse.edge_index, sparse.edge_weight)
    torch.testing.assert_close(found, expected)


def test_what_follows(batch: Batch) -> None:
    """GCN layers, for matrices and for edges."""
    graph = {"x": batch.x, "adj": batch.edge_index, "batch": batch.batch}
    out = make()(**graph)
    assert DenseGCNConv(5, 2).double()(out.x, out.edge_index).shape == (*out.x.shape[:2], 2)
    out = make(sparse_output=True, num_neighbors=2)(**graph)
    found = GCNConv(5, 2).double()(out.x, out.edge_index, out.edge_weight)
    assert found.shape == (out.x.size(0), 2)
    assert found.isfinite().all()


@pytest.mark.parametrize("lift", ["precomputed", "transpose", "inverse"])
@pytest.mark.parametrize("sparse_output", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_lift(batch: Batch, batched: bool, sparse_output: bool, lift: str) -> None:
    """`lift` of the package, or the pseudoinverse."""
    pooler = make(batched=batched, sparse_output=sparse_output, lift=lift)
    out = pooler(x=batch.x, adj=batch.edge_index, batch=batch.batch, sim=batch.sim)
    found = pooler(x=out.x, so=out.so, lifting=True)
    matrix = out.so.s if lift != "inverse" else torch.linalg.pinv(out.so.s.float()).mT
    if batched:
        matrix, found = matrix[out.so.in_mask], found[out.so.in_mask]
    expected = lift_to_nodes(out.x.view(-1, K, 5), matrix, batch.batch)
    torch.testing.assert_close(found, expected)
    assert found.shape == batch.x.shape


@pytest.mark.parametrize("sparse_output", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_graphs_without_nodes_or_edges(batched: bool, sparse_output: bool) -> None:
    """Graph 0 and 2 have no nodes, graph 1 two isolated ones, graph 3 a single one."""
    pooler = make(batched=batched, sparse_output=sparse_output)
    x, of_node = torch.rand(3, 5, dtype=torch.float64), torch.tensor([1, 1, 3])
    out = pooler(x=x, adj=torch.zeros(2, 0, dtype=torch.long), batch=of_node)
    assert out.x.view(4, K, 5)[[0, 2]].eq(0).all()
    torch.testing.assert_close(out.x.view(4, K, 5)[3].sum(dim=0), x[2])
    expected = sim_pool(x, torch.zeros(2, 0, dtype=torch.long), out.so.s.new_zeros(3, K), of_node)
    assert [v.shape for v in out.loss.values()] == [v.shape for v in expected[2:]]
    (out.x.sum() + sum(out.loss.values())).backward()
    assert all(p.grad.isfinite().all() for p in pooler.parameters())
    assert pooler(x=out.x, so=out.so, batch=of_node, lifting=True).isfinite().all()


@pytest.mark.parametrize("batched", [False, True])
def test_one_graph_after_an_empty_one(batched: bool) -> None:
    out = make(batched=batched)(
        x=torch.rand(2, 5, dtype=torch.float64),
        adj=torch.tensor([[0, 1], [1, 0]]),
        batch=torch.tensor([1, 1]),
    )
    assert out.x.shape == (2, K, 5)
    assert out.edge_index.shape == (2, K, K)
    assert make(batched=batched)(x=out.x, so=out.so, lifting=True).size(-2) == 2


def test_matrices_without_nodes() -> None:
    out = make()(x=torch.zeros(2, 0, 5).double(), adj=torch.zeros(2, 0, 0).double())
    assert out.x.eq(0).all()
    assert out.x.shape == (2, K, 5)
    assert [float(value.detach()) for value in out.loss.values()] == [0.0, 0.0]


def test_isolated_nodes_at_the_end_and_no_batch() -> None:
    x = torch.rand(5, 5, dtype=torch.float64)
    edge_index = torch.tensor([[0, 1], [1, 0]])
    dense, sparse = (make(batched=b)(x=x, adj=edge_index) for b in (True, False))
    torch.testing.assert_close(dense.x, sparse.x)
    torch.testing.assert_close(dense.edge_index, sparse.edge_index)


def test_bad_settings() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"k": 0}, "`k` must be an integer >= 1"),
        ({"num_similar": 0}, "`num_similar` must be an integer >= 1"),
        ({"in_channels": []}, "`in_channels` must hold the number"),
        ({"in_channels": [5, 0]}, "`in_channels` must be an integer >= 1"),
        ({"features": "all"}, "`features` must be one of"),
        ({"measure": "l2"}, "`measure` must be one of"),
        ({"alpha": 2.0}, "`alpha` must be a finite number"),
        ({"lift": "sum"}, "`lift` must be one of"),
        ({"s_inv_op": "sum"}, "`s_inv_op` must be one of"),
        ({"dropout": 1.5}, "`dropout` must be a finite number"),
        ({"threshold": -0.1}, "`threshold` must be a finite number"),
        ({"num_neighbors": 0}, "`num_neighbors` must be an integer >= 1"),
        ({"cluster_loss_coeff": -1.0}, "`cluster_loss_coeff` must be a finite number"),
    ]
    for settings, message in cases:
        with pytest.raises(ValueError, match=message):
            make(**settings)
    for name in ("batched", "sparse_output", "adj_transpose", "cache_preprocessing"):
        with pytest.raises(TypeError, match=f"`{name}` must be True or False"):
            make(**{name: 1})


@pytest.mark.parametrize("batched", [False, True])
def test_bad_input(batch: Batch, batched: bool) -> None:
    pooler, edge_index = make(batched=batched), batch.edge_index
    with pytest.raises(ValueError, match="`adj` must be given, got None"):
        pooler(x=batch.x)
    with pytest.raises(ValueError, match=r"`sim` must have shape .* got"):
        pooler(x=batch.x, adj=edge_index, batch=batch.batch, sim=batch.sim[:, :3])
    with pytest.raises(ValueError, match="`batch` must"):
        pooler(x=batch.x, adj=edge_index, batch=batch.batch.flip(0))
    with pytest.raises(ValueError, match="`edge_index` must hold node ids below"):
        pooler(x=batch.x[:3], adj=edge_index)
    with pytest.raises(ValueError, match=r"`x` must have at least one node, got \[0, 5\]"):
        pooler(x=batch.x[:0], adj=edge_index[:, :0])
    with pytest.raises(ValueError, match="`edge_weight` must have shape"):
        pooler(x=batch.x, adj=edge_index, batch=batch.batch, edge_weight=torch.ones(1))
    with pytest.raises(TypeError, match=r"`x` must be of the type of the layer, torch\.float64"):
        pooler(x=batch.x.float(), adj=edge_index, batch=batch.batch)
    with pytest.raises(ValueError, match=r"`x` must have shape .* or .*, got"):
        pooler(x=batch.x[0], adj=edge_index)
    n = batch.num_nodes
    wrong = torch.sparse_coo_tensor(edge_index, torch.ones(edge_index.size(1)), (n + 5, n + 5))
    with pytest.raises(ValueError, match=rf"`adj` must have shape \[{n}, {n}\].*got \[{n + 5}"):
        pooler(x=batch.x, adj=wrong, batch=batch.batch)
    with pytest.raises(TypeError, match=rf"`adj` must be .*got \[{n}, {n}\] of torch.int64"):
        pooler(x=batch.x, adj=torch.ones(n, n, dtype=torch.long))


def test_narrow_ids(batch: Batch) -> None:
    pooler, edge_index = make(), batch.edge_index
    out = pooler(x=batch.x, adj=edge_index.int(), batch=batch.batch)
    assert torch.equal(out.x, pooler(x=batch.x, adj=edge_index, batch=batch.batch).x)


def test_bad_matrices(batch: Batch) -> None:
    x, adj, mask = padded(batch)
    with pytest.raises(ValueError, match="`adj` must be `edge_index` or a sparse matrix"):
        make(batched=False)(x=x, adj=adj)
    with pytest.raises(ValueError, match="`mask` must have shape"):
        make()(x=x, adj=adj, mask=mask[1:])
    with pytest.raises(ValueError, match="`adj` must have shape"):
        make()(x=x, adj=adj[:, 1:], mask=mask)


def test_says_what_to_install() -> None:
    """And nothing else in the package needs it."""
    program = """
import sys
sys.modules["tgp"] = None
import torch_geometric_simpool.models
try:
    import torch_geometric_simpool.tgp
except ImportError as error:
    assert "pip install torch-geometric-pool" in str(error), error
else:
    raise AssertionError
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

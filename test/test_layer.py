"""The layer: which features it reads, which networks it takes, and both kinds of batch."""

import copy
from typing import Any

import pytest
import torch
import torch_geometric.transforms as T
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GCN, MLP, DenseGCNConv, GCNConv
from torch_geometric.nn import Sequential as GraphSequential
from torch_geometric.utils import to_dense_adj, to_dense_batch

from helpers.graphs import FLAVORS, Graph, draw, union
from torch_geometric_simpool import (
    SimPool,
    StructuralSimilarity,
    dense_sim_pool,
    sim_pool,
    structural_similarity,
)
from torch_geometric_simpool.functional.similarity import MEASURES
from torch_geometric_simpool.models import GRUAssignment

UNWEIGHTED = [f for f in FLAVORS if draw(f, 0).weights is None]


class Recorder(torch.nn.Module):
    """Keeps what it was called with, and returns logits that depend on it."""

    def __init__(self, num_clusters: int = 3) -> None:
        super().__init__()
        self.num_clusters = num_clusters
        self.seen: dict[str, Any] = {}

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | None = None,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        num_nodes: Tensor | None = None,
        adj: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Logits that any change of the features would change."""
        self.seen = {k: v for k, v in locals().items() if k != "self" and v is not None}
        places = torch.arange(1, x.size(-1) + 1, dtype=x.dtype)
        clusters = torch.arange(1, self.num_clusters + 1, dtype=x.dtype)
        return torch.sin(places.unsqueeze(1) * clusters).mul(x.unsqueeze(-1)).sum(-2)


def batch_of(seed: int, dtype: torch.dtype = torch.float32) -> tuple[Graph, Tensor, Tensor]:
    """Unweighted graphs of every flavor, one of them without nodes, and node features."""
    graph, batch = union([draw(f, seed) for f in ["nothing", *UNWEIGHTED]])
    return graph, batch, torch.randn(graph.num_nodes, 2, dtype=dtype)


# ------------------------------------------------------------------ networks


@pytest.mark.parametrize(
    "network",
    [
        lambda: MLP([4, 8, 3], norm=None),
        lambda: torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)),
        lambda: torch.nn.Linear(4, 3),
        lambda: GCN(4, 8, 2, 3),
        lambda: GCNConv(4, 3),
        lambda: GraphSequential(
            "x, edge_index, batch",
            [(GCNConv(4, 8), "x, edge_index -> x"), (torch.nn.Linear(8, 3), "x -> x")],
        ),
    ],
    ids=["MLP", "nn.Sequential", "Linear", "GCN", "GCNConv", "pyg.Sequential"],
)
def test_any_network_serves_on_a_sparse_batch(network: Any) -> None:
    graph, batch, x = batch_of(0)
    pool = SimPool(network(), k=4)
    out = pool(x, graph.edge_index, batch)
    batch_size = int(batch.max()) + 1
    assert out.s.shape == (graph.num_nodes, 3)
    assert out.x.shape == (batch_size, 3, 2)
    assert out.adj.shape == (batch_size, 3, 3)
    (out.x.sum() + out.adj.sum() + out.entropy_loss + out.cluster_loss).backward()
    for parameter in pool.parameters():
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()


def test_a_gnn_reads_the_edges() -> None:
    """The same as calling it by hand."""
    graph, batch, x = batch_of(1)
    weight = torch.rand(len(graph.edges))
    gnn = GCN(2, 8, 2, 3)
    pool = SimPool(gnn, features="node")
    out = pool(x, graph.edge_index, batch, edge_weight=weight)
    logits = gnn(x, graph.edge_index, edge_weight=weight)
    by_hand = sim_pool(x, graph.edge_index, logits, batch, weight)
    assert all(torch.equal(a, b) for a, b in zip(out[1:], by_hand, strict=True))
    assert torch.equal(out.s, logits.softmax(dim=-1))


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo, None])
@pytest.mark.parametrize("k", [None, 4])
def test_a_transposed_sparse_matrix_is_taken(k: int | None, layout: torch.layout | None) -> None:
    """With its values as weights, where none are given: as PyG's layers read it."""
    if layout is None:
        pytest.importorskip("torch_sparse")
    data = draw("dyadic", 3).data()
    adj_t = T.ToSparseTensor(layout=layout)(copy.copy(data)).adj_t
    x = torch.randn(data.num_nodes, 2)
    pool = SimPool(Recorder(), k=k)
    close: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-6}
    for a, b in zip(pool(x, adj_t)[:-1], pool(x, data.edge_index, edge_weight=data.edge_weight)):
        torch.testing.assert_close(a, b, **close)
    if layout is not None:  # values that need a gradient
        grads = []
        for sparse in (adj_t, data.edge_index):
            weight = data.edge_weight.clone().requires_grad_()
            if sparse is adj_t:
                entries = data.edge_index.flip([0])
                sparse = torch.sparse_coo_tensor(entries, weight, adj_t.shape)
                sparse = sparse if layout == torch.sparse_coo else sparse.to_sparse_csr()
                out = pool(x, sparse)
            else:
                out = pool(x, sparse, edge_weight=weight)
            grads += torch.autograd.grad(out.adj.sum(), weight)
        torch.testing.assert_close(*grads, **close)
    given = torch.ones(data.num_edges)
    for a, b in zip(pool(x, adj_t, edge_weight=given)[:-1], pool(x, data.edge_index)):
        torch.testing.assert_close(a, b, **close)


def test_a_gru_reads_rows_of_every_length() -> None:
    """No GNN at all, on both kinds of batch; what pads the rows is not read."""
    pool = SimPool(GRUAssignment(8, 3))
    graph, batch, x = batch_of(2)
    out = pool(x, graph.edge_index, batch)
    for b in batch.unique().tolist():
        alone = draw(["nothing", *UNWEIGHTED][b], 2)
        own = batch == b
        single = pool(x[own], alone.edge_index)
        torch.testing.assert_close(out.s[own], single.s)
        dense = pool(x[own], adj=alone.adj(torch.float32))
        torch.testing.assert_close(dense.s[0], single.s)


@pytest.mark.parametrize(
    "network",
    [lambda: MLP([3, 8, 2], norm=None), lambda: DenseGCNConv(3, 2), lambda: GRUAssignment(4, 2)],
    ids=["MLP", "DenseGCNConv", "GRU"],
)
def test_two_levels(network: Any) -> None:
    """Gradients reach the first network through the rows of C of the second."""
    graph, batch, x = batch_of(3)
    first, second = SimPool(MLP([4, 8, 3], norm=None), k=4), SimPool(network())
    level0 = first(x, graph.edge_index, batch)
    level1 = second(level0.x.detach(), adj=level0.adj)
    assert level1.x.shape == (level0.x.size(0), 2, 2)
    (level1.x.square().sum() + level1.entropy_loss + level1.cluster_loss).backward()
    for pool in (first, second):
        for parameter in pool.parameters():
            assert parameter.grad is not None
            assert torch.isfinite(parameter.grad).all()
    gradients = [p.grad for p in first.parameters() if p.grad is not None]
    assert any(gradient.abs().sum() > 0 for gradient in gradients)


# ------------------------------------------------------------------ features


def test_what_a_sparse_batch_hands_over() -> None:
    graph, batch, x = batch_of(4)
    weight, attr = torch.rand(len(graph.edges)), torch.randn(len(graph.edges), 5)
    network = Recorder()
    batch_size = int(batch.max()) + 3
    SimPool(network, k=4)(
        x, graph.edge_index, batch, edge_weight=weight, edge_attr=attr, batch_size=batch_size
    )
    seen = network.seen
    assert set(seen) == {
        "x", "edge_index", "edge_weight", "edge_attr", "batch", "batch_size", "num_nodes"
    }  # fmt: skip
    assert torch.equal(seen["edge_weight"], weight)
    assert torch.equal(seen["edge_attr"], attr)
    assert seen["batch_size"] == batch_size
    assert torch.equal(seen["num_nodes"], batch.bincount()[batch])


def test_what_a_dense_batch_hands_over() -> None:
    adj, mask = torch.rand(2, 4, 4), torch.arange(4) < torch.tensor([[4], [2]])
    network = Recorder()
    SimPool(network)(torch.randn(2, 4, 2), adj=adj, mask=mask)
    assert set(network.seen) == {"x", "adj", "mask", "num_nodes"}
    assert network.seen["num_nodes"].tolist() == [[4] * 4, [2] * 4]
    assert torch.equal(network.seen["adj"][0], adj[0])
    assert (network.seen["adj"][1, 2:] == 0).all()
    assert torch.equal(network.seen["mask"], mask)


@pytest.mark.parametrize("flavor", UNWEIGHTED)
def test_mapped_features_are_those_of_the_transform(flavor: str) -> None:
    """On the fly and precomputed, on a sparse batch and on a dense one."""
    for seed in range(4):
        graph = draw(flavor, seed)
        for k, p, lam, alpha in ((3, 1, 0.0, 1.0), (12, 2, 1.0, 0.8)):
            sim = StructuralSimilarity(k, alpha, None, p=p, lam=lam)(graph.data()).sim
            network, x = Recorder(), torch.randn(graph.num_nodes, 2)
            pool = SimPool(network, k=k, p=p, lam=lam, alpha=alpha)
            fly = pool(x, graph.edge_index)
            assert torch.equal(network.seen["x"], sim)
            given = pool(x, graph.edge_index, sim=sim)
            assert all(torch.equal(a, b) for a, b in zip(fly[:-1], given[:-1], strict=True))

            pool(x, adj=graph.adj(torch.float32))
            assert torch.equal(network.seen["x"][0], sim)
            dense = pool(x, adj=graph.adj(torch.float32), sim=sim)
            torch.testing.assert_close(dense.x, given.x)


@pytest.mark.parametrize("k", [None, 5])
def test_given_features_are_what_the_network_reads(k: int | None) -> None:
    """Whatever could be computed instead."""
    graph, network = draw("undirected", 0), Recorder()
    x, sim = torch.randn(graph.num_nodes, 2), torch.rand(graph.num_nodes, 5)
    pool = SimPool(network, k=k)
    pool(x, graph.edge_index, sim=sim)
    assert torch.equal(network.seen["x"], sim)
    pool(x, adj=graph.adj(torch.float32), sim=sim)
    assert torch.equal(network.seen["x"][0], sim)


def test_ties_of_a_dense_matrix_come_in_order() -> None:
    """3 / sqrt(3 * 9) is 1 / sqrt(3 * 1), but not in float32; the order is that of the sparse.

    Node 0 knows a, b and c; node 1 knows a, b, c and six others; node 2 knows a alone.
    The second graph is the same with nodes 1 and 2 the other way round.
    """
    for many, one in ((1, 2), (2, 1)):
        pairs = [(0, m) for m in (3, 4, 5)] + [(many, m) for m in range(3, 12)] + [(one, 3)]
        graph = Graph(12, tuple(pairs + [(j, i) for i, j in pairs]))
        sim = StructuralSimilarity(3, order=None)(graph.data()).sim
        torch.testing.assert_close(sim[0] * 13, torch.tensor([2, 2 + 3**-0.5, 3 + 3**-0.5]))
        network = Recorder()
        SimPool(network, k=3)(torch.ones(12, 1), adj=graph.adj(torch.float32))
        torch.testing.assert_close(network.seen["x"][0], sim, rtol=0, atol=1e-5)


@pytest.mark.parametrize("measure", list(MEASURES))
def test_leaves_of_a_dense_star_come_in_order(measure: str) -> None:
    """Under every measure, those without a sparse form as well."""
    adj = torch.zeros(40, 40)
    adj[7], adj[:, 7], adj[7, 7] = 1, 1, 0
    network = Recorder()
    SimPool(network, k=30, alpha=0.0, measure=measure)(torch.ones(40, 1), adj=adj)
    leaves = torch.tensor([j for j in range(40) if j != 7])
    numbers = (network.seen["x"][0] * 41 - 1).round().long()
    assert torch.equal(numbers[leaves], leaves[:30].repeat(39, 1))
    assert numbers[7, 0] == 7


@pytest.mark.parametrize("measure", list(MEASURES))
def test_mapped_features_of_a_padded_batch(measure: str) -> None:
    """Any mask: nodes are numbered among the real ones, as if the rest were not there."""
    adj = torch.rand(2, 7, 7)
    mask = torch.rand(2, 7) < 0.6
    network = Recorder()
    pool = SimPool(network, k=4, p=2, alpha=0.8, measure=measure)
    poisoned = adj.masked_fill(~(mask.unsqueeze(1) & mask.unsqueeze(2)), torch.nan)
    pool(torch.randn(2, 7, 2), adj=poisoned, mask=mask)
    seen = network.seen["x"]
    assert (seen[~mask] == 0).all()
    for b in range(2):
        cut = adj[b][mask[b]][:, mask[b]]
        pool(torch.randn(cut.size(0), 2), adj=cut)
        torch.testing.assert_close(seen[b][mask[b]], network.seen["x"][0])


def test_negative_similarities_come_last_and_zero_ones_not_at_all() -> None:
    adj = torch.zeros(4, 4)
    adj[0, 3], adj[1, 3], adj[2, 3] = 1, -1, 1
    network = Recorder()
    SimPool(network, k=4)(torch.ones(4, 1), adj=adj)
    torch.testing.assert_close(network.seen["x"][0, 0] * 5, torch.tensor([2.0, 4, 1, 0]))


@pytest.mark.parametrize("measure", list(MEASURES))
def test_rows_of_c_as_they_are(measure: str) -> None:
    """On a sparse batch padded to its largest graph, on a dense one as wide as it is."""
    graph, batch, x = batch_of(5)
    network = Recorder()
    pool = SimPool(network, p=2, lam=0.5, measure=measure)
    pool(x, graph.edge_index, batch)
    widest = int(batch.bincount().max())
    assert network.seen["x"].shape == (graph.num_nodes, widest)
    for b, flavor in enumerate(["nothing", *UNWEIGHTED]):
        alone = draw(flavor, 5)
        sim = structural_similarity(alone.adj(torch.float32), 2, 0.5, measure)
        rows = network.seen["x"][batch == b] if (batch == b).any() else x.new_zeros(0, widest)
        torch.testing.assert_close(rows[:, : alone.num_nodes], sim)
        assert (rows[:, alone.num_nodes :] == 0).all()

    adj = torch.rand(2, 4, 4)
    pool(torch.randn(2, 4, 2), adj=adj)
    assert torch.equal(network.seen["x"], structural_similarity(adj, 2, 0.5, measure))


def test_edge_weights_count_in_the_features() -> None:
    graph, x = draw("dyadic", 3), torch.randn(8, 2)
    assert graph.num_nodes == 8
    network = Recorder()
    for k in (None, 4):
        pool = SimPool(network, k=k)
        pool(x, graph.edge_index)
        plain = network.seen["x"]
        pool(x, graph.edge_index, edge_weight=graph.edge_weight(torch.float32))
        weighted = network.seen["x"]
        assert not torch.equal(plain, weighted)
        expected = (
            StructuralSimilarity(4, order=None)(graph.data()).sim
            if k
            else structural_similarity(graph.adj(torch.float32))
        )
        torch.testing.assert_close(weighted, expected)


@pytest.mark.parametrize("dense", [False, True])
def test_node_features(dense: bool) -> None:
    """Of the pooled graph, or of another source; behind the structural ones for 'both'."""
    graph = draw("undirected", 0)
    x, assign_x = torch.randn(graph.num_nodes, 2), torch.randn(graph.num_nodes, 5)
    sim = StructuralSimilarity(4, order=None)(graph.data()).sim
    settings: dict[str, Any] = (
        {"adj": graph.adj(torch.float32)} if dense else {"edge_index": graph.edge_index}
    )
    network = Recorder()
    for features, expected in [
        ("node", [assign_x]),
        ("both", [sim, assign_x]),
        ("structural", [sim]),
    ]:
        pool = SimPool(network, features, k=4)
        out = pool(x, assign_x=assign_x, **settings)
        seen = network.seen["x"][0] if dense else network.seen["x"]
        torch.testing.assert_close(seen, torch.cat(expected, dim=1))
        torch.testing.assert_close(out.x[0], out.s.reshape(-1, 3).t() @ x)
    SimPool(network, "node")(x, **settings)
    assert torch.equal(network.seen["x"].view(-1, 2), x)


# ------------------------------------------------------------------ results


@pytest.mark.parametrize("features", ["structural", "node", "both"])
@pytest.mark.parametrize("k", [None, 4])
def test_sparse_equals_dense(features: str, k: int | None) -> None:
    graph, batch, x = batch_of(6, torch.float64)
    pool = SimPool(Recorder(), features, k=k, p=2, lam=0.5).double()
    sparse = pool(x, graph.edge_index, batch)
    batch_size = int(batch.max()) + 1
    dense_x, mask = to_dense_batch(x, batch, batch_size=batch_size)
    adj = to_dense_adj(graph.edge_index, batch, batch_size=batch_size).double()
    dense = pool(dense_x, adj=adj, mask=mask)
    # The sparse rows of C are float32: no edge weight says otherwise.
    close: dict[str, Any] = {"rtol": 0, "atol": 1e-5}
    torch.testing.assert_close(dense.s[mask], sparse.s, **close)
    assert (dense.s[~mask] == 0).all()
    for a, b in zip(sparse[1:-1], dense[1:-1], strict=True):
        torch.testing.assert_close(a, b, **close)


def test_batched_equals_single() -> None:
    graph, batch, x = batch_of(7)
    pool = SimPool(MLP([4, 8, 3], norm=None), k=4)
    out = pool(x, graph.edge_index, batch)
    losses = []
    for b in batch.unique().tolist():
        alone = draw(["nothing", *UNWEIGHTED][b], 7)
        own = batch == b
        single = pool(x[own], alone.edge_index)
        torch.testing.assert_close(out.s[own], single.s)
        torch.testing.assert_close(out.x[b], single.x[0])
        torch.testing.assert_close(out.adj[b], single.adj[0])
        losses.append(torch.stack(single[3:-1]))
    torch.testing.assert_close(torch.stack(out[3:-1]), torch.stack(losses).mean(0))


@pytest.mark.parametrize("features", ["structural", "both"])
@pytest.mark.parametrize("k", [None, 3])
@pytest.mark.parametrize("poison", [0.0, float("nan"), float("inf")])
def test_padding_does_not_matter(poison: float, k: int | None, features: str) -> None:
    """Forward and backward, at a deeper level of graphs of different sizes."""
    sizes = (4, 2, 3)
    mask = torch.arange(6) < torch.tensor(sizes).unsqueeze(1)
    real = mask.unsqueeze(1) & mask.unsqueeze(2)
    x = torch.randn(3, 6, 2).masked_fill(~mask.unsqueeze(-1), poison).requires_grad_()
    adj = torch.rand(3, 6, 6).masked_fill(~real, poison).requires_grad_()
    width = 2 if features == "both" else 0
    network = GRUAssignment(5, 3, width) if k is None else MLP([k + width, 5, 3], norm=None)
    pool = SimPool(network, features, k=k)
    out = pool(x, adj=adj, mask=mask)
    (out.x.square().sum() + out.adj.sum() + out.entropy_loss - out.cluster_loss).backward()
    assert adj.grad is not None
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
    assert torch.isfinite(adj.grad).all()
    assert (adj.grad[~real] == 0).all()
    assert adj.grad[real].abs().sum() > 0
    for b, size in enumerate(sizes):
        single = pool(x[b, :size].detach(), adj=adj[b, :size, :size].detach())
        torch.testing.assert_close(out.s[b, :size], single.s[0])
        torch.testing.assert_close(out.x[b], single.x[0])
        torch.testing.assert_close(out.adj[b], single.adj[0])


@pytest.mark.parametrize("k", [None, 3])
def test_padding_may_be_anywhere(k: int | None) -> None:
    """As `cluster_mask` says which clusters count: not the first ones."""
    network = GRUAssignment(5, 3) if k is None else MLP([k, 5, 3], norm=None)
    pool = SimPool(network, k=k)
    mask = torch.tensor([[False, True, True, False, True], [True, True, True, True, False]])
    x, adj = torch.randn(2, 5, 2), torch.rand(2, 5, 5).requires_grad_()
    out = pool(x, adj=adj, mask=mask)
    weight = torch.randn(3, 2)
    (grad,) = torch.autograd.grad((out.x[0] * weight).sum() + out.entropy_loss * 0, adj)
    for b, own in enumerate(mask):
        single_adj = adj[b][own][:, own].detach().requires_grad_()
        single = pool(x[b][own], adj=single_adj)
        torch.testing.assert_close(out.s[b][own], single.s[0])
        torch.testing.assert_close(out.adj[b], single.adj[0])
        if b == 0:
            (expected,) = torch.autograd.grad((single.x[0] * weight).sum(), single_adj)
            torch.testing.assert_close(grad[b][own][:, own], expected)


def test_rows_of_c_keep_the_order_of_many_nodes() -> None:
    """Some sorts are stable by chance, for few numbers."""
    network, generator = Recorder(), torch.Generator().manual_seed(0)
    pool = SimPool(network)
    mask = torch.rand(1, 200, generator=generator) < 0.5
    x, adj = torch.randn(1, 200, 2), torch.rand(1, 200, 200)
    pool(x, adj=adj, mask=mask)
    read = network.seen["x"]
    pool(x[:, mask[0]], adj=adj[:, mask[0]][:, :, mask[0]])
    torch.testing.assert_close(read[0, mask[0], : int(mask.sum())], network.seen["x"][0])
    assert (read[0, :, int(mask.sum()) :] == 0).all()


def test_a_network_gets_the_mask_that_was_given() -> None:
    """Also where all nodes are valid; none where none was given."""
    network, x, adj = Recorder(), torch.randn(2, 3, 2), torch.rand(2, 3, 3)
    pool = SimPool(network, k=2)
    for valid in (True, False):
        mask = torch.ones(2, 3, dtype=torch.bool)
        mask[1, 2] = valid
        pool(x, adj=adj, mask=mask)
        assert torch.equal(network.seen["mask"], mask)
    pool(x[0], adj=adj[0], mask=mask[0])
    assert torch.equal(network.seen["mask"], mask[:1])
    pool(x, adj=adj)
    assert "mask" not in network.seen


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.float16])
def test_rows_of_c_add_parallel_edges_exactly(dtype: torch.dtype) -> None:
    """Their sums would overflow in the type of the weights."""
    large = {torch.int8: 100, torch.uint8: 200, torch.float16: 60_000}[dtype]
    edge_index = torch.tensor([[0, 0, 0, 1, 2], [1, 1, 2, 0, 3]])
    weight = torch.tensor([large, large, 56, 1, 1])
    rows = []
    for given in (weight.to(dtype), weight.float()):
        network = Recorder()
        SimPool(network)(torch.randn(4, 2), edge_index, edge_weight=given)
        rows.append(network.seen["x"])
    assert torch.equal(*rows)


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_padding_of_given_features_does_not_matter(poison: float) -> None:
    mask = torch.tensor([[True, True, True, True], [True, True, False, False]])
    x, sim = torch.randn(2, 4, 2), torch.rand(2, 4, 3)
    adj = torch.rand(2, 4, 4)
    pool = SimPool(MLP([3 + 2, 5, 3], norm=None), "both")
    clean = pool(x, adj=adj, mask=mask, sim=sim, assign_x=x)
    padded = ~mask.unsqueeze(-1)
    sim, assign_x = (t.masked_fill(padded, poison).requires_grad_() for t in (sim, x))
    out = pool(x, adj=adj, mask=mask, sim=sim, assign_x=assign_x)
    for a, b in zip(out, clean, strict=True):
        torch.testing.assert_close(a, b)
    (out.x.sum() + out.adj.sum() + out.cluster_loss).backward()
    for tensor in (sim, assign_x, *pool.parameters()):
        assert tensor.grad is not None
        assert torch.isfinite(tensor.grad).all()


def test_fields_of_the_result() -> None:
    graph, batch, x = batch_of(8)
    network = Recorder()
    out = SimPool(network, k=4)(x, graph.edge_index, batch)
    assert out._fields == ("s", "x", "adj", "entropy_loss", "cluster_loss")
    logits = network(network.seen["x"])
    expected = sim_pool(x, graph.edge_index, logits, batch)
    assert all(torch.equal(a, b) for a, b in zip(out[1:], expected, strict=True))
    dense = SimPool(network)(torch.randn(2, 4, 2), adj=torch.rand(2, 4, 4))
    assert dense._fields == out._fields
    assert dense.s.shape == (2, 4, 3)


def test_a_dense_graph_without_a_batch_dimension() -> None:
    adj, mask = torch.rand(5, 5), torch.arange(5) < 4
    x = torch.randn(5, 2)
    network = Recorder()
    pool = SimPool(network, "both")
    single = pool(x, adj=adj, mask=mask, assign_x=x + 1)
    batched = pool(x[None], adj=adj[None], mask=mask[None], assign_x=x[None] + 1)
    assert all(torch.equal(a, b) for a, b in zip(single, batched, strict=True))
    logits = network(network.seen["x"])
    expected = dense_sim_pool(x, adj, logits[0], mask)
    assert all(torch.equal(a, b) for a, b in zip(single[1:], expected, strict=True))


@pytest.mark.parametrize("k", [None, 4])
def test_nothing(k: int | None) -> None:
    """A batch without nodes."""
    pool = SimPool(Recorder(), k=k)
    out = pool(
        torch.zeros(0, 2),
        torch.zeros(2, 0, dtype=torch.long),
        torch.zeros(0, dtype=torch.long),
        batch_size=2,
    )
    assert out.x.shape == (2, 3, 2)
    assert (out.adj == 0).all()
    assert out.entropy_loss == 0


@pytest.mark.parametrize("measure", list(MEASURES))
@pytest.mark.parametrize("tiny", [1e-20, 1e-30])
def test_all_but_empty_clusters_have_finite_gradients(tiny: float, measure: str) -> None:
    """A softmax in float32 that leaves next to nothing for some clusters, two levels deep."""
    graph, batch, x = batch_of(9)
    level = torch.tensor([0.0, 0.0, tiny, tiny]).clamp(min=1e-45).log().clamp(min=-100)
    level[:2] = 0
    logits = (level + torch.randn(graph.num_nodes, 4)).requires_grad_()
    _, adj, _, _ = sim_pool(x, graph.edge_index, logits, batch)
    pooled = torch.randn(adj.size(0), 4, 2)
    for k in (None, 3):
        pool = SimPool(MLP([k or 4, 8, 2], norm=None), k=k, measure=measure)
        out = pool(pooled, adj=adj)
        loss = out.x.square().sum() + out.adj.sum() + out.entropy_loss + out.cluster_loss
        (gradient,) = torch.autograd.grad(loss, logits, retain_graph=True)
        assert torch.isfinite(loss)
        assert torch.isfinite(gradient).all()


def test_state_dict_round_trip() -> None:
    graph, batch, x = batch_of(1)
    pool, other = (SimPool(MLP([4, 8, 3], norm=None), k=4) for _ in range(2))
    before = other(x, graph.edge_index, batch).s
    other.load_state_dict(pool.state_dict())
    assert torch.equal(other(x, graph.edge_index, batch).s, pool(x, graph.edge_index, batch).s)
    assert not torch.equal(other(x, graph.edge_index, batch).s, before)


def test_reset_parameters() -> None:
    """Also of a plain `nn.Sequential`, which has no such method."""
    for network in (MLP([4, 3], norm=None), torch.nn.Sequential(torch.nn.Linear(4, 3))):
        pool = SimPool(network, k=4)
        before = [parameter.clone() for parameter in pool.parameters()]
        pool.reset_parameters()
        after = list(pool.parameters())
        assert not torch.equal(before[0], after[0])


def test_repr_names_the_settings() -> None:
    text = repr(SimPool(MLP([4, 3]), "both", k=4, p=2, lam=0.5, alpha=0.8, measure="jaccard"))
    for part in ("'both'", "k=4", "p=2", "lam=0.5", "alpha=0.8", "'jaccard'", "MLP"):
        assert part in text


def test_reads_what_the_transform_wrote() -> None:
    """The ten-line use: a transformed data object, and a layer."""
    data: Data = StructuralSimilarity(4, order=None)(draw("undirected", 3).data())
    x = torch.randn(data.num_nodes, 2)
    pool = SimPool(MLP([4, 3], norm=None), k=4)
    given = pool(x, data.edge_index, sim=data.sim)
    assert torch.equal(given.s, pool(x, data.edge_index).s)


# ------------------------------------------------------------------ what it refuses


class Wrong(torch.nn.Module):
    """Returns what it was given."""

    def __init__(self, out: Any) -> None:
        super().__init__()
        self.out = out

    def forward(self, x: Tensor) -> Any:
        """Whatever the input."""
        return self.out


@pytest.mark.parametrize(
    ("out", "came"),
    [
        (torch.randn(2, 3), r"\[2, 3\]"),
        (torch.randn(3), r"\[3\]"),
        (torch.randn(1, 2, 3), r"\[1, 2, 3\]"),
        ((torch.randn(3, 2), None), "tuple"),
        (None, "NoneType"),
    ],
)
def test_a_network_that_returns_something_else(out: Any, came: str) -> None:
    pool = SimPool(Wrong(out), features="node")
    with pytest.raises(ValueError, match=rf"`assignment` \(Wrong\).*\[3, K\], got {came}"):
        pool(torch.randn(3, 2), torch.tensor([[0, 1], [1, 2]]))
    with pytest.raises(ValueError, match=r"`assignment` \(Wrong\).*\[1, 3, K\], got"):
        pool(torch.randn(3, 2), adj=torch.rand(3, 3))


def test_a_network_without_clusters() -> None:
    with pytest.raises(ValueError, match=r"`s`.*got \[3, 0\]"):
        SimPool(Wrong(torch.randn(3, 0)), "node")(torch.randn(3, 2), torch.tensor([[0, 1], [1, 2]]))


def test_a_network_at_a_level_that_lacks_its_input() -> None:
    with pytest.raises(ValueError, match=r"`assignment` \(GCNConv\) reads `edge_index`.*dense"):
        SimPool(GCNConv(3, 2))(torch.randn(1, 3, 2), adj=torch.rand(1, 3, 3))
    with pytest.raises(ValueError, match=r"`assignment` \(DenseGCNConv\) reads `adj`.*sparse"):
        SimPool(DenseGCNConv(3, 2))(torch.randn(3, 2), torch.tensor([[0, 1], [1, 2]]))


def test_inputs_by_name() -> None:
    """For a network whose signature does not tell."""

    class Anything(torch.nn.Module):
        def forward(self, *args: Tensor, **kwargs: Tensor) -> Tensor:
            return kwargs["num_nodes"].unsqueeze(1).float()

    x, edge_index = torch.randn(3, 2), torch.tensor([[0, 1], [1, 2]])
    assert SimPool(Anything(), "node", inputs=["num_nodes"])(x, edge_index).s.shape == (3, 1)
    with pytest.raises(ValueError, match=r"`inputs` must be one of .*got 'edges'"):
        SimPool(Anything(), inputs=["edges"])


def test_a_network_whose_signature_cannot_be_read() -> None:
    traced = torch.jit.trace(torch.nn.Linear(2, 3), torch.ones(1, 2))
    with pytest.raises(TypeError, match=r"`assignment` must .*: name them by `inputs`"):
        SimPool(traced, "node")
    x, edge_index = torch.randn(3, 2), torch.tensor([[0, 1], [1, 2]])
    assert SimPool(traced, "node", inputs=[])(x, edge_index).s.shape == (3, 3)


def test_what_cannot_pool_features() -> None:
    pool = SimPool(MLP([2, 3], norm=None), "node")
    with pytest.raises(TypeError, match=r"`pool_x` must be a function or None, got str"):
        pool(torch.randn(3, 2), torch.tensor([[0, 1], [1, 2]]), pool_x="mean")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, r"`edge_index` and `adj`.*neither"),
        ({"edge_index": torch.zeros(2, 0).long(), "adj": torch.ones(3, 3)}, r"`adj`.*both"),
        ({"adj": torch.ones(3, 3), "batch": torch.zeros(3).long()}, r"`batch` must be None"),
        ({"adj": torch.ones(3, 3), "edge_weight": torch.ones(0)}, r"`edge_weight` must be None"),
        ({"adj": torch.ones(3, 3), "edge_attr": torch.ones(0)}, r"`edge_attr` must be None"),
        ({"adj": torch.ones(3, 3), "batch_size": 1}, r"`batch_size` must be None"),
        (
            {"edge_index": torch.zeros(2, 0).long(), "mask": torch.ones(3) > 0},
            r"`mask` must be None",
        ),
        ({"edge_index": torch.zeros(2, 0).long(), "sim": torch.ones(4, 2)}, r"`sim`.*got \[4, 2\]"),
        ({"adj": torch.ones(3, 3), "sim": torch.ones(4, 2)}, r"`sim`.*got \[1, 4, 2\]"),
        (
            {"edge_index": torch.zeros(2, 0).long(), "sim": torch.ones(3, 4)},
            r"`sim` must hold `k` = 2 features of each node, \[3, 2\], got \[3, 4\]",
        ),
        ({"adj": torch.ones(3, 3), "sim": torch.ones(3, 4)}, r"`k` = 2 .*got \[1, 3, 4\]"),
        (
            {"edge_index": torch.zeros(2, 0).long(), "pool_edge_attr": True},
            r"`edge_attr` must be given for `pool_edge_attr`, got None",
        ),
        ({"adj": torch.ones(3, 3), "pool_edge_attr": True}, r"`pool_edge_attr` must be None"),
    ],
)
def test_arguments_that_do_not_go_together(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SimPool(MLP([2, 3], norm=None), k=2)(torch.randn(3, 2), **arguments)


def test_assign_x_of_other_nodes() -> None:
    with pytest.raises(ValueError, match=r"`assign_x`.*\[3, D\], got \[4, 2\]"):
        SimPool(MLP([2, 3], norm=None), "node")(
            torch.randn(3, 2), torch.tensor([[0, 1], [1, 2]]), assign_x=torch.randn(4, 2)
        )


def test_a_network_that_is_none() -> None:
    with pytest.raises(TypeError, match=r"`assignment` must be a torch.nn.Module, got type"):
        SimPool(MLP)  # the class


class Failing(torch.nn.Module):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: Tensor) -> Tensor:
        raise self.error


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("tried to allocate a size of 20 GiB"),
        RuntimeError("device-side assert triggered"),
        ValueError("from the network"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("k", [None, 2])
def test_an_error_of_the_network_that_is_not_of_shapes_stays_as_it_is(
    error: Exception, k: int | None
) -> None:
    with pytest.raises(type(error)) as raised:
        SimPool(Failing(error), k=k)(torch.rand(1, 3, 4), adj=torch.rand(1, 3, 3))
    assert raised.value is error


def test_a_network_in_a_wrapper_gets_its_inputs() -> None:
    """A compiled network, or one on several devices, takes anything by its signature."""
    network = MLP([3, 8, 2], norm="graph_norm").eval()
    edge_index = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])
    graphs = torch.rand(5, 6), edge_index, torch.tensor([0, 0, 0, 1, 1])
    plain = SimPool(network, k=3).eval()
    compiled = SimPool(torch.compile(network, backend="eager"), k=3).eval()  # type: ignore[arg-type]
    assert torch.equal(compiled(*graphs).s, plain(*graphs).s)
    averaged = SimPool(torch.optim.swa_utils.AveragedModel(network), k=3).eval()
    assert torch.equal(averaged(*graphs).s, plain(*graphs).s)
    assert plain.inputs == {"batch": False, "batch_size": False}
    # On several devices it would cut the edges and the batch into parts of equal size.
    assert not SimPool(torch.nn.DataParallel(network), k=3).inputs


def test_a_network_of_another_width_is_told_from_one_that_fails() -> None:
    wide = torch.nn.Sequential(torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 2))
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])
    with pytest.raises(ValueError, match="`sim` or `k` must be given where"):
        SimPool(wide)(torch.rand(4, 3), edge_index)
    narrow = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.BatchNorm1d(2))
    with pytest.raises(ValueError, match="Expected more than 1 value") as raised:
        SimPool(narrow)(torch.rand(1, 3), torch.empty(2, 0, dtype=torch.long))
    assert "`k`" not in str(raised.value)


def test_six_fields_with_edge_features_and_five_without() -> None:
    pool = SimPool(MLP([2, 4, 3], norm=None), k=2)
    edge_index, edge_attr = torch.tensor([[0, 1], [1, 0]]), torch.rand(2, 5)
    names = ("s", "x", "adj", "entropy_loss", "cluster_loss")
    assert pool(torch.rand(2, 4), edge_index)._fields == names
    out = pool(torch.rand(2, 4), edge_index, edge_attr=edge_attr, pool_edge_attr=True)
    assert out._fields == (*names, "edge_attr")
    assert out.edge_attr.shape == (1, 3, 3, 5)

"""Assignment by the set of similar nodes: its definition, and permutation equivariance."""

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from helpers.graphs import FLAVORS, Graph, draw, union
from torch_geometric_simpool import SimPool, reference
from torch_geometric_simpool.models import SimilarityAssignment, SimilarNodes

#: The flavors of graphs with nodes, without ties that rounding may break.
CHOSEN = [f for f in FLAVORS if f not in ("nothing", "proportional")]


def naive(net: SimilarityAssignment, x: Tensor, adj: Tensor, k: int) -> Tensor:
    """Computes the formula node by node, from the dense matrix of similarities."""
    similarity = reference.structural_similarity(adj)
    similarity.fill_diagonal_(0)
    rows = []
    for i in range(x.size(0)):
        row = similarity[i]
        ranked = row[row != 0].sort(descending=True).values
        least = ranked[min(k, ranked.numel()) - 1] if ranked.numel() > 0 else None
        messages = [
            (net.lin_node(x[j]) + net.lin_edge(torch.stack([adj[j, i], row[j]]))).relu()
            for j in range(x.size(0))
            if row[j] != 0 and row[j] >= least - 1e-12
        ]
        zero = x.new_zeros(net.lin_node.out_channels)
        rows.append(torch.stack(messages).mean(dim=0) if messages else zero)
    return net.mlp(torch.cat([x, torch.stack(rows)], dim=1))


@pytest.mark.parametrize("flavor", CHOSEN)
def test_equals_the_formula_with_all_ties(flavor: str) -> None:
    for k in (1, 3):
        graph, net = draw(flavor, k), SimilarityAssignment(4, 6, 3, k=k).double()
        x = torch.randn(graph.num_nodes, 4, dtype=torch.float64, requires_grad=True)
        weight = graph.edge_weight()
        weight = torch.ones(len(graph.edges)).double() if weight is None else weight
        out = net(x, graph.edge_index, weight)
        expected = naive(net, x, graph.adj(), k)
        torch.testing.assert_close(out, expected)
        leaves = [x, *net.parameters()]
        grads = [
            torch.autograd.grad(o.square().sum(), leaves, materialize_grads=True)
            for o in (out, expected)
        ]
        torch.testing.assert_close(*grads)


@pytest.mark.parametrize("flavor", CHOSEN)
def test_renumbering_permutes_the_logits(flavor: str) -> None:
    graph, net = draw(flavor, 7), SimilarityAssignment(4, 6, 3, k=2).double()
    x = torch.randn(graph.num_nodes, 4, dtype=torch.float64)
    number = torch.randperm(graph.num_nodes)
    weight = graph.edge_weight()
    out = net(x, graph.edge_index, weight)
    moved = net(x[number.argsort()], number[graph.edge_index], weight)
    torch.testing.assert_close(moved[number], out)


def test_a_choice_by_index_is_not_equivariant() -> None:
    """A leaf of a star is paired with all other leaves, because a choice by index names nodes."""
    star = Graph(6, tuple((0, i) for i in range(1, 6)) + tuple((i, 0) for i in range(1, 6)))
    data = SimilarNodes(k=1)(star.data())
    similar = data.edge_attr[:, 1] != 0
    assert torch.bincount(data.edge_index[1][similar], minlength=6).tolist() == [0, 4, 4, 4, 4, 4]


def test_what_the_transform_writes_is_what_is_computed() -> None:
    """A layer computes the result of the transform on a batch, and pools the graph as it is."""
    graphs = [draw(f, 3) for f in ("undirected", "star", "isolated", "parallel", "edgeless")]
    whole, batch = union(graphs)
    net = SimilarityAssignment(4, 6, 3, k=2)
    pool = SimPool(assignment=net, features="node")
    x = torch.randn(whole.num_nodes, 4)
    expected = pool(x, whole.edge_index, batch)
    data = Batch.from_data_list([net.transform()(g.data()) for g in graphs])
    attr = data.edge_attr
    out = pool(x, data.edge_index, batch, edge_weight=attr[:, 0], edge_attr=attr)
    for name in ("s", "x", "adj", "entropy_loss", "cluster_loss"):
        torch.testing.assert_close(getattr(out, name), getattr(expected, name))
    assert net.transform()(graphs[0].data()).edge_weight is None


def test_similarities_and_weights_count() -> None:
    """As controls, constant similarities and neighbors in place of similar nodes change logits."""
    graph, net = draw("undirected", 5), SimilarityAssignment(4, 6, 3, k=2)
    x, data = torch.randn(graph.num_nodes, 4), SimilarNodes(k=2)(graph.data())
    out = net(x, data.edge_index, edge_attr=data.edge_attr)
    weight, similarity = data.edge_attr.unbind(dim=1)
    for columns in (
        (weight, (similarity != 0).float()),
        (weight, weight),
        (0 * weight, similarity),
    ):
        control = net(x, data.edge_index, edge_attr=torch.stack(columns, dim=1))
        assert not torch.allclose(out, control)


def test_settings_and_errors() -> None:
    net = SimilarityAssignment(4, 6, 3, k=2, p=2, lam=0.5)
    assert "SimilarNodes(k=2, p=2, lam=0.5)" in repr(net)
    before = net.lin_edge.weight.clone()
    net.reset_parameters()
    assert not torch.equal(before, net.lin_edge.weight)
    edge_index = torch.tensor([[0, 1], [1, 0]])
    x = torch.randn(2, 4)
    for name, arguments in (
        ("edge_attr", (x, edge_index, None, torch.ones(2, 3))),
        ("edge_attr", (x, edge_index, None, [[1, 1]] * 2)),
        ("x", (x[:, :3], edge_index)),
        ("edge_index", (x, edge_index + 1)),
        ("edge_weight", (x, edge_index, torch.tensor([1, torch.nan]))),
    ):
        with pytest.raises((TypeError, ValueError), match=f"`{name}` must"):
            net(*arguments)
    with pytest.raises(TypeError, match="`data` must"):
        SimilarNodes(2)(edge_index)
    with pytest.raises(ValueError, match="edge_attr"):
        SimilarNodes(2)(Data(edge_index=edge_index, edge_attr=torch.ones(2, 1), num_nodes=2))
    with pytest.raises(ValueError, match="`k`"):
        SimilarNodes(0)

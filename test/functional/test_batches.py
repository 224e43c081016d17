"""Conversions to one block-diagonal graph, and back."""

import re

import pytest
import torch
from torch import Tensor
from torch_geometric.utils import to_dense_adj

from helpers.graphs import FLAVORS, draw, draw_all, union
from torch_geometric_simpool.functional.batches import DenseBatch, from_adj_t, parse_adj
from torch_geometric_simpool.transforms.inputs import parsed_batch


def block_diagonal(adj: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the edges of padded graphs, their weights, and the graph of each node."""
    graphs = parsed_batch(DenseBatch(adj, *parse_adj(adj, mask)))
    assert graphs.edges.edge_weight is not None
    return graphs.edges.edge_index, graphs.edges.edge_weight, graphs.batch


@pytest.mark.parametrize("seed", range(3))
def test_dense_graphs_become_one(seed: int) -> None:
    """Nodes may have any positions between padding, which is NaN."""
    graphs = draw_all(seed)
    size = max(graph.num_nodes for graph in graphs) + 3
    adj = torch.full((len(graphs), size, size), torch.nan, dtype=torch.float64)
    mask = torch.zeros(len(graphs), size, dtype=torch.bool)
    for b, graph in enumerate(graphs):
        place = torch.randperm(size)[: graph.num_nodes].sort().values
        mask[b, place] = True
        adj[b, place.unsqueeze(1), place] = graph.adj()
    edge_index, weight, batch = block_diagonal(adj, mask)

    joined, expected_batch = union(graphs)
    assert torch.equal(batch, expected_batch)
    one = torch.zeros(joined.num_nodes, joined.num_nodes, dtype=torch.float64)
    one[edge_index[0], edge_index[1]] = weight
    assert torch.equal(one, joined.adj())
    # An entry of zero is no edge, even if it is the sum of weights that cancel.
    assert (weight != 0).all()


def test_of_features_per_edge_only_the_presence_counts() -> None:
    adj = torch.zeros(1, 3, 3, 2)
    adj[0, 0, 1, 1], adj[0, 2, 2, 0] = -5, 0.5
    edge_index, weight, _ = block_diagonal(adj, torch.ones(1, 3, dtype=torch.bool))
    assert edge_index.tolist() == [[0, 2], [1, 2]]
    assert weight.tolist() == [1, 1]


def test_weights_are_differentiable() -> None:
    adj = torch.rand(2, 3, 3, requires_grad=True)
    mask = torch.tensor([[True, True, True], [True, False, True]])
    _, weight, _ = block_diagonal(adj, mask)
    (gradient,) = torch.autograd.grad(weight.sum(), adj)
    assert torch.equal(gradient, (mask.unsqueeze(1) & mask.unsqueeze(2)).float())


def test_an_adj_t_is_transposed() -> None:
    """The entry `adj_t[i, j]` is the edge from j to i."""
    adj_t = torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    for sparse in (adj_t.to_sparse_coo(), adj_t.to_sparse_csr(), adj_t.to_sparse_csc()):
        edge_index, weight = from_adj_t(sparse)
        assert edge_index.tolist() == [[1], [0]]
        assert weight is not None
        assert weight.tolist() == [2]


def test_a_rectangular_adj_t_needs_both_numbers() -> None:
    """The shape `[num_dst, num_src]` has both, for an edge from source 2 to destination 1."""
    adj_t = torch.tensor([[0.0, 0, 0], [0, 0, 3]])
    for sparse in (adj_t.to_sparse_coo(), adj_t.to_sparse_csr(), adj_t.to_sparse_csc()):
        edge_index, weight = from_adj_t(sparse, (3, 2))
        assert edge_index.tolist() == [[2], [1]]
        assert weight is not None
        assert weight.tolist() == [3]
        for num_nodes, expected in ((None, "[2, 2]"), (3, "[3, 3]"), ((2, 3), "[3, 2]")):
            with pytest.raises(ValueError, match=re.escape(f"shape {expected}, got [2, 3]")):
                from_adj_t(sparse, num_nodes)


@pytest.mark.parametrize("flavor", FLAVORS)
def test_to_dense_adj_is_the_inverse(flavor: str) -> None:
    graph = draw(flavor, 3)
    adj = graph.adj().unsqueeze(0)
    mask = torch.ones(adj.shape[:2], dtype=torch.bool)
    edge_index, weight, batch = block_diagonal(adj, mask)
    if graph.num_nodes == 0:
        assert edge_index.shape == (2, 0)
        assert batch.numel() == 0
        return
    back = to_dense_adj(edge_index, batch, weight, graph.num_nodes)
    assert torch.equal(back, adj)

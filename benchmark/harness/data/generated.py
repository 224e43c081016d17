"""Helpers of the generated data sets, which make, number, shuffle and check graphs."""

import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_scipy_sparse_matrix


def make_graph(types: Tensor, num_types: int, edges: Tensor, label: int) -> Data:
    """A graph of node types `[N]`, as one-hot features, and undirected edges `[E, 2]`."""
    edge_index = torch.cat([edges.t(), edges.t().flip(0)], dim=1)
    x = torch.nn.functional.one_hot(types, num_types).float()
    return Data(x=x, edge_index=edge_index, y=torch.tensor([label]))


def renumbered(graph: Data, generator: torch.Generator) -> Data:
    """Returns the graph with its nodes numbered at random."""
    number = torch.randperm(graph.num_nodes, generator=generator)
    x = torch.empty_like(graph.x)
    x[number] = graph.x
    return Data(x=x, edge_index=number[graph.edge_index], y=graph.y)


def shuffled(graphs: list[Data], generator: torch.Generator) -> list[Data]:
    """The graphs in a random order."""
    order = torch.randperm(len(graphs), generator=generator)
    return [graphs[i] for i in order.tolist()]


def num_components(edge_index: Tensor, num_nodes: int) -> int:
    """The number of connected components."""
    matrix = to_scipy_sparse_matrix(edge_index, num_nodes=num_nodes)
    return int(connected_components(matrix, directed=False, return_labels=False))

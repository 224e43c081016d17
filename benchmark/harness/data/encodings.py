"""Positional encodings as node features, for methods that read no structural features."""

import sys

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch_geometric.data import Data
from torch_geometric.transforms import AddLaplacianEigenvectorPE

#: The number of eigenvectors.
SIZE = 8


class _Dense(AddLaplacianEigenvectorPE):
    """With all eigenvectors of every graph: SciPy's sparse solver starts at random."""

    SPARSE_THRESHOLD = sys.maxsize


def add_laplacian_encodings(graphs: list[Data], seed: int) -> None:
    """Puts eigenvectors of the Laplacian before the node features of every graph.

    They are the first :data:`SIZE` but for the trivial one, of the normalized Laplacian (Dwivedi
    et al., 2020, 'Benchmarking Graph Neural Networks'), their signs drawn once for each graph.
    Where a graph has fewer, the others are zero. Graphs must be undirected.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for graph in graphs:
            graph.x = torch.cat([_encodings(graph), graph.x], dim=1)


def _encodings(graph: Data) -> Tensor:
    size = min(SIZE, graph.num_nodes - 1)
    edges = Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)
    found = _Dense(size, "encodings", is_undirected=True)(edges).encodings.float()
    return pad(found, (0, SIZE - size))

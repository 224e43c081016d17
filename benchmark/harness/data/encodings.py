"""Positional encodings of nodes, in place of structural features or beside node features."""

import sys

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch_geometric.data import Data
from torch_geometric.transforms import AddLaplacianEigenvectorPE

#: The number of eigenvectors.
SIZE = 8


class _Dense(AddLaplacianEigenvectorPE):
    """Computes all eigenvectors of every graph, as SciPy's sparse solver starts at random."""

    SPARSE_THRESHOLD = sys.maxsize


def laplacian_encodings(graphs: list[Data], seed: int) -> list[Tensor]:
    """Returns eigenvectors of the Laplacian of every graph, `[N, SIZE]`.

    They are the first :data:`SIZE` but for the trivial one, of the normalized Laplacian (Dwivedi
    et al., 2020, 'Benchmarking Graph Neural Networks'), with a mean square of 1, and signs that are
    drawn. Where a graph has fewer, the others are zero. Where eigenvalues are equal, as those of
    equal rings of `motifs`, the eigenvectors are not unique, and may differ between CPUs. Graphs
    must be undirected.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return [_encodings(graph) for graph in graphs]


def _encodings(graph: Data) -> Tensor:
    size = min(SIZE, graph.num_nodes - 1)
    edges = Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)
    encodings = _Dense(size, "encodings", is_undirected=True)(edges).encodings.float()
    return pad(encodings * graph.num_nodes**0.5, (0, SIZE - size))

"""Positional encodings of nodes, in place of structural features or beside node features."""

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch_geometric.data import Data
from torch_geometric.transforms import AddLaplacianEigenvectorPE

from harness.data.batches import GraphBatch, RedrawnBatches

#: The number of eigenvectors.
SIZE = 8


class _Dense(AddLaplacianEigenvectorPE):
    """With all eigenvectors of every graph: SciPy's sparse solver starts at random."""

    SPARSE_THRESHOLD = sys.maxsize


def laplacian_encodings(graphs: list[Data], seed: int) -> list[Tensor]:
    """Eigenvectors of the Laplacian of every graph, `[N, SIZE]`.

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
    found = _Dense(size, "encodings", is_undirected=True)(edges).encodings.float()
    return pad(found * graph.num_nodes**0.5, (0, SIZE - size))


class FlippedBatches(RedrawnBatches):
    """Batches of graphs whose eigenvectors get random signs whenever they are read.

    These are the first columns of `column`. An eigenvector has no sign of its own, which a network
    learns by this (Dwivedi et al., 2020).
    """

    def __init__(self, column: str, *more: Any) -> None:
        super().__init__(*more)
        self.column = column

    def batch(self, chosen: Sequence[int]) -> GraphBatch:
        """One batch, its eigenvectors with new signs."""
        batch = super().batch(chosen)
        signs = 2 * torch.randint(2, (len(chosen), SIZE), generator=self.drawn) - 1
        values = getattr(batch, self.column)
        signs = signs.to(self.device, values.dtype)[batch.batch]
        flipped = torch.cat([values[:, :SIZE] * signs, values[:, SIZE:]], dim=1)
        setattr(batch, self.column, flipped)
        return batch

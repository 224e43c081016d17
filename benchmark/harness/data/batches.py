"""Batches of graphs from PyG's `DataLoader`, with draws that are made anew for each batch."""

from collections.abc import Iterator
from typing import Any, Optional

import torch
from torch import Tensor
from torch.utils.data import Dataset
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from harness.data.encodings import SIZE
from torch_geometric_simpool import StructuralSimilarity


def make_loader(
    graphs: Any, batch_size: int, generator: Optional[torch.Generator] = None
) -> DataLoader:
    """Returns a loader of batches, shuffled if there is a generator."""
    cls: Any = DataLoader
    if len(graphs) > 0 and "pooled_data" in graphs[0]:
        from tgp.data.loaders import PoolDataLoader

        cls = PoolDataLoader  # collates graphs that were pooled beforehand
    shuffle = generator is not None
    return cls(graphs, batch_size=batch_size, shuffle=shuffle, generator=generator)


def edges_only(graph: Data) -> Data:
    """Returns the graph without its features."""
    return Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)


def renumbered_features(
    graph: Data, transform: StructuralSimilarity, generator: torch.Generator
) -> Tensor:
    """Returns structural features under a random numbering, in the given order of the nodes."""
    number = torch.randperm(graph.num_nodes, generator=generator)
    other = Data(edge_index=number[graph.edge_index], num_nodes=graph.num_nodes)
    return transform(other).sim[number]


class _Renumbered(Dataset):
    """Graphs with structural features under numbers that are drawn at each access."""

    def __init__(
        self, graphs: list[Data], transform: StructuralSimilarity, generator: torch.Generator
    ) -> None:
        self.graphs, self.transform, self.generator = graphs, transform, generator

    def __len__(self) -> int:
        return len(self.graphs)

    def __getitem__(self, i: int) -> Data:
        graph = self.graphs[i].clone()
        graph.sim = renumbered_features(graph, self.transform, self.generator)
        return graph


class TrainingBatches:
    """Shuffled batches of the training graphs.

    Args:
        graphs (list[Data]): The training graphs.
        batch_size (int): The number of graphs of a batch.
        seed (int): The seed of the order of the graphs, and of all draws.
        renumber (StructuralSimilarity, optional): If given, the features of a graph are computed
            under random numbers of its nodes whenever it is read.
        flip (str, optional): The attribute whose first columns are eigenvectors. Each graph of a
            batch gets new random signs of its eigenvectors (Dwivedi et al., 2020).
    """

    def __init__(
        self,
        graphs: list[Data],
        batch_size: int,
        seed: int,
        renumber: Optional[StructuralSimilarity] = None,
        flip: Optional[str] = None,
    ) -> None:
        order = torch.Generator().manual_seed(seed)
        # A generator of its own, so that draws do not change the order of the graphs.
        self.draws = torch.Generator().manual_seed(seed + 1)
        self.generators = [order, self.draws]
        self.flip = flip
        source = graphs if renumber is None else _Renumbered(graphs, renumber, self.draws)
        self.loader = make_loader(source, batch_size, order)

    def __iter__(self) -> Iterator[Batch]:
        for batch in self.loader:
            if self.flip is not None:
                signs = 2 * torch.randint(2, (batch.num_graphs, SIZE), generator=self.draws) - 1
                values = batch[self.flip]
                flipped = values[:, :SIZE] * signs.to(values)[batch.batch]
                batch[self.flip] = torch.cat([flipped, values[:, SIZE:]], dim=1)
            yield batch

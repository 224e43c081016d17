"""Batches of graphs from PyG's `DataLoader`, with draws that are made anew for each epoch."""

from collections.abc import Iterator
from typing import Any, Optional

import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from harness.data.encodings import SIZE
from harness.data.load import WITH_ENCODINGS
from harness.data.structural import ENCODINGS, renumber, transform_of
from harness.run import Run


def make_loader(
    graphs: list[Data], batch_size: int, generator: Optional[torch.Generator] = None
) -> DataLoader:
    """Returns a loader of batches, shuffled if there is a generator."""
    cls: Any = DataLoader
    if len(graphs) > 0 and "pooled_data" in graphs[0]:
        from tgp.data.loaders import PoolDataLoader

        cls = PoolDataLoader  # collates graphs that were pooled beforehand
    shuffle = generator is not None
    return cls(graphs, batch_size=batch_size, shuffle=shuffle, generator=generator)


class TrainingBatches:
    """Shuffled batches of the training graphs of a run.

    By order 'random-epoch', features are computed under new random numbers of the nodes in each
    epoch. Eigenvectors of each graph of a batch get new random signs (Dwivedi et al., 2020).

    Args:
        run (Run): The settings.
        graphs (list[Data]): The training graphs.
        seed (int): The seed of the order of the graphs, and of all draws.
    """

    def __init__(self, run: Run, graphs: list[Data], seed: int) -> None:
        self.run, self.graphs = run, graphs
        order = torch.Generator().manual_seed(seed)
        # A generator of its own, so that draws do not change the order of the graphs.
        self.draws = torch.Generator().manual_seed(seed + 1)
        self.generators = [order, self.draws]
        self.loader = make_loader(graphs, run.batch_size, order)

    def __iter__(self) -> Iterator[Batch]:
        transform = transform_of(self.run)
        if self.run.order == "random-epoch" and transform is not None:
            renumber(self.graphs, transform, self.draws)
        attributes = ["x"] if self.run.node_features == WITH_ENCODINGS else []
        attributes += ["sim"] if self.run.features == ENCODINGS else []
        for batch in self.loader:
            for name in attributes:
                signs = 2 * torch.randint(2, (batch.num_graphs, SIZE), generator=self.draws) - 1
                values = batch[name]
                flipped = values[:, :SIZE] * signs.to(values)[batch.batch]
                batch[name] = torch.cat([flipped, values[:, SIZE:]], dim=1)
            yield batch

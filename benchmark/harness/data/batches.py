"""Batches of graphs that do not change, without collating data objects each time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Optional, Union

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torch_geometric.data import Batch, Data


@dataclass
class GraphBatch:
    """The tensors of a batch, with the names of :class:`torch_geometric.data.Batch`."""

    #: Node features `[N, F]`, or labels `[N]`.
    x: Tensor
    edge_index: Tensor
    batch: Tensor
    y: Tensor
    sim: Optional[Tensor]
    edge_attr: Optional[Tensor]
    num_graphs: int
    #: Of graphs that are pooled beforehand, a batch of every level.
    pooled: Optional[Sequence[Data]] = None


AnyBatch = Union[Batch, GraphBatch]


def as_labels(features: Optional[list[Tensor]]) -> Optional[list[Tensor]]:
    """The node features `[n, F]` of all graphs as labels `[n]`, if all of them are one-hot."""
    if not features:
        return features
    x = torch.cat(features)
    if x.dim() != 2 or x.size(1) < 2 or not bool(((x == 0) | (x == 1)).all()):
        return features
    if not bool((x.sum(dim=1) == 1).all()):
        return features
    return list(x.argmax(dim=1).split([len(rows) for rows in features]))


class Batches:
    """Batches of `graphs` on `device`, in the order of PyG's `DataLoader`.

    The tensors are taken out of the data objects and moved to `device` once. A batch is one
    concatenation of each. The order is that of PyG: both use the `DataLoader` of PyTorch.
    One-hot node features become integer labels, `[N]`, which networks read faster. Graphs that are
    pooled beforehand are collated by tgp, and moved, with every batch.
    """

    def __init__(
        self,
        graphs: Sequence[Data],
        batch_size: int,
        device: torch.device,
        generator: Optional[torch.Generator] = None,
    ) -> None:
        def column(name: str) -> Optional[list[Tensor]]:
            if len(graphs) == 0 or getattr(graphs[0], name, None) is None:
                return None
            return [getattr(graph, name).to(device) for graph in graphs]

        names = ("x", "edge_index", "y", "sim", "edge_attr")
        self.columns = {name: column(name) for name in names}
        self.columns["x"] = as_labels(self.columns["x"])
        with_pooled = len(graphs) > 0 and "pooled_data" in graphs[0]
        self.pooled = [Data(pooled_data=g.pooled_data) for g in graphs] if with_pooled else None
        self.num_nodes = [int(graph.num_nodes) for graph in graphs]
        self.num_edges = [int(graph.num_edges) for graph in graphs]
        self.device = device
        self.order: DataLoader = DataLoader(
            range(len(graphs)),  # type: ignore[arg-type]
            batch_size=batch_size,
            shuffle=generator is not None,
            generator=generator,
            collate_fn=list,
        )

    @property
    def generators(self) -> list[torch.Generator]:
        """The random numbers of the batches."""
        return [] if self.order.generator is None else [self.order.generator]

    def __iter__(self) -> Iterator[GraphBatch]:
        return map(self.batch, self.order)

    def batch(self, chosen: Sequence[int]) -> GraphBatch:
        """One batch of the graphs with these numbers, in this order."""
        sizes = [self.num_nodes[i] for i in chosen]
        edges = [self.num_edges[i] for i in chosen]
        num_nodes, num_edges = sum(sizes), sum(edges)
        # One small transfer to the device and none back: the totals are known here.
        counts = torch.tensor([sizes, edges]).to(self.device, non_blocking=True)
        first = counts[0].cumsum(0) - counts[0]
        shift = first.repeat_interleave(counts[1], output_size=num_edges)
        graph = torch.arange(len(sizes), device=self.device)

        def together(name: str, dim: int = 0) -> Optional[Tensor]:
            column = self.columns[name]
            return None if column is None else torch.cat([column[i] for i in chosen], dim)

        x, y, edge_index = together("x"), together("y"), together("edge_index", 1)
        assert x is not None
        assert y is not None
        assert edge_index is not None
        return GraphBatch(
            x,
            edge_index + shift,
            graph.repeat_interleave(counts[0], output_size=num_nodes),
            y,
            together("sim"),
            together("edge_attr"),
            len(sizes),
            self._together_pooled(chosen),
        )

    def _together_pooled(self, chosen: Sequence[int]) -> Optional[Sequence[Data]]:
        if self.pooled is None:
            return None
        from tgp.data.loaders import PooledBatch

        batch = PooledBatch.from_data_list([self.pooled[i] for i in chosen])
        return [level.to(self.device) for level in batch.pooled_data]


class RedrawnBatches(Batches):
    """Batches of training graphs, of which something is drawn whenever they are read."""

    def __init__(
        self,
        graphs: Sequence[Data],
        batch_size: int,
        device: torch.device,
        generator: torch.Generator,
    ) -> None:
        super().__init__(graphs, batch_size, device, generator)
        # A generator of its own, so that the order of the graphs stays the same.
        self.drawn = torch.Generator().manual_seed(generator.initial_seed() + 1)

    @property
    def generators(self) -> list[torch.Generator]:
        """The random numbers of the order of the graphs, and those that are drawn of them."""
        return [*super().generators, self.drawn]

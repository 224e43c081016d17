"""Calls functions of one dense graph on each graph of a batch."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")


class OneGraph(NamedTuple):
    """A graph of a sparse batch: its rows and columns, and its edges in its own numbering."""

    #: The rows of its nodes in the batch.
    nodes: slice
    #: The columns of its edges in the batch, `[E]`.
    edges: Tensor
    #: The edges `[2, E]`, with nodes counted from zero.
    edge_index: Tensor

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return self.nodes.stop - self.nodes.start

    def adj(self, edge_weight: Tensor) -> Tensor:
        """The adjacency matrix `[N, N]` from the weights of the batch, differentiable."""
        zeros = edge_weight.new_zeros(self.num_nodes, self.num_nodes)
        return zeros.index_put(tuple(self.edge_index), edge_weight[self.edges], accumulate=True)


@dataclass(frozen=True)
class GraphBatch:
    """A sparse batch and its graphs, empty ones included."""

    edge_index: Tensor
    edge_weight: Tensor
    batch: Tensor
    batch_size: int

    @property
    def num_nodes(self) -> int:
        """The number of nodes of all graphs."""
        return self.batch.numel()

    @cached_property
    def graphs(self) -> list[OneGraph]:
        """The graphs in their order."""
        return list(self._split())

    def _split(self) -> Iterator[OneGraph]:
        last = 0
        graph_of_edge = self.batch[self.edge_index[0]]
        sizes = torch.bincount(self.batch, minlength=self.batch_size).tolist()
        for number, size in enumerate(sizes):
            first, last = last, last + size
            edges = (graph_of_edge == number).nonzero().squeeze(1)
            yield OneGraph(slice(first, last), edges, self.edge_index[:, edges] - first)

    @cached_property
    def mask(self) -> Tensor:
        """The mask of the nodes of the padded batch, `[B, N]`."""
        sizes = torch.tensor([graph.num_nodes for graph in self.graphs])
        return torch.arange(int(sizes.max())) < sizes.unsqueeze(1)

    def padded(self, rows: Tensor, fill: float = 0.0) -> Tensor:
        """Returns rows `[N, F]` of the sparse batch as `[B, N_max, F]`."""
        out = rows.new_full((*self.mask.shape, rows.size(1)), fill)
        out[self.mask] = rows
        return out

    def padded_adj(self, fill: float = 0.0) -> Tensor:
        """Returns the differentiable adjacency matrices, `[B, N_max, N_max]`."""
        size = self.mask.size(1)
        out = self.edge_weight.new_full((self.batch_size, size, size), fill)
        for number, graph in enumerate(self.graphs):
            out[number, : graph.num_nodes, : graph.num_nodes] = graph.adj(self.edge_weight)
        return out


def per_graph(
    function: Callable[..., Result], graphs: Iterable[OneGraph], *rows: Tensor
) -> list[Result]:
    """Returns the results of the function for each graph and its part of `rows`."""
    return [function(graph, *(row[graph.nodes] for row in rows)) for graph in graphs]

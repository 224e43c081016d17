"""Peers that keep some of the nodes: g-U-Nets, SAGPool_h and SortPool, with PyG's operators.

PyG's sorts are not stable. Of nodes with equal scores, which are kept may depend on the batch.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import Conv1d, MaxPool1d, Module, ReLU, Sequential
from torch_geometric.nn import (
    GCNConv,
    SAGPooling,
    SortAggregation,
    TopKPooling,
    global_max_pool,
    global_mean_pool,
)

from harness.methods.base import (
    GNNPeer,
    NetworkInput,
    PeerInput,
    PeerOutput,
    adjacency,
    dense_head,
)

#: Ratios of nodes kept: PyG's examples of TopKPooling, and the paper of SAGPool.
TOPK_RATIO, SAG_RATIO = 0.8, 0.5
#: DGCNN keeps as many nodes as all but this share of the training graphs have, and at least ten.
SORT_QUANTILE, SORT_LEAST = 0.4, 10


class SelectionNet(GNNPeer):
    """Nodes are selected by score twice, and every level is read out.

    The readout of a level is the mean and the maximum over its nodes. A dense layer with
    dropout reads those of all levels. `pooling` makes a pooling layer, given its width.
    """

    def __init__(self, given: NetworkInput, pooling: Callable[[int], Module]) -> None:
        super().__init__(given)
        self.pool0, self.pool1 = pooling(self.widths[0]), pooling(self.widths[1])
        self.embed1 = GCNConv(self.widths[0], self.widths[1])
        self.embed2 = GCNConv(self.widths[1], self.widths[2])
        channels = given.architecture.gcn[0]
        self.head = dense_head(2 * sum(self.widths), channels, given.num_classes)

    def classify(self, graphs: PeerInput) -> PeerOutput:
        """Classifies a batch."""
        edge_index, batch, size = graphs.edge_index, graphs.batch, graphs.num_graphs
        h = self.embed(graphs).relu()
        h, edge_index, _, batch, *_ = self.pool0(h, edge_index, batch=batch)
        readouts = [_readout(h, batch, size)]
        h = self.embed1(h, adjacency(edge_index, h)).relu()
        h, edge_index, _, batch, *_ = self.pool1(h, edge_index, batch=batch)
        readouts.append(_readout(h, batch, size))
        h = self.embed2(h, adjacency(edge_index, h)).relu()
        readouts.append(_readout(h, batch, size))
        return PeerOutput(self.head(torch.cat(readouts, dim=1)))


def graph_u_net(given: NetworkInput) -> SelectionNet:
    """The encoder of g-U-Nets, with `TopKPooling`."""
    return SelectionNet(given, lambda width: TopKPooling(width, ratio=TOPK_RATIO))


def sag_pool(given: NetworkInput) -> SelectionNet:
    """SAGPool_h, with `SAGPooling`."""
    return SelectionNet(given, lambda width: SAGPooling(width, ratio=SAG_RATIO, GNN=GCNConv))


def _readout(h: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
    return torch.cat(
        [global_mean_pool(h, batch, num_graphs), global_max_pool(h, batch, num_graphs)], dim=1
    )


class SortPoolNet(GNNPeer):
    """SortPool as in DGCNN: sorted nodes, two convolutions, a dense layer.

    A third propagation has width one. Nodes are sorted by it, and described by all three
    levels, concatenated. There is no Z2.
    """

    def __init__(self, given: NetworkInput) -> None:
        super().__init__(given)
        k = max(SORT_LEAST, int(given.num_nodes.double().quantile(SORT_QUANTILE)))
        self.embed1 = GCNConv(self.widths[0], self.widths[1])
        self.color = GCNConv(self.widths[1], 1)
        total = self.widths[0] + self.widths[1] + 1
        self.sort = SortAggregation(k)
        self.conv = Sequential(
            Conv1d(1, 16, total, total), ReLU(), MaxPool1d(2, 2), Conv1d(16, 32, 5), ReLU()
        )
        length = 32 * ((k - 2) // 2 + 1 - 4)
        self.head = dense_head(length, given.architecture.gcn[0], given.num_classes)

    def classify(self, graphs: PeerInput) -> PeerOutput:
        """Classifies a batch."""
        h0 = self.embed(graphs).tanh()
        h1 = self.embed1(h0, adjacency(graphs.edge_index, h0)).tanh()
        h2 = self.color(h1, graphs.edge_index).tanh()
        top = self.sort(torch.cat([h0, h1, h2], dim=1), graphs.batch, dim_size=graphs.num_graphs)
        return PeerOutput(self.head(self.conv(top.unsqueeze(1)).flatten(1)))

"""Peers that sum over all nodes: a network without pooling, and one without edges."""

import torch
import torch.nn.functional as F
from torch_geometric.nn import MLP, GCNConv, global_add_pool
from torch_geometric.nn.dense.linear import Linear

from harness.methods.base import GNNPeer, NetworkInput, Peer, PeerInput, PeerOutput, adjacency


class Baseline(Peer):
    """Ignores the structure: the sum over the nodes of an MLP of their features."""

    def __init__(self, given: NetworkInput) -> None:
        super().__init__()
        a = given.architecture
        self.in_channels = given.in_channels
        widths = [given.in_channels, a.encoder, a.gcn[0], a.gcn[1]]
        self.mlp = MLP(widths, norm=None, plain_last=False)
        self.lin = Linear(a.gcn[1], given.num_classes)
        self.dropout = given.dropout

    def classify(self, graphs: PeerInput) -> PeerOutput:
        """Reads neither edges nor edge features."""
        if graphs.x.dim() == 1:
            # Nodes of one label have the same row of the MLP, so it reads each label once. Node by
            # node, a run on D&D takes 21 times as long, at twice the width 35 times.
            labels = torch.eye(
                self.in_channels, dtype=self.lin.weight.dtype, device=graphs.x.device
            )
            of_graph = global_add_pool(labels[graphs.x], graphs.batch, graphs.num_graphs)
            total = of_graph @ self.mlp(labels)
        else:
            total = global_add_pool(self.mlp(graphs.x), graphs.batch, graphs.num_graphs)
        return PeerOutput(self.lin(F.dropout(total, self.dropout, self.training)))


class NoPool(GNNPeer):
    """Z0, Z1 and Z2 on the original graph, summed over its nodes."""

    def __init__(self, given: NetworkInput) -> None:
        super().__init__(given)
        self.embed1 = GCNConv(self.widths[0], self.widths[1])
        self.embed2 = GCNConv(self.widths[1], self.widths[2])
        self.lin = Linear(self.widths[2], given.num_classes)

    def classify(self, graphs: PeerInput) -> PeerOutput:
        """Classifies a batch."""
        h = self.embed(graphs)
        adj = adjacency(graphs.edge_index, h)
        h = self.embed2(self.embed1(h, adj).relu(), adj).relu()
        return PeerOutput(self.lin(global_add_pool(h, graphs.batch, graphs.num_graphs)))

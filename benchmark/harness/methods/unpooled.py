"""Networks that sum over all nodes: one without pooling, and one without edges."""

import torch
import torch.nn.functional as F
from torch.nn import Module
from torch_geometric.data import Batch
from torch_geometric.nn import MLP, GCNConv, global_add_pool
from torch_geometric.nn.dense.linear import Linear

from harness.methods.base import GMNBackbone, NetworkOutput, NetworkSpec, adjacency, last_layer


class Baseline(Module):
    """Sums an MLP of the node features over the nodes, and ignores the edges."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        a = spec.architecture
        self.in_channels = spec.in_channels
        widths = [spec.in_channels, a.encoder, a.gcn[0], a.gcn[1]]
        self.mlp = MLP(widths, norm=None, plain_last=False)
        self.lin = Linear(a.gcn[1], spec.num_classes)
        self.dropout = spec.dropout

    def forward(self, data: Batch) -> NetworkOutput:
        if data.x.dim() == 1:
            # The MLP reads each label once. Node by node, a run on D&D takes 21 times as long.
            weight = self.lin.weight
            labels = torch.eye(self.in_channels, dtype=weight.dtype, device=weight.device)
            counts = global_add_pool(labels[data.x], data.batch, data.num_graphs)
            total = counts @ self.mlp(labels)
        else:
            total = global_add_pool(self.mlp(data.x), data.batch, data.num_graphs)
        return NetworkOutput(self.lin(F.dropout(total, self.dropout, self.training)))


class NoPool(GMNBackbone):
    """Applies Z0, Z1 and Z2 to the original graph, and sums over its nodes."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__(spec)
        self.embed1 = GCNConv(self.widths[0], self.widths[1])
        self.embed2 = GCNConv(self.widths[1], self.widths[2])
        self.lin = last_layer(spec, self.widths[2])

    def forward(self, data: Batch) -> NetworkOutput:
        h = self.embed(data)
        adj = adjacency(data.edge_index, h)
        h = self.embed2(self.embed1(h, adj).relu(), adj).relu()
        return NetworkOutput(self.lin(global_add_pool(h, data.batch, data.num_graphs)))

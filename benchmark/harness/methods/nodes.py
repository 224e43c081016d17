"""The shared parts of all networks other than SimPool's, and networks without clusters.

The backbone is the backbone of `SimPoolNet`: a GMN Z0 on the input graphs, a GCN Z1 after the first
pooling, and a GCN Z2 after the second. :class:`Architecture` has the widths.

`Baseline` and `NoPool` sum over all nodes. g-U-Nets, SAGPool_h and SortPool select nodes with PyG's
operators. PyG's sorts are not stable, so the selection among equal scores may depend on the batch.
"""

import warnings
from collections.abc import Callable
from typing import NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import BatchNorm1d, Conv1d, Dropout, Identity, MaxPool1d, Module, ReLU, Sequential
from torch_geometric.data import Batch
from torch_geometric.nn import MLP, GCNConv, MultiAggregation, SortAggregation, global_add_pool
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.utils import to_torch_csr_tensor

from harness.run import Run
from torch_geometric_simpool.models import GMN

# PyTorch warns once in each process that its sparse matrices are in beta.
warnings.filterwarnings("ignore", "Sparse (CSR tensor support|invariant checks)")
#: DGCNN's number of kept nodes is this quantile of the sizes of training graphs, and at least ten.
SORT_QUANTILE, SORT_LEAST = 0.4, 10


class NetworkSpec(NamedTuple):
    """The run and the data that a network is built for."""

    run: Run
    #: The number of columns of `x`, or of node labels.
    in_channels: int
    num_classes: int
    #: The number of columns of `edge_attr`, `None` without edge features.
    edge_dim: Optional[int]
    #: The number of nodes of every training graph, `[num_train]`.
    num_nodes: Tensor


class Level(NamedTuple):
    """A level of soft assignments, with L_E and L_C for the record of metrics."""

    s: Tensor
    entropy_loss: Tensor
    cluster_loss: Tensor


class NetworkOutput(NamedTuple):
    """The output of a network; `loss` and `levels` are used as in `SimPoolNetOutput`."""

    #: The scores of the classes before the softmax, `[B, num_classes]`.
    logits: Tensor
    #: The sum of the method's own losses, which is added to the cross entropy.
    auxiliary: Tensor | float = 0.0
    #: The levels of soft assignments, if the method has any.
    levels: tuple[Level, ...] = ()
    #: The cluster of every node `[N]`, counted from 0 in each graph, for methods that partition the
    #: nodes without soft assignments. It is read in evaluation only.
    clusters: Optional[Tensor] = None
    #: The part of `auxiliary` that the entropy scaler multiplies.
    entropy: Tensor | float = 0.0

    def loss(self, y: Tensor, entropy_scaler: float = 1.0, *_: float) -> Tensor:
        """Returns the cross entropy plus the method's own losses."""
        auxiliary = self.auxiliary - (1 - entropy_scaler) * self.entropy
        return F.cross_entropy(self.logits, y) + auxiliary


class GMNBackbone(Module):
    """A network with Z0 as its first GNN; `widths` are the output widths of Z0, Z1 and Z2.

    Subclasses map a batch to a :class:`NetworkOutput`. The output for a graph must not depend on
    other graphs of the batch. In evaluation, it must not depend on random numbers.
    """

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        a = spec.run.architecture
        self.embed0 = GMN(spec.in_channels, a.encoder, a.hidden, a.embedding, spec.edge_dim)
        self.widths = (a.embedding[1], *a.gcn)
        self.norm0 = BatchNorm1d(a.embedding[1]) if spec.run.norm else Identity()

    def embed(self, data: Batch) -> Tensor:
        """Returns Z0 `[N, F]`."""
        return self.norm0(self.embed0(data.x, data.edge_index, data.edge_attr))


def adjacency(edge_index: Tensor, h: Tensor) -> Tensor:
    """Returns the sparse, transposed adjacency matrix of the nodes with features `h`.

    With a matrix, `GCNConv` stores no message for each edge, which is faster for wide features.
    There must be no self-loops, because `GCNConv` adds its own.
    """
    size = (h.size(0), h.size(0))
    return to_torch_csr_tensor(edge_index.flip(0), h.new_ones(edge_index.size(1)), size)


def last_layer(spec: NetworkSpec, channels: int) -> Module:
    """Returns the last layer, which is an MLP if the network has batch norm."""
    if not spec.run.norm:
        return Linear(channels, spec.num_classes)
    return Sequential(BatchNorm1d(channels), MLP([channels, channels, spec.num_classes]))


def dense_head(in_channels: int, channels: int, num_classes: int) -> Sequential:
    """Returns one hidden layer with dropout, and the last layer."""
    return Sequential(
        Linear(in_channels, channels), ReLU(), Dropout(0.5), Linear(channels, num_classes)
    )


class Baseline(Module):
    """Sums an MLP of the node features over the nodes, and ignores the edges."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        a = spec.run.architecture
        self.in_channels = spec.in_channels
        widths = [spec.in_channels, a.encoder, a.gcn[0], a.gcn[1]]
        self.mlp = MLP(widths, norm=None, plain_last=False)
        self.lin = Linear(a.gcn[1], spec.num_classes)
        self.dropout = spec.run.dropout

    def forward(self, data: Batch) -> NetworkOutput:
        # The MLP reads each label once. Reading each node, a run on D&D takes 21 times as long.
        labels = torch.eye(self.in_channels, device=data.x.device)
        h = self.mlp(labels)[data.x] if data.x.dim() == 1 else self.mlp(data.x)
        total = global_add_pool(h, data.batch, data.num_graphs)
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


class SelectionNet(GMNBackbone):
    """Selects nodes by score twice, and reads out every level.

    The readout of a level is the mean and the maximum over its nodes. A dense layer with dropout
    reads the readouts of all levels. `pooling` maps a width to a pooling layer.
    """

    def __init__(self, spec: NetworkSpec, pooling: Callable[[int], Module]) -> None:
        super().__init__(spec)
        self.pool0, self.pool1 = pooling(self.widths[0]), pooling(self.widths[1])
        self.embed1 = GCNConv(self.widths[0], self.widths[1])
        self.embed2 = GCNConv(self.widths[1], self.widths[2])
        self.readout = MultiAggregation(["mean", "max"])
        channels = spec.run.architecture.gcn[0]
        self.head = dense_head(2 * sum(self.widths), channels, spec.num_classes)

    def forward(self, data: Batch) -> NetworkOutput:
        edge_index, batch, size = data.edge_index, data.batch, data.num_graphs
        h, readouts = self.embed(data).relu(), []
        for pool, embed in ((self.pool0, self.embed1), (self.pool1, self.embed2)):
            h, edge_index, _, batch, *_ = pool(h, edge_index, batch=batch)
            readouts.append(self.readout(h, batch, dim_size=size))
            h = embed(h, adjacency(edge_index, h)).relu()
        readouts.append(self.readout(h, batch, dim_size=size))
        return NetworkOutput(self.head(torch.cat(readouts, dim=1)))


class SortPoolNet(GMNBackbone):
    """Sorts nodes as DGCNN (SortPool) does, and applies two convolutions and a dense layer.

    The third propagation has width one, and nodes are sorted by it. Each node is described by the
    concatenated results of all three propagations. There is no Z2.
    """

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__(spec)
        k = max(SORT_LEAST, int(spec.num_nodes.double().quantile(SORT_QUANTILE)))
        self.embed1 = GCNConv(self.widths[0], self.widths[1])
        self.color = GCNConv(self.widths[1], 1)
        total = self.widths[0] + self.widths[1] + 1
        self.sort = SortAggregation(k)
        self.conv = Sequential(
            Conv1d(1, 16, total, total), ReLU(), MaxPool1d(2, 2), Conv1d(16, 32, 5), ReLU()
        )
        length = 32 * ((k - 2) // 2 + 1 - 4)
        self.head = dense_head(length, spec.run.architecture.gcn[0], spec.num_classes)

    def forward(self, data: Batch) -> NetworkOutput:
        h0 = self.embed(data).tanh()
        h1 = self.embed1(h0, adjacency(data.edge_index, h0)).tanh()
        h2 = self.color(h1, data.edge_index).tanh()
        top = self.sort(torch.cat([h0, h1, h2], dim=1), data.batch, dim_size=data.num_graphs)
        return NetworkOutput(self.head(self.conv(top.unsqueeze(1)).flatten(1)))

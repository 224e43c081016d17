"""The methods that SimPool is held against, each from PyG, in the backbone of `SimPoolNet`.

Z0 (GMN), Z1 and Z2 (GCN) have the widths of :class:`Architecture`, and the last layer is
dense; what lies between them, and how a graph is read out, is the method's. The baseline has
an MLP of those widths in their place, and SortPool no Z2. All take what
`training.predict` hands over and return a :class:`PeerOutput`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Conv1d, Dropout, MaxPool1d, Module, ReLU, Sequential
from torch_geometric.nn import (
    MLP,
    GCNConv,
    SAGPooling,
    SortAggregation,
    TopKPooling,
    dense_diff_pool,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)
from torch_geometric.nn.dense.linear import Linear

from torch_geometric_simpool import cluster_loss, entropy_loss
from torch_geometric_simpool.engine.distinct import distinct_rows
from torch_geometric_simpool.functional.pooling import SimPoolOutput
from torch_geometric_simpool.models import GMN, Architecture, DenseGCN

#: Ratios of nodes kept: PyG's examples of TopKPooling, and the paper of SAGPool.
TOPK_RATIO, SAG_RATIO = 0.8, 0.5
DROPOUT = 0.5
#: DGCNN keeps as many nodes as all but this share of the training graphs have.
SORT_QUANTILE, SORT_LEAST = 0.4, 10


class PeerOutput(NamedTuple):
    """What a peer returns; `loss` and `levels` are read as those of `SimPoolNetOutput`."""

    #: The scores of the classes before the softmax, `[B, num_classes]`.
    logits: Tensor
    #: The method's own losses, summed: they are minimised with the cross entropy.
    auxiliary: Optional[Tensor] = None
    #: Assignments, where the method has them, with L_E and L_C for comparison only.
    levels: tuple[SimPoolOutput, ...] = ()

    def loss(self, y: Tensor, *_: float) -> Tensor:
        """Cross entropy, plus the method's own losses; the scalers are SimPool's."""
        loss = F.cross_entropy(self.logits, y)
        return loss if self.auxiliary is None else loss + self.auxiliary


class Peer(Module):
    """Z0, and the widths that come after it."""

    def __init__(
        self, in_channels: int, num_classes: int, a: Architecture, edge_dim: Optional[int]
    ) -> None:
        super().__init__()
        self.embed0 = GMN(in_channels, a.encoder, a.hidden, a.embedding, edge_dim)
        self.widths = (a.embedding[1], *a.gcn)


class Baseline(Module):
    """Blind to structure: the sum over the nodes of an MLP of their features."""

    def __init__(
        self, in_channels: int, num_classes: int, a: Architecture, edge_dim: Optional[int]
    ) -> None:
        super().__init__()
        self.mlp = MLP([in_channels, a.encoder, a.gcn[0], a.gcn[1]], norm=None, plain_last=False)
        self.lin = Linear(a.gcn[1], num_classes)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor,
        sim: Optional[Tensor] = None,
        edge_attr: Optional[Tensor] = None,
        batch_size: Optional[int] = None,
    ) -> PeerOutput:
        """Reads neither edges nor structural features."""
        rows = distinct_rows(x)
        if rows is None:
            total = global_add_pool(self.mlp(x), batch, batch_size)
        else:  # the same sum, taken label by label
            num_graphs = int(batch.max()) + 1 if batch_size is None else batch_size
            counts = x.new_zeros(num_graphs, rows[0].size(0))
            counts.index_put_((batch, rows[1]), x.new_ones(()), accumulate=True)
            total = counts @ self.mlp(rows[0])
        return PeerOutput(self.lin(total))


class NoPool(Peer):
    """Z0, Z1 and Z2 on the graph as it is, summed over its nodes."""

    def __init__(
        self, in_channels: int, num_classes: int, a: Architecture, edge_dim: Optional[int]
    ) -> None:
        super().__init__(in_channels, num_classes, a, edge_dim)
        self.embed1 = GCNConv(self.widths[0], self.widths[1])
        self.embed2 = GCNConv(self.widths[1], self.widths[2])
        self.lin = Linear(self.widths[2], num_classes)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor,
        sim: Optional[Tensor] = None,
        edge_attr: Optional[Tensor] = None,
        batch_size: Optional[int] = None,
    ) -> PeerOutput:
        """Reads no structural features."""
        h = self.embed0(x, edge_index, edge_attr)
        h = self.embed2(self.embed1(h, edge_index).relu(), edge_index).relu()
        return PeerOutput(self.lin(global_add_pool(h, batch, batch_size)))


class DiffPoolNet(Peer):
    """DiffPool: assignments by GNNs on node features, its link and entropy losses minimised.

    As many clusters as SimPool has. Level 0 goes graph by graph, so nothing depends on
    padding: neither the memory, nor PyG's losses, which divide by padded sizes. Level 1, of
    graphs of one size, is one call of PyG's, whose link loss is smaller the larger the batch.
    """

    def __init__(
        self, in_channels: int, num_classes: int, a: Architecture, edge_dim: Optional[int]
    ) -> None:
        super().__init__(in_channels, num_classes, a, edge_dim)
        clusters = a.clusters
        self.assign0 = GMN(in_channels, a.encoder, a.hidden, (a.message, clusters[0]), edge_dim)
        self.embed1 = DenseGCN(self.widths[0], self.widths[1])
        self.assign1 = DenseGCN(self.widths[0], a.assignment)
        self.assign1_out = DenseGCN(a.assignment, clusters[1], act=False)
        self.embed2 = DenseGCN(self.widths[1], self.widths[2])
        self.lin = Linear(self.widths[2], num_classes)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor,
        sim: Optional[Tensor] = None,
        edge_attr: Optional[Tensor] = None,
        batch_size: Optional[int] = None,
    ) -> PeerOutput:
        """Reads no structural features."""
        num_graphs = int(batch.max()) + 1 if batch_size is None else batch_size
        logits = self.assign0(x, edge_index, edge_attr)
        pooled = [
            dense_diff_pool(z, adj, s)
            for z, adj, s in zip(
                *_per_graph(
                    self.embed0(x, edge_index, edge_attr), edge_index, logits, batch, num_graphs
                )
            )
        ]
        x0, adj0 = torch.cat([p[0] for p in pooled]), torch.cat([p[1] for p in pooled])
        losses = [torch.stack([p[i] for p in pooled]).mean() for i in (2, 3)]
        s0 = logits.softmax(dim=-1)
        level0 = SimPoolOutput(
            s0,
            x0,
            adj0,
            entropy_loss(s0, batch, batch_size=num_graphs),
            cluster_loss(s0, batch, batch_size=num_graphs),
        )
        logits1 = self.assign1_out(self.assign1(x0, adj0), adj0)
        x1, adj1, *losses1 = dense_diff_pool(self.embed1(x0, adj0), adj0, logits1)
        s1 = logits1.softmax(dim=-1)
        level1 = SimPoolOutput(s1, x1, adj1, entropy_loss(s1), cluster_loss(s1))
        out = self.lin(self.embed2(x1, adj1).sum(dim=1))
        return PeerOutput(out, sum(losses + losses1, torch.zeros_like(losses[0])), (level0, level1))


class SortPoolNet(Peer):
    """SortPool, after DGCNN: its sorted nodes, its two convolutions, its dense layers.

    A third propagation of width one gives the colour that nodes are sorted by; they
    are described by all three levels, concatenated.
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        a: Architecture,
        edge_dim: Optional[int],
        num_nodes: Tensor,
    ) -> None:
        super().__init__(in_channels, num_classes, a, edge_dim)
        k = max(SORT_LEAST, int(num_nodes.double().quantile(SORT_QUANTILE)))
        self.embed1 = GCNConv(self.widths[0], self.widths[1])
        self.colour = GCNConv(self.widths[1], 1)
        total = self.widths[0] + self.widths[1] + 1
        self.sort = SortAggregation(k)
        self.conv = Sequential(
            Conv1d(1, 16, total, total), ReLU(), MaxPool1d(2, 2), Conv1d(16, 32, 5), ReLU()
        )
        length = 32 * ((k - 2) // 2 + 1 - 4)
        self.head = _head(length, a.gcn[0], num_classes)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor,
        sim: Optional[Tensor] = None,
        edge_attr: Optional[Tensor] = None,
        batch_size: Optional[int] = None,
    ) -> PeerOutput:
        """Reads no structural features."""
        h0 = self.embed0(x, edge_index, edge_attr).tanh()
        h1 = self.embed1(h0, edge_index).tanh()
        h2 = self.colour(h1, edge_index).tanh()
        top = self.sort(torch.cat([h0, h1, h2], dim=1), batch, dim_size=batch_size)
        return PeerOutput(self.head(self.conv(top.unsqueeze(1)).flatten(1)))


class SelectionNet(Peer):
    """Nodes chosen by score, twice, and a readout of every level: g-U-Nets and SAGPool_h.

    The readout of a level is the mean and the maximum over its nodes; a dense layer with
    dropout reads those of all levels.
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        a: Architecture,
        edge_dim: Optional[int],
        pooling: Callable[[int], Module],
    ) -> None:
        super().__init__(in_channels, num_classes, a, edge_dim)
        self.pool0, self.pool1 = pooling(self.widths[0]), pooling(self.widths[1])
        self.embed1 = GCNConv(self.widths[0], self.widths[1])
        self.embed2 = GCNConv(self.widths[1], self.widths[2])
        self.head = _head(2 * sum(self.widths), a.gcn[0], num_classes)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor,
        sim: Optional[Tensor] = None,
        edge_attr: Optional[Tensor] = None,
        batch_size: Optional[int] = None,
    ) -> PeerOutput:
        """Reads no structural features."""
        h = self.embed0(x, edge_index, edge_attr).relu()
        h, edge_index, _, batch, *_ = self.pool0(h, edge_index, batch=batch)
        readouts = [_readout(h, batch, batch_size)]
        h = self.embed1(h, edge_index).relu()
        h, edge_index, _, batch, *_ = self.pool1(h, edge_index, batch=batch)
        readouts.append(_readout(h, batch, batch_size))
        h = self.embed2(h, edge_index).relu()
        readouts.append(_readout(h, batch, batch_size))
        return PeerOutput(self.head(torch.cat(readouts, dim=1)))


def _head(in_channels: int, channels: int, num_classes: int) -> Sequential:
    return Sequential(
        Linear(in_channels, channels), ReLU(), Dropout(DROPOUT), Linear(channels, num_classes)
    )


def _readout(h: Tensor, batch: Tensor, batch_size: Optional[int]) -> Tensor:
    return torch.cat(
        [global_mean_pool(h, batch, batch_size), global_max_pool(h, batch, batch_size)], dim=1
    )


def _per_graph(
    z: Tensor, edge_index: Tensor, logits: Tensor, batch: Tensor, num_graphs: int
) -> tuple[Any, list[Tensor], Any]:
    """Features, dense adjacency matrix and logits of every graph by itself."""
    sizes = torch.bincount(batch, minlength=num_graphs)
    first = sizes.cumsum(0) - sizes
    graph = batch[edge_index[0]]
    edges = (edge_index - first[graph])[:, graph.argsort(stable=True)]
    counts = torch.bincount(graph, minlength=num_graphs).tolist()
    nodes = sizes.tolist()
    adjs = []
    for n, pair in zip(nodes, edges.split(counts, dim=1)):
        adj = z.new_zeros(n, n)
        adjs.append(adj.index_put_((pair[0], pair[1]), adj.new_ones(()), accumulate=True))
    return z.split(nodes), adjs, logits.split(nodes)


#: How to build a peer, given widths of input and output, architecture and edge features.
PEERS: dict[str, Callable[..., Module]] = {
    "diffpool": DiffPoolNet,
    "sortpool": SortPoolNet,
    "gunet": partial(SelectionNet, pooling=partial(TopKPooling, ratio=TOPK_RATIO)),
    "sagpool": partial(SelectionNet, pooling=partial(SAGPooling, ratio=SAG_RATIO, GNN=GCNConv)),
    "nopool": NoPool,
    "baseline": Baseline,
}
METHODS = ("simpool", *PEERS)

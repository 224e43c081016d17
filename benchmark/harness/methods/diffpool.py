"""DiffPool, on PyG's `dense_diff_pool`."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.nn import dense_diff_pool

from harness.methods.base import GMNBackbone, Level, NetworkOutput, NetworkSpec, last_layer
from torch_geometric_simpool import cluster_loss, entropy_loss
from torch_geometric_simpool.models import GMN, DenseGCN


class DiffPoolNet(GMNBackbone):
    """Assigns nodes by GNNs on node features, with the link and entropy losses of DiffPool.

    There are as many clusters as in SimPool. Level 0 is computed graph by graph, so neither the
    memory nor PyG's losses, which divide by padded sizes, depend on padding. Level 1 has graphs of
    one size and is one call of PyG's operator, whose link loss shrinks with the batch.

    PyG divides link losses by the square of the number of nodes, so the entropy loss is large in
    comparison. With `normalize=False`, link losses are as in the paper at both levels: the mean
    over the graphs of the norm of `A - S S^T`.
    """

    def __init__(self, spec: NetworkSpec, normalize: bool = True) -> None:
        super().__init__(spec)
        self.normalize = normalize
        a = spec.architecture
        assignment = (a.message, a.clusters[0])
        self.assign0 = GMN(spec.in_channels, a.encoder, a.hidden, assignment, spec.edge_dim)
        self.embed1 = DenseGCN(self.widths[0], self.widths[1])
        self.assign1 = DenseGCN(self.widths[0], a.assignment)
        self.assign1_out = DenseGCN(a.assignment, a.clusters[1], act=False)
        self.embed2 = DenseGCN(self.widths[1], self.widths[2])
        self.readout, self.dropout = spec.readout, spec.dropout
        read = self.widths[2] if self.readout == "last" else sum(self.widths[1:])
        self.lin = last_layer(spec, read)

    def forward(self, data: Batch) -> NetworkOutput:
        logits = self.assign0(data.x, data.edge_index, data.edge_attr)
        sizes = torch.bincount(data.batch, minlength=data.num_graphs)
        nodes = sizes.tolist()
        pooled = [
            dense_diff_pool(z, adj, s, normalize=self.normalize)
            for z, adj, s in zip(
                self.embed(data).split(nodes),
                _dense_adjacencies(data, sizes, logits.dtype),
                logits.split(nodes),
            )
        ]
        x0, adj0 = torch.cat([p[0] for p in pooled]), torch.cat([p[1] for p in pooled])
        losses = [torch.stack([p[i] for p in pooled]).mean() for i in (2, 3)]
        s0 = logits.softmax(dim=-1)
        size = data.num_graphs
        level0 = Level(
            s0,
            entropy_loss(s0, data.batch, batch_size=size),
            cluster_loss(s0, data.batch, batch_size=size),
        )
        logits1 = self.assign1_out(self.assign1(x0, adj0), adj0)
        z1 = self.embed1(x0, adj0)
        x1, adj1, *losses1 = dense_diff_pool(z1, adj0, logits1)
        s1 = logits1.softmax(dim=-1)
        if not self.normalize:  # PyG takes one norm of all graphs
            losses1[0] = torch.linalg.matrix_norm(adj0 - s1 @ s1.mT).mean()
        level1 = Level(s1, entropy_loss(s1), cluster_loss(s1))
        out = self.embed2(x1, adj1).sum(dim=1)
        if self.readout == "all":
            out = torch.cat([z1.sum(dim=1), out], dim=-1)
        out = self.lin(F.dropout(out, self.dropout, self.training))
        total = sum(losses + losses1, torch.zeros_like(losses[0]))
        return NetworkOutput(out, total, (level0, level1), entropy=losses[1] + losses1[1])


def _dense_adjacencies(data: Batch, sizes: Tensor, dtype: torch.dtype) -> list[Tensor]:
    """Returns the adjacency matrix of every graph."""
    first = sizes.cumsum(0) - sizes
    graph = data.batch[data.edge_index[0]]
    edges = (data.edge_index - first[graph])[:, graph.argsort(stable=True)]
    counts = torch.bincount(graph, minlength=data.num_graphs).tolist()
    adjs = []
    for n, pair in zip(sizes.tolist(), edges.split(counts, dim=1)):
        adj = torch.zeros(n, n, dtype=dtype, device=edges.device)
        adjs.append(adj.index_put_((pair[0], pair[1]), adj.new_ones(()), accumulate=True))
    return adjs

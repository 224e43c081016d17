"""Networks that merge nodes into clusters: DiffPool, and networks that read similar nodes.

Networks that read similar nodes are permutation equivariant and need no order.
"""

import torch
import torch.nn.functional as F
from torch_geometric.data import Batch
from torch_geometric.nn import MLP, GraphConv, dense_diff_pool, global_add_pool
from torch_geometric.utils import scatter, unbatch_edge_index

from harness.methods.nodes import GMNBackbone, Level, NetworkOutput, NetworkSpec, last_layer
from torch_geometric_simpool import cluster_loss, dense_sim_pool, entropy_loss, sim_pool
from torch_geometric_simpool.models import GMN, DenseGCN, SimilarityAssignment


class DiffPoolNet(GMNBackbone):
    """Assigns nodes by GNNs on node features, with the link and entropy losses of DiffPool.

    The numbers of clusters are SimPool's. Level 0 is computed graph by graph, because PyG's losses
    divide by padded sizes, and padding takes memory. Level 1 has graphs of one size. It is one call
    of PyG's operator, whose link loss shrinks with the batch.

    PyG divides a link loss by the square of the number of nodes, so the entropy loss outweighs it.
    With `normalize=False`, link losses of both levels are as in the paper: the mean over the graphs
    of the norm of `A - S S^T`.
    """

    def __init__(self, spec: NetworkSpec, normalize: bool = True) -> None:
        super().__init__(spec)
        self.normalize = normalize
        a = spec.run.architecture
        assignment = (a.message, a.clusters[0])
        self.assign0 = GMN(spec.in_channels, a.encoder, a.hidden, assignment, spec.edge_dim)
        self.embed1 = DenseGCN(self.widths[0], self.widths[1])
        self.assign1 = DenseGCN(self.widths[0], a.assignment)
        self.assign1_out = DenseGCN(a.assignment, a.clusters[1], act=False)
        self.embed2 = DenseGCN(self.widths[1], self.widths[2])
        self.readout, self.dropout = spec.run.readout, spec.run.dropout
        read = self.widths[2] if self.readout == "last" else sum(self.widths[1:])
        self.lin = last_layer(spec, read)

    def forward(self, data: Batch) -> NetworkOutput:
        logits = self.assign0(data.x, data.edge_index, data.edge_attr)
        nodes = torch.bincount(data.batch, minlength=data.num_graphs).tolist()
        edges = unbatch_edge_index(data.edge_index, data.batch, data.num_graphs)
        # PyG's to_dense_adj, called for each graph, takes a seventh of an epoch.
        adjs = [
            logits.new_zeros(n, n).index_put_((row, col), logits.new_ones(()), accumulate=True)
            for (row, col), n in zip(edges, nodes)
        ]
        pooled = [
            dense_diff_pool(z, adj, s, normalize=self.normalize)
            for z, adj, s in zip(self.embed(data).split(nodes), adjs, logits.split(nodes))
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
        if not self.normalize:  # PyG takes one norm over all graphs of the batch
            losses1[0] = torch.linalg.matrix_norm(adj0 - s1 @ s1.mT).mean()
        level1 = Level(s1, entropy_loss(s1), cluster_loss(s1))
        out = self.embed2(x1, adj1).sum(dim=1)
        if self.readout == "all":
            out = torch.cat([z1.sum(dim=1), out], dim=-1)
        out = self.lin(F.dropout(out, self.dropout, self.training))
        losses += losses1
        return NetworkOutput(out, sum(losses), (level0, level1), entropy=losses[1] + losses[3])


class SimilarityEdges(GMNBackbone):
    """Applies Z0 to edges and similar nodes with attributes `(A, C)`, and sums over the nodes."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__(spec._replace(edge_dim=2))
        self.lin = last_layer(spec, self.widths[0])

    def forward(self, data: Batch) -> NetworkOutput:
        h = self.norm0(self.embed0(data.x, data.similar_index, data.similar_attr).relu())
        return NetworkOutput(self.lin(global_add_pool(h, data.batch, data.num_graphs)))


class SoftPool(GMNBackbone):
    """Pools twice by soft assignments, with the losses of SimPool.

    Level 0 is assigned by a set function of the embeddings of similar nodes (`reads='set'`), or by
    an MLP of mapped indices (`'indices'`) or of the embedding of the node (`'node'`). Level 1 is
    assigned by an MLP of the embedding of the cluster.
    """

    def __init__(self, spec: NetworkSpec, reads: str = "set") -> None:
        super().__init__(spec)
        hidden, (first, second) = spec.run.architecture.assignment, spec.run.architecture.clusters
        self.reads = reads
        width = spec.run.k if reads == "indices" else self.widths[0]
        self.assign0 = MLP([width, hidden, first], norm=None)
        if reads == "set":
            self.assign0 = SimilarityAssignment(width, hidden, first)
        self.embed1 = DenseGCN(self.widths[0], self.widths[1])
        self.assign1 = MLP([self.widths[1], hidden, second], norm=None)
        self.embed2 = DenseGCN(self.widths[1], self.widths[2])
        self.lin = last_layer(spec, self.widths[2])

    def forward(self, data: Batch) -> NetworkOutput:
        z0 = self.embed(data)
        if self.reads == "set":
            s0 = self.assign0(z0, data.similar_index, None, data.similar_attr)
        else:
            s0 = self.assign0(data.sim if self.reads == "indices" else z0)
        x, adj, *losses0 = sim_pool(
            z0, data.edge_index, s0, data.batch, batch_size=data.num_graphs
        )[:4]
        z1 = self.embed1(x, adj)
        s1 = self.assign1(z1.flatten(0, 1)).view(*z1.shape[:2], -1)
        x, adj, *losses1 = dense_sim_pool(z1, adj, s1)
        logits = self.lin(self.embed2(x, adj).sum(dim=1))
        levels = (Level(s0.softmax(-1), *losses0), Level(s1.softmax(-1), *losses1))
        entropy = losses0[0] + losses1[0]
        return NetworkOutput(logits, sum(losses0 + losses1), levels, entropy=entropy)


class SimMatchNet(GMNBackbone):
    """Merges the nodes that :func:`harness.data.similar.matchings` matches, twice.

    A merged node has the sum of the features and the index of its first node. The last sum leaves
    out the indices of merged nodes.
    """

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__(spec)
        # A separate weight for the node itself: in GCNConv, edges outweigh its self-loop.
        self.embed1 = GraphConv(self.widths[0], self.widths[1], aggr="mean")
        self.embed2 = GraphConv(self.widths[1], self.widths[2], aggr="mean")
        self.lin = last_layer(spec, self.widths[2])

    def forward(self, data: Batch) -> NetworkOutput:
        h = self.embed(data)
        node = place = torch.arange(h.size(0), device=h.device)
        for level, embed in enumerate((self.embed1, self.embed2)):
            match = data[f"match{level}_index"]
            h = scatter(h, match, dim=0, dim_size=h.size(0))
            h = embed(
                h, data[f"coarse{level}_index"], data[f"coarse{level}_weight"].view(-1)
            ).relu()
            place = match[place]
        h = h * (place == node).unsqueeze(1)
        return NetworkOutput(self.lin(global_add_pool(h, data.batch, data.num_graphs)))

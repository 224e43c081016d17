"""Networks that read similarities without numbers of nodes: equivariant, and without an order."""

import torch
from torch_geometric.data import Batch
from torch_geometric.nn import MLP, GraphConv, global_add_pool
from torch_geometric.utils import scatter

from harness.methods.base import GMNBackbone, Level, NetworkOutput, NetworkSpec, last_layer
from torch_geometric_simpool import dense_sim_pool, sim_pool
from torch_geometric_simpool.models import DenseGCN, SimilarityAssignment


class SimilarityEdges(GMNBackbone):
    """No pooling: Z0 reads edges and similar nodes, with attributes `(A, C)`, before a sum."""

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
        hidden, (first, second) = spec.architecture.assignment, spec.architecture.clusters
        self.reads = reads
        width = spec.k if reads == "indices" else self.widths[0]
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
        total = sum(losses0 + losses1, torch.zeros_like(losses0[0]))
        return NetworkOutput(logits, total, levels, entropy=losses0[0] + losses1[0])


class SimMatchNet(GMNBackbone):
    """Merges matched nodes twice, as :func:`harness.data.similar.matchings` returns them.

    A merged node has the sum of the features, and takes the place of the first of its nodes. The
    place of the other node is left out of the last sum.
    """

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__(spec)
        # GCNConv would drown a node among its neighbors, whose edges have larger weights.
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

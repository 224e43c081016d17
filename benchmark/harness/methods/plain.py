"""Reference networks for the time of an epoch: SimPool in plain PyTorch, and a padded DiffPool."""

from typing import Optional

import torch
from torch import Tensor
from torch_geometric.nn import dense_diff_pool
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.utils import to_dense_adj, to_dense_batch

from harness.data.batches import AnyBatch
from torch_geometric_simpool import dense_sim_pool, reference
from torch_geometric_simpool.models import (
    GMN,
    Architecture,
    DenseGCN,
    MLPAssignment,
    SimPoolNet,
)


def _gmn(model: GMN, x: Tensor, edge_index: Tensor) -> Tensor:
    assert model.encoder.lin_node is not None
    first, last = ((_dense(c.lin_message), _dense(c.lin_node)) for c in (model.conv1, model.conv2))
    return reference.gmn(x, edge_index, (_dense(model.encoder.lin_node), None), first, last)


def _dense(lin: Linear) -> tuple[Tensor, Optional[Tensor]]:
    return lin.weight, lin.bias


class PlainSimPoolNet(torch.nn.Module):
    """The equations of a :class:`SimPoolNet`, written out, on the same weights.

    It computes messages edge by edge, and a dense level 0, padded to the largest graph. The
    network must read structural features alone, without edge features, and sum the last level.
    """

    def __init__(self, net: SimPoolNet) -> None:
        super().__init__()
        self.net = net

    def loss(
        self, batch: AnyBatch, entropy_scaler: float = 1.0, cluster_scaler: float = 1.0
    ) -> Tensor:
        net = self.net
        z0 = _gmn(net.embed0, batch.x, batch.edge_index)
        assert isinstance(net.pool0.assignment, GMN)
        assert batch.sim is not None
        s0 = _gmn(net.pool0.assignment, batch.sim, batch.edge_index)
        x, mask = to_dense_batch(z0, batch.batch, batch_size=batch.num_graphs)
        s, _ = to_dense_batch(s0, batch.batch, batch_size=batch.num_graphs)
        adj = to_dense_adj(batch.edge_index, batch.batch, batch_size=batch.num_graphs)
        x, adj, entropy0, cluster0 = dense_sim_pool(x, adj, s, mask)
        level1 = net.pool1(net.embed1(x, adj), adj=adj, assign_x=x)
        logits = net.lin(net.embed2(level1.x, level1.adj).sum(dim=1))
        loss = torch.nn.functional.cross_entropy(logits, batch.y)
        loss = loss + entropy_scaler * (entropy0 + level1.entropy_loss)
        return loss + cluster_scaler * (cluster0 + level1.cluster_loss)


class PaddedDiffPoolNet(torch.nn.Module):
    """A classifier with the widths of :class:`SimPoolNet` on PyG's `dense_diff_pool`, padded."""

    def __init__(self, in_channels: int, num_classes: int, architecture: Architecture) -> None:
        super().__init__()
        a = architecture
        self.embed0 = GMN(in_channels, a.encoder, a.hidden, a.embedding)
        self.assign0 = GMN(in_channels, a.encoder, a.hidden, (a.message, a.clusters[0]))
        self.embed1 = DenseGCN(a.embedding[1], a.gcn[0])
        self.assign1 = MLPAssignment(a.embedding[1], a.assignment, a.clusters[1])
        self.embed2 = DenseGCN(*a.gcn)
        self.lin = torch.nn.Linear(a.gcn[1], num_classes)

    def loss(self, batch: AnyBatch) -> Tensor:
        z0 = self.embed0(batch.x, batch.edge_index)
        s0 = self.assign0(batch.x, batch.edge_index)
        x, mask = to_dense_batch(z0, batch.batch, batch_size=batch.num_graphs)
        s, _ = to_dense_batch(s0, batch.batch, batch_size=batch.num_graphs)
        adj = to_dense_adj(batch.edge_index, batch.batch, batch_size=batch.num_graphs)
        x, adj, link0, entropy0 = dense_diff_pool(x, adj, s, mask)
        x1, adj1, link1, entropy1 = dense_diff_pool(self.embed1(x, adj), adj, self.assign1(x))
        logits = self.lin(self.embed2(x1, adj1).sum(dim=1))
        loss = torch.nn.functional.cross_entropy(logits, batch.y)
        return loss + link0 + link1 + entropy0 + entropy1

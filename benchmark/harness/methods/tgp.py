"""The poolers of torch-geometric-pool (tgp), by name, in the backbone of SimPool."""

import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Optional
from unittest import mock

import torch
from torch import Tensor
from torch.distributions import Beta
from torch_geometric.nn import GCNConv, global_add_pool
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.utils import scatter

from harness.errors import BenchmarkError
from harness.methods.base import GNNPeer, NetworkInput, PeerInput, PeerOutput

PREFIX = "tgp:"
#: The largest ratio of nodes that are kept.
ALL = 1 - 1e-6
#: The poolers of version 1.0.2, without `graclus`, which needs torch-cluster, and `pan`, which
#: needs a propagation of its own.
NAMES = (
    *("acc", "asap", "bnpool", "diff", "dmon", "ec", "eigen", "hosc", "jb", "kmis", "lap"),
    *("maxcut", "mincut", "ndp", "nmf", "nopool", "sag", "sep", "topk"),
)
#: What is not tgp's default. MaxCutPooling joins nodes to the nearest kept one, within `max_iter`
#: steps (tgp: 5), and draws a cluster for those that are farther from all, in evaluation too. With
#: this many steps, it only draws where a component of a graph keeps no node.
SETTINGS: dict[str, dict[str, Any]] = {"maxcut": {"max_iter": 200}}


class TgpNet(GNNPeer):
    """Z0, a pooler, Z1, a second pooler, Z2, and a sum over what is left of a graph.

    Poolers with a number of clusters have those of SimPool; others keep a share of the nodes
    that gives as many of a training graph of mean size. A pooler whose assignment is a network
    gets two layers, without an activation, which is tgp's default, as is all else but
    :data:`SETTINGS`. BNPool, which draws its assignments, takes expected values in evaluation.
    """

    def __init__(self, name: str, given: NetworkInput) -> None:
        super().__init__(given)
        first, second = given.architecture.clusters
        # A ratio of one would be a number of nodes.
        share = min(ALL, first / float(given.num_nodes.double().mean()))
        self.pool0 = pooler(name, self.widths[0], first, share)
        self.pool1 = pooler(name, self.widths[1], second, second / first)
        self.embed1 = GCNConv(self.widths[0] * _parts(self.pool0), self.widths[1])
        self.embed2 = GCNConv(self.widths[1] * _parts(self.pool1), self.widths[2])
        self.lin = Linear(self.widths[2], given.num_classes)

    def classify(self, graphs: PeerInput) -> PeerOutput:
        """Returns the sum of the losses of both levels and, in evaluation, the clusters."""
        with nullcontext() if self.training else _means_of_beta():
            return self._classify(graphs)

    def _classify(self, graphs: PeerInput) -> PeerOutput:
        z0 = self.embed(graphs)
        level0 = self.pool0(x=z0, adj=graphs.edge_index, batch=graphs.batch)
        z1 = self.embed1(level0.x, level0.edge_index, level0.edge_weight).relu()
        level1 = self.pool1(
            x=z1, adj=level0.edge_index, edge_weight=level0.edge_weight, batch=level0.batch
        )
        z2 = self.embed2(level1.x, level1.edge_index, level1.edge_weight).relu()
        logits = self.lin(global_add_pool(z2, level1.batch, graphs.num_graphs))
        losses = [v for out in (level0, level1) if out.has_loss for v in out.get_loss_value()]
        auxiliary = sum(losses, torch.zeros((), device=z0.device)) if losses else None
        clusters = None if self.training else clusters_of(level0.so, graphs)
        return PeerOutput(logits, auxiliary, clusters=clusters)


def _means_of_beta() -> AbstractContextManager[Any]:
    """Beta distributions, from which tgp's BNPool draws in evaluation too, give their means."""
    return mock.patch.object(Beta, "rsample", lambda distribution, *_: distribution.mean)


def pooler(name: str, channels: int = 1, clusters: int = 1, ratio: float = ALL) -> Any:
    """A pooler of tgp, which reads of these settings what it needs."""
    try:
        from tgp.poolers import get_pooler
    except ImportError as error:
        raise BenchmarkError(
            f"--method {PREFIX}{name} needs torch-geometric-pool: pip install "
            "--no-build-isolation '.[tgp]'"
        ) from error
    # tgp makes its sparse tensors without saying whether they are to be checked.
    warnings.filterwarnings("ignore", "Sparse invariant checks", UserWarning, r"tgp\.")
    assigns = takes_clusters(name)
    try:
        # `get_pooler` leaves out what a pooler does not take.
        return get_pooler(
            name,
            in_channels=[channels, channels] if assigns else channels,
            k=clusters,
            ratio=ratio,
            sparse_output=True,
            **SETTINGS.get(name, {}),
        )
    except ImportError as error:
        raise BenchmarkError(f"--method {PREFIX}{name}: {error}") from error


def takes_clusters(name: str) -> bool:
    """Whether a pooler of tgp is told the number of clusters."""
    from tgp.poolers import pooler_map

    return "k" in pooler_map[name].get_signature().args


def _parts(pooler: Any) -> int:
    """How many columns a pooler makes of each: EigenPooling concatenates several modes."""
    return getattr(pooler, "num_modes", 1)


def clusters_of(selected: Any, graphs: PeerInput) -> Optional[Tensor]:
    """The cluster of every node, counted from 0 in each graph; `None` if nodes are left out."""
    num_nodes, device = graphs.batch.numel(), graphs.batch.device
    if not selected.s.is_sparse:
        s = selected.s if selected.in_mask is None else selected.s[selected.in_mask]
        return s.view(num_nodes, -1).argmax(dim=-1)
    if not torch.equal(selected.node_index.sort()[0], torch.arange(num_nodes, device=device)):
        return None
    cluster = torch.empty_like(graphs.batch)
    cluster[selected.node_index] = selected.cluster_index
    first = scatter(cluster, graphs.batch, dim_size=graphs.num_graphs, reduce="min")
    return cluster - first[graphs.batch]

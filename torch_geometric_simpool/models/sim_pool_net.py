"""The paper's graph classifier."""

from functools import partial
from typing import Any, NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.utils import is_sparse

from torch_geometric_simpool.functional.pooling import SimPoolOutput
from torch_geometric_simpool.layer import FEATURES, SimPool
from torch_geometric_simpool.models.assignment import MLPAssignment
from torch_geometric_simpool.models.gcn import DenseGCN
from torch_geometric_simpool.models.gmn import GMN
from torch_geometric_simpool.models.presets import Architecture, get_preset
from torch_geometric_simpool.utils.batching import from_adj_t
from torch_geometric_simpool.utils.checks import (
    check_choice,
    check_int,
    check_labels,
    is_labels,
    shape,
)
from torch_geometric_simpool.utils.export import exportable


@exportable
class SimPoolNetOutput(NamedTuple):
    """What the classifier returns."""

    #: The scores of the classes before the softmax, `[B, num_classes]`.
    logits: Tensor
    #: L_E, the sum over the levels.
    entropy_loss: Tensor
    #: L_C, the sum over the levels.
    cluster_loss: Tensor
    #: What the pooling layer of each level returned.
    levels: tuple[SimPoolOutput, SimPoolOutput]

    def loss(self, y: Tensor, entropy_scaler: float = 1.0, cluster_scaler: float = 1.0) -> Tensor:
        """Cross entropy, plus the scaled losses on the assignments."""
        loss = F.cross_entropy(self.logits, y)
        return loss + entropy_scaler * self.entropy_loss + cluster_scaler * self.cluster_loss


class SimPoolNet(torch.nn.Module):
    r"""The classifier of the paper: two pooling layers between GNNs, and a sum.

    ===== ========================================== =========================
    part  module                                     reads
    ===== ========================================== =========================
    Z0    :class:`GMN`                               node features
    S0    :class:`GMN`                               structural or node features
    Z1    :class:`DenseGCN`                          the pooled graph
    S1    :class:`MLPAssignment`                     rows of C of the pooled
                                                     graph, or its features
    Z2    :class:`DenseGCN`                          the graph pooled again
    out   sum over the clusters, dense
    ===== ========================================== =========================

    Args:
        in_channels: Width of the node features, or the number of node labels.
        num_classes: The number of classes.
        architecture: The widths; see :class:`Architecture` and `PRESETS`.
        k: Width of the mapped structural features of level 0.
        p, lam, alpha: As in :class:`SimPool`, for structural features of level 0 that
            are computed on the fly; `p` and `lam` hold for level 1 as well.
        features: What the assignment networks read: `'structural'`, `'node'` or
            `'both'`.
        gru: Whether S0 reads whole rows of C by a GRU, in place of the `k` mapped
            features. These rows are computed on the fly; `sim` must not be given.
        edge_dim: Width of the edge features, which enter the messages of Z0 and S0, or
            `None` where there are none.

    Example:
        >>> from torch_geometric_simpool.models import SimPoolNet
        >>> net = SimPoolNet.from_preset("enzymes", in_channels=3, num_classes=6, width=0.125)
        >>> net(torch.randn(30, 3), torch.randint(0, 30, (2, 90))).logits.shape
        torch.Size([1, 6])

    The last layer of Z0 is linear, so it is applied after the pooling, `S^T (X W) = (S^T X) W`,
    on fewer rows (see :meth:`GMNConv.pooled`). So `embed0` and `embed0.conv2` are not called,
    nor, for integer labels, its encoder and `conv1`: forward hooks on these do not run.

    Source: table 'architecture' of Shulman (2020). Its softmax is part of the cross
    entropy of :meth:`SimPoolNetOutput.loss`.
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        architecture: Architecture,
        k: int,
        p: int = 1,
        lam: float = 0.0,
        alpha: float = 1.0,
        features: str = "structural",
        gru: bool = False,
        edge_dim: Optional[int] = None,
    ) -> None:
        super().__init__()
        check_int("in_channels", in_channels, 1)
        check_int("num_classes", num_classes, 1)
        check_int("k", k, 1)
        check_choice("features", features, FEATURES)
        if edge_dim is not None:
            check_int("edge_dim", edge_dim, 1)
        if not isinstance(architecture, Architecture):
            raise TypeError(
                "`architecture` must be an Architecture (from_preset takes names), got "
                f"{architecture!r}"
            )
        if gru and features == "node":
            raise ValueError("`gru` must be False where `features` is 'node', got True")
        a = architecture
        self.embed0 = GMN(in_channels, a.encoder, a.hidden, a.embedding, edge_dim)
        structural = 0 if gru else k
        self.pool0 = SimPool(
            GMN(
                _width(features, structural, in_channels),
                a.encoder,
                a.hidden,
                (a.message, a.clusters[0]),
                edge_dim,
                gru=gru,
            ),
            features,
            k=None if gru else k,
            p=p,
            lam=lam,
            alpha=alpha,
        )
        pooled = a.embedding[1]
        self.embed1 = DenseGCN(pooled, a.gcn[0])
        self.pool1 = SimPool(
            MLPAssignment(_width(features, a.clusters[0], pooled), a.assignment, a.clusters[1]),
            features,
            p=p,
            lam=lam,
        )
        self.embed2 = DenseGCN(a.gcn[0], a.gcn[1])
        self.lin = Linear(a.gcn[1], num_classes)
        self.gru = gru
        self.in_channels = in_channels
        self.k = k

    @classmethod
    def from_preset(
        cls,
        preset: str,
        in_channels: int,
        num_classes: int,
        width: float = 1.0,
        **settings: Any,
    ) -> "SimPoolNet":
        """Builds the network of a preset.

        Args:
            preset: `'enzymes'`, `'dd'`, `'enzymes-10fold'` or `'dd-10fold'`.
            in_channels: Width of the node features.
            num_classes: The number of classes.
            width: Multiplies every width but the numbers of clusters.
            **settings: Arguments of the constructor, instead of the preset's.
        """
        chosen = get_preset(preset)
        settings = {
            "architecture": chosen.architecture,
            "k": chosen.k,
            "p": chosen.p,
            "lam": chosen.lam,
            "alpha": chosen.alpha,
            **settings,
        }
        settings["architecture"] = settings["architecture"].scaled(width)
        return cls(in_channels, num_classes, **settings)

    def reset_parameters(self) -> None:
        """Resets the parameters."""
        for child in self.children():
            child.reset_parameters()  # type: ignore[operator]

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Optional[Tensor] = None,
        sim: Optional[Tensor] = None,
        edge_attr: Optional[Tensor] = None,
        edge_weight: Optional[Tensor] = None,
        batch_size: Optional[int] = None,
    ) -> SimPoolNetOutput:
        """Classifies the graphs of a sparse batch.

        Args:
            x: Node features, `[N, in_channels]`; or integer labels in `[0, in_channels)`, `[N]`,
                which stand for one-hot features and are faster.
            edge_index: The edges, `[2, E]`.
            batch: The graph of each node, `[N]`, ascending; one graph if `None`.
            sim: `data.sim` of :class:`StructuralSimilarity`, `[N, k]`; computed on the
                fly if `None`.
            edge_attr: Edge features, `[E, edge_dim]`.
            edge_weight: The weights, `[E]`, for similarity and pooling; the messages do
                not read them.
            batch_size: The number of graphs.
        """
        if self.gru and sim is not None:
            raise ValueError("`sim` must be None where `gru` is set, got one")
        if is_labels(x):
            check_labels("x", x, self.in_channels)
        elif x.dim() != 2 or x.size(1) != self.in_channels:
            raise ValueError(
                f"`x` must have shape [N, {self.in_channels}], or [N] for integer labels, "
                f"got {shape(x)}"
            )
        if sim is not None and (sim.dim() != 2 or sim.size(1) != self.k):
            raise ValueError(f"`sim` must have shape [N, {self.k}], got {shape(sim)}")
        if is_sparse(edge_index):
            edge_index, weight = from_adj_t(edge_index, x.size(0))
            edge_weight = weight if edge_weight is None else edge_weight
        # Z0 without its last layer, which is applied to the pooled rows: S^T (X W) = (S^T X) W.
        hidden, edge = self.embed0.hidden(x, edge_index, edge_attr)
        level0 = self.pool0(
            hidden,
            edge_index,
            batch,
            sim,
            edge_weight=edge_weight,
            edge_attr=edge_attr,
            batch_size=batch_size,
            assign_x=self._assign_x(x, hidden),
            pool_x=partial(self.embed0.conv2.pooled, edge_attr=edge),
        )
        level1 = self.pool1(self.embed1(level0.x, level0.adj), adj=level0.adj, assign_x=level0.x)
        out = self.embed2(level1.x, level1.adj).sum(dim=1)
        return SimPoolNetOutput(
            self.lin(out),
            level0.entropy_loss + level1.entropy_loss,
            level0.cluster_loss + level1.cluster_loss,
            (level0, level1),
        )

    def _assign_x(self, x: Tensor, hidden: Tensor) -> Tensor:
        """The node features as S0 reads them: labels are one-hot where they are concatenated."""
        if is_labels(x) and self.pool0.features == "both":
            return F.one_hot(x.long(), self.in_channels).to(hidden.dtype)
        return x


def _width(features: str, structural: int, node: int) -> int:
    return {"structural": structural, "node": node, "both": structural + node}[features]

"""The paper's graph classifier."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.utils import is_sparse

from torch_geometric_simpool.functional.pooling import (
    SimPoolOutput,
    SparseBatch,
    check_dense_batch,
    check_sparse_batch,
)
from torch_geometric_simpool.layer import FEATURES, SimPool
from torch_geometric_simpool.models.assignment import MLPAssignment
from torch_geometric_simpool.models.gcn import DenseGCN
from torch_geometric_simpool.models.gmn import GMN
from torch_geometric_simpool.models.presets import PRESETS, Architecture, get_preset
from torch_geometric_simpool.models.tasks import TASKS, task_loss
from torch_geometric_simpool.transforms.on_the_fly import features_on_the_fly, similarity_rows
from torch_geometric_simpool.transforms.structural_similarity import StructuralSimilarity
from torch_geometric_simpool.utils.batching import from_adj_t
from torch_geometric_simpool.utils.checks import (
    check_bool,
    check_channels,
    check_choice,
    check_device,
    check_edge_index,
    check_int,
    check_labels,
    check_real,
    check_tensor,
    is_labels,
    shape,
)
from torch_geometric_simpool.utils.export import exportable

#: Which levels the last layer reads.
READOUTS = ("last", "all")


@exportable
class SimPoolNetOutput(NamedTuple):
    """What the classifier returns."""

    #: What the last layer returns, `[B, num_classes]`: for the task `'classification'`, the scores
    #: of the classes before the softmax.
    logits: Tensor
    #: L_E, the sum over the levels.
    entropy_loss: Tensor
    #: L_C, the sum over the levels.
    cluster_loss: Tensor
    #: What the pooling layer of each level returned.
    levels: tuple[SimPoolOutput, SimPoolOutput]
    #: The task of the network, which :meth:`loss` follows, by its place in `TASKS`: 0 for
    #: classification, 1 for multilabel, 2 for regression. A number, since `torch.export` saves no
    #: strings in results.
    task: int = 0

    def loss(self, y: Tensor, entropy_scaler: float = 1.0, cluster_scaler: float = 1.0) -> Tensor:
        """The loss of the task, plus the scaled losses on the assignments.

        Args:
            y: For `'classification'` the classes, `[B]`; for `'multilabel'` zeros and ones,
                `[B, num_classes]`; for `'regression'` numbers, `[B, num_classes]`, or `[B]` if
                `num_classes` is 1.
            entropy_scaler, cluster_scaler: The factors of L_E and L_C, `>= 0`. They may differ from
                step to step, for example to anneal L_E.

        Raises:
            TypeError, ValueError: `y` is of another type, shape or device, or, on a CPU, holds
                other classes; a factor is negative, or not finite.
        """
        entropy_scaler = check_real("entropy_scaler", entropy_scaler, 0)
        cluster_scaler = check_real("cluster_scaler", cluster_scaler, 0)
        loss = task_loss(tuple(TASKS)[self.task], self.logits, y)
        return loss + entropy_scaler * self.entropy_loss + cluster_scaler * self.cluster_loss


class SimPoolNet(torch.nn.Module):
    r"""The classifier of the paper: two pooling layers between GNNs, and a sum.

    Made by the constructor, by :meth:`from_transform`, which reads what a transform writes
    (`order` included), or by :meth:`from_preset`, with widths and features of the paper.

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
        num_classes: The number of classes, of labels, or of numbers to predict.
        architecture: The widths; see :class:`Architecture` and `PRESETS`. Those for ENZYMES if
            `None`.
        k: Width of the mapped structural features of level 0.
        p, lam, alpha: As in :class:`SimPool`, for structural features of level 0 that
            are computed on the fly; `p` and `lam` hold for level 1 as well.
        features: What the assignment networks read: `'structural'`, `'node'` or
            `'both'`.
        gru: Whether S0 reads whole rows of C by a GRU, in place of the `k` mapped
            features. These rows are computed on the fly; `sim` must not be given.
        edge_dim: Width of the edge features, which enter the messages of Z0 and S0, or
            `None` where there are none.
        clusters: The numbers of clusters of the two levels, for example `(8, 4)`, in place of
            those of `architecture`.
        width: Multiplies every width but the numbers of clusters; `> 0`.
        task: `'classification'`, `'multilabel'` (several labels of a graph) or `'regression'`,
            which :meth:`SimPoolNetOutput.loss` follows.
        measure: As in :class:`SimPool`; holds for both levels.
        readout: What the last layer reads: `'last'`, the sum of Z2 over the clusters, as in the
            paper; or `'all'`, that of Z1 as well, concatenated.
        dropout: The probability with which an entry of what the last layer reads is set to zero in
            training, in `[0, 1]`.

    Example:
        >>> from torch_geometric_simpool.models import SimPoolNet
        >>> net = SimPoolNet.from_preset("enzymes", in_channels=3, num_classes=6, width=0.125)
        >>> net(torch.randn(30, 3), torch.randint(0, 30, (2, 90))).logits.shape
        torch.Size([1, 6])
        >>> own = SimPoolNet(3, 1, k=10, clusters=(6, 2), width=0.125, task="regression")
        >>> own(torch.randn(30, 3), torch.randint(0, 30, (2, 90))).loss(torch.ones(1)).shape
        torch.Size([])

    The last layer of Z0 is linear, so it is applied after the pooling, `S^T (X W) = (S^T X) W`,
    on fewer rows (see :meth:`GMNConv.pooled`). So `embed0` and `embed0.conv2` are not called,
    nor, for integer labels, its encoder and `conv1`: forward hooks on these do not run.

    On an accelerator, with `sim` and `batch_size`, nothing synchronizes, neither forward nor
    backward, so a step of fixed sizes can be captured as a CUDA graph. Deterministic for one device
    and library version, gradients included; with `dropout`, for one seed of PyTorch as well.

    Source: table 'architecture' of Shulman (2020). Its softmax is part of the cross
    entropy of :meth:`SimPoolNetOutput.loss`.
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        architecture: Optional[Architecture] = None,
        k: int = PRESETS["enzymes"].k,
        p: int = 1,
        lam: float = 0.0,
        alpha: float = 1.0,
        features: str = "structural",
        gru: bool = False,
        edge_dim: Optional[int] = None,
        clusters: Optional[Sequence[int]] = None,
        width: float = 1.0,
        task: str = "classification",
        measure: str = "cosine",
        readout: str = "last",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_int("in_channels", in_channels, 1)
        check_int("num_classes", num_classes, 1)
        check_int("k", k, 1)
        check_choice("features", features, FEATURES)
        if edge_dim is not None:
            check_int("edge_dim", edge_dim, 1)
        self.task = check_choice("task", task, tuple(TASKS))
        self.readout = check_choice("readout", readout, READOUTS)
        self.dropout = check_real("dropout", dropout, 0.0, 1.0)
        if architecture is None:
            architecture = PRESETS["enzymes"].architecture
        elif not isinstance(architecture, Architecture):
            raise TypeError(
                "`architecture` must be an Architecture (from_preset takes names), got "
                f"{architecture!r}"
            )
        check_bool("gru", gru)
        if gru and features == "node":
            raise ValueError("`gru` must be False where `features` is 'node', got True")
        if clusters is not None:
            architecture = architecture.with_clusters(clusters)
        a = architecture.scaled(width)
        self.embed0 = GMN(in_channels, a.encoder, a.hidden, a.embedding, edge_dim)
        structural = 0 if gru else k
        assignment0 = GMN(
            _width(features, structural, in_channels),
            a.encoder,
            a.hidden,
            (a.message, a.clusters[0]),
            edge_dim,
            gru=gru,
        )
        rows: dict[str, Any] = {"p": p, "lam": lam, "measure": measure}
        self._transform = StructuralSimilarity(k, alpha, None, **rows)
        self.features = features
        self.pool0 = SimPool(k=None, assignment=assignment0, **rows)
        pooled = a.embedding[1]
        self.embed1 = DenseGCN(pooled, a.gcn[0])
        assignment1 = MLPAssignment(
            _width(features, a.clusters[0], pooled), a.assignment, a.clusters[1]
        )
        self.pool1 = SimPool(k=None, assignment=assignment1, **rows)
        self.embed2 = DenseGCN(a.gcn[0], a.gcn[1])
        self.lin = Linear(a.gcn[1] if readout == "last" else sum(a.gcn), num_classes)
        self.gru = gru
        self.in_channels = in_channels

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

        Its structural features are those of `net.transform()`.

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
        return cls(in_channels, num_classes, width=width, **settings)

    @classmethod
    def from_transform(
        cls,
        transform: StructuralSimilarity,
        in_channels: int,
        num_classes: int,
        **settings: Any,
    ) -> "SimPoolNet":
        """Builds a network that computes, where `sim` is not given, what this transform writes.

        Args:
            transform: The transform by which `data.sim` is computed. Its `p`, `lam` and `measure`
                hold for level 1 as well.
            in_channels, num_classes: As in the constructor.
            **settings: Its other arguments but `gru`, which reads no such features.

        Example:
            >>> transform = StructuralSimilarity(k=15, alpha=0.8, order="fiedler", order_attr="x")
            >>> net = SimPoolNet.from_transform(transform, 3, 6, clusters=(8, 4), width=0.125)
            >>> net.transform().order
            'fiedler'
        """
        if not isinstance(transform, StructuralSimilarity):
            raise TypeError(
                f"`transform` must be a StructuralSimilarity, got {type(transform).__name__}"
            )
        if settings.get("gru"):
            raise ValueError("`gru` must be False for a network of a transform, got True")
        names = ("k", "p", "lam", "alpha", "measure")
        given = {name: transform.parameters()[name] for name in names}
        net = cls(in_channels, num_classes, **given, **settings)
        net._transform = transform
        return net

    def transform(self) -> StructuralSimilarity:
        """The transform that writes the features of level 0; raises `ValueError` with `gru`."""
        if self.gru:
            raise ValueError("`k` must be set for a transform, which writes `k` features, got None")
        return self._transform

    def reset_parameters(self) -> None:
        """Resets the parameters."""
        for child in self.children():
            child.reset_parameters()  # type: ignore[operator]

    def forward(
        self,
        x: Optional[Tensor],
        edge_index: Tensor,
        batch: Optional[Tensor] = None,
        sim: Optional[Tensor] = None,
        edge_attr: Optional[Tensor] = None,
        edge_weight: Optional[Tensor] = None,
        batch_size: Optional[int] = None,
        node_attr: Optional[Tensor] = None,
    ) -> SimPoolNetOutput:
        """Classifies the graphs of a sparse batch.

        Args:
            x: Node features, `[N, in_channels]`; or integer labels in `[0, in_channels)`, `[N]`,
                which stand for one-hot features and are faster. `None` of data without node
                features: then a 1 is read for each node, as PyG's transform `Constant` writes it;
                `in_channels` must be 1, and `batch` or `sim` must tell the number of nodes.
            edge_index: The edges, `[2, E]`.
            batch: The graph of each node, `[N]`, ascending; one graph if `None`.
            sim: `data.sim` of :class:`StructuralSimilarity`, `[N, k]`; computed on the
                fly if `None`.
            edge_attr: Edge features, `[E, edge_dim]`.
            edge_weight: The weights, `[E]`, for similarity and pooling; the messages do
                not read them.
            batch_size: The number of graphs.
            node_attr: The node attribute that is named by `order_attr` of the transform, `[N]` or
                `[N, F]`; `x` if that name is `'x'` and none is given. Read only where features
                are computed on the fly.
        """
        if self.gru and sim is not None:
            raise ValueError("`sim` must be None where `gru` is set, got one")
        if node_attr is None and self._transform.order_attr == "x":
            node_attr = x
        if x is None:
            x = self._ones(batch, sim)
        if is_labels(check_tensor("x", x)):
            check_labels("x", x, self.in_channels)
        elif x.dim() != 2 or x.size(1) != self.in_channels:
            raise ValueError(
                f"`x` must have shape [N, {self.in_channels}], or [N] for integer labels, "
                f"got {shape(x)}"
            )
        else:
            check_channels("x", x, self.in_channels, self.lin.weight)
        if is_sparse(edge_index):
            edge_index, weight = from_adj_t(edge_index, x.size(0))
            edge_weight = weight if edge_weight is None else edge_weight
        else:  # of which Z0 reads the messages before `pool0` checks them
            if isinstance(edge_index, Tensor):
                check_device("edge_index", edge_index, x.device, "x")
            sync = batch_size is None or x.device.type == "cpu"
            edge_index, _ = check_edge_index(edge_index, x.size(0), sync)
        z0 = self.embed0(x, edge_index, edge_attr)
        graphs = check_sparse_batch(z0, edge_index, batch, edge_weight, batch_size)
        level0 = self.pool0(
            z0,
            edge_index,
            batch,
            self._read(graphs, x, sim, node_attr),
            edge_weight=edge_weight,
            edge_attr=edge_attr,
            batch_size=batch_size,
        )
        z1 = self.embed1(level0.x, level0.adj)
        # Graphs without nodes, which have no clusters either, count in no loss.
        present = torch.zeros(z1.size(0), dtype=torch.bool, device=z1.device)
        graph = x.new_zeros(x.size(0), dtype=torch.long) if batch is None else batch
        present.index_fill_(0, graph.long(), True)
        mask = present.unsqueeze(-1).expand(z1.shape[:-1])
        read = level0.x
        if self.features != "node":
            rows = similarity_rows(check_dense_batch(z1, level0.adj, mask), **self._rows())
            read = rows if self.features == "structural" else torch.cat([rows, read], dim=-1)
        level1 = self.pool1(z1, adj=level0.adj, mask=mask, sim=read)
        out = self.embed2(level1.x, level1.adj).sum(dim=1)
        if self.readout == "all":
            out = torch.cat([z1.sum(dim=1), out], dim=-1)
        out = F.dropout(out, self.dropout, self.training)
        return SimPoolNetOutput(
            self.lin(out),
            level0.entropy_loss + level1.entropy_loss,
            level0.cluster_loss + level1.cluster_loss,
            (level0, level1),
            tuple(TASKS).index(self.task),
        )

    def _ones(self, batch: Optional[Tensor], sim: Optional[Tensor]) -> Tensor:
        """One label for all nodes of data without node features, which stands for a feature 1."""
        if self.in_channels != 1:
            raise ValueError(
                f"`x` must be given where `in_channels` is {self.in_channels}, got None"
            )
        name, known = ("batch", batch) if batch is not None else ("sim", sim)
        if known is None:
            raise ValueError("`batch` or `sim` must be given where `x` is None, got neither")
        if check_tensor(name, known).dim() == 0:
            raise ValueError(f"`{name}` must have one row for each node, got {shape(known)}")
        return torch.zeros(known.size(0), dtype=torch.long, device=known.device)

    def _rows(self) -> dict[str, Any]:
        """Returns the settings of the rows of C."""
        parameters = self._transform.parameters()
        return {name: parameters[name] for name in ("p", "lam", "measure")}

    def _read(
        self, graphs: SparseBatch, x: Tensor, sim: Optional[Tensor], node_attr: Optional[Tensor]
    ) -> Tensor:
        """Returns the input of the assignment network of level 0."""
        node = F.one_hot(x.long(), self.in_channels) if is_labels(x) else x
        node = node.to(graphs.x.dtype)
        if self.features == "node":
            return node
        if self.gru:
            sim = similarity_rows(graphs, **self._rows())
        elif sim is None:
            sim = features_on_the_fly(self._transform, graphs, node_attr)
        sim = sim.to(node.dtype)
        return sim if self.features == "structural" else torch.cat([sim, node], dim=-1)


def _width(features: str, structural: int, node: int) -> int:
    return {"structural": structural, "node": node, "both": structural + node}[features]

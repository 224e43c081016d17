"""The paper's graph classifier."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import MLP
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import reset
from torch_geometric.utils import degree

from torch_geometric_simpool.functional.assignment import FEATURES, assignment_input
from torch_geometric_simpool.functional.batches import (
    DenseBatch,
    parse_sparse_batch,
)
from torch_geometric_simpool.functional.pooling import SimPoolOutput, exportable, pool
from torch_geometric_simpool.functional.similarity import similarity_rows, structural_similarity
from torch_geometric_simpool.models.gmn import GMN, DenseGCN, check_labels, is_labels
from torch_geometric_simpool.models.presets import PRESETS, Architecture
from torch_geometric_simpool.transforms.structural_similarity import StructuralSimilarity
from torch_geometric_simpool.utils.checks import (
    check_bool,
    check_choice,
    check_dense,
    check_real,
    is_integral,
)

#: The levels that the last layer reads.
READOUTS = ("last", "all")


@exportable
class SimPoolNetOutput(NamedTuple):
    """The output of :class:`SimPoolNet`.

    Attributes:
        logits (torch.Tensor): The output of the last layer, `[B, num_classes]`.
        entropy_loss (torch.Tensor): The sum of :func:`entropy_loss` over both levels, a scalar.
        cluster_loss (torch.Tensor): The sum of :func:`cluster_loss` over both levels, a scalar.
        levels (tuple of SimPoolOutput): The pooled graphs of the two levels.
    """

    logits: Tensor
    entropy_loss: Tensor
    cluster_loss: Tensor
    levels: tuple[SimPoolOutput, SimPoolOutput]

    def loss(
        self,
        y: Tensor,
        entropy_scaler: float = 1.0,
        cluster_scaler: float = 1.0,
        criterion: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
    ) -> Tensor:
        """Returns the loss of the logits, plus the scaled losses of the assignments.

        Args:
            y (torch.Tensor): The classes, integers of shape `[B]`, or numbers of shape
                `[B, num_classes]`.
            entropy_scaler (float, optional): Factor of the entropy loss. (default: :obj:`1.0`)
            cluster_scaler (float, optional): Factor of the cluster loss. (default: :obj:`1.0`)
            criterion (callable, optional): The loss of `logits` and `y`, for example
                :func:`~torch.nn.functional.mse_loss` for regression, or
                :func:`~torch.nn.functional.binary_cross_entropy_with_logits` for several labels
                per graph. (default: :func:`~torch.nn.functional.cross_entropy`)

        Returns:
            torch.Tensor: A scalar.

        Raises:
            TypeError, ValueError: If `y` is not a tensor, or does not fit the logits.
        """
        batch_size, num_classes = self.logits.shape
        if is_integral(check_dense("y", y, device=self.logits.device, of="logits").dtype):
            check_dense("y", y, (batch_size,))
            check_labels("y", y, num_classes)
            y = y.long()
        else:  # another shape would be broadcast
            check_dense("y", y, (batch_size, num_classes))
            y = y.to(self.logits.dtype)
        loss = criterion(self.logits, y)
        return loss + entropy_scaler * self.entropy_loss + cluster_scaler * self.cluster_loss


class SimPoolNet(torch.nn.Module):
    r"""The classifier of the paper: two pooling layers between GNNs, and a global sum pooling.

    Use the constructor for data of your own, and :meth:`from_preset` for the widths and features of
    the paper. For features that a transform has written, pass `**transform.parameters()`.

    ======== ========================================== ==================================
    part     module                                     input
    ======== ========================================== ==================================
    embed0   :class:`GMN`                               node features
    assign0  :class:`GMN`                               structural or node features
    embed1   :class:`DenseGCN`                          the pooled graph
    assign1  :class:`~torch_geometric.nn.MLP`           rows of C of the pooled graph, or
                                                        its features
    embed2   :class:`DenseGCN`                          the graph that is pooled twice
    lin      a dense layer                              the sum over the clusters
    ======== ========================================== ==================================

    Args:
        in_channels (int): Size of the node features, or number of node labels.
        num_classes (int): Number of outputs: classes, labels, or numbers to predict.
        architecture (Architecture, optional): The widths.
            (default: :obj:`None`, the widths for ENZYMES)
        features (str, optional): The input of the assignment networks: `'structural'`, `'node'` or
            `'both'`. (default: :obj:`"structural"`)
        gru (bool, optional): If set to :obj:`True`, assign0 reads whole rows of C by a GRU. The
            rows are computed on the fly. (default: :obj:`False`)
        edge_dim (int, optional): Size of the edge features, which enter the messages of embed0 and
            assign0. (default: :obj:`None`, no edge features)
        clusters (tuple of int, optional): Numbers of clusters of the two levels, for example
            `(8, 4)`. (default: :obj:`None`, as in `architecture`)
        width (float, optional): Multiplies every width but the numbers of clusters.
            (default: :obj:`1.0`)
        readout (str, optional): The input of the last layer. `'last'` is the sum of embed2 over the
            clusters, as in the paper. `'all'` also concatenates the sum of embed1.
            (default: :obj:`"last"`)
        dropout (float, optional): Dropout probability of the input of the last layer.
            (default: :obj:`0.0`)
        **settings (optional): Parameters of :class:`StructuralSimilarity`, such as `k`, `alpha`,
            `p`, `lam`, `measure` and `order`. `p`, `lam` and `measure` hold for both levels.

    Raises:
        TypeError, ValueError: If a parameter or an input of :meth:`forward` is wrong.

    Example:
        >>> from torch_geometric_simpool.models import SimPoolNet
        >>> net = SimPoolNet.from_preset("enzymes", in_channels=3, num_classes=6, width=0.125)
        >>> net(torch.randn(30, 3), torch.randint(0, 30, (2, 90))).logits.shape
        torch.Size([1, 6])
        >>> net = SimPoolNet(3, 1, k=10, clusters=(6, 2), width=0.125)
        >>> out = net(torch.randn(30, 3), torch.randint(0, 30, (2, 90)))
        >>> out.loss(torch.ones(1, 1), criterion=torch.nn.functional.mse_loss).shape
        torch.Size([])

    On a GPU, with `sim` and `batch_size`, nothing synchronizes, so steps of fixed sizes can be
    captured as a CUDA graph.

    Source: table 'architecture' of Shulman (2020). Its softmax is part of the cross entropy of
    :meth:`SimPoolNetOutput.loss`.
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        architecture: Optional[Architecture] = None,
        features: str = "structural",
        gru: bool = False,
        edge_dim: Optional[int] = None,
        clusters: Optional[Sequence[int]] = None,
        width: float = 1.0,
        readout: str = "last",
        dropout: float = 0.0,
        **settings: Any,
    ) -> None:
        super().__init__()
        self.features = check_choice("features", features, FEATURES)
        self.readout = check_choice("readout", readout, READOUTS)
        self.dropout = check_real("dropout", dropout, 0.0, 1.0)
        self.gru = check_bool("gru", gru)
        if gru and features == "node":
            raise ValueError("`gru` must be False where `features` is 'node', got True")
        self.in_channels = in_channels
        self._transform = StructuralSimilarity(**settings)
        a = PRESETS["enzymes"].architecture if architecture is None else architecture
        if clusters is not None:
            a = a.with_clusters(clusters)
        a = a.scaled(width)

        def input_channels(structural: int, node: int) -> int:
            return {"structural": structural, "node": node, "both": structural + node}[features]

        pooled_channels = a.embedding[1]
        assignment0 = input_channels(0 if gru else self._transform.k, in_channels)
        assignment1 = input_channels(a.clusters[0], pooled_channels)
        last = (a.message, a.clusters[0])
        self.embed0 = GMN(in_channels, a.encoder, a.hidden, a.embedding, edge_dim)
        self.assign0 = GMN(assignment0, a.encoder, a.hidden, last, edge_dim, gru)
        self.embed1 = DenseGCN(pooled_channels, a.gcn[0])
        self.assign1 = MLP([assignment1, a.assignment, a.clusters[1]], norm=None)
        self.embed2 = DenseGCN(a.gcn[0], a.gcn[1])
        self.lin = Linear(a.gcn[1] if readout == "last" else sum(a.gcn), num_classes)

    @classmethod
    def from_preset(
        cls, preset: str, in_channels: int, num_classes: int, width: float = 1.0, **settings: Any
    ) -> "SimPoolNet":
        """Builds the network of a preset, whose features depend on the numbering of the nodes.

        Args:
            preset (str): `'enzymes'`, `'dd'`, `'enzymes-10fold'` or `'dd-10fold'`.
            in_channels (int): Size of the node features, or number of node labels.
            num_classes (int): Number of classes.
            width (float, optional): Multiplies every width but the numbers of clusters.
                (default: :obj:`1.0`)
            **settings (optional): Arguments of the constructor, instead of the preset's.
        """
        chosen = PRESETS[check_choice("preset", preset, tuple(PRESETS))]
        names = ("architecture", "k", "p", "lam", "alpha")
        of_preset = {name: getattr(chosen, name) for name in names}
        return cls(
            in_channels, num_classes, width=width, **{"order": None, **of_preset, **settings}
        )

    def transform(self) -> StructuralSimilarity:
        """Returns the transform that writes the features `sim` of this network."""
        if self.gru:
            raise ValueError("`gru` must be False for a transform: a GRU reads whole rows of C")
        return self._transform

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        for child in self.children():
            reset(child)

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
        """Classifies the graphs of a sparse batch. :meth:`SimPoolNetOutput.loss` computes the loss.

        Args:
            x (torch.Tensor): Node features, `[N, in_channels]`; or integer labels in
                `[0, in_channels)`, `[N]`, which stand for one-hot features and are faster. For
                graphs without features, pass zeros as labels, with `in_channels=1`.
            edge_index (torch.Tensor): The edges, `[2, E]`, or a transposed sparse matrix.
            batch (torch.Tensor, optional): The graph of each node, `[N]`, in any order.
                (default: :obj:`None`, one graph)
            sim (torch.Tensor, optional): `data.sim` of :class:`StructuralSimilarity`, `[N, k]`.
                (default: :obj:`None`, computed on the fly)
            edge_attr (torch.Tensor, optional): Edge features, `[E, edge_dim]`.
                (default: :obj:`None`)
            edge_weight (torch.Tensor, optional): Weights for similarity and pooling, `[E]`. The
                messages do not depend on them. (default: :obj:`None`, ones)
            batch_size (int, optional): The number of graphs.
                (default: :obj:`None`, taken from `batch`)

        Returns:
            SimPoolNetOutput: The named tuple `(logits, entropy_loss, cluster_loss, levels)`.
        """
        # The check reads rows of features. Labels become rows without columns.
        columns = self.lin.weight.new_empty(x.size(0), 0) if is_labels(x) else x
        graphs = parse_sparse_batch(columns, edge_index, batch, edge_weight, batch_size)
        edge_index, batch = graphs.edge_index, graphs.batch
        count = degree(batch, graphs.batch_size, torch.long)

        h0, edge = self.embed0.hidden(x, edge_index, edge_attr)
        structural, topk = None, self._transform.topk
        if self.gru:
            if sim is not None:
                raise ValueError("`sim` must be None for a network with a GRU, got a tensor")
            structural = similarity_rows(graphs, topk.p, topk.lam, topk.measure).to(h0.dtype)
        elif self.features != "node":
            structural = self._transform.features_of(graphs, sim).to(h0.dtype)
        one_hot = is_labels(x) and self.features == "both"
        node = F.one_hot(x.long(), self.in_channels) if one_hot else x
        s0 = assignment_input(self.features, structural, node)
        s0 = self.assign0(s0, edge_index, edge_attr, count[batch] if self.gru else None)
        level0 = pool(graphs._replace(x=h0[:, :0]), s0)
        # Z0 is linear in `h0`, so its last layer is applied to the clusters.
        x0 = self.embed0.conv2.pooled(h0, edge_index, level0.s, batch, graphs.batch_size, edge)
        level0 = level0._replace(x=x0)

        z1 = self.embed1(level0.x, level0.adj)
        if self.features != "node":
            structural = structural_similarity(level0.adj, topk.p, topk.lam, topk.measure)
        s1 = self.assign1(assignment_input(self.features, structural, level0.x))
        # Graphs without nodes have no clusters, and do not count in the losses.
        mask = (count > 0).unsqueeze(-1).expand(s1.shape[:-1])
        level1 = pool(DenseBatch(z1, level0.adj, mask), s1)

        z2 = self.embed2(level1.x, level1.adj)
        out = z2.sum(dim=1)
        if self.readout == "all":
            out = torch.cat([z1.sum(dim=1), out], dim=-1)
        return SimPoolNetOutput(
            self.lin(F.dropout(out, self.dropout, self.training)),
            level0.entropy_loss + level1.entropy_loss,
            level0.cluster_loss + level1.cluster_loss,
            (level0, level1),
        )

"""What the peers of SimPool, the methods it is compared with, share: input, output, the first GNN.

The backbone is that of `SimPoolNet`: three GNNs, named as in the paper, and a dense last layer.
Z0 is a GMN, which reads the graphs as they are; Z1 and Z2, after a pooling each, are GCNs. Their
widths are those of :class:`Architecture`. The pooling between them, and the readout, are those of
the peer.
"""

import warnings
from collections.abc import Sequence
from typing import NamedTuple, Optional

import torch.nn.functional as F
from torch import Tensor
from torch.nn import Dropout, Module, ReLU, Sequential
from torch_geometric.data import Data
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.utils import to_torch_csr_tensor

from torch_geometric_simpool.functional.pooling import SimPoolOutput
from torch_geometric_simpool.models import GMN, Architecture

DROPOUT = 0.5


class NetworkInput(NamedTuple):
    """What a network is built for."""

    #: Columns of `x`.
    in_channels: int
    num_classes: int
    architecture: Architecture
    #: Columns of `edge_attr`, `None` without edge features.
    edge_dim: Optional[int]
    #: The number of nodes of every training graph, `[num_train]`.
    num_nodes: Tensor
    #: As in `SimPoolNet`, for the methods that :data:`harness.methods.presets.READERS` names.
    dropout: float = 0.0
    readout: str = "last"


class PeerInput(NamedTuple):
    """A batch, as a peer reads it."""

    #: Node features `[N, in_channels]`, or labels `[N]` that stand for one-hot features.
    x: Tensor
    edge_index: Tensor
    batch: Tensor
    edge_attr: Optional[Tensor]
    num_graphs: int
    #: The levels of graphs that are pooled beforehand, each a batch of its own.
    pooled: Optional[Sequence[Data]] = None


class PeerOutput(NamedTuple):
    """What a peer returns; `loss` and `levels` are used like those of `SimPoolNetOutput`."""

    #: The scores of the classes before the softmax, `[B, num_classes]`.
    logits: Tensor
    #: The sum of the method's own losses, which are added to the cross entropy.
    auxiliary: Optional[Tensor] = None
    #: The two levels of methods with soft assignments, which `Method.assigns` declares. L_E and L_C
    #: are for comparison only.
    levels: tuple[SimPoolOutput, ...] = ()
    #: The cluster of every node, `[N]`, counted from 0 in each graph, of other methods that
    #: partition the nodes. Their locality is measured; it is read in evaluation only.
    clusters: Optional[Tensor] = None
    #: The part of `auxiliary` that an entropy scaler multiplies.
    entropy: Optional[Tensor] = None

    def loss(self, y: Tensor, entropy_scaler: float = 1.0, *_: Optional[float]) -> Tensor:
        """Cross entropy plus the method's own losses; ignores the scaler of L_C."""
        loss = F.cross_entropy(self.logits, y)
        if self.auxiliary is not None:
            loss = loss + self.auxiliary
        if self.entropy is not None:
            loss = loss - (1 - entropy_scaler) * self.entropy
        return loss


class Peer(Module):
    """A peer: called like `SimPoolNet`, but reads no structural features.

    In evaluation, the output of a graph must depend on that graph alone: neither on the others of
    its batch, nor on random numbers. Random numbers of the training must be those of the default
    generators of PyTorch, NumPy or Python, whose state checkpoints hold.
    """

    #: That of its :class:`~harness.methods.registry.Method`, if it was built by one.
    assigns: Optional[bool] = None

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor,
        sim: Optional[Tensor] = None,
        edge_attr: Optional[Tensor] = None,
        batch_size: Optional[int] = None,
        pooled: Optional[Sequence[Data]] = None,
    ) -> PeerOutput:
        """Ignores `sim`; `batch_size` is the number of graphs."""
        num_graphs = int(batch.max()) + 1 if batch_size is None else batch_size
        out = self.classify(PeerInput(x, edge_index, batch, edge_attr, num_graphs, pooled))
        self._check(out, num_graphs)
        return out

    def classify(self, graphs: PeerInput) -> PeerOutput:
        """Computes the output of a batch.

        A graph of which the pooling leaves no node has its row of logits as well.
        """
        raise NotImplementedError

    def _check(self, out: PeerOutput, num_graphs: int) -> None:
        """Raises in the first step what would else be found after the training."""
        name = f"{type(self).__name__}.classify"
        if not isinstance(out, PeerOutput):
            raise TypeError(f"{name} must return a PeerOutput, got {type(out).__name__}")
        if out.logits.dim() != 2 or out.logits.size(0) != num_graphs:
            raise ValueError(
                f"{name}: logits must have one row for each of {num_graphs} graphs, got shape "
                f"{list(out.logits.shape)}"
            )
        levels = 2 if self.assigns else 0
        if self.assigns is not None and len(out.levels) != levels:
            raise ValueError(
                f"{name}: as Method.assigns is {self.assigns}, levels must have {levels} entries, "
                f"got {len(out.levels)}"
            )


class GNNPeer(Peer):
    """A peer with Z0 as its first GNN; `widths` are the output widths of Z0, Z1 and Z2."""

    def __init__(self, given: NetworkInput) -> None:
        super().__init__()
        a = given.architecture
        self.embed0 = GMN(given.in_channels, a.encoder, a.hidden, a.embedding, given.edge_dim)
        self.widths = (a.embedding[1], *a.gcn)

    def embed(self, graphs: PeerInput) -> Tensor:
        """Z0 `[N, F]`."""
        return self.embed0(graphs.x, graphs.edge_index, graphs.edge_attr)


def adjacency(edge_index: Tensor, h: Tensor) -> Tensor:
    """The transposed adjacency matrix of the nodes with features `h`, sparse.

    With it `GCNConv` multiplies by a sparse matrix, and stores no message for each edge, which is
    faster where features are wide. There must be no self-loops: `GCNConv` adds its own to those of
    a matrix. Data sets have none.
    """
    size = (h.size(0), h.size(0))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse (CSR tensor support|invariant checks)")
        return to_torch_csr_tensor(edge_index.flip(0), h.new_ones(edge_index.size(1)), size)


def dense_head(in_channels: int, channels: int, num_classes: int) -> Sequential:
    """One hidden layer with dropout."""
    return Sequential(
        Linear(in_channels, channels), ReLU(), Dropout(DROPOUT), Linear(channels, num_classes)
    )

"""The shared parts of all networks but SimPool's: input, output and the first GNN.

The backbone is the one of `SimPoolNet`: a GMN Z0 on the graphs as they are, and GCNs Z1 and Z2
after a pooling each, with the widths of :class:`Architecture`.
"""

import warnings
from typing import NamedTuple, Optional

import torch.nn.functional as F
from torch import Tensor
from torch.nn import BatchNorm1d, Dropout, Identity, Module, ReLU, Sequential
from torch_geometric.data import Batch
from torch_geometric.nn import MLP
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.utils import to_torch_csr_tensor

from harness.run import Run
from torch_geometric_simpool.models import GMN

# PyTorch's sparse matrices are beta, and say so once in each process.
warnings.filterwarnings("ignore", "Sparse (CSR tensor support|invariant checks)")


class NetworkSpec(NamedTuple):
    """The run and the data that a network is built for."""

    run: Run
    #: The number of columns of `x`, or of node labels.
    in_channels: int
    num_classes: int
    #: The number of columns of `edge_attr`, `None` without edge features.
    edge_dim: Optional[int]
    #: The number of nodes of every training graph, `[num_train]`.
    num_nodes: Tensor


class Level(NamedTuple):
    """A level of soft assignments, with L_E and L_C, which are measured."""

    s: Tensor
    entropy_loss: Tensor
    cluster_loss: Tensor


class NetworkOutput(NamedTuple):
    """The output of a network; `loss` and `levels` are used as in `SimPoolNetOutput`."""

    #: The scores of the classes before the softmax, `[B, num_classes]`.
    logits: Tensor
    #: The sum of the method's own losses, which is added to the cross entropy.
    auxiliary: Tensor | float = 0.0
    #: The levels of soft assignments, if the method has any.
    levels: tuple[Level, ...] = ()
    #: The cluster of every node `[N]`, counted from 0 in each graph, of other methods that
    #: partition the nodes; read in evaluation only.
    clusters: Optional[Tensor] = None
    #: The part of `auxiliary` that the entropy scaler multiplies.
    entropy: Tensor | float = 0.0

    def loss(self, y: Tensor, entropy_scaler: float = 1.0, *_: float) -> Tensor:
        """Returns the cross entropy plus the method's own losses."""
        auxiliary = self.auxiliary - (1 - entropy_scaler) * self.entropy
        return F.cross_entropy(self.logits, y) + auxiliary


class GMNBackbone(Module):
    """A network with Z0 as its first GNN; `widths` are the output widths of Z0, Z1 and Z2.

    Subclasses map a batch to a :class:`NetworkOutput`. The output of a graph must not depend on the
    other graphs of the batch, nor, in evaluation, on random numbers.
    """

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        a = spec.run.architecture
        self.embed0 = GMN(spec.in_channels, a.encoder, a.hidden, a.embedding, spec.edge_dim)
        self.widths = (a.embedding[1], *a.gcn)
        self.norm0 = BatchNorm1d(a.embedding[1]) if spec.run.norm else Identity()

    def embed(self, data: Batch) -> Tensor:
        """Returns Z0 `[N, F]`."""
        return self.norm0(self.embed0(data.x, data.edge_index, data.edge_attr))


def adjacency(edge_index: Tensor, h: Tensor) -> Tensor:
    """Returns the transposed adjacency matrix of the nodes with features `h`, sparse.

    With it, `GCNConv` stores no message for each edge, which is faster where features are wide.
    There must be no self-loops, since `GCNConv` adds its own.
    """
    size = (h.size(0), h.size(0))
    return to_torch_csr_tensor(edge_index.flip(0), h.new_ones(edge_index.size(1)), size)


def last_layer(spec: NetworkSpec, channels: int) -> Module:
    """Returns the last layer, or with batch norm a last MLP."""
    if not spec.run.norm:
        return Linear(channels, spec.num_classes)
    return Sequential(BatchNorm1d(channels), MLP([channels, channels, spec.num_classes]))


def dense_head(in_channels: int, channels: int, num_classes: int) -> Sequential:
    """Returns one hidden layer with dropout, and the last layer."""
    return Sequential(
        Linear(in_channels, channels), ReLU(), Dropout(0.5), Linear(channels, num_classes)
    )

"""Assignment networks without a GNN: they return logits, for :class:`SimPool`."""

import torch
from torch import Tensor
from torch_geometric.nn import MLP
from torch_geometric.nn.dense.linear import Linear

from torch_geometric_simpool.models.gru import GRUEncoder
from torch_geometric_simpool.utils.checks import check_int


class MLPAssignment(MLP):
    """Two dense layers: ReLU, then linear.

    Args:
        in_channels: Width of the features.
        hidden_channels: Width of the hidden layer.
        num_clusters: The number of clusters `K`.

    Shapes:
        - x: `[*, in_channels]`; returns `[*, K]`
    """

    def __init__(self, in_channels: int, hidden_channels: int, num_clusters: int) -> None:
        check_int("in_channels", in_channels, 1)
        check_int("hidden_channels", hidden_channels, 1)
        check_int("num_clusters", num_clusters, 1)
        super().__init__([in_channels, hidden_channels, num_clusters], norm=None)


class GRUAssignment(torch.nn.Module):
    """A GRU over the row of `C`, then a dense layer: no GNN at all.

    Args:
        hidden_channels: Width of the GRU.
        num_clusters: The number of clusters `K`.
        node_channels: As in :class:`GRUEncoder`.

    Shapes:
        - x: `[*, L + node_channels]`; num_nodes: `[*]`; returns `[*, K]`

    Example:
        >>> from torch_geometric_simpool import SimPool
        >>> pool = SimPool(assignment=GRUAssignment(32, 8), k=None)
    """

    def __init__(self, hidden_channels: int, num_clusters: int, node_channels: int = 0) -> None:
        super().__init__()
        check_int("hidden_channels", hidden_channels, 1)
        check_int("num_clusters", num_clusters, 1)
        self.encoder = GRUEncoder(hidden_channels, node_channels)
        self.lin = Linear(hidden_channels + node_channels, num_clusters)

    def forward(self, x: Tensor, num_nodes: Tensor) -> Tensor:
        """Returns the logits."""
        return self.lin(self.encoder(x, num_nodes))

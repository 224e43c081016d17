"""Assignment networks without a GNN. They return logits for :class:`SimPool`."""

import torch
from torch import Tensor
from torch_geometric.nn import MLP
from torch_geometric.nn.dense.linear import Linear

from torch_geometric_simpool.models.gru import GRUEncoder


class MLPAssignment(MLP):
    """Two dense layers with a ReLU in between.

    Args:
        in_channels (int): Size of the features.
        hidden_channels (int): Size of the hidden layer.
        num_clusters (int): Number of clusters `K`.

    Shapes:
        - **x:** `[*, in_channels]`
        - **output:** `[*, K]`
    """

    def __init__(self, in_channels: int, hidden_channels: int, num_clusters: int) -> None:
        super().__init__([in_channels, hidden_channels, num_clusters], norm=None)


class GRUAssignment(torch.nn.Module):
    """A GRU over each node's whole row of `C`, then a dense layer.

    Args:
        hidden_channels (int): Size of the state of the GRU.
        num_clusters (int): Number of clusters `K`.
        node_channels (int, optional): As in :class:`GRUEncoder`. (default: :obj:`0`)

    Shapes:
        - **x:** `[*, L + node_channels]`
        - **num_nodes:** `[*]`
        - **output:** `[*, K]`

    Example:
        >>> from torch_geometric_simpool import SimPool
        >>> pool = SimPool(assignment=GRUAssignment(32, 8), k=None)
    """

    def __init__(self, hidden_channels: int, num_clusters: int, node_channels: int = 0) -> None:
        super().__init__()
        self.encoder = GRUEncoder(hidden_channels, node_channels)
        self.lin = Linear(hidden_channels + node_channels, num_clusters)

    def forward(self, x: Tensor, num_nodes: Tensor) -> Tensor:
        """Returns the logits."""
        return self.lin(self.encoder(x, num_nodes))

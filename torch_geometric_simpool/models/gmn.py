"""Graph matching networks (Li et al. 2019), within one graph: the encoder and the network."""

from typing import Optional

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import reset

from torch_geometric_simpool.models.gmn_conv import GMNConv, check_edge_attr
from torch_geometric_simpool.models.gru import GRUEncoder
from torch_geometric_simpool.utils.checks import check_labels, is_labels


class GMNEncoder(torch.nn.Module):
    r"""Encodes node and edge features with one dense layer each.

    .. math::
        h_i = \mathrm{ReLU}(W x_i + b), \qquad e_{ij} = \mathrm{ReLU}(W' x_{ij} + b')

    Args:
        in_channels (int): Size of the node features.
        channels (int): Size of the encoded features.
        edge_dim (int, optional): Size of the edge features.
            (default: :obj:`None`, no edge features)
        gru (bool, optional): If set to :obj:`True`, a :class:`GRUEncoder` over whole rows of `C`
            replaces the dense layer of the nodes. Then `in_channels` is the number of node
            features that follow the row. (default: :obj:`False`)

    Shapes:
        - **x:** `[N, in_channels]`, or as in :class:`GRUEncoder`
        - **edge_attr:** `[E, edge_dim]`
        - **num_nodes:** the size of each row's graph, `[N]`, for the GRU
        - **output:** `[N, out_channels]`, and `[E, channels]` or :obj:`None`. `out_channels` is
          `channels`, plus `in_channels` with a GRU

    Source: equation 'GMN encoder' of Shulman (2020); the GRU, section 'Top-k'.
    """

    def __init__(
        self, in_channels: int, channels: int, edge_dim: Optional[int] = None, gru: bool = False
    ) -> None:
        super().__init__()
        self.gru = GRUEncoder(channels, in_channels) if gru else None
        self.lin_node = None if gru else Linear(in_channels, channels)
        self.lin_edge = None if edge_dim is None else Linear(edge_dim, channels)
        self.edge_dim = edge_dim
        self.out_channels = channels + (in_channels if gru else 0)

    def forward(
        self, x: Tensor, edge_attr: Optional[Tensor] = None, num_nodes: Optional[Tensor] = None
    ) -> tuple[Tensor, Optional[Tensor]]:
        """Encodes the nodes, and the edges if the encoder has an `edge_dim`."""
        if self.lin_node is not None:
            h = self.lin_node(x).relu()
        elif num_nodes is None:
            raise ValueError("`num_nodes` must be a tensor [N] for a GRU encoder, got None")
        else:
            assert self.gru is not None
            h = self.gru(x, num_nodes)
        if self.lin_edge is None or edge_attr is None:
            return h, None
        return h, self.lin_edge(edge_attr.to(h.dtype)).relu()


class GMN(torch.nn.Module):
    """An encoder and two propagation layers, the last of which is linear.

    The paper's network for Z0 and, with `K` outputs, for S0.

    Args:
        in_channels (int): Size of the node features, or number of node labels.
        encoder_channels (int): Size of the encoded features.
        hidden_channels (tuple of int): Sizes `(f_message, f_node)` of the first propagation.
        out_channels (tuple of int): Sizes `(f_message, f_node)` of the last propagation.
        edge_dim (int, optional): Size of the edge features.
            (default: :obj:`None`, no edge features)
        gru (bool, optional): As in :class:`GMNEncoder`. (default: :obj:`False`)

    Shapes:
        - **x:** `[N, in_channels]`; or integer labels in `[0, in_channels)`, `[N]`, which stand
          for one-hot features; or as in :class:`GRUEncoder`
        - **edge_index:** `[2, E]`
        - **edge_attr**, **num_nodes:** as in :class:`GMNEncoder`
        - **output:** `[N, out_channels[1]]`
    """

    def __init__(
        self,
        in_channels: int,
        encoder_channels: int,
        hidden_channels: tuple[int, int],
        out_channels: tuple[int, int],
        edge_dim: Optional[int] = None,
        gru: bool = False,
    ) -> None:
        super().__init__()
        encoded_edge = None if edge_dim is None else encoder_channels
        self.in_channels = in_channels
        self.encoder = GMNEncoder(in_channels, encoder_channels, edge_dim, gru)
        message, node = hidden_channels
        self.conv1 = GMNConv(self.encoder.out_channels, node, message, encoded_edge)
        message, out = out_channels
        self.conv2 = GMNConv(node, out, message, encoded_edge, act=False)

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        for child in self.children():
            reset(child)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Optional[Tensor] = None,
        num_nodes: Optional[Tensor] = None,
    ) -> Tensor:
        """Embeds the nodes."""
        h, edge = self.hidden(x, edge_index, edge_attr, num_nodes)
        return self.conv2(h, edge_index, edge)

    def hidden(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Optional[Tensor] = None,
        num_nodes: Optional[Tensor] = None,
    ) -> tuple[Tensor, Optional[Tensor]]:
        """Returns the inputs of the last propagation: encoded nodes and edges."""
        check_edge_attr(edge_attr, self.encoder.edge_dim, edge_index)
        label = None
        if is_labels(x):  # every distinct label is encoded once
            check_labels("x", x, self.in_channels)
            weight = self.conv2.lin_node.weight
            one_hot = torch.eye(self.in_channels, dtype=weight.dtype, device=weight.device)
            label, x = x.long(), one_hot
        h, edge = self.encoder(x, edge_attr, num_nodes)
        return self.conv1(h, edge_index, edge, label), edge

"""Graph matching networks (Li et al. 2019), within one graph: the encoder, and the whole."""

from typing import Any, Optional

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear

from torch_geometric_simpool.functional.rows import take_rows
from torch_geometric_simpool.models.edges import check_edge_attr, check_edges, count_edges
from torch_geometric_simpool.models.gmn_conv import GMNConv
from torch_geometric_simpool.models.gru import GRUEncoder
from torch_geometric_simpool.utils.checks import (
    check_bool,
    check_channels,
    check_int,
    check_labels,
    check_tensor,
    is_labels,
)


class GMNEncoder(torch.nn.Module):
    r"""Encodes node and edge features, each by itself, with one dense layer.

    .. math::
        h_i = \mathrm{ReLU}(W x_i + b), \qquad e_{ij} = \mathrm{ReLU}(W' x_{ij} + b')

    Args:
        in_channels: Width of the node features, or the number of node labels.
        channels: Width of the encoded ones.
        edge_dim: Width of the edge features, or `None` where there are none.
        gru: Replaces the dense layer of the nodes by a :class:`GRUEncoder` over the
            row of `C`, all of it. `in_channels` is then the number of node features
            appended to that row, 0 without.

    Shapes:
        - x: `[N, in_channels]`; or integer labels in `[0, in_channels)`, `[N]`, which stand for
          one-hot features; or as in :class:`GRUEncoder`
        - edge_attr: `[E, edge_dim]`; num_nodes, for the GRU: the size of each row's graph, `[N]`
        - returns `[N, out_channels]`, and `[E, channels]` or `None`; `out_channels`
          is `channels`, plus `in_channels` with a GRU

    Source: equation 'GMN encoder' of Shulman (2020); the GRU, section 'Top-k'.
    """

    def __init__(
        self, in_channels: int, channels: int, edge_dim: Optional[int] = None, gru: bool = False
    ) -> None:
        super().__init__()
        check_bool("gru", gru)
        check_int("in_channels", in_channels, 0 if gru else 1)
        check_int("channels", channels, 1)
        if edge_dim is not None:
            check_int("edge_dim", edge_dim, 1)
        self.gru = GRUEncoder(channels, in_channels) if gru else None
        self.lin_node = None if gru else Linear(in_channels, channels)
        self.lin_edge = None if edge_dim is None else Linear(edge_dim, channels)
        self.out_channels = channels + (in_channels if gru else 0)

    def reset_parameters(self) -> None:
        """Resets the parameters."""
        for child in self.children():
            child.reset_parameters()  # type: ignore[operator]

    def forward(
        self, x: Tensor, edge_attr: Optional[Tensor] = None, num_nodes: Optional[Tensor] = None
    ) -> tuple[Tensor, Optional[Tensor]]:
        """Encodes the nodes, and the edges where `edge_dim` was given."""
        check_tensor("x", x)
        edge_dim = None if self.lin_edge is None else self.lin_edge.in_channels
        check_edge_attr(edge_attr, edge_dim, device=x.device)
        if self.lin_node is None:
            assert self.gru is not None
            if num_nodes is None:
                raise ValueError("`num_nodes` must be a tensor [N] for a GRU encoder, got None")
            h = self.gru(x, num_nodes)
        elif is_labels(x):
            check_labels("x", x, self.lin_node.in_channels)
            h = take_rows(self.encode_all_labels(), x.long())
        else:
            check_channels("x", x, self.lin_node.in_channels, self.lin_node.weight)
            h = self.lin_node(x).relu()
        if self.lin_edge is None or edge_attr is None:
            return h, None
        return h, self.lin_edge(edge_attr.to(h.dtype)).relu()

    def encode_all_labels(self) -> Tensor:
        """The encoding of each label, `[in_channels, channels]`."""
        assert self.lin_node is not None
        h = self.lin_node.weight.t()
        return (h if self.lin_node.bias is None else h + self.lin_node.bias).relu()


class GMN(torch.nn.Module):
    """An encoder and two propagation layers, the last of them linear.

    The paper's network for Z0 and, with `K` outputs, for S0.

    Args:
        in_channels: Width of the node features.
        encoder_channels: Width of the encoder.
        hidden_channels: Widths `(f_message, f_node)` of the first propagation.
        out_channels: Widths `(f_message, f_node)` of the last, linear propagation.
        edge_dim: Width of the edge features, or `None` where there are none.
        gru: As in :class:`GMNEncoder`.

    Shapes:
        - x, edge_attr, num_nodes: as in :class:`GMNEncoder`; edge_index: `[2, E]`
        - returns `[N, out_channels[1]]`
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
        check_int("encoder_channels", encoder_channels, 1)
        for name, widths in (("hidden_channels", hidden_channels), ("out_channels", out_channels)):
            check_widths(name, widths)
        encoded_edge = None if edge_dim is None else encoder_channels
        self.encoder = GMNEncoder(in_channels, encoder_channels, edge_dim, gru)
        message, node = hidden_channels
        self.conv1 = GMNConv(self.encoder.out_channels, node, message, encoded_edge)
        self.conv2 = GMNConv(node, out_channels[1], out_channels[0], encoded_edge, act=False)

    def reset_parameters(self) -> None:
        """Resets the parameters."""
        self.encoder.reset_parameters()
        self.conv1.reset_parameters()
        self.conv2.reset_parameters()

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
        """What the last propagation reads: the nodes, and the edges, encoded."""
        edge_index = check_edges(edge_index, check_tensor("x", x))
        edge_dim = None if self.encoder.lin_edge is None else self.encoder.lin_edge.in_channels
        check_edge_attr(edge_attr, edge_dim, count_edges(edge_index))
        encoder = self.encoder
        if is_labels(x) and edge_dim is None and encoder.gru is None:
            h = encoder.encode_all_labels()
            check_labels("x", x, h.size(0))
            return self.conv1.forward_labels(h, x.long(), edge_index), None
        h, edge = encoder(x, edge_attr, num_nodes)
        return self.conv1(h, edge_index, edge), edge


def check_widths(name: str, value: Any) -> None:
    """Checks the two widths of a propagation."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError(f"`{name}` must be two widths (f_message, f_node), got {value!r}")
    for width in value:
        check_int(name, width, 1)

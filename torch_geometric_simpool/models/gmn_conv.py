"""The propagation of graph matching networks (Li et al. 2019), within one graph."""

from typing import Optional

import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.utils import is_sparse

from torch_geometric_simpool.utils.checks import shape


class GMNConv(MessagePassing):
    r"""The propagation layer of graph matching networks.

    .. math::
        m_{j \to i} &= \sigma(W_i h_i + W_j h_j + W_e e_{ij} + b) \\
        h_i' &= \sigma(V_h h_i + V_m \sum\nolimits_{j : (j, i) \in E} m_{j \to i} + c)

    These are `f_message` and `f_node` with one dense layer each, applied to concatenations. The
    products with `W_i` and `W_j` are computed per node, not per edge.

    Args:
        in_channels (int): Size of each node's features.
        out_channels (int): Size of each node's output.
        message_channels (int, optional): Size of each message.
            (default: :obj:`None`, `out_channels`)
        edge_dim (int, optional): Size of the edge features :math:`e_{ij}`, for example 2 for
            :math:`(A_{ij}, C_{ij})` as :class:`AddSimilarityEdges` writes them.
            (default: :obj:`None`, no edge features)
        act (bool, optional): If set to :obj:`False`, both dense layers are linear. Otherwise
            :math:`\sigma` is a ReLU. (default: :obj:`True`)

    Time is `O(N F^2 + E F)`, memory `O((N + E) F)`.

    Source: equation 'GMN propagation' of Shulman (2020).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        message_channels: Optional[int] = None,
        edge_dim: Optional[int] = None,
        act: bool = True,
    ) -> None:
        super().__init__(aggr="sum")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.message_channels = out_channels if message_channels is None else message_channels
        self.edge_dim = edge_dim
        self.act = act
        self.lin_message = Linear(2 * in_channels + (edge_dim or 0), self.message_channels)
        self.lin_node = Linear(in_channels + self.message_channels, out_channels)

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        super().reset_parameters()
        self.lin_message.reset_parameters()
        self.lin_node.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Optional[Tensor] = None,
        label: Optional[Tensor] = None,
    ) -> Tensor:
        """Runs one round of message passing.

        Args:
            x (torch.Tensor): Node features, `[N, in_channels]`.
            edge_index (torch.Tensor): The edges, `[2, E]`, or a transposed sparse matrix.
            edge_attr (torch.Tensor, optional): Edge features, `[E, edge_dim]`.
                (default: :obj:`None`)
            label (torch.Tensor, optional): The row of `x` that holds the features of each node,
                `[N]`, where few rows are distinct: products are then computed once per row.
                (default: :obj:`None`, node `i` has row `i`)
        """
        check_edge_attr(edge_attr, self.edge_dim, edge_index)
        of_node, of_total = self.lin_node.weight.split([self.in_channels, self.message_channels], 1)
        of_message, bias = self.lin_message.weight, self.lin_message.bias
        if not self.act:
            # Two linear layers in a row are one, so messages are as narrow as the output.
            of_message, bias = of_total @ of_message, of_total @ bias
        of_target, of_source, of_edge = of_message.split(
            [self.in_channels, self.in_channels, self.edge_dim or 0], dim=1
        )
        own = F.linear(x, of_node, self.lin_node.bias)
        target, source = F.linear(x, of_target, bias), F.linear(x, of_source)
        if label is not None:
            own, target, source = (rows.index_select(0, label) for rows in (own, target, source))
        edge = None if edge_attr is None else F.linear(edge_attr.to(x.dtype), of_edge)
        total = self.propagate(edge_index, target=target, source=source, edge=edge)
        return (own + F.linear(total, of_total)).relu() if self.act else own + total

    def message(self, target_i: Tensor, source_j: Tensor, edge: Optional[Tensor]) -> Tensor:
        """Returns one message per edge, `[E, message_channels]`."""
        # In place: `target_i` is a copy, and arrays over the edges are large.
        out = target_i.add_(source_j)
        out = out if edge is None else out.add_(edge)
        return out.relu_() if self.act else out

    def __repr__(self) -> str:
        """Shows the sizes."""
        return (
            f"{type(self).__name__}({self.in_channels}, {self.out_channels}, "
            f"message_channels={self.message_channels}, edge_dim={self.edge_dim}, act={self.act})"
        )


def check_edge_attr(
    edge_attr: Optional[Tensor], edge_dim: Optional[int], edge_index: Tensor
) -> None:
    """Raises unless edge features are given if and only if they are read, one row per edge."""
    if edge_dim is None and edge_attr is None:
        return
    if edge_dim is None:
        raise ValueError("`edge_attr` must be None for a network without `edge_dim`, got a tensor")
    num_edges = "E" if is_sparse(edge_index) else edge_index.size(1)
    if (
        edge_attr is None
        or edge_attr.dim() != 2
        or edge_attr.size(1) != edge_dim
        or num_edges not in ("E", edge_attr.size(0))
    ):
        got = "None" if edge_attr is None else shape(edge_attr)
        raise ValueError(f"`edge_attr` must have shape [{num_edges}, {edge_dim}], got {got}")

"""The networks of the paper: graph matching networks (Li et al. 2019), a GRU and a dense GCN."""

from typing import Optional, Union

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence
from torch_geometric.nn import DenseGCNConv, MessagePassing
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.utils import degree, is_sparse

from torch_geometric_simpool.functional.batches import from_adj_t
from torch_geometric_simpool.functional.segment import segment_matmul_t, spmm, sum_rows
from torch_geometric_simpool.utils.checks import (
    check_dense,
    check_integral,
    check_range,
    is_integral,
    shape,
)


class GRUEncoder(torch.nn.Module):
    """Reads each node's whole row of `C` as a sequence, and returns the last state.

    Args:
        out_channels (int): Size of the state, to which a ReLU is applied.
        node_channels (int, optional): Number of node features after the row, which are appended to
            the state (the variant `'both'`). (default: :obj:`0`)

    Shapes:
        - **x:** `[*, L + node_channels]`. In a graph of `n` nodes, a row holds `n` similarities,
          then `L - n` ignored values
        - **num_nodes:** the size `n` of each row's graph, `[*]`
        - **output:** `[*, out_channels + node_channels]`

    Takes `O(N L)` recurrent steps, where `L` is the size of the largest graph. This suits small
    graphs only.

    Source: section 'Assignment matrix' of Shulman (2020).
    """

    def __init__(self, out_channels: int, node_channels: int = 0) -> None:
        super().__init__()
        self.out_channels = out_channels
        self.node_channels = node_channels
        self.gru = torch.nn.GRU(1, out_channels, batch_first=True)

    def forward(self, x: Tensor, num_nodes: Optional[Tensor]) -> Tensor:
        """Encodes the rows."""
        num_nodes = check_integral("num_nodes", num_nodes, tuple(x.shape[:-1]))
        length = x.size(-1) - self.node_channels
        if length < 0 or (num_nodes.numel() > 0 and int(num_nodes.max()) > length):
            raise ValueError(
                "`x` must hold whole rows of C, as wide as the largest graph of `num_nodes`, and "
                f"{self.node_channels} node features, got {shape(x)}"
            )
        row, node = x.split([length, self.node_channels], dim=-1)
        if row.numel() == 0:
            state = row.new_zeros(*row.shape[:-1], self.out_channels)
        else:
            packed = pack_padded_sequence(
                row.reshape(-1, length, 1),
                num_nodes.reshape(-1).clamp(min=1).cpu(),
                batch_first=True,
                enforce_sorted=False,
            )
            state = self.gru(packed)[1][0].relu().view(*row.shape[:-1], self.out_channels)
        return torch.cat([state, node], dim=-1)


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
        else:
            assert self.gru is not None
            h = self.gru(x, num_nodes)
        if edge_attr is None:
            return h, None
        _check_edge_attr(edge_attr, self.edge_dim)
        assert self.lin_edge is not None
        return h, self.lin_edge(edge_attr.to(h.dtype)).relu()


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
                `[N]`. Products are computed once per row of `x`, which is faster if few rows are
                distinct. (default: :obj:`None`, node `i` has row `i`)
        """
        if is_sparse(edge_index):
            edge_index, _ = from_adj_t(edge_index)
        _check_edge_attr(edge_attr, self.edge_dim, edge_index.size(1))
        weight_node, weight_total = self.lin_node.weight.split(
            [self.in_channels, self.message_channels], dim=1
        )
        weight_message, bias = self.lin_message.weight, self.lin_message.bias
        if not self.act:
            # Two linear layers in a row are one layer, so messages have the width of the output.
            weight_message, bias = weight_total @ weight_message, weight_total @ bias
        weight_target, weight_source, weight_edge = weight_message.split(
            [self.in_channels, self.in_channels, self.edge_dim or 0], dim=1
        )
        own = F.linear(x, weight_node, self.lin_node.bias)
        target, source = F.linear(x, weight_target, bias), F.linear(x, weight_source)
        # Edge features and explainers need every message, and distinct pairs need synchronization.
        every = edge_attr is not None or self.explain
        every = every or not x.is_cpu or torch.compiler.is_compiling()
        if label is not None and self.act and not every:
            # Edges whose ends have the same two labels have equal messages.
            labels = label.index_select(0, edge_index.flip(0).flatten()).view(2, -1)
            pair, number = (labels[0] * x.size(0) + labels[1]).unique(return_inverse=True)
            message = (target[pair // x.size(0)] + source[pair % x.size(0)]).relu_()
            message = F.linear(message, weight_total)
            total = spmm(edge_index[1], number, message, None, label.numel())
            return total.add_(own.index_select(0, label)).relu_()
        if label is not None:
            own, target, source = (rows.index_select(0, label) for rows in (own, target, source))
        edge = None if edge_attr is None else F.linear(edge_attr.to(x.dtype), weight_edge)
        total = self.propagate(edge_index, target=target, source=source, edge=edge)
        return torch.addmm(own, total, weight_total.t()).relu_() if self.act else own + total

    def pooled(
        self,
        x: Tensor,
        edge_index: Tensor,
        s: Tensor,
        batch: Tensor,
        batch_size: int,
        edge_attr: Optional[Tensor] = None,
    ) -> Tensor:
        r"""Returns :math:`S^\top H'` of each graph, `[B, K, out_channels]`.

        It needs `act=False` and edges as `[2, E]`. The layer is applied to the sums over the
        clusters, because clusters are fewer than nodes: :math:`S^\top A X = (A^\top S)^\top X`.
        """
        if self.explain:  # the messages of the nodes are masked
            return segment_matmul_t(s, self(x, edge_index, edge_attr), batch, batch_size)
        source, target = edge_index
        num_messages = degree(target, x.size(0), s.dtype).unsqueeze(-1)
        left = torch.cat([s, num_messages * s, spmm(source, target, s, None, s.size(0))], dim=1)
        right = F.pad(x, (0, 1), value=1.0)  # the sums of ones count nodes and messages
        own, targets, sources = segment_matmul_t(left, right, batch, batch_size).chunk(3, dim=1)
        parts = [targets[..., :-1], sources[..., :-1]]
        if edge_attr is not None:
            edges = sum_rows(edge_attr.to(x.dtype), target, x.size(0))
            parts.append(segment_matmul_t(s, edges, batch, batch_size))
        total = F.linear(torch.cat(parts, dim=-1), self.lin_message.weight)
        total = total + targets[..., -1:] * self.lin_message.bias
        out = F.linear(torch.cat([own[..., :-1], total], dim=-1), self.lin_node.weight)
        return out + own[..., -1:] * self.lin_node.bias

    def message(self, target_i: Tensor, source_j: Tensor, edge: Optional[Tensor]) -> Tensor:
        """Returns one message per edge, `[E, message_channels]`."""
        # The sum is in place, because arrays over the edges are large, and `target_i` is a copy.
        out = target_i.add_(source_j)
        out = out if edge is None else out.add_(edge)
        return out.relu_() if self.act else out


class GMN(torch.nn.Module):
    """Embeds nodes by an encoder and two propagation layers, the last of which is linear.

    The paper computes Z0 by this network, and S0 by this network with `K` outputs.

    Args:
        in_channels (int): Size of the node features, or number of node labels.
        encoder_channels (int): Size of the encoded features.
        hidden_channels (tuple of int): Sizes `(f_message, f_node)` of the first propagation.
        out_channels (tuple of int): Sizes `(f_message, f_node)` of the last propagation.
        edge_dim (int, optional): Size of the edge features.
            (default: :obj:`None`, no edge features)
        gru (bool, optional): As in :class:`GMNEncoder`. (default: :obj:`False`)

    Shapes:
        - **x:** `[N, in_channels]`, or integer labels in `[0, in_channels)`, `[N]`, in place of
          one-hot features. With a GRU, as in :class:`GRUEncoder`
        - **edge_index:** `[2, E]`, or a transposed sparse matrix
        - **edge_attr:** `[E, edge_dim]`
        - **num_nodes:** the size of each row's graph, `[N]`, for the GRU
        - **output:** `[N, out_channels[1]]`

    Time is `O(N F^2 + E F)`, memory `O((N + E) F)`.

    Source: table 'architecture' of Shulman (2020), after Li et al. (2019).
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
        """Returns the inputs of the last propagation: nodes after the first one, encoded edges."""
        label = None
        if is_labels(x):  # every distinct label is encoded once
            check_labels("x", x, self.in_channels)
            weight = self.conv2.lin_node.weight
            one_hot = torch.eye(self.in_channels, dtype=weight.dtype, device=weight.device)
            label, x = x.long(), one_hot
        h, edge = self.encoder(x, edge_attr, num_nodes)
        return self.conv1(h, edge_index, edge, label), edge


class DenseGCN(DenseGCNConv):
    r"""The dense GCN layer that adds a self-loop to the diagonal of `A`.

    .. math::
        H' = \sigma(\tilde{D}^{-1/2} \tilde{A} \tilde{D}^{-1/2} H W + b), \qquad
        \tilde{A} = A + I

    PyG's :class:`~torch_geometric.nn.DenseGCNConv` sets the diagonal to one instead. The diagonal
    of a pooled graph holds the edges inside the clusters, which would be lost.

    Args:
        in_channels (int): Size of each node's features.
        out_channels (int): Size of each node's output.
        act (bool, optional): Whether to apply a ReLU. (default: :obj:`True`)

    Shapes:
        - **x:** `[B, N, in_channels]`
        - **adj:** `[B, N, N]`, non-negative
        - **mask:** `[B, N]`
        - **output:** `[B, N, out_channels]`

    Time is `O(B N^2 F)`. Source: equation of 'Graph convolutional network' in Shulman (2020),
    after Kipf and Welling (2017).
    """

    def __init__(self, in_channels: int, out_channels: int, act: bool = True) -> None:
        super().__init__(in_channels, out_channels)
        self.act = act

    def forward(self, x: Tensor, adj: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        """Convolves over `adj`."""
        adj = adj + torch.eye(adj.size(-1), dtype=adj.dtype, device=adj.device)
        degree = adj.sum(dim=-1)
        # An isolated cluster has degree 1, where `degree.clamp(min=1)`, as in PyG's layer, has no
        # gradient from PyTorch 2.14 on.
        scale = torch.where(degree < 1, 1, degree).pow(-0.5)
        out = (scale.unsqueeze(-1) * adj * scale.unsqueeze(-2)) @ self.lin(x) + self.bias
        if mask is not None:
            out = out * mask.view(*x.shape[:-1], 1).to(x.dtype)
        return out.relu() if self.act else out


def is_labels(x: Tensor) -> bool:
    """Returns whether node features are integer labels, `[N]`."""
    return isinstance(x, Tensor) and x.dim() == 1 and is_integral(x.dtype)


def check_labels(name: str, labels: Tensor, num_labels: int) -> None:
    """Raises unless labels are in `[0, num_labels)`. Values on a GPU are not checked."""
    if labels.is_cpu and not torch.compiler.is_compiling():
        check_range(name, labels, num_labels, "labels")


def _check_edge_attr(
    edge_attr: Optional[Tensor], edge_dim: Optional[int], num_edges: Union[int, str] = "E"
) -> None:
    """Raises unless edge features are given if and only if they are read, one row per edge."""
    if edge_dim is not None:
        check_dense("edge_attr", edge_attr, (num_edges, edge_dim))
    elif edge_attr is not None:
        raise ValueError("`edge_attr` must be None for a network without `edge_dim`, got a tensor")

"""The propagation of graph matching networks (Li et al. 2019), within one graph.

`GMNConv.forward` computes one message per edge by `propagate`, as PyG does, or one of three
equal forms: `sum_messages` with activations, `_linear` without, `forward_labels` for few
different node features. `pooled` applies a linear layer to features that are pooled already.
"""

from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.utils import degree

from torch_geometric_simpool.functional.messages import sum_messages
from torch_geometric_simpool.functional.rows import sum_rows, take_rows
from torch_geometric_simpool.functional.segment import segment_matmul_t, spmm
from torch_geometric_simpool.models.edges import (
    check_edge_attr,
    check_edges,
    count_edges,
    is_edge_index,
)
from torch_geometric_simpool.utils.autocast import no_autocast
from torch_geometric_simpool.utils.checks import check_bool, check_channels, check_int, shape

#: What a subclass may do in its own way.
_STEPS = ("propagate", "message", "aggregate", "update")


class GMNConv(MessagePassing):
    r"""The propagation layer of graph matching networks.

    .. math::
        m_{j \to i} &= \sigma(W_i h_i + W_j h_j + W_e e_{ij} + b) \\
        h_i' &= \sigma(V_h h_i + V_m \sum\nolimits_{j : (j, i) \in E} m_{j \to i} + c)

    which is `f_message` and `f_node` with one dense layer each, on concatenations.
    The products are computed per node, not per edge.

    Args:
        in_channels: Width of the node features.
        out_channels: Width of the output, that of `f_node`.
        message_channels: Width of the messages; `out_channels` if `None`.
        edge_dim: Width of the edge features `e_ij`, or `None` where there are none.
        act: Whether both dense layers end in a ReLU; both are linear otherwise.
        **kwargs: Arguments of :class:`~torch_geometric.nn.MessagePassing`.

    Shapes:
        - x: `[N, in_channels]`; edge_index: `[2, E]`, or a transposed sparse matrix
          `adj_t`; edge_attr: `[E, edge_dim]`
        - returns `[N, out_channels]`

    Time `O(N F^2 + E F)`, memory `O((N + E) F)`. Deterministic for one device, library version and
    number of threads where the messages are added and :meth:`propagate` does not run (see below),
    on CPU always.

    Where messages are added and flow from source to target, :meth:`propagate` and
    :meth:`message`, and their hooks, do not run. They do run for other aggregations, for sparse
    matrices, for explanations (`explain`), in a subclass that overrides one of the steps, and
    where the attribute `fused` is set to `False`. On a CPU, in float32 and float64 and without
    edge features, the messages are not stored either. The weights of the two dense layers,
    `lin_message` and `lin_node`, are read directly: hooks on these do not run, so what relies on
    them (:mod:`torch.nn.utils.prune`, the old `weight_norm`) does not work, and training with it
    fails; use :mod:`torch.nn.utils.parametrize`.

    Source: equation 'GMN propagation' of Shulman (2020).
    """

    #: Whether the forms that store no messages, or fewer, may be used.
    fused: bool = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        message_channels: Optional[int] = None,
        edge_dim: Optional[int] = None,
        act: bool = True,
        **kwargs: Any,
    ) -> None:
        check_int("in_channels", in_channels, 1)
        check_int("out_channels", out_channels, 1)
        if message_channels is not None:
            check_int("message_channels", message_channels, 1)
        if edge_dim is not None:
            check_int("edge_dim", edge_dim, 1)
        check_bool("act", act)
        if kwargs.setdefault("aggr", "add") is None or isinstance(kwargs["aggr"], (list, tuple)):
            raise ValueError(
                "`aggr` must be the name of one aggregation, or an Aggregation, got "
                f"{kwargs['aggr']!r}"
            )
        super().__init__(**kwargs)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.message_channels = out_channels if message_channels is None else message_channels
        self.edge_dim = edge_dim
        self.act = act
        self.fused = (
            self.aggr in ("add", "sum")
            and self.flow == "source_to_target"
            and all(getattr(type(self), step) is getattr(GMNConv, step) for step in _STEPS)
        )
        self.lin_message = Linear(2 * in_channels + (edge_dim or 0), self.message_channels)
        self.lin_node = Linear(in_channels + self.message_channels, out_channels)

    def reset_parameters(self) -> None:
        """Resets the parameters."""
        super().reset_parameters()
        self.lin_message.reset_parameters()
        self.lin_node.reset_parameters()

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Optional[Tensor] = None) -> Tensor:
        """Runs one round of message passing."""
        check_channels("x", x, self.in_channels, self.lin_message.weight)
        if x.dim() != 2:
            raise ValueError(f"`x` must have shape [N, {self.in_channels}], got {shape(x)}")
        edge_index = check_edges(edge_index, x)
        check_edge_attr(edge_attr, self.edge_dim, count_edges(edge_index), x.device)
        if edge_attr is not None:
            check_channels("edge_attr", edge_attr, self.edge_dim or 0, self.lin_message.weight)
        if not self.act and self._can_fuse(edge_index):
            return self._linear(x, edge_index.long(), edge_attr)
        to_target, to_source, to_edge = self._message_weights()
        target = F.linear(x, to_target, self.lin_message.bias)
        source = F.linear(x, to_source)
        edge = None if edge_attr is None else F.linear(edge_attr, to_edge)
        if self._can_fuse(edge_index):
            total = sum_messages(target, source, edge, edge_index.long())
        else:
            total = self.propagate(edge_index, target=target, source=source, edge=edge)
        return self._update(x, total)

    def message(self, target_i: Tensor, source_j: Tensor, edge: Optional[Tensor]) -> Tensor:
        """One message per edge."""
        out = target_i + source_j
        out = out if edge is None else out + edge
        return out.relu() if self.act else out

    def forward_labels(self, x: Tensor, label: Tensor, edge_index: Tensor) -> Tensor:
        """What :meth:`forward` returns for the node features `x[label]`, without edge features.

        All messages from one label to another are equal; where labels are few, each is
        computed once.

        Args:
            x: `[L, in_channels]`.
            label: The row of `x` that each node has, `[N]`, int64.
            edge_index: `[2, E]`.
        """
        num_labels, num_nodes = x.size(0), label.size(0)
        few = not torch.compiler.is_compiling() and num_labels**2 <= 2 * num_nodes
        if not (few and self.act and self._can_fuse(edge_index)):
            return self(take_rows(x, label), edge_index)
        into, out_of = edge_index[1].long(), edge_index[0].long()
        pair = label.index_select(0, into) * num_labels + label.index_select(0, out_of)
        pairs, number = _distinct(pair, num_labels**2)

        to_target, to_source, _ = self._message_weights()
        target = F.linear(x, to_target, self.lin_message.bias)
        source = F.linear(x, to_source)
        from_target = pairs.div(num_labels, rounding_mode="floor")
        message = (take_rows(target, from_target) + take_rows(source, pairs % num_labels)).relu()
        of_node, of_message = self._node_weights()
        own = take_rows(F.linear(x, of_node, self.lin_node.bias), label)
        total = spmm(into, number, F.linear(message, of_message), None, num_nodes)
        return (own + total).relu()

    def pooled(
        self,
        x: Tensor,
        s: Tensor,
        edge_index: Tensor,
        batch: Tensor,
        batch_size: int,
        edge_attr: Optional[Tensor] = None,
    ) -> Tensor:
        r"""`S^T H'` of the output `H'` of a linear layer (`act=False`).

        Both `S^T` and the layer are linear, so `X`, the sums over its neighbors, and those
        over its edges are pooled first, and the products with the weights are taken per
        cluster, not per node:
        :math:`S^\top A X = (A^\top S)^\top X`.

        Args:
            x: `[N, in_channels]`.
            s: `S`, `[N, K]`.
            edge_index: `[2, E]`.
            batch: The graph of each node, `[N]`, ascending.
            batch_size: The number of graphs, `B`.
            edge_attr: `[E, edge_dim]`.

        Returns:
            `[B, K, out_channels]`.
        """
        if self.act:
            raise ValueError(f"`pooled` needs a layer with act=False, got {self}")
        check_edge_attr(edge_attr, self.edge_dim, count_edges(edge_index))
        if not self._can_fuse(edge_index):
            return segment_matmul_t(s, self(x, edge_index, edge_attr), batch, batch_size)
        source, target = edge_index.long()
        num_messages = _in_degree(s, target)
        counted = num_messages * s
        left = torch.cat([s, counted, spmm(source, target, s, None, s.size(0))], dim=1)
        x, targets, sources = segment_matmul_t(left, x, batch, batch_size).chunk(3, dim=1)
        ones = torch.cat([torch.ones_like(num_messages), num_messages], dim=1)
        wide = torch.promote_types(s.dtype, torch.float32)
        with no_autocast(s.device):  # it would count in a narrow type
            counts = segment_matmul_t(s.to(wide), ones.to(wide), batch, batch_size)
        size, num_messages = counts.chunk(2, dim=2)
        dtype = self.lin_node.weight.dtype

        parts = [targets, sources]
        if edge_attr is not None:
            edges = sum_rows(edge_attr, target, s.size(0))
            parts.append(segment_matmul_t(s, edges.to(s.dtype), batch, batch_size))
        total = F.linear(torch.cat(parts, dim=-1), self.lin_message.weight)
        if self.lin_message.bias is not None:
            total = total + (num_messages * self.lin_message.bias).to(dtype)
        out = F.linear(torch.cat([x, total], dim=-1), self.lin_node.weight)
        bias = self.lin_node.bias
        return out if bias is None else out + (size * bias).to(dtype)

    def _linear(self, x: Tensor, edge_index: Tensor, edge_attr: Optional[Tensor]) -> Tensor:
        """The layer without activations: its two matrices as one, so messages are as narrow as the
        output.
        """
        of_node, of_message = self._node_weights()
        to_target, to_source, to_edge = (of_message @ weight for weight in self._message_weights())
        target_bias = self.lin_message.bias
        target_bias = None if target_bias is None else of_message @ target_bias
        # One product for the three that read the nodes, which are narrow.
        own, target, source = F.linear(x, torch.cat([of_node, to_target, to_source])).chunk(3, 1)
        target = target if target_bias is None else target + target_bias
        own = own if self.lin_node.bias is None else own + self.lin_node.bias
        out_of, into = edge_index
        out = own + _in_degree(x, into) * target + spmm(into, out_of, source, None, x.size(0))
        if edge_attr is None:
            return out
        return out + sum_rows(F.linear(edge_attr, to_edge), into, x.size(0))

    def _update(self, x: Tensor, total: Tensor) -> Tensor:
        """`f_node`."""
        out = self.lin_node(torch.cat([x, total.to(x.dtype)], dim=1))
        return out.relu() if self.act else out

    def _can_fuse(self, edge_index: Any) -> bool:
        return self.fused and not self.explain and is_edge_index(edge_index)

    def _message_weights(self) -> tuple[Tensor, ...]:
        """`W_i`, `W_j` and `W_e`."""
        width = self.in_channels
        return self.lin_message.weight.split([width, width, self.edge_dim or 0], dim=1)

    def _node_weights(self) -> tuple[Tensor, ...]:
        """`V_h` and `V_m`."""
        return self.lin_node.weight.split([self.in_channels, self.message_channels], dim=1)

    def __repr__(self) -> str:
        """The widths."""
        return (
            f"{type(self).__name__}({self.in_channels}, {self.out_channels}, "
            f"message_channels={self.message_channels}, edge_dim={self.edge_dim}, act={self.act})"
        )


def _in_degree(rows: Tensor, target: Tensor) -> Tensor:
    """The number of edges into each node, `[N, 1]`, in the type of `rows`."""
    # Integers: their sum does not depend on the order, nor on the type.
    count = degree(target, rows.size(0), torch.long)
    return count.to(rows.dtype).unsqueeze(-1)


def _distinct(pair: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The numbers in `[0, size)` that occur, ascending, and the place of each among them.

    On an accelerator all numbers, as if each occurred: their count would have to be waited for.
    """
    if not pair.is_cpu:
        return torch.arange(size, device=pair.device), pair
    present = torch.zeros(size, dtype=torch.bool, device=pair.device)
    present[pair] = True
    return present.nonzero().view(-1), (present.cumsum(0) - 1).index_select(0, pair)

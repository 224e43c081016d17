"""Encoder and propagation of graph matching networks (Li et al. 2019), within one graph."""

from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.utils import degree

from torch_geometric_simpool.engine.adjacent import neighbour_sums
from torch_geometric_simpool.engine.distinct import distinct_rows, propagate_distinct
from torch_geometric_simpool.engine.messages import sum_relu
from torch_geometric_simpool.engine.propagation import propagate
from torch_geometric_simpool.engine.ragged import ragged_product
from torch_geometric_simpool.models.gru import GRUEncoder
from torch_geometric_simpool.utils.checks import shape

#: Where PyG keeps what watches the messages of a layer.
_HOOKS = tuple(
    f"_{step}_forward_{when}hooks"
    for step in ("propagate", "message", "aggregate", "edge_update", "message_and_aggregate")
    for when in ("pre_", "")
)


#: What a class derived from a layer may do in its own way.
_STEPS = ("message", "aggregate", "update")


class GMNEncoder(torch.nn.Module):
    r"""Encodes node and edge features, each by itself, with one dense layer.

    .. math::
        h_i = \mathrm{ReLU}(W x_i + b), \qquad e_{ij} = \mathrm{ReLU}(W' x_{ij} + b')

    Args:
        in_channels: Width of the node features.
        channels: Width of the encoded ones.
        edge_dim: Width of the edge features, or `None` where there are none.
        gru: Replaces the dense layer of the nodes by a :class:`GRUEncoder` over the
            row of `C`, all of it. `in_channels` is then the number of node features
            behind that row, 0 where there are none.

    Shapes:
        - x: `[N, in_channels]`, or as in :class:`GRUEncoder`; edge_attr:
          `[E, edge_dim]`; num_nodes, for the GRU: the size of each row's graph, `[N]`
        - returns `[N, out_channels]`, and `[E, channels]` or `None`; `out_channels`
          is `channels`, plus `in_channels` with a GRU

    Source: equation 'GMN encoder' of Shulman (2020); the GRU, section 'Top-k'.
    """

    def __init__(
        self, in_channels: int, channels: int, edge_dim: Optional[int] = None, gru: bool = False
    ) -> None:
        super().__init__()
        self.gru = GRUEncoder(channels, in_channels) if gru else None
        self.lin_node = None if gru else Linear(in_channels, channels)
        self.lin_edge = None if edge_dim is None else Linear(edge_dim, channels)
        self.out_channels = channels + (in_channels if gru else 0)

    def reset_parameters(self) -> None:
        """Draws the parameters anew."""
        for child in self.children():
            child.reset_parameters()  # type: ignore[operator]

    def forward(
        self, x: Tensor, edge_attr: Optional[Tensor] = None, num_nodes: Optional[Tensor] = None
    ) -> tuple[Tensor, Optional[Tensor]]:
        """Encodes the nodes, and the edges where `edge_dim` was given."""
        check_edge_attr(edge_attr, None if self.lin_edge is None else self.lin_edge.in_channels)
        if self.gru is not None:
            if num_nodes is None:
                raise ValueError("`num_nodes` must be a tensor [N] for a GRU encoder, got None")
            h = self.gru(x, num_nodes)
        else:
            assert self.lin_node is not None
            h = self.lin_node(x).relu()
        if self.lin_edge is None or edge_attr is None:
            return h, None
        return h, self.lin_edge(edge_attr.to(h.dtype)).relu()


class GMNConv(MessagePassing):
    r"""The propagation layer of graph matching networks.

    .. math::
        m_{j \to i} &= \sigma(W_i h_i + W_j h_j + W_e e_{ij} + b) \\
        h_i' &= \sigma(V_h h_i + V_m \sum\nolimits_{j : (j, i) \in E} m_{j \to i} + c)

    which is `f_message` and `f_node` with one dense layer each, on concatenations.
    The products are computed per node, not per edge. Without an activation, messages
    are summed before they are multiplied, and none has the width of a message; where
    that is less work, the two layers are multiplied into one first.

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

    Time `O(N F^2 + E F)`, memory `O((N + E) F)`. Deterministic on CPU.

    The two dense layers, `lin_message` and `lin_node`, are read, not called, so their forward
    hooks see nothing but where `lin_node` has ReLUs; their pre-hooks, as of pruning, are run,
    on `x` where there is no concatenation.

    Source: equation 'GMN propagation' of Shulman (2020).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        message_channels: Optional[int] = None,
        edge_dim: Optional[int] = None,
        act: bool = True,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("aggr", "add")
        super().__init__(**kwargs)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.message_channels = out_channels if message_channels is None else message_channels
        self.edge_dim = edge_dim
        self.act = act
        self.lin_message = Linear(2 * in_channels + (edge_dim or 0), self.message_channels)
        self.lin_node = Linear(in_channels + self.message_channels, out_channels)

    def reset_parameters(self) -> None:
        """Draws the parameters anew."""
        super().reset_parameters()
        self.lin_message.reset_parameters()
        self.lin_node.reset_parameters()

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Optional[Tensor] = None) -> Tensor:
        """Sends one round of messages."""
        check_edge_attr(edge_attr, self.edge_dim, _num_edges(edge_index))
        _prepare(self.lin_message, x)
        plainly = self.adds_plainly(edge_index)
        if self.act and plainly and edge_attr is None and not watched(self.lin_node):
            return propagate(x, *self._layers(), edge_index.long())
        width = self.in_channels
        of_target, of_source, of_edge = self.lin_message.weight.split(
            [width, width, self.edge_dim or 0], dim=1
        )
        if self.act or self.aggr not in ("add", "sum", "mean"):
            target = F.linear(x, of_target, self.lin_message.bias)
            edge = None if edge_attr is None else F.linear(edge_attr, of_edge)
            source = F.linear(x, of_source)
            if plainly and self.act:
                total = sum_relu(target, source, edge, edge_index.long())
            else:
                total = self.propagate(edge_index, target=target, source=source, edge=edge)
            # One product, not the sum of two.
            out = self.lin_node(torch.cat([x, total.to(x.dtype)], dim=1))
            return out.relu() if self.act else out
        _prepare(self.lin_node, x)
        of_node, of_message = self.lin_node.weight.split([width, self.message_channels], dim=1)
        if 2 * self.out_channels <= self.message_channels:
            of_each = (of_target, of_source, of_edge)
            return self._narrow(x, edge_index, edge_attr, of_node, of_message, of_each, plainly)
        out = F.linear(x, of_node, self.lin_node.bias)
        sources, counts, edges = self._summed(edge_index, x, edge_attr, plainly)
        total = counts * F.linear(x, of_target, self.lin_message.bias)
        total = total + F.linear(sources, of_source)
        if edges is not None:
            total = total + F.linear(edges, of_edge)
        return out + F.linear(total, of_message)

    def _narrow(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Optional[Tensor],
        of_node: Tensor,
        of_message: Tensor,
        of_each: tuple[Tensor, ...],
        plainly: bool,
    ) -> Tensor:
        """The linear layer with its two products multiplied into one, as narrow as the output."""
        of_target, of_source, of_edge = (of_message @ weight for weight in of_each)
        nothing = of_node.new_zeros(self.out_channels)
        own_bias, message_bias = self.lin_node.bias, self.lin_message.bias
        own_bias = nothing if own_bias is None else own_bias
        message_bias = nothing if message_bias is None else of_message @ message_bias
        # One product for the three that read the nodes: narrow ones are slow.
        weight = torch.cat([of_node, of_target, of_source])
        bias = torch.cat([own_bias, message_bias, nothing])
        own, target, source = F.linear(x, weight, bias).chunk(3, dim=1)
        edge = None if edge_attr is None else F.linear(edge_attr, of_edge)
        sources, counts, edges = self._summed(edge_index, source, edge, plainly)
        out = own + counts * target + sources
        return out if edges is None else out + edges

    def of_shared_rows(self, x: Tensor, code: Tensor, edge_index: Tensor) -> Tensor:
        """The layer, with ReLUs and without edge features, where nodes share rows of `x`.

        Args:
            x: `[D, in_channels]`.
            code: The row of `x` that each node has, `[N]`, int64.
            edge_index: `[2, E]`.
        """
        return propagate_distinct(x, *self._layers(), edge_index.long(), code)

    def _layers(self) -> tuple[tuple[Tensor, Optional[Tensor]], tuple[Tensor, Optional[Tensor]]]:
        message, node = self.lin_message, self.lin_node
        return (message.weight, message.bias), (node.weight, node.bias)

    def adds_plainly(self, edge_index: Any) -> bool:
        """Whether messages are those of this class and are added, with nobody to watch them."""
        return (
            self.aggr in ("add", "sum")
            and self.flow == "source_to_target"
            and not self.explain
            and type(edge_index) is Tensor
            and edge_index.layout == torch.strided
            and not any(getattr(self, hooks, None) for hooks in _HOOKS)
            and all(getattr(type(self), name) is getattr(GMNConv, name) for name in _STEPS)
        )

    def _summed(
        self, edge_index: Tensor, source: Tensor, edge: Optional[Tensor], plainly: bool
    ) -> tuple[Tensor, Tensor, Optional[Tensor]]:
        """Sums, or means, of `source`, of ones, and of `edge` over the messages of a node."""
        if plainly and edge is None:
            out_of, into = edge_index.long()
            return neighbour_sums(source, into, out_of), _degree(source, into), None
        both = torch.cat([source, source.new_ones(source.size(0), 1)], dim=1)
        summed = self.propagate(edge_index, target=None, source=both, edge=edge)
        width = source.size(1)
        of_edge = None if edge is None else summed[:, width + 1 :]
        return summed[:, :width], summed[:, width : width + 1], of_edge

    def pooled(
        self,
        x: Tensor,
        s: Tensor,
        edge_index: Tensor,
        batch: Tensor,
        batch_size: int,
        edge_attr: Optional[Tensor] = None,
    ) -> Tensor:
        r"""`S^T` times what :meth:`forward` returns, of a linear layer (`act=False`) that adds.

        The sum over the nodes of a cluster commutes with the layer, so its products are
        taken per cluster, not per node, and messages are as narrow as `S`:
        `S^T M = (A S)^T H` for the sums `M` of the neighbours' `H`.

        Args:
            x: `H`, `[N, in_channels]`.
            s: `S`, `[N, K]`.
            edge_index: `[2, E]`.
            batch: The graph of each node, `[N]`, ascending.
            batch_size: The number of graphs, `B`.
            edge_attr: `[E, edge_dim]`.

        Returns:
            `[B, K, out_channels]`.
        """
        if self.act or not self.adds_plainly(edge_index):
            raise ValueError(
                "`pooled` needs a layer with act=False that adds messages from source to target, "
                f"and `edge_index` as a tensor; got {self} and {type(edge_index).__name__}"
            )
        _prepare(self.lin_message, x)
        _prepare(self.lin_node, x)
        source, target, batch = edge_index[0].long(), edge_index[1].long(), batch.long()
        counts = _degree(s, target)
        counted = counts * s
        left = torch.cat([s, counted, neighbour_sums(s, source, target)], dim=1)
        pooled_x, targets, sources = ragged_product(left, x, batch, batch_size).chunk(3, dim=1)
        sizes = torch.cat([s, counted], dim=1)
        sizes = sizes.new_zeros(batch_size, sizes.size(1)).index_add(0, batch, sizes)
        size, messages = sizes.unsqueeze(-1).chunk(2, dim=1)

        parts = [targets, sources]
        if edge_attr is not None:
            edges = edge_attr.new_zeros(x.size(0), edge_attr.size(1))
            edges = edges.index_add(0, target, edge_attr)
            parts.append(ragged_product(s, edges.to(s.dtype), batch, batch_size))
        total = F.linear(torch.cat(parts, dim=-1), self.lin_message.weight)
        if self.lin_message.bias is not None:
            total = total + messages * self.lin_message.bias
        out = F.linear(torch.cat([pooled_x, total], dim=-1), self.lin_node.weight)
        return out if self.lin_node.bias is None else out + size * self.lin_node.bias

    def message(
        self, target_i: Optional[Tensor], source_j: Tensor, edge: Optional[Tensor]
    ) -> Tensor:
        """One message per edge."""
        if target_i is None:
            return source_j if edge is None else torch.cat([source_j, edge], dim=1)
        out = target_i + source_j
        out = out if edge is None else out + edge
        return out.relu() if self.act else out

    def __repr__(self) -> str:
        """The widths."""
        return (
            f"{type(self).__name__}({self.in_channels}, {self.out_channels}, "
            f"message_channels={self.message_channels}, edge_dim={self.edge_dim}, act={self.act})"
        )


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
        encoded_edge = None if edge_dim is None else encoder_channels
        self.encoder = GMNEncoder(in_channels, encoder_channels, edge_dim, gru)
        message, node = hidden_channels
        self.conv1 = GMNConv(self.encoder.out_channels, node, message, encoded_edge)
        self.conv2 = GMNConv(node, out_channels[1], out_channels[0], encoded_edge, act=False)

    def reset_parameters(self) -> None:
        """Draws the parameters anew."""
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
        edge_dim = None if self.encoder.lin_edge is None else self.encoder.lin_edge.in_channels
        check_edge_attr(edge_attr, edge_dim, _num_edges(edge_index))
        rows = distinct_rows(x) if self._may_share(edge_index) else None
        if rows is not None:
            h, _ = self.encoder(rows[0])
            return self.conv1.of_shared_rows(h, rows[1], edge_index), None
        h, edge = self.encoder(x, edge_attr, num_nodes)
        return self.conv1(h, edge_index, edge), edge

    def _may_share(self, edge_index: Any) -> bool:
        """Whether nodes with the same features may be computed as one: nothing tells them apart,
        as dropout or statistics would, and nobody watches.
        """
        return (
            type(self.encoder) is GMNEncoder
            and type(self.encoder.lin_node) is Linear
            and self.encoder.lin_edge is None
            and type(self.conv1) is GMNConv
            and self.conv1.act
            and self.conv1.adds_plainly(edge_index)
            and not any(map(watched, (*self.encoder.modules(), *self.conv1.modules())))
        )

    def pools_plainly(self, edge_index: Any) -> bool:
        """Whether pooling may precede the last propagation, as :meth:`GMNConv.pooled` has it."""
        return (
            type(self) is GMN
            and type(self.conv2) is GMNConv
            and not self.conv2.act
            and self.conv2.adds_plainly(edge_index)
            and not any(map(watched, (self, *self.conv2.modules())))
        )


def watched(module: torch.nn.Module) -> bool:
    """Whether somebody wants to see, or change, what goes in and out, but for assignments."""
    if "forward" in module.__dict__:
        return True
    names = ("forward_hooks", "forward_pre_hooks", "backward_hooks", "backward_pre_hooks")
    of_all = torch.nn.modules.module
    found = [
        *(getattr(module, f"_{name}", None) for name in names),
        *(getattr(of_all, f"_global_{name}", None) for name in names),
    ]
    hooks = (hook for some in found if some for hook in some.values())
    return not all(getattr(hook, "reads_assignments_alone", False) for hook in hooks)


def _prepare(lin: torch.nn.Module, x: Tensor) -> None:
    """Runs what is to be run before a dense layer whose weights are read, as pruning sets them."""
    for number, hook in lin._forward_pre_hooks.items():
        hook(lin, (x,), {}) if number in lin._forward_pre_hooks_with_kwargs else hook(lin, (x,))


def _degree(rows: Tensor, target: Tensor) -> Tensor:
    """The number of edges into each node, `[N, 1]`, in the type of its rows."""
    return degree(target, rows.size(0), rows.dtype).unsqueeze(-1)


def _num_edges(edge_index: Any) -> Optional[int]:
    """The number of edges, or `None` of a sparse matrix, whose entries PyG counts itself."""
    if isinstance(edge_index, Tensor) and edge_index.layout == torch.strided:
        return edge_index.size(1)
    return None


def check_edge_attr(
    edge_attr: Optional[Tensor], edge_dim: Optional[int], num_edges: Optional[int] = None
) -> None:
    """Edge features must be there just where they were announced, one row per edge."""
    if edge_dim is None:
        if edge_attr is not None:
            raise ValueError(
                f"`edge_attr` must be None where `edge_dim` is None, got {shape(edge_attr)}"
            )
        return
    fits = edge_attr is not None and edge_attr.dim() == 2 and edge_attr.size(1) == edge_dim
    if edge_attr is not None and num_edges is not None:
        fits = fits and edge_attr.size(0) == num_edges
    if not fits:
        rows = "E" if num_edges is None else num_edges
        came = "None" if edge_attr is None else shape(edge_attr)
        raise ValueError(f"`edge_attr` must have shape [{rows}, {edge_dim}], got {came}")

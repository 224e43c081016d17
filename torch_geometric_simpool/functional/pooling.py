"""The pooling operator, on dense and on sparse batches."""

from typing import NamedTuple, Optional, TypeVar, Union

import torch
from torch import Tensor
from torch.utils import _pytree

from torch_geometric_simpool.functional.assignment import (
    Assignment,
    dense_assignment,
    fillable_clusters,
    losses,
    sparse_assignment,
)
from torch_geometric_simpool.functional.batches import (
    DenseBatch,
    SparseBatch,
    parse_dense_batch,
    parse_sparse_batch,
)
from torch_geometric_simpool.functional.segment import segment_matmul_t, spmm
from torch_geometric_simpool.utils.checks import (
    cast_finite,
    check_floating,
    shape,
)

Result = TypeVar("Result", bound=tuple)


def exportable(result: type[Result]) -> type[Result]:
    """Registers a named tuple that a program of :func:`torch.export.save` may return.

    PyTorch cannot save a program that returns a named tuple which is not registered. Its error
    message names a private function for the registration.
    """
    name = f"{result.__module__}.{result.__qualname__}"
    _pytree._register_namedtuple(result, serialized_type_name=name)
    return result


@exportable
class PooledGraphs(NamedTuple):
    """The result of :func:`sim_pool` and :func:`dense_sim_pool`.

    Attributes:
        x (torch.Tensor): Features of the clusters, `[B, K, F]`.
        adj (torch.Tensor): Adjacency matrices of the clusters, `[B, K, K]`.
        entropy_loss (torch.Tensor): The loss of :func:`entropy_loss`, a scalar.
        cluster_loss (torch.Tensor): The loss of :func:`cluster_loss`, a scalar.
    """

    x: Tensor
    adj: Tensor
    entropy_loss: Tensor
    cluster_loss: Tensor


@exportable
class SimPoolOutput(NamedTuple):
    """The result of :class:`SimPool`.

    Attributes:
        s (torch.Tensor): The assignment matrix after the softmax, `[N, K]`, or `[B, N, K]` for a
            dense batch.
        x (torch.Tensor): Features of the clusters, `[B, K, F]`.
        adj (torch.Tensor): Adjacency matrices of the clusters, `[B, K, K]`.
        entropy_loss (torch.Tensor): The loss of :func:`entropy_loss`, a scalar.
        cluster_loss (torch.Tensor): The loss of :func:`cluster_loss`, a scalar.
        mask (torch.Tensor): The clusters that each graph can fill, boolean, `[B, K]`. See
            :func:`cluster_mask`.
    """

    s: Tensor
    x: Tensor
    adj: Tensor
    entropy_loss: Tensor
    cluster_loss: Tensor
    mask: Tensor


def dense_sim_pool(
    x: Tensor, adj: Tensor, s: Tensor, mask: Optional[Tensor] = None
) -> PooledGraphs:
    r"""Pools the graphs of a dense batch by an assignment matrix.

    .. math::
        S &= \mathrm{softmax}(\text{logits}) \\
        X' &= S^\top X \\
        A' &= \tanh(S^\top A S)

    The losses are :func:`entropy_loss` and :func:`cluster_loss`. Self-loops are kept.

    Args:
        x (torch.Tensor): Node features, `[B, N, F]`, or `[N, F]` for one graph.
        adj (torch.Tensor): Adjacency matrices, `[B, N, N]` or `[N, N]`. Dense edge features,
            `[B, N, N, D]` or `[N, N, D]`, are reduced to a binary adjacency matrix.
        s (torch.Tensor): The **logits** of the assignment, `[B, N, K]` or `[N, K]`.
        mask (torch.Tensor, optional): The valid nodes, boolean, `[B, N]` or `[N]`. The values in
            padded rows are ignored. (default: :obj:`None`)

    Returns:
        PooledGraphs: The named tuple `(x, adj, entropy_loss, cluster_loss)` with `x` `[B, K, F]`
        and `adj` `[B, K, K]`.

    Raises:
        TypeError: If a tensor has a wrong type.
        ValueError: If shapes do not fit each other, or `adj` is not finite. Values on a GPU are
            not checked, so nothing synchronizes.

    Time is `O(B N^2 K + B N K F)` and memory `O(B N (N + K + F))`. Differentiable, with finite
    gradients for isolated nodes and empty clusters.

    Source: section 'DiffPool revised' of Shulman (2020). The arguments are as in
    :func:`torch_geometric.nn.dense_diff_pool`.

    Example:
        >>> x, adj, s = torch.randn(2, 5, 16), torch.ones(2, 5, 5), torch.randn(2, 5, 3)
        >>> out = dense_sim_pool(x, adj, s)
        >>> out.x.shape, out.adj.shape
        (torch.Size([2, 3, 16]), torch.Size([2, 3, 3]))
    """
    graphs = parse_dense_batch(x, adj, mask)
    check_floating("s", s, (*x.shape[:-1], "K"), device=x.device, of="x")
    return pooled_graphs(graphs, s.unsqueeze(0) if s.dim() == 2 else s)[1]


def sim_pool(
    x: Tensor,
    edge_index: Tensor,
    s: Tensor,
    batch: Optional[Tensor] = None,
    edge_weight: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
) -> PooledGraphs:
    r"""Pools the graphs of a sparse batch by an assignment matrix, without padding.

    .. math::
        S &= \mathrm{softmax}(\text{logits}) \\
        X' &= S^\top X \\
        A' &= \tanh(S^\top A S)

    The losses are :func:`entropy_loss` and :func:`cluster_loss`. The result equals the result of
    :func:`dense_sim_pool` on padded graphs.

    Args:
        x (torch.Tensor): Node features of all graphs, `[N, F]`.
        edge_index (torch.Tensor): The edges, `[2, E]`, or a transposed sparse matrix, whose values
            are the weights. No edge may join two graphs. Parallel edges add up, self-loops count.
        s (torch.Tensor): The **logits** of the assignment, `[N, K]`.
        batch (torch.Tensor, optional): The graph of each node, `[N]`, in any order.
            (default: :obj:`None`, one graph)
        edge_weight (torch.Tensor, optional): Finite weights, `[E]` or `[E, 1]`.
            (default: :obj:`None`, ones)
        batch_size (int, optional): The number of graphs. If it is given, values on a GPU are not
            checked, so nothing synchronizes. (default: :obj:`None`, taken from `batch`)

    Returns:
        PooledGraphs: The named tuple `(x, adj, entropy_loss, cluster_loss)` with `x` `[B, K, F]`
        and `adj` `[B, K, K]`. A graph without nodes gets zeros, and does not count in the losses.

    Raises:
        TypeError: If a tensor has a wrong type.
        ValueError: If shapes do not fit each other, a node id is out of range, an edge joins two
            graphs, or a weight is not finite.

    Time is `O(E K + N K (F + K))` and memory `O(E K + (N + B K) (F + K))`, whatever the largest
    graph of the batch. On a GPU and in a compiled program, graphs are cut into
    `M <= N / 32 + B` blocks of 32 nodes. The blocks and their products take memory
    `O(M (32 + K) (F + K))`. Differentiable any number of times, with finite gradients for isolated
    nodes and empty clusters. Deterministic on a CPU, and on a GPU with
    :func:`torch.use_deterministic_algorithms`.

    Source: section 'DiffPool revised' of Shulman (2020).

    Example:
        >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
        >>> batch = torch.tensor([0, 0, 1, 1])
        >>> out = sim_pool(torch.randn(4, 16), edge_index, torch.randn(4, 3), batch)
        >>> out.x.shape, out.adj.shape
        (torch.Size([2, 3, 16]), torch.Size([2, 3, 3]))
    """
    graphs = parse_sparse_batch(x, edge_index, batch, edge_weight, batch_size)
    check_floating("s", s, (*x.shape[:-1], "K"), device=x.device, of="x")
    return pooled_graphs(graphs, s)[1]


def pool(graphs: Union[SparseBatch, DenseBatch], logits: Tensor) -> SimPoolOutput:
    """Returns the pooled graphs of a checked batch, with the assignment."""
    assignment, pooled = pooled_graphs(graphs, logits)
    return SimPoolOutput(assignment.s, *pooled, fillable_clusters(assignment))


def pooled_graphs(
    graphs: Union[SparseBatch, DenseBatch], logits: Tensor
) -> tuple[Assignment, PooledGraphs]:
    """Returns the assignment and the pooled graphs of a checked batch."""
    if isinstance(graphs, DenseBatch) and graphs.mask is not None:
        # A NaN in padding that enters the softmax would return in the gradient.
        logits = logits.masked_fill(~graphs.mask.unsqueeze(-1), 0)
    if logits.size(-1) == 0:
        raise ValueError(f"`s` must have at least one cluster, got shape {shape(logits)}")
    s = logits.softmax(dim=-1)
    s = s.to(torch.promote_types(graphs.x.dtype, s.dtype))
    if isinstance(graphs, DenseBatch):
        x, adj, mask = graphs
        assignment = dense_assignment(s, mask)
        s_t = assignment.s.mT
        pooled_x = s_t @ x.to(s_t.dtype)
        pooled_adj = s_t @ (cast_finite("adj", adj, s_t.dtype) @ assignment.s)
    else:
        x, (row, col), batch, edge_weight, batch_size = graphs
        if edge_weight is not None:
            edge_weight = cast_finite("edge_weight", edge_weight, s.dtype)
        right = torch.cat([x.to(s.dtype), spmm(row, col, s, edge_weight, s.size(0))], dim=1)
        pooled = segment_matmul_t(s, right, batch, batch_size)
        pooled_x, pooled_adj = pooled.split([x.size(1), s.size(1)], dim=-1)
        assignment = sparse_assignment(s, batch, batch_size)
    return assignment, PooledGraphs(pooled_x, pooled_adj.tanh(), *losses(assignment))

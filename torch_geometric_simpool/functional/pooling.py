"""The pooling operator, on dense and on sparse batches."""

from typing import NamedTuple, Optional, Union, overload

import torch
from torch import Tensor

from torch_geometric_simpool.functional.assignment import (
    Assignment,
    dense_assignment,
    fillable_clusters,
    losses,
    sparse_assignment,
)
from torch_geometric_simpool.functional.segment import segment_matmul_t, spmm
from torch_geometric_simpool.utils.batching import from_edge_features
from torch_geometric_simpool.utils.checks import (
    cast_finite,
    check_batch,
    check_device,
    check_edge_attr,
    check_edge_index,
    check_edge_weight,
    check_finite,
    check_floating,
    check_mask,
    check_no_nan,
    check_within_graphs,
    shape,
    values_visible,
)
from torch_geometric_simpool.utils.export import exportable


@exportable
class PooledGraphs(NamedTuple):
    """The result of the pooling operator."""

    x: Tensor  #: The features of the clusters, `[B, K, F]`.
    adj: Tensor  #: The coarse adjacency matrices, `[B, K, K]`.
    entropy_loss: Tensor  #: A scalar.
    cluster_loss: Tensor  #: A scalar.


@exportable
class PooledGraphsWithEdges(NamedTuple):
    """The result of the pooling operator with edge features."""

    x: Tensor  #: The features of the clusters, `[B, K, F]`.
    adj: Tensor  #: The coarse adjacency matrices, `[B, K, K]`.
    entropy_loss: Tensor  #: A scalar.
    cluster_loss: Tensor  #: A scalar.
    edge_attr: Tensor  #: The edge features of the clusters, `[B, K, K, D]`.


@exportable
class SimPoolOutput(NamedTuple):
    """The result of :class:`SimPool`."""

    s: Tensor  #: The assignment after the softmax, `[N, K]`, or `[B, N, K]` for a dense batch.
    x: Tensor  #: The features of the clusters, `[B, K, F]`.
    adj: Tensor  #: The coarse adjacency matrices, `[B, K, K]`.
    entropy_loss: Tensor  #: A scalar.
    cluster_loss: Tensor  #: A scalar.
    mask: Tensor  #: The clusters that a graph can fill, boolean, `[B, K]`; see `cluster_mask`.


class SparseBatch(NamedTuple):
    """Graphs as one block-diagonal graph, checked."""

    x: Tensor  # [N, F]
    edge_index: Tensor  # [2, E], int64
    batch: Tensor  # [N], int64, in any order
    edge_weight: Optional[Tensor]  # [E]
    batch_size: int


class DenseBatch(NamedTuple):
    """Padded graphs, checked."""

    x: Tensor  # [B, N, F]
    adj: Tensor  # [B, N, N], with zeros in padded places, as in `x`
    mask: Optional[Tensor]  # [B, N]; None where nothing is padded


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
        TypeError: If `x`, `adj` or `s` is not floating point.
        ValueError: If shapes do not fit each other, or `adj` is not finite. Values on a GPU are
            not checked, so nothing synchronizes.

    Time is `O(B N^2 K + B N K F)`. Differentiable, with finite gradients for isolated nodes and
    empty clusters.

    Source: section 'DiffPool revised' of Shulman (2020). The signature is that of
    :func:`torch_geometric.nn.dense_diff_pool`.

    Example:
        >>> x, adj, s = torch.randn(2, 5, 16), torch.ones(2, 5, 5), torch.randn(2, 5, 3)
        >>> out = dense_sim_pool(x, adj, s)
        >>> out.x.shape, out.adj.shape
        (torch.Size([2, 3, 16]), torch.Size([2, 3, 3]))
    """
    if isinstance(s, Tensor) and isinstance(x, Tensor) and s.dim() == x.dim() == 2:
        s = s.unsqueeze(0)
    return pool_dense(check_dense_batch(x, adj, mask), s)[1]


@overload
def sim_pool(
    x: Tensor,
    edge_index: Tensor,
    s: Tensor,
    batch: Optional[Tensor] = None,
    edge_weight: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
    edge_attr: None = None,
) -> PooledGraphs: ...


@overload
def sim_pool(
    x: Tensor,
    edge_index: Tensor,
    s: Tensor,
    batch: Optional[Tensor] = None,
    edge_weight: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
    *,
    edge_attr: Tensor,
) -> PooledGraphsWithEdges: ...


def sim_pool(
    x: Tensor,
    edge_index: Tensor,
    s: Tensor,
    batch: Optional[Tensor] = None,
    edge_weight: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
    edge_attr: Optional[Tensor] = None,
) -> tuple:
    r"""Pools the graphs of a sparse batch by an assignment matrix, without padding.

    The result is that of :func:`dense_sim_pool` on the padded graphs. With `edge_attr`, the result
    also has the edge features of the clusters,

    .. math::
        A'_f = S^\top A_f S

    for every feature :math:`f`, where :math:`A_f` holds feature :math:`f` of every edge. They are
    sums without a tanh, and do not depend on `edge_weight`.

    Args:
        x (torch.Tensor): Node features of all graphs, `[N, F]`.
        edge_index (torch.Tensor): The edges, `[2, E]`; no edge joins two graphs. Parallel edges
            add up, self-loops count.
        s (torch.Tensor): The **logits** of the assignment, `[N, K]`.
        batch (torch.Tensor, optional): The graph of each node, `[N]`, in any order.
            (default: :obj:`None`, one graph)
        edge_weight (torch.Tensor, optional): Finite weights, `[E]` or `[E, 1]`.
            (default: :obj:`None`, ones)
        batch_size (int, optional): The number of graphs. If it is given, values on a GPU are not
            checked, so nothing synchronizes. (default: :obj:`None`, taken from `batch`)
        edge_attr (torch.Tensor, optional): Edge features, floating point and finite, `[E, D]`.
            Features of parallel edges add up. (default: :obj:`None`)

    Returns:
        PooledGraphs: The named tuple `(x, adj, entropy_loss, cluster_loss)` with `x` `[B, K, F]`
        and `adj` `[B, K, K]`; with `edge_attr`, a fifth entry `edge_attr` `[B, K, K, D]`. A graph
        without nodes gets zeros, and does not count in the losses.

    Raises:
        TypeError: If a tensor has a wrong type.
        ValueError: If shapes do not fit each other, a node id is out of range, an edge joins two
            graphs, or a weight or an edge feature is not finite. In PyG's debug mode also for NaN
            in `x` or `s`.

    Time is `O(E K + N K (F + K))` and memory `O(E K + (N + B K) (F + K))`, whatever the largest
    graph of the batch. On a GPU and in a compiled program, graphs are cut into
    `M <= N / 32 + B` blocks of 32 nodes. The blocks and their products take memory
    `O(M (32 + K) (F + K))`. Edge features add time `O(D (E K + N K^2))` and memory `O(D N K)`.
    Differentiable any number of times, with finite gradients for isolated nodes and empty clusters.
    Deterministic on a CPU; on a GPU with :func:`torch.use_deterministic_algorithms`.

    Source: section 'DiffPool revised' of Shulman (2020).

    Example:
        >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
        >>> batch = torch.tensor([0, 0, 1, 1])
        >>> out = sim_pool(torch.randn(4, 16), edge_index, torch.randn(4, 3), batch)
        >>> out.x.shape, out.adj.shape
        (torch.Size([2, 3, 16]), torch.Size([2, 3, 3]))
    """
    check_values = batch_size is None or (isinstance(x, Tensor) and x.is_cpu)
    graphs = check_sparse_batch(x, edge_index, batch, edge_weight, batch_size)
    assignment, pooled = pool_sparse(graphs, s)
    if edge_attr is None:
        return pooled
    check_edge_attr(edge_attr, graphs.edge_index.size(1), x.device, check_values)
    return PooledGraphsWithEdges(*pooled, pool_edge_attr(graphs, assignment.s, edge_attr))


def check_sparse_batch(
    x: Tensor,
    edge_index: Tensor,
    batch: Optional[Tensor],
    edge_weight: Optional[Tensor],
    batch_size: Optional[int],
) -> SparseBatch:
    """Returns the checked sparse batch of the arguments of a public function."""
    check_floating("x", x)
    if x.dim() != 2:
        raise ValueError(f"`x` must have shape [N, F] on a sparse batch, got {shape(x)}")
    check_values = batch_size is None or x.is_cpu
    if isinstance(edge_index, Tensor):  # before its values are read
        check_device("edge_index", edge_index, x.device, "x")
    edge_index, _ = check_edge_index(edge_index, x.size(0), check_values)
    edge_weight = check_edge_weight(edge_weight, edge_index.size(1), check_values, x.device)
    batch, batch_size = check_batch(batch, x.size(0), batch_size, x.device, check_values, "x")
    check_no_nan("x", x)
    if check_values and values_visible() and batch_size > 1:
        check_within_graphs(edge_index, batch)
    return SparseBatch(x, edge_index, batch, edge_weight, batch_size)


def check_dense_batch(x: Tensor, adj: Tensor, mask: Optional[Tensor]) -> DenseBatch:
    """Returns the checked dense batch of the arguments of a public function."""
    check_floating("x", x)
    check_floating("adj", adj)
    check_device("adj", adj, x.device, "x")
    if x.dim() == 2:
        x = x.unsqueeze(0)
        if adj.dim() == 2 or (adj.dim() == 3 and tuple(adj.shape[:2]) == 2 * (x.size(1),)):
            adj = adj.unsqueeze(0)
        mask = mask.unsqueeze(0) if isinstance(mask, Tensor) and mask.dim() == 1 else mask
    if x.dim() != 3:
        raise ValueError(f"`x` must have shape [B, N, F] or [N, F], got {shape(x)}")
    expected = [x.size(0), x.size(1), x.size(1)]
    if list(adj.shape[:3]) != expected or adj.dim() > 4:
        sizes = ", ".join(map(str, expected))
        raise ValueError(f"`adj` must have shape [{sizes}] or [{sizes}, D], got {shape(adj)}")
    mask = check_mask(mask, tuple(x.shape[:2]), x.device, "x")
    if adj.dim() == 4:
        adj = from_edge_features(adj, mask)
    if mask is not None and mask.is_cpu and values_visible() and bool(mask.all()):
        mask = None  # nothing is padded
    if mask is not None:
        padded = ~mask.unsqueeze(-1)
        x = x.masked_fill(padded, 0)
        adj = adj.masked_fill(padded | padded.mT, 0)
    check_finite("adj", adj, adj.is_cpu)
    check_no_nan("x", x)
    return DenseBatch(x, adj, mask)


def pool_dense(graphs: DenseBatch, logits: Tensor) -> tuple[Assignment, PooledGraphs]:
    """Returns the assignment and the pooled graphs of a checked dense batch."""
    x, adj, mask = graphs
    _check_logits(logits, x)
    if mask is not None:
        # Before the softmax as well: a NaN in a padded row would come back in the gradient.
        logits = logits.masked_fill(~mask.unsqueeze(-1), 0)
    check_no_nan("s", logits)
    s = logits.softmax(dim=-1)
    s = s.to(torch.promote_types(x.dtype, s.dtype))
    assignment = dense_assignment(s, mask)
    s_t = assignment.s.mT
    pooled_x = s_t @ x.to(s.dtype)
    pooled_adj = s_t @ (cast_finite("adj", adj, s.dtype) @ assignment.s)
    return assignment, PooledGraphs(pooled_x, pooled_adj.tanh(), *losses(assignment))


def pool_sparse(graphs: SparseBatch, logits: Tensor) -> tuple[Assignment, PooledGraphs]:
    """Returns the assignment and the pooled graphs of a checked sparse batch."""
    x, (row, col), batch, edge_weight, batch_size = graphs
    _check_logits(logits, x)
    check_no_nan("s", logits)
    s = logits.softmax(dim=-1)
    s = s.to(torch.promote_types(x.dtype, s.dtype))
    if edge_weight is not None:
        edge_weight = cast_finite("edge_weight", edge_weight, s.dtype)
    right = torch.cat([x.to(s.dtype), spmm(row, col, s, edge_weight, s.size(0))], dim=1)
    pooled = segment_matmul_t(s, right, batch, batch_size)
    pooled_x, pooled_adj = pooled.split([x.size(1), s.size(1)], dim=-1)
    assignment = sparse_assignment(s, batch, batch_size)
    return assignment, PooledGraphs(pooled_x, pooled_adj.tanh(), *losses(assignment))


def pool(graphs: Union[SparseBatch, DenseBatch], logits: Tensor) -> SimPoolOutput:
    """Returns the pooled graphs of a checked batch, with the assignment."""
    if isinstance(graphs, DenseBatch):
        assignment, pooled = pool_dense(graphs, logits)
    else:
        assignment, pooled = pool_sparse(graphs, logits)
    return SimPoolOutput(assignment.s, *pooled, fillable_clusters(assignment))


def pool_edge_attr(graphs: SparseBatch, s: Tensor, edge_attr: Tensor) -> Tensor:
    """Returns `S^T A_f S` for every feature `f` of the edges, `[B, K, K, D]`."""
    row, col = graphs.edge_index
    edge_attr = cast_finite("edge_attr", edge_attr, s.dtype)
    num_nodes, num_clusters, size = *s.shape, edge_attr.size(1)
    # One feature at a time, so that no tensor has the size E * K * D.
    targets = [spmm(row, col, s, weight, num_nodes) for weight in edge_attr.unbind(-1)]
    right = torch.cat([s.new_empty(num_nodes, 0), *targets], dim=1)
    pooled = segment_matmul_t(s, right, graphs.batch, graphs.batch_size)
    return pooled.view(graphs.batch_size, num_clusters, size, num_clusters).mT


def _check_logits(s: Tensor, x: Tensor) -> None:
    check_floating("s", s)
    if s.dim() != x.dim() or s.shape[:-1] != x.shape[:-1] or s.size(-1) == 0:
        rows = ", ".join(map(str, x.shape[:-1]))
        raise ValueError(
            f"`s` must hold a row of logits for each node of `x`, [{rows}, K], got {shape(s)}"
        )
    check_device("s", s, x.device, "x")

"""The pooling operator, on dense and on sparse batches."""

from typing import NamedTuple, Optional, overload

import torch
from torch import Tensor

from torch_geometric_simpool.functional.edge_pooling import check_edge_attr, pool_edges
from torch_geometric_simpool.functional.losses import (
    dense_losses,
    mean_over_graphs,
    sparse_losses,
)
from torch_geometric_simpool.functional.segment import segment_matmul_t, spmm
from torch_geometric_simpool.utils.batching import from_edge_features
from torch_geometric_simpool.utils.checks import (
    check_batch,
    check_device,
    check_edge_index,
    check_edge_weight,
    check_finite,
    check_floating,
    check_mask,
    check_no_nan,
    check_within_graphs,
    in_type,
    shape,
    values_visible,
)
from torch_geometric_simpool.utils.export import exportable


@exportable
class SimPoolOutput(NamedTuple):
    """What a pooling layer returns."""

    #: The assignment matrix, after the softmax: `[N, K]` of a sparse batch, `[B, N, K]`
    #: of a dense one, where padded rows are zero.
    s: Tensor
    #: The features of the clusters, `[B, K, F]`.
    x: Tensor
    #: The coarse adjacency matrix, `[B, K, K]`.
    adj: Tensor
    #: L_E, a scalar.
    entropy_loss: Tensor
    #: L_C, a scalar.
    cluster_loss: Tensor


@exportable
class SimPoolEdgeOutput(NamedTuple):
    """What a pooling layer returns with `pool_edge_attr`: as above, and the edge features."""

    s: Tensor
    x: Tensor
    adj: Tensor
    entropy_loss: Tensor
    cluster_loss: Tensor
    #: The pooled edge features, `[B, K, K, D]`.
    edge_attr: Tensor


def dense_sim_pool(
    x: Tensor, adj: Tensor, s: Tensor, mask: Optional[Tensor] = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""SimPool's pooling operator on a dense batch.

    .. math::
        S &= \mathrm{softmax}(\text{logits}) \\
        X' &= S^\top X \\
        A' &= \tanh(S^\top A S)

    with the losses :func:`entropy_loss` and :func:`cluster_loss`. No self-loop is
    removed.

    Args:
        x: Node features, `[B, N, F]`, or `[N, F]` of one graph.
        adj: Adjacency matrices, `[B, N, N]` or `[N, N]`. Of edge features, `[B, N, N, D]` or
            `[N, N, D]`, only non-zero or not counts.
        s: The **logits** of the assignment, `[B, N, K]` or `[N, K]`.
        mask: The valid nodes, boolean, `[B, N]` or `[N]`. Whatever padded rows (and
            columns of `adj`) hold is ignored.

    Returns:
        `x` `[B, K, F]`, `adj` `[B, K, K]` (in `[0, 1]` for a non-negative one),
        L_E and L_C, two scalars.

    Raises:
        TypeError, ValueError: Shapes do not fit each other, a type is not floating point, or
            `adj` holds NaN or infinity. Tensors on an accelerator are not checked for their
            values, so nothing synchronizes.

    Time `O(B N^2 K + B N K F)`, memory that of the arguments. Differentiable, with
    finite gradients for isolated nodes and empty clusters. Deterministic for one
    device and library version.

    Source: section 'DiffPool revised' of Shulman (2020). The signature is that of
    :func:`torch_geometric.nn.dense_diff_pool`.

    Example:
        >>> x, adj, s = torch.randn(2, 5, 16), torch.ones(2, 5, 5), torch.randn(2, 5, 3)
        >>> x, adj, entropy_loss, cluster_loss = dense_sim_pool(x, adj, s)
        >>> x.shape, adj.shape
        (torch.Size([2, 3, 16]), torch.Size([2, 3, 3]))
    """
    if isinstance(s, Tensor) and isinstance(x, Tensor) and s.dim() == x.dim() == 2:
        s = s.unsqueeze(0)
    # Unpacked, not sliced: PyTorch 2.6 cannot compile the slice of a named tuple.
    _, x, adj, entropy, cluster = pool_dense(*check_dense_batch(x, adj, mask), s)
    return x, adj, entropy, cluster


@overload
def sim_pool(
    x: Tensor,
    edge_index: Tensor,
    s: Tensor,
    batch: Optional[Tensor] = None,
    edge_weight: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
    edge_attr: None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...


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
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]: ...


def sim_pool(
    x: Tensor,
    edge_index: Tensor,
    s: Tensor,
    batch: Optional[Tensor] = None,
    edge_weight: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
    edge_attr: Optional[Tensor] = None,
) -> tuple[Tensor, ...]:
    r"""SimPool's pooling operator on a sparse batch; no `[B, N, N]` is ever built.

    The result is that of :func:`dense_sim_pool` on the same graphs, padded. With `edge_attr`, it
    also has the edge features of the clusters,

    .. math::
        A'_f = S^\top A_f S

    for every feature :math:`f`, where :math:`A_f` holds that feature of every edge. They are
    sums, without a tanh; `edge_weight` does not count in them.

    Args:
        x: Node features, `[N, F]`, over the nodes of all graphs.
        edge_index: The edges, integers, `[2, E]`; none joins two graphs. Parallel
            edges add up, self-loops count.
        s: The **logits** of the assignment, `[N, K]`.
        batch: The graph of each node, `[N]`, ascending; one graph if `None`.
        edge_weight: The weights, `[E]` or `[E, 1]`, finite; ones if `None`.
        batch_size: The number of graphs; taken from `batch` if `None`. If it is
            given, tensors on an accelerator are not checked for their values, so nothing
            synchronizes.
        edge_attr: Edge features, floating point and finite, `[E, D]`. Those of parallel edges
            add up.

    Returns:
        `x` `[B, K, F]`, `adj` `[B, K, K]`, L_E and L_C, two scalars; with `edge_attr`, as fifth,
        the edge features of the clusters, `[B, K, K, D]`. A graph without nodes gets zeros, and
        does not count in the losses.

    Raises:
        TypeError, ValueError: Shapes do not fit each other, a node index is out of range,
            `batch` is unsorted, an edge joins two graphs, or a weight or an edge feature is NaN or
            infinite. In PyG's debug mode also NaN in `x` or `s`.

    Time `O(E K + N K (F + K))`, memory `O(E K + N (F + K))`: neither depends on the
    largest graph of the batch. On a CPU, in float32 and float64, the two products have fast
    paths, with memory `O(E + N (F + K))`; they are faster if edges are sorted by their first
    node, as PyG sorts them. On a GPU, edges are sorted, and memory is the same. Edge features add
    `O(D (E K + N K^2))` to the time and `O(E D + B K^2 D)` to the memory, gradients included, for
    which one product is computed twice.
    Differentiable any number of times (in reverse mode) with respect to `x`, `s`, `edge_weight` and
    `edge_attr`, with finite gradients for isolated nodes and empty clusters.
    Deterministic for one device, library version and number of threads: on a GPU as well, sums are
    taken in the order of the edges, gradients included. Compiled programs on a GPU need
    :func:`torch.use_deterministic_algorithms` for that.

    Source: section 'DiffPool revised' of Shulman (2020).

    Example:
        >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
        >>> batch = torch.tensor([0, 0, 1, 1])
        >>> x, adj, _, _ = sim_pool(torch.randn(4, 16), edge_index, torch.randn(4, 3), batch)
        >>> x.shape, adj.shape
        (torch.Size([2, 3, 16]), torch.Size([2, 3, 3]))
    """
    sync = batch_size is None or (isinstance(x, Tensor) and x.device.type == "cpu")
    x, edge_index, batch, edge_weight, batch_size = check_sparse_batch(
        x, edge_index, batch, edge_weight, batch_size
    )
    s, x, adj, entropy, cluster = pool_sparse(x, edge_index, batch, edge_weight, batch_size, s)
    if edge_attr is None:
        return x, adj, entropy, cluster
    edge_attr = check_edge_attr(edge_attr, edge_index.size(1), edge_index.device, sync)
    return x, adj, entropy, cluster, pool_edges(edge_index, edge_attr, s, batch, batch_size)


def check_sparse_batch(
    x: Tensor,
    edge_index: Tensor,
    batch: Optional[Tensor],
    edge_weight: Optional[Tensor],
    batch_size: Optional[int],
) -> tuple[Tensor, Tensor, Tensor, Optional[Tensor], int]:
    """Checks the arguments of a sparse batch, and fills in `batch` and `batch_size`."""
    check_floating("x", x)
    if x.dim() != 2:
        raise ValueError(f"`x` must have shape [N, F] on a sparse batch, got {shape(x)}")
    sync = batch_size is None or x.device.type == "cpu"
    if isinstance(edge_index, Tensor):  # before its values are read
        check_device("edge_index", edge_index, x.device, "x")
    edge_index, _ = check_edge_index(edge_index, x.size(0), sync)
    edge_weight = check_edge_weight(edge_weight, edge_index.size(1), sync, x.device)
    batch, batch_size = check_batch(batch, x.size(0), batch_size, x.device, sync, "x")
    check_no_nan("x", x)
    if sync and values_visible() and batch_size > 1:
        check_within_graphs(edge_index, batch)
    return x, edge_index, batch, edge_weight, batch_size


def check_dense_batch(
    x: Tensor, adj: Tensor, mask: Optional[Tensor]
) -> tuple[Tensor, Tensor, Optional[Tensor]]:
    """Checks the arguments of a dense batch; returns `[B, N, *]`, with zeros in padded places."""
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
    if mask is not None and mask.device.type == "cpu" and values_visible() and bool(mask.all()):
        mask = None  # no padding: nothing to copy or fill
    if mask is not None:
        padded = ~mask.unsqueeze(-1)
        x = x.masked_fill(padded, 0)
        adj = adj.masked_fill(padded | padded.mT, 0)
    check_finite("adj", adj, sync=adj.is_cpu)
    check_no_nan("x", x)
    return x, adj, mask


def check_logits(s: Tensor, x: Tensor) -> None:
    """Checks that the logits have a row for every node of `x`."""
    check_floating("s", s)
    if s.dim() != x.dim() or s.shape[:-1] != x.shape[:-1] or s.size(-1) == 0:
        raise ValueError(
            f"`s` must hold one row of logits for each node of `x`, "
            f"[{', '.join(map(str, x.shape[:-1]))}, K], got {shape(s)}"
        )
    check_device("s", s, x.device, "x")


def pool_dense(x: Tensor, adj: Tensor, mask: Optional[Tensor], logits: Tensor) -> SimPoolOutput:
    """`S = softmax(logits)`, `X' = S^T X`, `A' = tanh(S^T A S)`, of arguments that are checked."""
    check_logits(logits, x)
    if mask is None:
        check_no_nan("s", logits)
        s = logits.softmax(dim=-1)
    else:
        padded = ~mask.unsqueeze(-1)
        # Before the softmax as well: a NaN in a padded row would come back in the gradient.
        s = logits.masked_fill(padded, 0).softmax(dim=-1).masked_fill(padded, 0)
    s = s.to(torch.promote_types(x.dtype, s.dtype))
    pooled_x = s.mT @ x.to(s.dtype)
    pooled_adj = (s.mT @ (in_type("adj", adj, s.dtype) @ s)).tanh()
    entropy, cluster, present = dense_losses(s, mask)
    return SimPoolOutput(
        s,
        pooled_x,
        pooled_adj,
        mean_over_graphs(entropy, present),
        mean_over_graphs(cluster, present),
    )


def pool_sparse(
    x: Optional[Tensor],
    edge_index: Tensor,
    batch: Tensor,
    edge_weight: Optional[Tensor],
    batch_size: int,
    logits: Tensor,
) -> SimPoolOutput:
    """The same, on a sparse batch; `None` for `x` pools the graph alone."""
    check_logits(logits, batch.unsqueeze(-1) if x is None else x)
    check_no_nan("s", logits)
    s = logits.softmax(dim=-1)
    if x is not None:
        s = s.to(torch.promote_types(x.dtype, s.dtype))
        x = x.to(s.dtype)
    row, col = edge_index
    edge_weight = None if edge_weight is None else in_type("edge_weight", edge_weight, s.dtype)
    neighbors = spmm(row, col, s, edge_weight, s.size(0))  # A S
    # One product for each graph: S^T [X | A S].
    right = neighbors if x is None else torch.cat([x, neighbors], dim=-1)
    pooled = segment_matmul_t(s, right, batch, batch_size)
    pooled_x, pooled_adj = pooled.tensor_split([right.size(-1) - s.size(-1)], dim=-1)
    entropy, cluster, present = sparse_losses(s, batch, batch_size)
    return SimPoolOutput(
        s,
        pooled_x,
        pooled_adj.tanh(),
        mean_over_graphs(entropy, present),
        mean_over_graphs(cluster, present),
    )

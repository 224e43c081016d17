"""The two losses on an assignment: L_E and L_C."""

import math
from typing import Optional

import torch
from torch import Tensor
from torch_geometric.utils import degree

from torch_geometric_simpool.functional.rows import sum_rows
from torch_geometric_simpool.functional.segment import segment_matmul_t
from torch_geometric_simpool.utils.autocast import no_autocast
from torch_geometric_simpool.utils.checks import (
    check_batch,
    check_choice,
    check_floating,
    check_mask,
    debugging,
    shape,
    values_visible,
)


def entropy_loss(
    s: Tensor,
    batch: Optional[Tensor] = None,
    mask: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
    reduction: str = "mean",
) -> Tensor:
    r"""The entropy of the assignments of single nodes, L_E: 0 if each node has one cluster.

    .. math::
        L_E = \frac{1}{n} \sum_{i=1}^{n} H(s_i)

    over the :math:`n` valid nodes of a graph, in nats, then the mean over the graphs
    of the batch. It does not depend on padding, on the batch size, nor on what else
    is in the batch.

    Args:
        s: The assignment matrix **after** the softmax: `[N, K]` of a graph or of a
            sparse batch, or `[B, N, K]` of a dense one.
        batch: The graph of each row of a sparse `s`, `[N]`, ascending.
        mask: The valid nodes of a dense `s`, boolean, `[B, N]`. Padded rows of `s`
            are ignored.
        batch_size: The number of graphs of a sparse batch. If it is given,
            tensors on an accelerator are not checked for their values, so nothing synchronizes.
        reduction: `'mean'` over the graphs that have nodes (0 if none has), or
            `'none'`: one value per graph, 0 for one without nodes.

    Returns:
        A scalar in `[0, log K]`, or `[B]` of them.

    Raises:
        TypeError, ValueError: `s` is not floating point or has negative entries, as logits have;
            shapes do not fit each other; `batch` is unsorted; `reduction` is unknown. In PyG's
            debug mode also rows that do not sum to one.

    `0 * log(0)` is 0, with gradient 0. Linear time and memory. Deterministic for one device,
    library version and number of threads.

    Source: section 'DiffPool revised' of Shulman (2020).

    Example:
        >>> entropy_loss(torch.tensor([[1., 0.], [0., 1.]]))
        tensor(0.)
    """
    return _public(s, batch, mask, batch_size, reduction)[0]


def cluster_loss(
    s: Tensor,
    batch: Optional[Tensor] = None,
    mask: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
    reduction: str = "mean",
) -> Tensor:
    r"""How unevenly the nodes are spread over the clusters, L_C.

    .. math::
        L_C = \log K - H\Bigl(\frac{1}{n} \sum_{i=1}^{n} s_i\Bigr)

    over the :math:`n` valid nodes of a graph, in nats, then the mean over the graphs
    of the batch: 0 if all clusters are equally large, :math:`\log K` if one holds
    all nodes. It does not depend on padding, on the batch size, nor on
    what else is in the batch. The paper prints :math:`+H`, whose minimum is one
    cluster for all nodes: the opposite of what its text and figures say.

    The arguments, the errors and the rest are those of :func:`entropy_loss`.

    Returns:
        A scalar in `[0, log K]`, or `[B]` of them.

    Source: section 'DiffPool revised' of Shulman (2020), its sign corrected.

    Example:
        >>> cluster_loss(torch.tensor([[1., 0.], [0., 1.]]))
        tensor(0.)
    """
    return _public(s, batch, mask, batch_size, reduction)[1]


def _public(
    s: Tensor,
    batch: Optional[Tensor],
    mask: Optional[Tensor],
    batch_size: Optional[int],
    reduction: str,
) -> tuple[Tensor, Tensor]:
    check_floating("s", s)
    check_choice("reduction", reduction, ("mean", "none"))
    if s.dim() not in (2, 3) or s.size(-1) == 0:
        raise ValueError(f"`s` must have shape [N, K] or [B, N, K] with K >= 1, got {shape(s)}")
    sync = batch_size is None or s.device.type == "cpu"
    if s.dim() == 3 or mask is not None:
        if batch is not None or batch_size is not None:
            given = "batch" if batch is not None else "batch_size"
            raise ValueError(f"`{given}` must be None for a dense `s`, got a value")
        mask = check_mask(mask, tuple(s.shape[:-1]), s.device, "s")
        if s.dim() == 2:
            s, mask = s.unsqueeze(0), None if mask is None else mask.unsqueeze(0)
        if mask is not None:
            s = s.masked_fill(~mask.unsqueeze(-1), 0)
        _check_assignment(s, mask, sync)
        per_graph = dense_losses(s, mask)
    else:
        batch, batch_size = check_batch(batch, s.size(0), batch_size, s.device, sync, "s")
        _check_assignment(s, None, sync)
        per_graph = sparse_losses(s, batch, batch_size)
    entropy, cluster, present = per_graph
    if reduction == "none":
        return entropy, cluster
    return mean_over_graphs(entropy, present), mean_over_graphs(cluster, present)


def _check_assignment(s: Tensor, mask: Optional[Tensor], sync: bool) -> None:
    # Some slack, so that the finite differences of a gradient check pass.
    if sync and values_visible() and not bool((s > -1e-3).all()):
        raise ValueError(
            "`s` must hold assignment probabilities, the softmax of the logits, "
            f"got {float(s.min()):.4g}"
        )
    if debugging():
        total = s.detach().to(torch.promote_types(s.dtype, torch.float32)).sum(dim=-1)
        off = (total - 1).abs()
        off = off if mask is None else off[mask]
        if bool((off > 1e-2).any()):
            raise ValueError(
                "`s` must hold assignment probabilities, whose rows sum to one, got rows that are "
                f"off by up to {float(off.max()):.4g}"
            )


def sparse_losses(s: Tensor, batch: Tensor, batch_size: int) -> tuple[Tensor, Tensor, Tensor]:
    """L_E and L_C per graph, `[B]`, and which graphs have nodes."""
    s = at_least_float32(s)
    count = degree(batch, batch_size, torch.long)
    with no_autocast(s.device):  # it would count in a narrow type
        size = segment_matmul_t(s, s.new_ones(s.size(0), 1), batch, batch_size)
    entropy = sum_rows(row_entropy(s), batch, batch_size)
    return _losses(size.squeeze(-1), entropy, count)


def dense_losses(s: Tensor, mask: Optional[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """The same of a dense batch whose padded rows are zero."""
    s = at_least_float32(s)
    if mask is None:
        count = s.new_full((s.size(0),), s.size(1))
    else:
        count = mask.sum(dim=1).to(s.dtype)
    return _losses(s.sum(dim=1), row_entropy(s).sum(dim=1), count)


def _losses(size: Tensor, entropy_sum: Tensor, count: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same, given the sums over the nodes of each graph of `S`, the clusters' sizes, and of
    the entropies of its rows.
    """
    present = count > 0
    nodes = count.clamp(min=1)
    uneven = math.log(size.size(-1)) - row_entropy(size / nodes.unsqueeze(-1))
    uneven = uneven.clamp(min=0)  # rounding can make it negative
    return entropy_sum / nodes, torch.where(present, uneven, 0.0), present


def mean_over_graphs(per_graph: Tensor, present: Tensor) -> Tensor:
    """The mean over the graphs that have nodes; the others contribute zero."""
    return per_graph.sum() / present.sum().clamp(min=1).to(per_graph.dtype)


def at_least_float32(s: Tensor) -> Tensor:
    """At least float32: narrower types cannot count the nodes of a large graph."""
    return s.to(torch.promote_types(s.dtype, torch.float32))


def row_entropy(prob: Tensor) -> Tensor:
    """The entropy of each row."""
    # The logarithm of zero would be infinite, in the gradient as well.
    logarithm = torch.where(prob > 0, prob, torch.ones_like(prob)).log()
    return -(prob * logarithm).sum(dim=-1)

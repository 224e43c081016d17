"""Unpooling: from clusters back to nodes; and which clusters a small graph can fill."""

from typing import Optional

import torch
from torch import Tensor
from torch_geometric.utils import degree

from torch_geometric_simpool.functional.rows import sum_rows
from torch_geometric_simpool.functional.segment import segment_matmul
from torch_geometric_simpool.utils.checks import (
    check_batch,
    check_device,
    check_floating,
    check_int,
    check_mask,
    check_no_nan,
    shape,
)


def lift(
    x: Tensor,
    s: Tensor,
    batch: Optional[Tensor] = None,
    mask: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
) -> Tensor:
    r"""Computes node features from those of the clusters: `S X'`.

    Each node gets the mean of the clusters' features, weighted by its own assignment.
    Use it for a U-Net, or for node-level predictions after pooling.

    Args:
        x: Features of the clusters, `[B, K, F]`; `[K, F]` of one graph.
        s: The assignment matrix **after** the softmax, as :class:`SimPool` returns it:
            `[N, K]` of a graph or of a sparse batch, or `[B, N, K]` of a dense one.
        batch: The graph of each row of a sparse `s`, `[N]`, ascending.
        mask: The valid nodes of a dense `s`, boolean, `[B, N]`; the others get zeros, whatever
            their rows of `s` are. The `s` of :class:`SimPool` is zero there already.
        batch_size: The number of graphs of a sparse batch; that of `x` if `None`.

    Returns:
        Features of the nodes: `[N, F]`, or `[B, N, F]` of a dense `s`.

    Raises:
        TypeError, ValueError: `x` or `s` is not floating point, their shapes, `batch`, `mask` and
            `batch_size` do not fit each other, or `batch` is unsorted.

    Time `O(N K F)`, memory `O(N (K + F))` of a sparse batch, independent of the largest graph.
    Differentiable with respect to both. Deterministic for one device, library version and number of
    threads. The values of tensors on an accelerator are not checked, so nothing synchronizes.

    Source: equation of the unpooling of Gao and Ji (2019), 'Graph U-Nets', for a soft
    assignment; the transpose of the pooling of section 'DiffPool revised' of Shulman
    (2020). `S` is not orthogonal, so lifting what was pooled does not restore it.

    Example:
        >>> s = torch.tensor([[1., 0.], [1., 0.], [0., 1.]])
        >>> lift(torch.tensor([[[5.], [7.]]]), s)
        tensor([[5.],
                [5.],
                [7.]])
    """
    check_floating("x", x)
    check_floating("s", s)
    if x.dim() == 2:
        x = x.unsqueeze(0)
    if x.dim() != 3:
        raise ValueError(f"`x` must have shape [B, K, F] or [K, F], got {shape(x)}")
    if s.dim() not in (2, 3) or s.size(-1) != x.size(1):
        raise ValueError(
            f"`s` must have shape [N, {x.size(1)}] or [B, N, {x.size(1)}], one column "
            f"for each cluster of `x`, got {shape(s)}"
        )
    check_device("s", s, x.device, "x")
    dtype = torch.promote_types(x.dtype, s.dtype)
    x, s = x.to(dtype), s.to(dtype)
    if s.dim() == 3:
        for name, value in (("batch", batch), ("batch_size", batch_size)):
            if value is not None:
                raise ValueError(f"`{name}` must be None for a dense `s`, got one")
        if s.size(0) != x.size(0):
            raise ValueError(f"`s` must hold the {x.size(0)} graphs of `x`, got {shape(s)}")
        mask = check_mask(mask, tuple(s.shape[:-1]), s.device, "s")
        if mask is not None:
            s = s.masked_fill(~mask.unsqueeze(-1), 0)
        return s @ x
    if mask is not None:
        raise ValueError("`mask` must be None for a sparse `s`, got one")
    batch_size = x.size(0) if batch_size is None else check_int("batch_size", batch_size, 0)
    if batch_size != x.size(0):
        raise ValueError(f"`batch_size` must be that of `x`, {x.size(0)}, got {batch_size}")
    if batch is None and batch_size == 1:
        return s @ x[0]
    if batch is None:
        raise ValueError(f"`batch` must be given where `x` holds {batch_size} graphs, got None")
    sync = s.device.type == "cpu"
    batch, batch_size = check_batch(batch, s.size(0), batch_size, s.device, sync, "s")
    if batch_size == 0:
        return s.new_zeros(0, x.size(-1)) + 0 * (s.sum() + x.sum())
    return segment_matmul(s, x, batch, batch_size)


def cluster_mask(
    s: Tensor,
    batch: Optional[Tensor] = None,
    mask: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
) -> Tensor:
    r"""Which clusters count, of graphs that may have fewer nodes than there are clusters.

    A graph of `n` nodes cannot fill more than `n` clusters: the `min(n, K)` largest ones
    count, by `sum_i s_ik`, then by index. As the `mask` of the next layer on the pooled graph
    it leaves the other clusters out of that layer and of its losses.

    Args:
        s: The assignment matrix after the softmax: `[N, K]` or `[B, N, K]`.
        batch, batch_size: Those of a sparse `s`. If `batch_size` is given, tensors on an
            accelerator are not checked for their values, so nothing synchronizes.
        mask: The valid nodes of a dense `s`, boolean, `[B, N]`.

    Returns:
        Boolean, `[B, K]`; all true for a graph with at least `K` nodes, all false for one
        without nodes.

    Raises:
        TypeError, ValueError: `s` is not floating point or has no cluster, or `batch`, `mask` and
            `batch_size` do not fit it. In PyG's debug mode also NaN in `s`.

    Linear time and memory, and a sort of `K` numbers a graph. Deterministic for one device and
    library version and number of threads.

    Source: beyond Shulman (2020), who pads nothing; compare pyg-team/pytorch_geometric #881.

    Example:
        >>> cluster_mask(torch.tensor([[0.1, 0.6, 0.3]]))
        tensor([[False,  True, False]])
    """
    check_floating("s", s)
    if s.dim() not in (2, 3) or s.size(-1) == 0:
        raise ValueError(f"`s` must have shape [N, K] or [B, N, K] with K >= 1, got {shape(s)}")
    # In half precision, sums that differ would often round to one number.
    s = s.detach().to(torch.promote_types(s.dtype, torch.float32))
    check_no_nan("s", s)
    if s.dim() == 3:
        for name, value in (("batch", batch), ("batch_size", batch_size)):
            if value is not None:
                raise ValueError(f"`{name}` must be None for a dense `s`, got one")
        mask = check_mask(mask, tuple(s.shape[:-1]), s.device, "s")
        if mask is None:
            count = torch.full((s.size(0),), s.size(1), device=s.device)
        else:
            s, count = s.masked_fill(~mask.unsqueeze(-1), 0), mask.sum(dim=1)
        total = s.sum(dim=1)
    else:
        if mask is not None:
            raise ValueError("`mask` must be None for a sparse `s`, got one")
        sync = batch_size is None or s.device.type == "cpu"
        batch, batch_size = check_batch(batch, s.size(0), batch_size, s.device, sync, "s")
        count = degree(batch, batch_size, torch.long)
        total = sum_rows(s, batch, batch_size)
    order = total.argsort(dim=-1, descending=True, stable=True)
    rank = order.argsort(dim=-1)
    return rank < count.unsqueeze(-1)

"""Unpooling, from clusters back to nodes."""

from typing import Optional

import torch
from torch import Tensor

from torch_geometric_simpool.functional.assignment import parse_assignment
from torch_geometric_simpool.functional.segment import segment_matmul
from torch_geometric_simpool.utils.checks import check_device, check_floating, shape


def lift(
    x: Tensor,
    s: Tensor,
    batch: Optional[Tensor] = None,
    mask: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
) -> Tensor:
    r"""Computes node features from cluster features, :math:`S X'`.

    Each node gets the mean of the cluster features, weighted by its assignment. Use it for a
    U-Net, or for predictions of nodes after pooling.

    Args:
        x (torch.Tensor): Features of the clusters, `[B, K, F]`, or `[K, F]` for one graph.
        s (torch.Tensor): The assignment matrix **after** the softmax, as :class:`SimPool` returns
            it: `[N, K]` for a sparse batch, `[B, N, K]` for a dense batch.
        batch (torch.Tensor, optional): The graph of each row of a sparse `s`, `[N]`, in any
            order. (default: :obj:`None`)
        mask (torch.Tensor, optional): The valid nodes of a dense `s`, `[B, N]`. Other nodes get
            zeros. (default: :obj:`None`)
        batch_size (int, optional): The number of graphs of a sparse batch.
            (default: the number of graphs of `x`)

    Returns:
        torch.Tensor: Features of the nodes, `[N, F]`, or `[B, N, F]` for a dense `s`.

    Raises:
        TypeError: If `x` or `s` is not floating point.
        ValueError: If shapes do not fit each other.

    Time is `O(N K F)` and memory `O(N (K + F))`, whatever the largest graph. Differentiable with
    respect to `x` and `s`.

    .. note::
        `S` is not orthogonal: lifting pooled features does not restore the node features.

    Source: the unpooling of Gao and Ji (2019), 'Graph U-Nets', for a soft assignment.

    Example:
        >>> s = torch.tensor([[1., 0.], [1., 0.], [0., 1.]])
        >>> lift(torch.tensor([[[5.], [7.]]]), s)
        tensor([[5.],
                [5.],
                [7.]])
    """
    check_floating("x", x)
    x = x.unsqueeze(0) if x.dim() == 2 else x
    if x.dim() != 3:
        raise ValueError(f"`x` must have shape [B, K, F] or [K, F], got {shape(x)}")
    sparse = isinstance(s, Tensor) and s.dim() == 2 and mask is None
    if sparse and batch_size is None:
        batch_size = x.size(0)
    assignment = parse_assignment(s, batch, mask, batch_size)
    check_device("s", s, x.device, "x")
    num_graphs, num_clusters = assignment.num_nodes.numel(), s.size(-1)
    if x.shape[:2] != (num_graphs, num_clusters):
        raise ValueError(
            f"`x` must have shape [{num_graphs}, {num_clusters}, F], one row for each cluster of "
            f"`s`, got {shape(x)}"
        )
    dtype = torch.promote_types(x.dtype, s.dtype)
    rows, x = assignment.s.to(dtype), x.to(dtype)
    if assignment.batch is None:
        return (rows @ x).view(*s.shape[:-1], x.size(-1))
    return segment_matmul(rows, x, assignment.batch, x.size(0))

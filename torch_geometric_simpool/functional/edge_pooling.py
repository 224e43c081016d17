"""Edge features of the clusters, from those of the edges of a sparse batch."""

from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from torch_geometric_simpool.functional.segment import segment_matmul_t, spmm
from torch_geometric_simpool.utils.checks import check_device, check_finite, check_floating, shape


def check_edge_attr(value: Any, num_edges: int, device: torch.device, sync: bool = True) -> Tensor:
    """Finite edge features, `[E, D]`."""
    check_floating("edge_attr", value)
    if value.dim() != 2 or value.size(0) != num_edges:
        raise ValueError(
            f"`edge_attr` must have shape [{num_edges}, D], one row per edge, got {shape(value)}"
        )
    check_device("edge_attr", value, device, "edge_index")
    check_finite("edge_attr", value, sync)
    return value


def pool_edges(
    edge_index: Tensor, edge_attr: Tensor, s: Tensor, batch: Tensor, batch_size: int
) -> Tensor:
    """`S^T A_f S` for every feature `f`, where `A_f` holds that feature of the edges.

    Args:
        edge_index: The edges, `[2, E]`, int64.
        edge_attr: `[E, D]`.
        s: The assignment after the softmax, `[N, K]`.
        batch: The graph of each node, `[N]`, ascending.
        batch_size: The number of graphs, `B`.

    Returns:
        `[B, K, K, D]`, in the type of `s`. Time `O(D (E K + N K^2))`. Memory
        `O(E D + N K + B K^2 D)`, also of the backward pass, which computes `A_f S` again; in the
        plain form of :func:`spmm` `O(E K)` more, for one feature at a time.
    """
    row, col = edge_index

    def one(weight: Tensor) -> Tensor:
        return segment_matmul_t(s, spmm(row, col, s, weight, s.size(0)), batch, batch_size)

    # Kept for the backward pass, the products A_f S of all features would take O(N K D). A compiler
    # decides itself what to keep, and torch.func does not take checkpoints.
    keep = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    pooled = [
        one(weight)
        if keep
        else checkpoint(one, weight, use_reentrant=False, preserve_rng_state=False)
        for weight in edge_attr.to(s.dtype).unbind(-1)
    ]
    if not pooled:
        return s.new_zeros(batch_size, s.size(1), s.size(1), 0)
    return torch.stack(pooled, dim=-1)

"""Edge features of the clusters, from those of the edges of a sparse batch."""

from typing import Any, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.functional.segment import segment_matmul_t, spmm
from torch_geometric_simpool.utils.autocast import no_autocast
from torch_geometric_simpool.utils.checks import (
    check_device,
    check_finite,
    check_floating,
    in_type,
    shape,
)


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
    # A compiler decides itself what to keep for the backward pass; torch.func and forward-mode
    # derivatives do not take such functions.
    keep = (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch.autograd.forward_ad._current_level >= 0
    )
    one = _pool_one if keep else _PoolOne.apply
    pooled = [
        one(s, weight, edge_index, batch, batch_size)
        for weight in in_type("edge_attr", edge_attr, s.dtype).unbind(-1)
    ]
    if not pooled:
        return s.new_zeros(batch_size, s.size(1), s.size(1), 0)
    return torch.stack(pooled, dim=-1)


def _pool_one(
    s: Tensor, weight: Tensor, edge_index: Tensor, batch: Tensor, batch_size: int
) -> Tensor:
    """`S^T A_f S` of one feature."""
    row, col = edge_index
    with no_autocast(s.device):  # as the backward pass, which is outside of such a context
        return segment_matmul_t(s, spmm(row, col, s, weight, s.size(0)), batch, batch_size)


class _PoolOne(torch.autograd.Function):
    """The same, which is computed again in the backward pass.

    Kept until then, the products `A_f S` of all features would take `O(N K D)`.
    """

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        *tensors, ctx.batch_size = args
        ctx.save_for_backward(*tensors)
        return _pool_one(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Optional[Tensor], ...]:
        again = torch.is_grad_enabled()  # for a second derivative
        needed = ctx.needs_input_grad[:4]
        with torch.enable_grad(), no_autocast(grads[0].device):
            # Not the tensors themselves, whose hooks would run once for each feature.
            tensors = [
                (t.view_as(t) if again else t.detach().requires_grad_()) if wanted else t
                for t, wanted in zip(ctx.saved_tensors, needed)
            ]
            s, weight, edge_index, batch = tensors
            pooled = _pool_one(s, weight, edge_index, batch, ctx.batch_size)
            inputs = [t for t, wanted in zip(tensors, needed) if wanted]
            found = iter(torch.autograd.grad(pooled, inputs, grads, create_graph=again))
        return (*(next(found) if wanted else None for wanted in needed), None)

"""Products with the rows of each graph, one matrix product per graph, on views of the rows.

Each backward pass is made of the two functions themselves, so there is nothing to do for second
derivatives, and `plain` is not used.
"""

from typing import Any, Optional

import torch
from torch import Tensor


def segment_matmul_t(
    plain: Any, left: Tensor, right: Tensor, batch: Tensor, batch_size: int
) -> Tensor:
    """`L_g^T R_g` of each graph."""
    return _MatmulT.apply(left, right, _sizes(batch, batch_size))


def segment_matmul(plain: Any, x: Tensor, other: Tensor, batch: Tensor, batch_size: int) -> Tensor:
    """`X_g M_g` of each graph."""
    return _Matmul.apply(x, other, _sizes(batch, batch_size))


def _sizes(batch: Tensor, batch_size: int) -> list[int]:
    return torch.bincount(batch, minlength=batch_size).tolist()


class _MatmulT(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, sizes: list[int]) -> Tensor:
        ctx.save_for_backward(left, right)
        ctx.sizes = sizes
        out = left.new_empty(len(sizes), left.size(1), right.size(1))
        graphs = zip(left.t().split(sizes, dim=1), right.split(sizes), out.unbind())
        for left_g, right_g, out_g in graphs:
            torch.mm(left_g, right_g, out=out_g)
        return out

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Optional[Tensor], ...]:
        left, right = ctx.saved_tensors
        (grad,) = grads
        of_left, of_right, _ = ctx.needs_input_grad
        return (
            _Matmul.apply(right, grad.mT, ctx.sizes) if of_left else None,
            _Matmul.apply(left, grad, ctx.sizes) if of_right else None,
            None,
        )


class _Matmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, other: Tensor, sizes: list[int]) -> Tensor:
        ctx.save_for_backward(x, other)
        ctx.sizes = sizes
        out = x.new_empty(x.size(0), other.size(2))
        for x_g, other_g, out_g in zip(x.split(sizes), other.unbind(), out.split(sizes)):
            torch.mm(x_g, other_g, out=out_g)
        return out

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Optional[Tensor], ...]:
        x, other = ctx.saved_tensors
        (grad,) = grads
        of_x, of_other, _ = ctx.needs_input_grad
        return (
            _Matmul.apply(grad, other.mT, ctx.sizes) if of_x else None,
            _MatmulT.apply(x, grad, ctx.sizes) if of_other else None,
            None,
        )

"""Rows taken and added up on a GPU, in the order of the index: the same bits in every run.

The backward pass of each is the other one, so there is nothing to do for second derivatives, and
`plain` is not used.
"""

from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric_simpool.engine.neighbor_lists import sorted_lists


def take_rows(plain: Any, x: Tensor, index: Tensor) -> Tensor:
    """The rows of these numbers."""
    return _Take.apply(x, index)


def sum_rows(plain: Any, x: Tensor, index: Tensor, num_rows: int) -> Tensor:
    """The sums of rows with the same number."""
    return _Sum.apply(x, index, num_rows)


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.num_rows = x.size(0)
        return x.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Optional[Tensor], ...]:
        (index,) = ctx.saved_tensors
        return _Sum.apply(grads[0], index, ctx.num_rows), None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, num_rows: int) -> Tensor:
        ctx.save_for_backward(index)
        lists = sorted_lists(index, num_rows)
        rows = x.reshape(x.size(0), -1)
        out = F.embedding_bag(lists.edge, rows, lists.ptr, mode="sum", include_last_offset=True)
        return out.view(num_rows, *x.shape[1:])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Optional[Tensor], ...]:
        (index,) = ctx.saved_tensors
        return _Take.apply(grads[0], index), None, None

"""Sums of messages `relu(a_i + b_j)`, none of which is stored: one pass over the edges of a node.

Compiled by Numba, for one thread: after each operation the threads of PyTorch spin-wait on
their cores, so a second thread would share its core with one of them.
"""

from collections.abc import Callable
from typing import Any, Optional

import numpy as np
import torch
from torch import Tensor

from torch_geometric_simpool.engine.neighbor_lists import NeighborLists, neighbor_lists
from torch_geometric_simpool.topk.numba.jit import kernel
from torch_geometric_simpool.utils.checks import check_saved

#: So many gradients are summed before they are added to a longer sum, for accuracy.
_PARTIAL = 64


def sum_messages(
    plain: Callable[..., Tensor],
    target: Tensor,
    source: Tensor,
    edge: Optional[Tensor],
    edge_index: Tensor,
) -> Tensor:
    """`sum_{j : (j, i) in E} relu(target_i + source_j)`; `edge` is `None`."""
    return _SumMessages.apply(plain, target, source, edge_index)


def sum_messages_backward(
    plain: Callable[..., tuple[Tensor, Tensor]],
    grad: Tensor,
    target: Tensor,
    source: Tensor,
    edge_index: Tensor,
) -> tuple[Tensor, Tensor]:
    """The gradients for `target` and `source`."""
    by_target = neighbor_lists(edge_index[1], edge_index[0], target.size(0))
    by_source = neighbor_lists(edge_index[0], edge_index[1], source.size(0))
    return (
        _run(_grad_of_target, by_target, target, source, grad),
        _run(_grad_of_source, by_source, target, source, grad),
    )


class _SumMessages(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, plain: Callable[..., Tensor], target: Tensor, source: Tensor, edge_index: Tensor
    ) -> Tensor:
        by_target = neighbor_lists(edge_index[1], edge_index[0], target.size(0))
        ctx.plain, ctx.by_target = plain, by_target
        ctx.save_for_backward(target, source, edge_index)
        return _run(_forward, by_target, target, source)

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Optional[Tensor], ...]:
        target, source, edge_index = ctx.saved_tensors
        (grad,) = grads
        _, of_target, of_source, _ = ctx.needs_input_grad
        if torch.is_grad_enabled():  # for second derivatives
            found = _plain_backward(ctx.plain, target, source, edge_index, grad)
            return None, *found, None
        check_saved(edge_index[1], target.size(0), edge_index[0], source.size(0))
        return (
            None,
            _run(_grad_of_target, ctx.by_target, target, source, grad) if of_target else None,
            _run(
                _grad_of_source,
                neighbor_lists(edge_index[0], edge_index[1], source.size(0)),
                *(target, source, grad),
            )
            if of_source
            else None,
            None,
        )


def _plain_backward(
    plain: Callable[..., Tensor], target: Tensor, source: Tensor, edge_index: Tensor, grad: Tensor
) -> tuple[Optional[Tensor], ...]:
    """The gradients as differentiable functions of `target`, `source` and `grad`."""
    # New tensors: `target` may be computed from `source`, or be the same.
    inputs = [t.view_as(t) for t in (target, source)]
    wanted = [t for t in inputs if t.requires_grad]
    out = plain(*inputs, None, edge_index)
    found = iter(torch.autograd.grad(out, wanted, grad, create_graph=True))
    return tuple(next(found) if t.requires_grad else None for t in inputs)


def _run(function: Any, lists: NeighborLists, *rows: Tensor) -> Tensor:
    out = rows[0].new_empty(rows[0].shape)
    arrays = (t.detach().contiguous().numpy() for t in (lists.ptr, lists.col, *rows, out))
    function(*arrays)
    return out


# NaN counts as positive, as in PyTorch's ReLU, which lets it through. Each row is summed in the
# order of its edges.


@kernel
def _forward(ptr, neighbor, target, source, out):
    zero = out.dtype.type(0)
    for i in range(out.shape[0]):
        own, total = target[i], out[i]
        for f in range(total.size):
            total[f] = zero
        for e in range(ptr[i], ptr[i + 1]):
            other = source[neighbor[e]]
            for f in range(total.size):
                value = own[f] + other[f]
                total[f] += zero if value <= zero else value


@kernel
def _grad_of_target(ptr, neighbor, target, source, grad, out):
    """All messages to a node have its gradient, so counting the positive ones is enough."""
    zero, one = out.dtype.type(0), out.dtype.type(1)
    count = np.empty(out.shape[1], out.dtype)
    for i in range(out.shape[0]):
        own, upstream, total = target[i], grad[i], out[i]
        for f in range(total.size):
            count[f] = zero
        for e in range(ptr[i], ptr[i + 1]):
            other = source[neighbor[e]]
            for f in range(total.size):
                count[f] += zero if own[f] + other[f] <= zero else one
        for f in range(total.size):
            total[f] = zero if count[f] == zero else count[f] * upstream[f]


@kernel
def _grad_of_source(ptr, neighbor, target, source, grad, out):
    zero = out.dtype.type(0)
    partial = np.empty(out.shape[1], out.dtype)
    for j in range(out.shape[0]):
        own, total = source[j], out[j]
        for f in range(total.size):
            total[f] = zero
        for first in range(ptr[j], ptr[j + 1], _PARTIAL):
            for f in range(total.size):
                partial[f] = zero
            for e in range(first, min(first + _PARTIAL, ptr[j + 1])):
                i = neighbor[e]
                other, upstream = target[i], grad[i]
                for f in range(total.size):
                    partial[f] += zero if own[f] + other[f] <= zero else upstream[f]
            for f in range(total.size):
                total[f] += partial[f]

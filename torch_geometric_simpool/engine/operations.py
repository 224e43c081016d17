"""Operations with a fast path, as nodes of compiled and exported graphs.

A compiler cannot trace a fast path, which reads values. So each function with one is registered as
an operation `simpool::NAME` of PyTorch, which calls it when the graph runs. The compiler needs the
shape of the result and the gradients of each.
"""

import functools
from collections.abc import Callable
from typing import Any, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.utils.autocast import no_autocast

_ops: Any = torch.ops.simpool


def register(function: Callable[..., Any]) -> Callable[..., Any]:
    """Registers a function under its name; returns what a traced program calls."""
    name = function.__name__

    @functools.wraps(function)
    def run(*args: Any) -> Any:
        # The type of the result was fixed when the graph was traced, without autocast.
        with no_autocast(args[0].device):
            return function(*args)

    operation = torch.library.custom_op(f"simpool::{name}", run, mutates_args=())
    operation.register_fake(_RESULTS[name])
    operation.register_autograd(_GRADIENTS[name], setup_context=_save)
    return operation


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Saves the tensors among the arguments, and the others."""
    ctx.save_for_backward(*(arg if isinstance(arg, Tensor) else None for arg in inputs))
    ctx.others = [None if isinstance(arg, Tensor) else arg for arg in inputs]


def _saved(ctx: Any) -> list[Any]:
    """The arguments."""
    return [t if other is None else other for t, other in zip(ctx.saved_tensors, ctx.others)]


# A X


def _of_spmm(
    row: Tensor, col: Tensor, x: Tensor, edge_weight: Optional[Tensor], num_rows: int
) -> Tensor:
    return x.new_empty(num_rows, x.size(1))


def _spmm_backward(ctx: Any, grad: Tensor) -> tuple[Optional[Tensor], ...]:
    row, col, x, edge_weight, _ = _saved(ctx)
    _, _, of_x, of_weight, _ = ctx.needs_input_grad
    return (
        None,
        None,
        _ops.spmm(col, row, grad, edge_weight, x.size(0)) if of_x else None,
        (grad.index_select(0, row) * x.index_select(0, col)).sum(dim=-1) if of_weight else None,
        None,
    )


# L_g^T R_g and X_g M_g: each backward pass is made of the two.


def _of_matmul_t(left: Tensor, right: Tensor, batch: Tensor, batch_size: int) -> Tensor:
    return left.new_empty(batch_size, left.size(1), right.size(1))


def _matmul_t_backward(ctx: Any, grad: Tensor) -> tuple[Optional[Tensor], ...]:
    left, right, batch, batch_size = _saved(ctx)
    of_left, of_right, _, _ = ctx.needs_input_grad
    return (
        _ops.segment_matmul(right, grad.mT, batch, batch_size) if of_left else None,
        _ops.segment_matmul(left, grad, batch, batch_size) if of_right else None,
        None,
        None,
    )


def _of_matmul(x: Tensor, other: Tensor, batch: Tensor, batch_size: int) -> Tensor:
    return x.new_empty(x.size(0), other.size(2))


def _matmul_backward(ctx: Any, grad: Tensor) -> tuple[Optional[Tensor], ...]:
    x, other, batch, batch_size = _saved(ctx)
    of_x, of_other, _, _ = ctx.needs_input_grad
    return (
        _ops.segment_matmul(grad, other.mT, batch, batch_size) if of_x else None,
        _ops.segment_matmul_t(x, grad, batch, batch_size) if of_other else None,
        None,
        None,
    )


# The sum of relu(target_i + source_j), and its gradients, which are an operation of their own.


def _of_messages(
    target: Tensor, source: Tensor, edge: Optional[Tensor], edge_index: Tensor
) -> Tensor:
    return target.new_empty(target.shape)


def _messages_backward(ctx: Any, grad: Tensor) -> tuple[Optional[Tensor], ...]:
    target, source, _, edge_index = _saved(ctx)
    of_target, of_source = _ops.sum_messages_backward(grad, target, source, edge_index)
    return of_target, of_source, None, None


def _of_messages_backward(
    grad: Tensor, target: Tensor, source: Tensor, edge_index: Tensor
) -> tuple[Tensor, Tensor]:
    return target.new_empty(target.shape), source.new_empty(source.shape)


def _messages_second(
    ctx: Any, of_target: Tensor, of_source: Tensor
) -> tuple[Optional[Tensor], ...]:
    """It is linear in `grad`, and piecewise constant in `target` and `source`."""
    _, target, source, (source_node, target_node) = _saved(ctx)
    message = target.index_select(0, target_node) + source.index_select(0, source_node)
    found = of_target.index_select(0, target_node) + of_source.index_select(0, source_node)
    found = found.masked_fill(message <= 0, 0)
    return found.new_zeros(target.shape).index_add(0, target_node, found), None, None, None


#: What tells the shape and the type of a result.
_RESULTS: dict[str, Callable[..., Any]] = {
    "spmm": _of_spmm,
    "segment_matmul": _of_matmul,
    "segment_matmul_t": _of_matmul_t,
    "sum_messages": _of_messages,
    "sum_messages_backward": _of_messages_backward,
}
_GRADIENTS: dict[str, Callable[..., Any]] = {
    "spmm": _spmm_backward,
    "segment_matmul": _matmul_backward,
    "segment_matmul_t": _matmul_t_backward,
    "sum_messages": _messages_backward,
    "sum_messages_backward": _messages_second,
}

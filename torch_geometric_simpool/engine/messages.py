"""The edge step of a propagation: sums of rectified messages, none of which is kept."""

from collections.abc import Iterator
from typing import Any, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.engine.adjacent import ids_fit
from torch_geometric_simpool.engine.fusible import fusible

#: How many numbers the messages of one step hold. On a CPU they stay in its cache, and the
#: system is not asked for fresh memory, which costs more than the sums do; elsewhere a step
#: is a few launches, so there are few of them.
STEP = {"cpu": 1 << 19}
LARGE_STEP = 1 << 26
#: From how many numbers in all messages compiled sums are taken: below, they take less than a
#: millisecond anyway, and Numba, which compiles them, need not be loaded.
COMPILED = 1 << 18


def sum_relu(target: Tensor, source: Tensor, edge: Optional[Tensor], edge_index: Tensor) -> Tensor:
    r"""`sum_{j : (j, i) in E} relu(target_i + source_j + edge_ij)` for every node `i`.

    Args:
        target, source: `[N, F]`.
        edge: `[E, F]`, or `None`.
        edge_index: The edges, `[2, E]`, int64: from `source` to `target`.

    Returns:
        `[N, F]`.

    Time `O((N + E) F)`. Memory `O(N F + E)`, forward and backward, but for `edge` and its
    gradient: messages are made a few at a time, and anew in the backward pass; many of them,
    without `edge`, on a CPU, one by one by loops that Numba compiles. Can be differentiated
    any number of times. Deterministic on CPU.
    """
    # A compiler fuses the plain form by itself; the transforms of torch.func need it.
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return _plain(target, source, edge, edge_index)
    fits = edge is None and target.shape == source.shape and fusible(target, source)
    if fits and compilable(edge_index, *target.shape):
        return _CompiledSumReLU.apply(target, source, edge_index)
    dtype = torch.promote_types(target.dtype, source.dtype)
    if edge is not None:
        dtype = torch.promote_types(dtype, edge.dtype)
        edge = edge.to(dtype)
    target, source = target.to(dtype), source.to(dtype)
    return _SumReLU.apply(target, source, edge, edge_index)


def compilable(edge_index: Tensor, num_nodes: int, width: int) -> bool:
    """Whether compiled sums serve, and pay. Ids out of range are PyTorch's to report."""
    return edge_index.size(1) * width >= max(COMPILED, 1) and ids_fit(edge_index, num_nodes)


class _CompiledSumReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, target: Tensor, source: Tensor, edge_index: Tensor) -> Tensor:
        from torch_geometric_simpool.engine import edges  # imports Numba, which takes a while

        ctx.save_for_backward(target, source, edge_index)
        out_of, into = edge_index
        by_target = edges.lists(into, target.size(0))
        return edges.add_relu(target.detach(), source.detach(), out_of, by_target)

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Optional[Tensor], ...]:
        target, source, edge_index = ctx.saved_tensors
        if torch.is_grad_enabled():  # for a second derivative: by operations with one
            of_target, of_source, *_ = _plain_backward(grads[0], target, source, None, edge_index)
            return of_target, of_source, None
        from torch_geometric_simpool.engine import edges

        (grad,), (out_of, into) = grads, edge_index
        found: list[Optional[Tensor]] = [None] * 3
        if ctx.needs_input_grad[0]:
            by_target = edges.lists(into, target.size(0))
            found[0] = edges.grad_of_target(target, source, grad, out_of, by_target)
        if ctx.needs_input_grad[1]:
            by_source = edges.lists(out_of, source.size(0))
            found[1] = edges.grad_of_source(target, source, grad, into, by_source)
        return tuple(found)


def _plain(target: Tensor, source: Tensor, edge: Optional[Tensor], edge_index: Tensor) -> Tensor:
    message = target.index_select(0, edge_index[1]) + source.index_select(0, edge_index[0])
    message = (message if edge is None else message + edge).relu()
    return message.new_zeros(target.shape).index_add(0, edge_index[1], message)


class _SumReLU(torch.autograd.Function):
    @staticmethod
    def forward(
        target: Tensor, source: Tensor, edge: Optional[Tensor], edge_index: Tensor
    ) -> Tensor:
        out = torch.zeros_like(target)
        for _, into, message in _messages(target, source, edge, edge_index):
            out.index_add_(0, into, message.relu_())
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Optional[Tensor], ...]:
        (grad,) = grads
        target, source, edge, edge_index = ctx.saved_tensors
        if torch.is_grad_enabled():  # for a second derivative: by operations with one
            return _plain_backward(grad, target, source, edge, edge_index)
        grad = grad.contiguous()
        of_target, of_source = torch.zeros_like(target), torch.zeros_like(source)
        of_edge = None if edge is None else torch.empty_like(edge)
        first = 0
        for out_of, into, message in _messages(target, source, edge, edge_index):
            of_message = grad.index_select(0, into)
            of_message = torch.ops.aten.threshold_backward(of_message, message, 0)
            of_target.index_add_(0, into, of_message)
            of_source.index_add_(0, out_of, of_message)
            if of_edge is not None:
                of_edge[first : first + into.numel()] = of_message
            first += into.numel()
        return of_target, of_source, of_edge, None


def _messages(
    target: Tensor, source: Tensor, edge: Optional[Tensor], edge_index: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Messages before the ReLU, some edges at a time, with their sources and targets."""
    num_edges, width = edge_index.size(1), target.size(1)
    step = max(STEP.get(target.device.type, LARGE_STEP) // max(width, 1), 1)
    room, more_room = (target.new_empty(min(step, num_edges), width) for _ in range(2))
    for first in range(0, num_edges, step):
        out_of, into = edge_index[:, first : first + step]
        message, other = room[: into.numel()], more_room[: into.numel()]
        torch.index_select(target, 0, into, out=message)
        torch.index_select(source, 0, out_of, out=other)
        message += other
        if edge is not None:
            message += edge[first : first + step]
        yield out_of, into, message


def _plain_backward(
    grad: Tensor, target: Tensor, source: Tensor, edge: Optional[Tensor], edge_index: Tensor
) -> tuple[Optional[Tensor], ...]:
    message = target.index_select(0, edge_index[1]) + source.index_select(0, edge_index[0])
    message = message if edge is None else message + edge
    of_message = grad.index_select(0, edge_index[1]) * (message > 0)
    zeros = torch.zeros_like(target)
    of_target = zeros.index_add(0, edge_index[1], of_message)
    of_source = zeros.index_add(0, edge_index[0], of_message)
    return of_target, of_source, None if edge is None else of_message, None

"""The edge step of a propagation by lists: each node's sum in one pass over its edges."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_geometric_simpool.cpu import csr, threads
from torch_geometric_simpool.cpu.compiled import call, kernel

#: Numbers in all messages, for each thread that is used: with fewer, the calling thread is
#: done before those of PyTorch, which wait for their next work awake, leave a core to others.
PER_THREAD = 1 << 23

_NOTHING = np.empty(0)


class Lists(NamedTuple):
    """The nodes at the other ends of each node's edges: `other[ptr[i]:ptr[i + 1]]`."""

    ptr: np.ndarray
    other: np.ndarray


def lists(node: Tensor, other: Tensor, num_nodes: int) -> Lists:
    """`other` by `node`, both `[E]` and in range; edges of one node stay in their order."""
    node_, other_ = node.contiguous().numpy(), other.contiguous().numpy()
    counts, ascending = call(csr.count, node_, num_nodes)
    ptr = call(csr.offsets, counts, 0)
    out = np.empty(other_.size, np.int64)
    call(csr.fill, node_, other_, _NOTHING, ptr, ascending, 0.0, out, _NOTHING)
    return Lists(ptr, out)


def add_relu(target: Tensor, source: Tensor, by_target: Lists) -> Tensor:
    """`sum_j relu(target_i + source_j)` for every row `i`."""
    out = torch.empty_like(target)
    arrays = (target.numpy(), source.numpy(), out.numpy())
    _run(_add_relu, by_target, arrays, target.size(1))
    return out


def target_grad(target: Tensor, source: Tensor, grad: Tensor, by_target: Lists) -> Tensor:
    """`sum_j grad_i [target_i + source_j > 0]`, the gradient of row `i` of `target`."""
    out = torch.empty_like(target)
    arrays = (target.numpy(), source.numpy(), grad.numpy(), out.numpy())
    _run(_target_grad, by_target, arrays, target.size(1))
    return out


def source_grad(target: Tensor, source: Tensor, grad: Tensor, by_source: Lists) -> Tensor:
    """`sum_i grad_i [target_i + source_j > 0]`, the gradient of row `j` of `source`."""
    out = torch.empty_like(source)
    arrays = (target.numpy(), source.numpy(), grad.numpy(), out.numpy())
    _run(_source_grad, by_source, arrays, source.size(1))
    return out


def _run(function: Any, by_node: Lists, arrays: tuple[np.ndarray, ...], width: int) -> None:
    num_threads = min(torch.get_num_threads(), max(by_node.other.size * width // PER_THREAD, 1))
    ranges = list(threads.blocks(np.diff(by_node.ptr) * width, num_threads))

    def block(start: int, end: int, _: Any) -> None:
        call(function, by_node.ptr, by_node.other, *arrays, start, end)

    threads.run(block, ranges, num_threads, lambda: None)


# Each row is summed by one thread in the order of its edges, whatever the blocks. NaN
# counts as positive, as in PyTorch, which lets it through. One array is written at a
# time: with two, the inner loops would not be vectorised.


@kernel
def _add_relu(ptr, other, target, source, out, start, end):
    zero = target.dtype.type(0)
    for i in range(start, end):
        own, total = target[i], out[i]
        for f in range(total.size):
            total[f] = zero
        for e in range(ptr[i], ptr[i + 1]):
            row = source[other[e]]
            for f in range(total.size):
                value = own[f] + row[f]
                total[f] += zero if value <= zero else value


@kernel
def _target_grad(ptr, other, target, source, grad, out, start, end):
    zero = target.dtype.type(0)
    for i in range(start, end):
        own, upstream, total = target[i], grad[i], out[i]
        for f in range(total.size):
            total[f] = zero
        for e in range(ptr[i], ptr[i + 1]):
            row = source[other[e]]
            for f in range(total.size):
                total[f] += zero if own[f] + row[f] <= zero else upstream[f]


@kernel
def _source_grad(ptr, other, target, source, grad, out, start, end):
    zero = source.dtype.type(0)
    for j in range(start, end):
        own, total = source[j], out[j]
        for f in range(total.size):
            total[f] = zero
        for e in range(ptr[j], ptr[j + 1]):
            row, upstream = target[other[e]], grad[other[e]]
            for f in range(total.size):
                total[f] += zero if row[f] + own[f] <= zero else upstream[f]

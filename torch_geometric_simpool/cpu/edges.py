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


#: Of so many edges and rows at most lists are kept, for the next call.
KEPT = 1 << 20


class Lists(NamedTuple):
    """The edges of each row: `edge[ptr[r]:ptr[r + 1]]`."""

    ptr: np.ndarray
    edge: np.ndarray


#: A training step asks for the lists of its few `row`s again and again. They are told by
#: their values, as tensors of ids are copied, turned over, and changed in place.
_recent: tuple[tuple[np.ndarray, Lists], ...] = ()


def lists(row: Tensor, num_rows: int) -> Lists:
    """The numbers of the edges by `row`, `[E]` and in range; those of one row ascend."""
    global _recent
    row_ = row.contiguous().numpy()
    for known, found in _recent:
        if found.ptr.size == num_rows + 1 and np.array_equal(known, row_):
            return found
    made = _lists(row_, num_rows)
    if row_.size + num_rows <= KEPT:
        _recent = ((row_.copy(), made), *_recent[:3])
    return made


def _lists(row: np.ndarray, num_rows: int) -> Lists:
    counts, ascending = call(csr.count, row, num_rows)
    ptr = call(csr.offsets, counts, 0)
    edge = np.arange(row.size)
    if ascending:
        return Lists(ptr, edge)
    out = np.empty_like(edge)
    call(csr.fill, row, edge, _NOTHING, ptr, False, 0.0, out, _NOTHING)
    return Lists(ptr, out)


def add_relu(target: Tensor, source: Tensor, out_of: Tensor, by_target: Lists) -> Tensor:
    """`sum_e relu(target_i + source_j)` over the edges of each node `i`, `[N, F]`.

    `j` is the node that the message comes from, `out_of[e]`.
    """
    out = torch.empty_like(target)
    arrays = (target.numpy(), source.numpy(), out.numpy())
    _run(_add_relu, by_target, (out_of.contiguous().numpy(), *arrays), out.size(1))
    return out


def grad_of_rows(
    own: Tensor, other: Tensor, grad: Tensor, by_own: Lists, other_row: Tensor, into: Tensor
) -> Tensor:
    """`sum_e grad_n [own_i + other_j > 0]` over the edges of each row `i` of `own`.

    `j` is `other_row[e]`, and `n` the node that the message goes to, `into[e]`: the
    gradient of `target` or of `source`, by the lists of its own rows.
    """
    out = torch.empty_like(own)
    rows = (other_row.contiguous().numpy(), into.contiguous().numpy())
    arrays = (own.numpy(), other.numpy(), grad.numpy(), out.numpy())
    _run(_grad_of_rows, by_own, (*rows, *arrays), own.size(1))
    return out


def _run(function: Any, by_row: Lists, arrays: tuple[np.ndarray, ...], width: int) -> None:
    num_threads = min(torch.get_num_threads(), max(by_row.edge.size * width // PER_THREAD, 1))
    ranges = list(threads.blocks(np.diff(by_row.ptr) * width, num_threads))

    def block(start: int, end: int, _: Any) -> None:
        call(function, *by_row, *arrays, start, end)

    threads.run(block, ranges, num_threads, lambda: None)


# Each row is summed by one thread in the order of its edges, whatever the blocks. NaN
# counts as positive, as in PyTorch, which lets it through. One array is written at a
# time: with two, the inner loops would not be vectorised.

#: So many gradients are added to each other before they are added to a long sum of them.
_PARTIAL = 64


@kernel
def _add_relu(ptr, edge, out_of, target, source, out, start, end):
    zero = target.dtype.type(0)
    for i in range(start, end):
        own, total = target[i], out[i]
        for f in range(total.size):
            total[f] = zero
        for t in range(ptr[i], ptr[i + 1]):
            row = source[out_of[edge[t]]]
            for f in range(total.size):
                value = own[f] + row[f]
                total[f] += zero if value <= zero else value


@kernel
def _grad_of_rows(ptr, edge, other_row, into, own, other, grad, out, start, end):
    zero = own.dtype.type(0)
    partial = np.empty(own.shape[1], own.dtype)
    for i in range(start, end):
        mine, total = own[i], out[i]
        for f in range(total.size):
            total[f] = zero
        first, last = ptr[i], ptr[i + 1]
        if last - first <= _PARTIAL:
            for t in range(first, last):
                row, upstream = other[other_row[edge[t]]], grad[into[edge[t]]]
                for f in range(total.size):
                    total[f] += zero if mine[f] + row[f] <= zero else upstream[f]
            continue
        while first < last:
            for f in range(total.size):
                partial[f] = zero
            for t in range(first, min(first + _PARTIAL, last)):
                row, upstream = other[other_row[edge[t]]], grad[into[edge[t]]]
                for f in range(total.size):
                    partial[f] += zero if mine[f] + row[f] <= zero else upstream[f]
            for f in range(total.size):
                total[f] += partial[f]
            first += _PARTIAL

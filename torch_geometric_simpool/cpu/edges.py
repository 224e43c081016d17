"""The edge step of a propagation by lists: each node's sum in one pass over its edges."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numba import carray
from torch import Tensor

from torch_geometric_simpool.cpu import csr, team, threads
from torch_geometric_simpool.cpu.compiled import call, kernel
from torch_geometric_simpool.cpu.team import pointer, take

#: Numbers in all messages, for each thread that is used where the threads of PyTorch cannot
#: be: with fewer, the calling thread is done before those leave a core to others.
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
    out = torch.empty_like(target, memory_format=torch.contiguous_format)
    _run(_add_relu, _add_relu_blocks, by_target, (out_of, target, source, out))
    return out


def grad_of_rows(
    own: Tensor, other: Tensor, grad: Tensor, by_own: Lists, other_row: Tensor, into: Tensor
) -> Tensor:
    """`sum_e grad_n [own_i + other_j > 0]` over the edges of each row `i` of `own`.

    `j` is `other_row[e]`, and `n` the node that the message goes to, `into[e]`: the
    gradient of `target` or of `source`, by the lists of its own rows.
    """
    out = torch.empty_like(own, memory_format=torch.contiguous_format)
    _run(_grad_of_rows, _grad_of_rows_blocks, by_own, (other_row, into, own, other, grad, out))
    return out


def _run(function: Any, loop: Any, by_row: Lists, tensors: tuple[Tensor, ...]) -> None:
    """Calls `function`, or `loop`, which does, for all rows; both are below."""
    arrays = tuple(tensor.contiguous().numpy() for tensor in tensors)
    num_threads = torch.get_num_threads()
    (num_rows, width), num_edges = arrays[-1].shape, by_row.edge.size
    if num_threads > 1 and team.parallel() is not None:
        # A row costs about as much as an edge. Blocks end where an equal share is done.
        before = by_row.ptr + np.arange(num_rows + 1)
        num_blocks = max(4 * num_threads, int(before[-1]) * width // threads.BLOCK)
        shares = np.linspace(0, before[-1], num_blocks + 1)
        bounds = np.searchsorted(before, shares)
        numbers = (arrays[-1].itemsize, num_rows, num_edges, width)
        team.run(loop, numbers, (*by_row, *arrays), bounds, num_threads)
        return

    num_threads = min(num_threads, max(num_edges * width // PER_THREAD, 1))
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


# The same for the blocks of a team, which gets addresses of arrays in place of arrays.


def _add_relu_blocks(data):
    item_size = carray(data, 3)[2]
    if item_size == 4:
        _add_relu_team(data, np.float32)
    else:
        _add_relu_team(data, np.float64)


def _grad_of_rows_blocks(data):
    item_size = carray(data, 3)[2]
    if item_size == 4:
        _grad_of_rows_team(data, np.float32)
    else:
        _grad_of_rows_team(data, np.float64)


@kernel
def _add_relu_team(data, dtype):
    head = carray(data, 12)
    num_rows, num_edges, width = head[3], head[4], head[5]
    ptr = carray(pointer(head[6]), num_rows + 1, np.int64)
    edge = carray(pointer(head[7]), num_edges, np.int64)
    out_of = carray(pointer(head[8]), num_edges, np.int64)
    target = carray(pointer(head[9]), (num_rows, width), dtype)
    source = carray(pointer(head[10]), (num_rows, width), dtype)
    out = carray(pointer(head[11]), (num_rows, width), dtype)
    block = take(data)
    while block < head[1]:
        start, end = _block(data, 12, block)
        _add_relu(ptr, edge, out_of, target, source, out, start, end)
        block = take(data)


@kernel
def _grad_of_rows_team(data, dtype):
    head = carray(data, 14)
    num_rows, num_edges, width = head[3], head[4], head[5]
    ptr = carray(pointer(head[6]), num_rows + 1, np.int64)
    edge = carray(pointer(head[7]), num_edges, np.int64)
    other_row = carray(pointer(head[8]), num_edges, np.int64)
    into = carray(pointer(head[9]), num_edges, np.int64)
    own = carray(pointer(head[10]), (num_rows, width), dtype)
    other = carray(pointer(head[11]), (num_rows, width), dtype)
    grad = carray(pointer(head[12]), (num_rows, width), dtype)
    out = carray(pointer(head[13]), (num_rows, width), dtype)
    block = take(data)
    while block < head[1]:
        start, end = _block(data, 14, block)
        _grad_of_rows(ptr, edge, other_row, into, own, other, grad, out, start, end)
        block = take(data)


@kernel
def _block(data, place, block):
    bounds = carray(pointer(carray(data, place + 1)[place]), block + 2, np.int64)
    return bounds[block], bounds[block + 1]

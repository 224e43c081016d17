"""The edge step of a propagation by lists: each node's sum in one pass over its edges."""

from typing import NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor

from torch_geometric_simpool.engine import team
from torch_geometric_simpool.engine.team import ids, rows, take
from torch_geometric_simpool.engine.topk import csr, threads
from torch_geometric_simpool.engine.topk.compiled import call, kernel

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
    edge = np.arange(row.size, dtype=np.int64)
    if ascending:
        return Lists(ptr, edge)
    out = np.empty_like(edge)
    call(csr.fill, row, edge, _NOTHING, ptr, False, 0.0, out, _NOTHING)
    return Lists(ptr, out)


def add_relu(target: Tensor, source: Tensor, out_of: Tensor, by_target: Lists) -> Tensor:
    """`sum_e relu(target_i + source_j)` over the edges of each node `i`, `[N, F]`.

    `j` is the node that the message comes from, `out_of[e]`.
    """
    out = target.new_empty(target.shape)
    _run(_add_relu, by_target, (out_of, target, source, out))
    return out


def grad_of_target(
    target: Tensor,
    source: Tensor,
    grad: Tensor,
    out_of: Tensor,
    by_target: Lists,
    out: Optional[Tensor] = None,
) -> Tensor:
    """`sum_e grad_i [target_i + source_j > 0]` over the edges of each node `i`, `[N, F]`.

    `j` is `out_of[e]`. It is written to `out`, contiguous, if that is given, which may be `grad`.
    """
    out = target.new_empty(target.shape) if out is None else out
    _run(_grad_of_target, by_target, (out_of, target, source, grad, out))
    return out


def grad_of_source(
    target: Tensor, source: Tensor, grad: Tensor, into: Tensor, by_source: Lists
) -> Tensor:
    """`sum_e grad_i [target_i + source_j > 0]` over the edges that leave each node `j`, `[N, F]`.

    `i` is the node that the message goes to, `into[e]`.
    """
    out = source.new_empty(source.shape)
    _run(_grad_of_source, by_source, (into, target, source, grad, out))
    return out


def _run(loops: team.Loops, by_row: Lists, tensors: tuple[Tensor, ...]) -> None:
    """Runs loops, of those below, over all rows, in blocks of about as much work each."""
    given = [torch.from_numpy(array) for array in by_row]
    given += [tensor.contiguous() for tensor in tensors]
    num_rows, width = tensors[-1].shape
    # A row costs about as much as an edge.
    before = by_row.ptr + np.arange(num_rows + 1, dtype=np.int64)
    work = int(before[-1]) * width
    num_blocks = max(4 * torch.get_num_threads(), work // threads.BLOCK)
    shares = np.linspace(0, before[-1], num_blocks + 1)
    bounds = np.searchsorted(before, shares).astype(np.int64)
    team.run(loops, given, bounds, work)


# Each row is summed by one thread in the order of its edges, whatever the blocks. NaN
# counts as positive, as in PyTorch, which lets it through. One array is written at a
# time: with two, the inner loops would not be vectorised.

#: So many gradients are added to each other before they are added to a long sum of them.
_PARTIAL = 64


def _add_relu_32(data):
    _add_relu_of(data, np.float32)


def _add_relu_64(data):
    _add_relu_of(data, np.float64)


_add_relu = {torch.float32: _add_relu_32, torch.float64: _add_relu_64}


@kernel
def _add_relu_of(data, dtype):
    ptr, edge, out_of = ids(data, 0), ids(data, 1), ids(data, 2)
    target, source, out = rows(data, 3, dtype), rows(data, 4, dtype), rows(data, 5, dtype)
    width, zero = out.shape[1], dtype(0)
    start, end = take(data)
    while start >= 0:
        for i in range(start, end):
            own, total = target[i], out[i]
            for f in range(width):
                total[f] = zero
            for t in range(ptr[i], ptr[i + 1]):
                row = source[out_of[edge[t]]]
                for f in range(width):
                    value = own[f] + row[f]
                    total[f] += zero if value <= zero else value
        start, end = take(data)


def _grad_of_target_32(data):
    _grad_of_target_of(data, np.float32)


def _grad_of_target_64(data):
    _grad_of_target_of(data, np.float64)


_grad_of_target = {torch.float32: _grad_of_target_32, torch.float64: _grad_of_target_64}


@kernel
def _grad_of_target_of(data, dtype):
    ptr, edge, out_of = ids(data, 0), ids(data, 1), ids(data, 2)
    target, source = rows(data, 3, dtype), rows(data, 4, dtype)
    grad, out = rows(data, 5, dtype), rows(data, 6, dtype)
    width, zero, one = out.shape[1], dtype(0), dtype(1)
    total, partial = np.empty(width, dtype), np.empty(width, dtype)
    start, end = take(data)
    while start >= 0:
        for i in range(start, end):
            # How many messages get through: the gradient is the same for all of them.
            own, upstream, found = target[i], grad[i], out[i]
            for f in range(width):
                total[f] = zero
            first, last = ptr[i], ptr[i + 1]
            while first < last:
                for f in range(width):
                    partial[f] = zero
                for t in range(first, min(first + _PARTIAL, last)):
                    row = source[out_of[edge[t]]]
                    for f in range(width):
                        partial[f] += zero if own[f] + row[f] <= zero else one
                for f in range(width):
                    total[f] += partial[f]
                first += _PARTIAL
            # Not straight over what is read: loops that may do that are not vectorised.
            for f in range(width):
                partial[f] = zero if total[f] == zero else total[f] * upstream[f]
            for f in range(width):
                found[f] = partial[f]
        start, end = take(data)


def _grad_of_source_32(data):
    _grad_of_source_of(data, np.float32)


def _grad_of_source_64(data):
    _grad_of_source_of(data, np.float64)


_grad_of_source = {torch.float32: _grad_of_source_32, torch.float64: _grad_of_source_64}


@kernel
def _grad_of_source_of(data, dtype):
    ptr, edge, into = ids(data, 0), ids(data, 1), ids(data, 2)
    target, source = rows(data, 3, dtype), rows(data, 4, dtype)
    grad, out = rows(data, 5, dtype), rows(data, 6, dtype)
    width, zero = out.shape[1], dtype(0)
    partial = np.empty(width, dtype)
    start, end = take(data)
    while start >= 0:
        for j in range(start, end):
            own, total = source[j], out[j]
            for f in range(width):
                total[f] = zero
            first, last = ptr[j], ptr[j + 1]
            if last - first <= _PARTIAL:
                for t in range(first, last):
                    i = into[edge[t]]
                    row, upstream = target[i], grad[i]
                    for f in range(width):
                        total[f] += zero if own[f] + row[f] <= zero else upstream[f]
                continue
            while first < last:
                for f in range(width):
                    partial[f] = zero
                for t in range(first, min(first + _PARTIAL, last)):
                    i = into[edge[t]]
                    row, upstream = target[i], grad[i]
                    for f in range(width):
                        partial[f] += zero if own[f] + row[f] <= zero else upstream[f]
                for f in range(width):
                    total[f] += partial[f]
                first += _PARTIAL
        start, end = take(data)

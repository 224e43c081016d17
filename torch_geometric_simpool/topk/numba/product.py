"""Kernels: the product of two sparse matrices, rows `start` to `end` at a time."""

from typing import NamedTuple

import numpy as np

from torch_geometric_simpool.topk.numba.jit import allocation_free
from torch_geometric_simpool.topk.numba.sums import Sums, add_to, new_sums, start_sum, total


class Scratch(NamedTuple):
    """The working memory of a thread: of each column the last row that has it, and its sum."""

    seen: np.ndarray
    sums: Sums


def new_seen(num_nodes: int, dtype: np.dtype) -> np.ndarray:
    """No row has been seen."""
    return np.full(num_nodes, -1, dtype)


def new_scratch(num_nodes: int, dtype: np.dtype, signed: bool) -> Scratch:
    """Allocates the working memory of a thread."""
    return Scratch(new_seen(num_nodes, dtype), new_sums(num_nodes, signed))


@allocation_free
def count_entries(left, right, start, end, counts, seen):
    """Writes the number of entries of each row of the product to `counts`."""
    for i in range(start, end):
        entries = np.int64(0)
        for e in range(left.ptr[i], left.ptr[i + 1]):
            m = left.col[e]
            for t in range(right.ptr[m], right.ptr[m + 1]):
                j = right.col[t]
                if seen[j] != i:
                    seen[j] = i
                    entries += 1
        counts[i] = entries


@allocation_free
def fill_entries(left, right, exact, start, end, out, scratch):
    """Writes columns and values; within a row, columns are in the order they are met."""
    seen, sums = scratch.seen, scratch.sums
    for i in range(start, end):
        at = out.ptr[i]
        for e in range(left.ptr[i], left.ptr[i + 1]):
            m = left.col[e]
            for t in range(right.ptr[m], right.ptr[m + 1]):
                j = right.col[t]
                if seen[j] != i:
                    seen[j] = i
                    out.col[at] = j
                    at += 1
                    start_sum(sums, j)
                add_to(sums, j, left.value[e] * right.value[t], exact)
        for t in range(out.ptr[i], at):
            out.value[t] = total(sums, out.col[t])

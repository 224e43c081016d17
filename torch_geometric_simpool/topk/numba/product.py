"""Kernel: the largest entries of the rows of a product of two sparse matrices."""

from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_matrix

from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.numba import csr, threads
from torch_geometric_simpool.topk.numba.csr import CSRArrays
from torch_geometric_simpool.topk.numba.jit import kernel

#: The number of candidates of a row, beyond two for each place, after which the best are selected.
CANDIDATES = 256

#: A row has few products if there are so many times as many columns.
FEW = 4

#: More than the relative error by which an entry is rounded.
SLACK = 1 + 2.0**-20


class Product(NamedTuple):
    """The matrix of `(left @ right)[i, j] ** power`, with 0 at the places of `left_out`.

    Columns of `left` ascend, and so do the summands of each entry, which is a sum in float64. A
    `power` other than 1 is of positive matrices.
    """

    left: csr_matrix
    right: csr_matrix
    left_out: csr_matrix  # only its places count
    power: float = 1.0


def largest_in_rows(product: Product, k: int, dtype: np.dtype, budget: Budget) -> csr_matrix:
    """Returns the `k` largest positive entries of each row, in no order; ties go to the first.

    Entries are sums in float64, rounded to `dtype` before they are compared.
    """
    num_rows, num_cols = product.left_out.shape
    ids = np.int32 if num_cols < 2**31 else np.int64
    left, right, left_out = (
        CSRArrays(m.indptr.astype(np.int64), m.indices.astype(ids, copy=False), m.data)
        for m in product[:3]
    )
    num_threads = torch.get_num_threads()
    work = csr.products_of_rows(csr.all_rows(left), right)
    budget.check_products(int(work.sum(dtype=np.float64)))
    room = min(k, num_cols)
    ptr, candidates = csr.offsets(np.minimum(work, room)), 2 * room + CANDIDATES
    size, bytes_per_entry = int(ptr[-1]), ids().itemsize + dtype.itemsize
    budget.check_memory(
        (size + num_threads * candidates) * bytes_per_entry + 8 * num_threads * num_cols
    )
    best = CSRArrays(ptr, np.zeros(size, ids), np.zeros(size, dtype))
    threads.run(
        write_largest,
        threads.blocks(work),
        left,
        right,
        left_out,
        product.power,
        work,
        best,
        new_scratch=lambda: (
            np.zeros(num_cols),
            np.empty(candidates, dtype),
            np.empty(candidates, ids),
        ),
    )
    result = csr_matrix((best.value, best.col, ptr), (num_rows, num_cols))
    result.eliminate_zeros()
    return result


@kernel
def write_largest(start, end, left, right, left_out, power, work, best, sums, value, col):
    """Writes the largest entries of the rows from `start` to `end`. The other places stay zero.

    A row is added up in `sums`, which is zero between rows. `value` and `col` hold its candidates.
    """
    for i in range(start, end):
        for e in range(left.ptr[i], left.ptr[i + 1]):
            factor = left.value[e]
            for f in range(right.ptr[left.col[e]], right.ptr[left.col[e] + 1]):
                sums[right.col[f]] += factor * right.value[f]
        for e in range(left_out.ptr[i], left_out.ptr[i + 1]):
            sums[left_out.col[e]] = 0.0
        room, size, least = best.ptr[i + 1] - best.ptr[i], 0, value.dtype.type(0)
        if work[i] * FEW < sums.size:
            for e in range(left.ptr[i], left.ptr[i + 1]):
                for f in range(right.ptr[left.col[e]], right.ptr[left.col[e] + 1]):
                    j = right.col[f]
                    size, least = offer(j, sums[j], power, room, value, col, size, least)
                    sums[j] = 0.0
        else:
            limit = 0.0
            for j in range(sums.size):
                if sums[j] > limit:
                    size, least = offer(j, sums[j], power, room, value, col, size, least)
                    limit = least / SLACK if power == 1.0 else 0.0
                sums[j] = 0.0
        if size > room:
            keep_best(value[:size], col[:size], room)
        first, size = best.ptr[i], min(size, room)
        best.value[first : first + size], best.col[first : first + size] = value[:size], col[:size]


@kernel
def offer(j, total, power, room, value, col, size, least):
    """Adds a candidate that is not below `least`; returns the number of candidates, and `least`."""
    entry = value.dtype.type(total if power == 1.0 else max(total, 0.0) ** power)
    if entry > 0 and entry >= least:
        value[size], col[size] = entry, j
        size += 1
        if size == value.size:
            size, least = room, keep_best(value, col, room)
    return size, least


@kernel
def keep_best(value, col, room):
    """Moves the best candidates to the front; returns the value of the last one."""
    least = np.partition(value, value.size - room)[value.size - room]
    ties = np.sort(col[value == least])
    last = ties[room - 1 - np.sum(value > least)]
    at = 0
    for u in range(value.size):
        if value[u] > least or (value[u] == least and col[u] <= last):
            value[at], col[at] = value[u], col[u]
            at += 1
    return least

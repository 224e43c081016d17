"""Kernels of an external sort: entries are distributed to buckets of rows, then sorted in each."""

import numpy as np

from torch_geometric_simpool.topk.numba.jit import allocation_free, kernel


@allocation_free
def count_ends(row, col, value, row_counts, col_counts, row_sums, col_sums):
    """Adds entries to the degrees of their ends; absolute values to `row_sums` and `col_sums`."""
    for e in range(row.size):
        row_counts[row[e]] += 1
        col_counts[col[e]] += 1
        if value.size > 0:
            row_sums[row[e]] += abs(value[e])
            col_sums[col[e]] += abs(value[e])


@kernel
def distribute(entries, row_rank, col_rank, bounds, out):
    """Writes entries bucket by bucket to `out`, in the order they come; returns where each begins.

    Bucket `b` has the rows `bounds[b]` to `bounds[b + 1]`, and counts them from its first. An
    empty array of ranks leaves the numbers as they are.
    """
    num_buckets = bounds.size - 1
    bucket_of = np.empty(entries.row.size, np.int32)
    begin = np.zeros(num_buckets + 1, np.int64)
    for e in range(entries.row.size):
        i = np.int64(entries.row[e])
        if row_rank.size > 0:
            i = np.int64(row_rank[i])
        low, high = 0, num_buckets - 1
        while low < high:
            middle = (low + high + 1) // 2
            if bounds[middle] <= i:
                low = middle
            else:
                high = middle - 1
        bucket_of[e] = low
        begin[low + 1] += 1
    for b in range(num_buckets):
        begin[b + 1] += begin[b]
    fill_at = begin[:-1].copy()
    for e in range(entries.row.size):
        b = bucket_of[e]
        i = np.int64(entries.row[e])
        j = np.int64(entries.col[e])
        at = fill_at[b]
        out.row[at] = (np.int64(row_rank[i]) if row_rank.size > 0 else i) - bounds[b]
        out.col[at] = col_rank[j] if col_rank.size > 0 else j
        if out.value.size > 0:
            out.value[at] = entries.value[e]
        fill_at[b] = at + 1
    return begin


@kernel
def sort_rows(matrix):
    """Sorts the columns of each row, in place."""
    for i in range(matrix.ptr.size - 1):
        first = matrix.ptr[i]
        last = matrix.ptr[i + 1]
        if matrix.value.size > 0:
            order = np.argsort(matrix.col[first:last])
            matrix.value[first:last] = matrix.value[first:last][order]
            matrix.col[first:last] = matrix.col[first:last][order]
        else:
            matrix.col[first:last].sort()

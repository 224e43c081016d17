"""Kernels that build, transpose, compare and renumber sparse matrices in CSR form.

They take `CSRArrays`. All sums here are exact, or taken in an order that depends on the
summands alone.
"""

import numpy as np

from torch_geometric_simpool.engine.compile import allocation_free, kernel


@kernel
def count(index, size):
    """How often each id occurs, `[size]`, and whether the ids ascend."""
    counts = np.zeros(size, np.int64)
    ascending = True
    last = np.int64(0)
    for e in range(index.size):
        i = index[e]
        counts[i] += 1
        if i < last:
            ascending = False
        last = i
    return counts, ascending


@kernel
def offsets(counts, extra):
    """The row pointers of rows of these sizes, each with room for `extra` more entries."""
    ptr = np.empty(counts.size + 1, np.int64)
    total = np.int64(0)
    for i in range(counts.size):
        ptr[i] = total
        total += counts[i] + extra
    ptr[counts.size] = total
    return ptr


@kernel
def fill(row, col, value, ptr, ascending, diagonal, out_col, out_value):
    """Writes the entries of each row in the order they come; first `diagonal`, unless it is 0."""
    fill_at = ptr[:-1].copy()
    weighted = out_value.size > 0
    if diagonal != 0:
        for i in range(fill_at.size):
            e = fill_at[i]
            out_col[e] = i
            if weighted:
                out_value[e] = diagonal
            fill_at[i] = e + 1
    elif ascending:
        for e in range(row.size):
            out_col[e] = col[e]
            if weighted:
                out_value[e] = value[e] if value.size > 0 else 1.0
        return
    for e in range(row.size):
        i = row[e]
        at = fill_at[i]
        out_col[at] = col[e]
        if weighted:
            out_value[at] = value[e] if value.size > 0 else 1.0
        fill_at[i] = at + 1


@kernel
def transpose(matrix, out):
    """Writes the transpose to `out`, whose `ptr` is known; the columns of each row ascend."""
    ptr, col, value = matrix
    out_col, out_value = out.col, out.value
    fill_at = out.ptr[:-1].copy()
    weighted = value.size > 0
    for i in range(ptr.size - 1):
        for e in range(ptr[i], ptr[i + 1]):
            j = col[e]
            at = fill_at[j]
            out_col[at] = i
            if weighted:
                out_value[at] = value[e]
            fill_at[j] = at + 1


@kernel
def renumber(matrix, order, rank, start, end, out):
    """Writes a matrix of ones with its rows in `order`; the ranks of its columns ascend."""
    ptr, col = matrix.ptr, matrix.col
    out_ptr, out_col = out.ptr, out.col
    for new in range(start, end):
        old = order[new]
        first = out_ptr[new]
        size = ptr[old + 1] - ptr[old]
        for t in range(size):
            out_col[first + t] = rank[col[ptr[old] + t]]
        if size > 32:
            out_col[first : first + size].sort()
            continue
        for t in range(first + 1, first + size):
            j = out_col[t]
            at = t
            while at > first and out_col[at - 1] > j:
                out_col[at] = out_col[at - 1]
                at -= 1
            out_col[at] = j


@allocation_free
def has_duplicates(matrix):
    """Whether a row, ascending, has a column twice."""
    for i in range(matrix.ptr.size - 1):
        for e in range(matrix.ptr[i] + 1, matrix.ptr[i + 1]):
            if matrix.col[e] == matrix.col[e - 1]:
                return True
    return False


@kernel
def sum_duplicates(matrix):
    """Adds up entries at the same place, in place; returns the new row pointers.

    The summands are added in ascending order, so that the sum depends on them alone.
    """
    ptr, col, value = matrix
    out_ptr = np.empty_like(ptr)
    at = np.int64(0)
    for i in range(ptr.size - 1):
        out_ptr[i] = at
        e = ptr[i]
        while e < ptr[i + 1]:
            end = e + 1
            while end < ptr[i + 1] and col[end] == col[e]:
                end += 1
            if end > e + 1:
                value[e:end].sort()
            total = value[e]
            for d in range(e + 1, end):
                total += value[d]
            col[at] = col[e]
            value[at] = total
            at += 1
            e = end
    out_ptr[ptr.size - 1] = at
    return out_ptr


@kernel
def rank_by(size_of, order, rank):
    """Writes the ids sorted by `size_of`, then by id, and the rank of each id."""
    largest = np.int64(0)
    for i in range(size_of.size):
        largest = max(largest, size_of[i])
    place = np.zeros(largest + 2, np.int64)
    for i in range(size_of.size):
        place[size_of[i] + 1] += 1
    for s in range(largest + 1):
        place[s + 1] += place[s]
    for i in range(size_of.size):
        at = place[size_of[i]]
        order[at] = i
        rank[i] = at
        place[size_of[i]] = at + 1


@allocation_free
def is_symmetric(matrix, start, end):
    """Compares the pattern of rows, ascending and without duplicates, to that of the columns.

    Looks up the mirror images of entries above the diagonal only, and counts those below:
    returns the number above less the number below, or None where an image is missing. If it
    is missing nowhere, the sum over all rows is zero exactly if the matrix is symmetric.
    """
    ptr, col = matrix.ptr, matrix.col
    difference = np.int64(0)
    for i in range(start, end):
        for e in range(ptr[i], ptr[i + 1]):
            j = col[e]
            if j < i:
                difference -= 1
            elif j > i:
                difference += 1
                if not contains(col, ptr[j], ptr[j + 1], i):
                    return None
    return difference


@allocation_free
def contains(col, low, high, i):
    """Whether `i` is among `col[low:high]`, which ascends."""
    if high - low <= 32:
        found = False  # without a branch that could be mispredicted
        for t in range(low, high):
            found |= col[t] == i
        return found
    last = high
    while low < high:
        middle = (low + high) // 2
        if col[middle] < i:
            low = middle + 1
        else:
            high = middle
    return low < last and col[low] == i


@allocation_free
def absolute_sums(matrix):
    """The largest sum of absolute values in a row."""
    largest = 0.0
    for i in range(matrix.ptr.size - 1):
        total = 0.0
        for e in range(matrix.ptr[i], matrix.ptr[i + 1]):
            total += abs(matrix.value[e])
        largest = max(largest, total)
    return largest


@allocation_free
def products_of_rows(rows, lists, limit, ids, products, start, end):
    """Adds to `products[t]` the lengths of the lists, up to `limit`, that row `ids[t]` names."""
    for t in range(start, end):
        i = ids[t]
        total = np.int64(0)
        for e in range(rows.ptr[i], rows.ptr[i + 1]):
            m = rows.col[e]
            length = lists.ptr[m + 1] - lists.ptr[m]
            if length <= limit:
                total += length
        products[t] += total


@kernel
def select_entries(matrix, keep_row, keep_col, out):
    """Writes the entries in these rows and columns; an empty array keeps all."""
    at = np.int64(0)
    for i in range(matrix.ptr.size - 1):
        out.ptr[i] = at
        if keep_row.size > 0 and not keep_row[i]:
            continue
        for e in range(matrix.ptr[i], matrix.ptr[i + 1]):
            j = matrix.col[e]
            if keep_col.size == 0 or keep_col[j]:
                out.col[at] = j
                if matrix.value.size > 0:
                    out.value[at] = matrix.value[e]
                at += 1
    out.ptr[matrix.ptr.size - 1] = at

"""Kernels that build, transpose, compare and renumber sparse matrices in CSR form.

They take `CSRArrays`. All sums here are exact, or taken in an order that depends on the
summands alone. Working memory is passed in: what allocates takes much longer to compile.
"""

import numpy as np

from torch_geometric_simpool.topk.numba.jit import allocation_free, helper
from torch_geometric_simpool.topk.numba.sums import add
from torch_geometric_simpool.topk.rounding import CANCELS


def count(index: np.ndarray, size: int) -> tuple[np.ndarray, bool]:
    """How often each id occurs, `[size]`, and whether the ids ascend."""
    counts = np.zeros(size, np.int64)
    return counts, add_count(index, counts)


@allocation_free
def add_count(index, counts):
    """Adds to `counts` how often each id occurs; returns whether the ids ascend."""
    ascending = True
    last = np.int64(0)
    for e in range(index.size):
        i = index[e]
        counts[i] += 1
        if i < last:
            ascending = False
        last = i
    return ascending


def offsets(counts: np.ndarray, extra: int = 0) -> np.ndarray:
    """The row pointers of rows of these sizes, each with room for `extra` more entries."""
    ptr = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts + extra if extra else counts, out=ptr[1:])
    return ptr


@allocation_free
def fill(row, col, value, fill_at, ascending, diagonal, out_col, out_value):
    """Writes the entries of each row in the order they come; first `diagonal`, unless it is 0.

    Row `i` begins at `fill_at[i]`, which is overwritten.
    """
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


@allocation_free
def transpose(matrix, out, fill_at):
    """Writes the transpose to `out`; the columns of each row ascend.

    Row `i` of `out` begins at `fill_at[i]`, which is overwritten.
    """
    ptr, col, value = matrix
    out_col, out_value = out.col, out.value
    weighted = value.size > 0
    for i in range(ptr.size - 1):
        for e in range(ptr[i], ptr[i + 1]):
            j = col[e]
            at = fill_at[j]
            out_col[at] = i
            if weighted:
                out_value[at] = value[e]
            fill_at[j] = at + 1


@allocation_free
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
        sort(out_col, first, first + size)


@helper
def sort(array, start, end):
    """Sorts `array[start:end]` in place, ascending.

    Shellsort: NumPy's sort allocates memory, and takes longer to compile than all else here.
    """
    gap = end - start
    while gap > 1:
        # Few are sorted by insertion alone.
        gap = gap * 5 // 11 if gap > 32 else 1
        for t in range(start + gap, end):
            j = array[t]
            at = t
            while at >= start + gap and array[at - gap] > j:
                array[at] = array[at - gap]
                at -= gap
            array[at] = j


@allocation_free
def has_duplicates(matrix):
    """Whether a row, ascending, has a column twice."""
    for i in range(matrix.ptr.size - 1):
        for e in range(matrix.ptr[i] + 1, matrix.ptr[i + 1]):
            if matrix.col[e] == matrix.col[e - 1]:
                return True
    return False


@allocation_free
def sum_duplicates(matrix, out_ptr):
    """Adds up entries at the same place, in place; writes the new row pointers.

    The summands are added in ascending order, so that the sum depends on them alone.
    """
    ptr, col, value = matrix
    at = np.int64(0)
    for i in range(ptr.size - 1):
        out_ptr[i] = at
        e = ptr[i]
        while e < ptr[i + 1]:
            end = e + 1
            while end < ptr[i + 1] and col[end] == col[e]:
                end += 1
            if end > e + 1:
                sort(value, e, end)
            total, low, absolute = value[e], 0.0, abs(value[e])
            for d in range(e + 1, end):
                total, low = add(total, low, value[d], False)
                absolute += abs(value[d])
            total += low
            col[at] = col[e]
            value[at] = 0.0 if abs(total) <= CANCELS * absolute else total
            at += 1
            e = end
    out_ptr[ptr.size - 1] = at


@allocation_free
def rank_by(size_of, place, order, rank):
    """Writes the ids sorted by `size_of`, then by id, and the rank of each id.

    `place` are zeros, two more than the largest size.
    """
    for i in range(size_of.size):
        place[size_of[i] + 1] += 1
    for s in range(place.size - 1):
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


@helper
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


@allocation_free
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

"""Sparse matrices in CSR form, and the kernels that build them.

All sums are exact, or taken in an order that depends on the summands alone.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from torch_geometric_simpool.topk.numba import threads
from torch_geometric_simpool.topk.numba.jit import allocation_free, helper, prefetch
from torch_geometric_simpool.utils.rounding import CANCELS

#: Entries are read from memory so many places ahead, and offsets twice as many.
AHEAD = 16

#: An array over so many nodes, or fewer, fits into the first-level cache.
CACHED = 4096


class CSRArrays(NamedTuple):
    """A sparse matrix in CSR form. A matrix whose `value` has size zero holds ones."""

    ptr: np.ndarray  # [num_rows + 1]
    col: np.ndarray  # row `i` is `col[ptr[i]:ptr[i + 1]]`, ascending if there are values
    value: np.ndarray

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self.ptr.size - 1

    @property
    def lengths(self) -> np.ndarray:
        """The number of entries of each row."""
        return np.diff(self.ptr)

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays."""
        return self.ptr.nbytes + self.col.nbytes + self.value.nbytes


def offsets(counts: np.ndarray) -> np.ndarray:
    """Returns the row pointers of rows with these numbers of entries."""
    ptr = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr


@allocation_free
def fill(row, col, value, row_number, col_number, fill_at, out):
    """Writes entries to the rows of a matrix in the order they come, with their new numbers.

    Row `i` begins at `fill_at[i]`, which is overwritten. Columns of a row are in any order.
    """
    for e in range(row.size):
        i = row_number[row[e]]
        at = fill_at[i]
        fill_at[i] = at + 1
        out.col[at] = col_number[col[e]]
        if out.value.size > 0:
            out.value[at] = value[e]


@allocation_free
def transpose_to(matrix, start, end, fill_at, out):
    """Writes the rows `start` to `end` of the transpose; their columns ascend.

    Row `i` begins at `fill_at[i]`, which is overwritten.
    """
    ptr, col, value = matrix.ptr, matrix.col, matrix.value
    for i in range(ptr.size - 1):
        for e in range(ptr[i], ptr[i + 1]):
            j = col[e]
            if start <= j < end:
                at = fill_at[j]
                fill_at[j] = at + 1
                out.col[at] = i
                if value.size > 0:
                    out.value[at] = value[e]


def transpose(matrix: CSRArrays, ptr: np.ndarray, num_threads: int) -> CSRArrays:
    """Returns the transpose, whose row pointers are `ptr`; the columns of each row ascend."""
    out = CSRArrays(ptr, np.empty_like(matrix.col), np.empty_like(matrix.value))
    fill_at = ptr[:-1].copy()

    def write_rows(start: int, end: int, _: None) -> None:
        transpose_to(matrix, start, end, fill_at, out)

    # Each thread reads all entries and writes its share of the rows.
    threads.run(write_rows, shares(ptr, num_threads), num_threads)
    return out


def shares(ptr: np.ndarray, num_threads: int) -> list[tuple[int, int]]:
    """Returns a range of rows for each thread, with about the same number of entries."""
    num_threads = min(num_threads, 1 + int(ptr[-1]) // threads.SMALLEST)
    inner = np.searchsorted(ptr, np.linspace(0, ptr[-1], num_threads + 1)[1:-1])
    return list(pairwise([0, *inner.tolist(), ptr.size - 1]))


def is_symmetric(matrix: CSRArrays, num_threads: int) -> bool:
    """Returns whether the pattern of a matrix is symmetric; its columns ascend and are distinct."""
    mirrored: list[bool] = []
    next_entry = matrix.ptr[:-1].copy()

    def compare_rows(start: int, end: int, _: None) -> None:
        mirrored.append(are_mirrored(matrix.ptr, matrix.col, start, end, next_entry))

    threads.run(compare_rows, shares(matrix.ptr, num_threads), num_threads)
    return all(mirrored)


@allocation_free
def are_mirrored(ptr, col, start, end, next_entry):
    """Returns whether the rows `start` to `end`, below the diagonal, equal their columns.

    `next_entry[j]` is the first entry of row `j` that has not been compared. As columns ascend, it
    is the mirror image of the next entry of column `j`. When row `j` itself is read, all of its
    entries below the diagonal must have been compared. In a large graph, the mirror images of a
    row are read into the cache two rows ahead, and their places in `next_entry` four rows ahead.
    With few nodes, this takes more time than it saves.
    """
    for i in range(end):
        if i >= start:
            first, last = next_entry[i], ptr[i + 1]
            if first > last or (first < last and col[first] < i):
                return False
        for stage in range(2 if ptr.size > CACHED else 0, -1, -1):
            row = i + 2 * stage
            if row >= end:
                continue
            for e in range(ptr[row + 1] - 1, ptr[row] - 1, -1):
                j = col[e]
                if j <= row or j < start:
                    break
                if j >= end:
                    continue
                if stage == 2:
                    prefetch(next_entry, np.int64(j))
                elif stage == 1:
                    prefetch(col, next_entry[j])
                else:
                    at = next_entry[j]
                    if at == col.size or col[at] != row:
                        return False
                    next_entry[j] = at + 1
    return True


@allocation_free
def ascends(row, col):
    """Returns whether edges are sorted and distinct."""
    for e in range(1, row.size):
        if row[e] < row[e - 1] or (row[e] == row[e - 1] and col[e] <= col[e - 1]):
            return False
    return True


@allocation_free
def count_repeated(matrix):
    """Returns the number of entries that repeat the one before."""
    repeated = 0
    for i in range(matrix.ptr.size - 1):
        for e in range(matrix.ptr[i] + 1, matrix.ptr[i + 1]):
            repeated += np.int64(matrix.col[e] == matrix.col[e - 1])
    return repeated


@allocation_free
def sum_duplicates(matrix, out, spare):
    """Adds up entries at the same place; a matrix without values holds ones.

    The summands are added in ascending order, so that the sum depends on them alone. `spare` has
    room for the entries at one place.
    """
    at = np.int64(0)
    for i in range(matrix.ptr.size - 1):
        out.ptr[i] = at
        e = matrix.ptr[i]
        while e < matrix.ptr[i + 1]:
            end = e + 1
            while end < matrix.ptr[i + 1] and matrix.col[end] == matrix.col[e]:
                end += 1
            out.col[at] = matrix.col[e]
            if matrix.value.size == 0:
                out.value[at] = end - e
            elif end == e + 1:
                out.value[at] = matrix.value[e]
            else:
                out.value[at] = sum_of(matrix.value, e, end, spare)
            at += 1
            e = end
    out.ptr[matrix.ptr.size - 1] = at


@helper
def add(high, low, term):
    """Adds to a sum of two doubles. The low part collects what rounding loses."""
    total = high + term
    part = total - high
    return total, low + ((high - (total - part)) + (term - part))


@helper
def rounded(high, low, absolute):
    """Returns a sum of two doubles, rounded once. It is zero if its terms cancel.

    `absolute` is the sum of the absolute terms.
    """
    total = high + low
    return 0.0 if abs(total) <= CANCELS * absolute else total


@helper
def sum_of(value, start, end, spare):
    """Returns a sum in ascending order of its terms; zero where they cancel."""
    for t in range(end - start):
        at = t
        while at > 0 and spare[at - 1] > value[start + t]:
            spare[at] = spare[at - 1]
            at -= 1
        spare[at] = value[start + t]
    high, low, absolute = 0.0, 0.0, 0.0
    for t in range(end - start):
        high, low = add(high, low, spare[t])
        absolute += abs(spare[t])
    return rounded(high, low, absolute)


def compress(matrix: CSRArrays, value_type: np.dtype) -> CSRArrays:
    """Returns the matrix with entries at the same place added up."""
    value = np.empty(matrix.col.size, value_type)
    out = CSRArrays(np.empty_like(matrix.ptr), np.empty_like(matrix.col), value)
    sum_duplicates(matrix, out, np.empty(int(matrix.lengths.max(initial=0))))
    for array in (out.col, out.value):  # shrink in place, without a copy
        array.resize(int(out.ptr[-1]), refcheck=False)
    return out


@allocation_free
def add_squares(rows, scale, norm2):
    """Adds the sum of squares of each row to `norm2`, in two doubles."""
    for i in range(norm2.shape[0]):
        high, low = norm2[i, 0], norm2[i, 1]
        for e in range(rows.ptr[i], rows.ptr[i + 1]):
            value = np.float64(rows.value[e])
            if scale.size > 0:
                value *= scale[i]
            high, low = add(high, low, value * value)
        norm2[i, 0], norm2[i, 1] = high, low


def select(matrix: CSRArrays, keep_row: np.ndarray, keep_col: np.ndarray) -> CSRArrays:
    """Returns the matrix with only the entries in these rows and columns."""
    if keep_row.all() and keep_col.all():
        return matrix
    keep = np.repeat(keep_row, matrix.lengths) & keep_col[matrix.col]
    before = offsets(keep)
    value = matrix.value if matrix.value.size == 0 else matrix.value[keep]
    return CSRArrays(before[matrix.ptr], matrix.col[keep], value)


@allocation_free
def count_products(rows, lists, numbers, products):
    """Adds to `products[t]` the lengths of the lists of row `numbers[t]`."""
    for t in range(numbers.size):
        i = numbers[t]
        for e in range(rows.ptr[i], rows.ptr[i + 1]):
            products[t] += lists.ptr[rows.col[e] + 1] - lists.ptr[rows.col[e]]


@allocation_free
def inspect(matrix, unit, p, integral, largest, smallest):
    """Updates for each row whether it holds integers times `unit^p`, and its extreme sizes."""
    for i in range(matrix.ptr.size - 1):
        for e in range(matrix.ptr[i], matrix.ptr[i + 1]):
            size = abs(matrix.value[e])
            whole = size
            for _ in range(p):
                whole /= unit
            integral[i] &= whole == np.rint(whole)
            largest[i] = max(largest[i], size)
            if size > 0:
                smallest[i] = min(smallest[i], size)

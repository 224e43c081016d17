"""Sparse matrices in CSR form, and the kernels that build them.

Sums are exact, or kept in two doubles; see :mod:`torch_geometric_simpool.utils.rounding`.
"""

from typing import NamedTuple

import numpy as np

from torch_geometric_simpool.topk.numba import threads
from torch_geometric_simpool.topk.numba.jit import allocation_free, helper, inlined, prefetch
from torch_geometric_simpool.utils.rounding import CANCELS

#: Random numbers that are added before ids and before values are hashed, drawn once a process. With
#: fixed numbers, some graphs would always be mistaken for symmetric ones.
SALT = np.random.default_rng().integers(2**64, size=2, dtype=np.uint64)

#: 2^64 by the golden ratio. Its multiples by numbers below 2^31 differ by more than 2^31, so they
#: stay distinct if their last 31 bits are changed.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)

#: Entries of chosen rows are copied if there are at most so many.
MOST_COPIED = 2**22

#: The most threads that transpose a matrix. Each needs memory for an array over the columns.
MOST_SHARES = 4

#: The places of a result are prefetched so many entries ahead.
AHEAD = np.uint64(16)

#: An empty array: values or scales that are all one.
NO_VALUES = np.empty(0)

#: All bits of a double except its sign, and the bits of 1.0.
WITHOUT_SIGN, ONE = np.uint64(2**63 - 1), 0x3FF0000000000000


class CSRArrays(NamedTuple):
    """A sparse matrix in CSR form. A matrix whose `value` has size zero holds ones."""

    ptr: np.ndarray  # [num_rows + 1]
    col: np.ndarray  # row `i` is `col[ptr[i]:ptr[i + 1]]`
    value: np.ndarray

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self.ptr.size - 1

    @property
    def lengths(self) -> np.ndarray:
        """The number of entries of each row."""
        return self.ptr[1:] - self.ptr[:-1]


def offsets(counts: np.ndarray) -> np.ndarray:
    """Returns the row pointers of rows with these numbers of entries."""
    ptr = np.zeros(counts.size + 1, np.int64)
    counts.cumsum(out=ptr[1:])
    return ptr


@allocation_free
def number_by(size, next_number, order, number):
    """Numbers ids by size, then by id. `next_number` holds the first number of each size."""
    for i in range(size.size):
        at = next_number[size[i]]
        next_number[size[i]] += 1
        order[at], number[i] = i, at


@allocation_free
def renumber(start, end, matrix, row_number, col_number, out):
    """Copies rows to a matrix whose rows and columns have new numbers."""
    for i in range(start, end):
        # A negative shift wraps around, and so does the sum.
        shift = np.uint64(out.ptr[row_number[i]] - matrix.ptr[i])
        for e in range(np.uint64(matrix.ptr[i]), np.uint64(matrix.ptr[i + 1])):
            out.col[e + shift] = col_number[np.uint64(matrix.col[e])]
            if out.value.size > 0:
                out.value[e + shift] = matrix.value[e]


@allocation_free
def fill(row, col, value, row_number, col_number, fill_at, out):
    """Writes entries to the rows of a matrix in the order they come, with their new numbers.

    The next entry of row `i` is written to `fill_at[i]`, which then grows by one.
    """
    for e in range(np.uint64(row.size)):
        if e + AHEAD < np.uint64(row.size):
            prefetch_place(fill_at[row_number[np.uint64(row[e + AHEAD])]], out)
        i = row_number[np.uint64(row[e])]
        at = np.uint64(fill_at[i])
        fill_at[i] += 1
        out.col[at] = col_number[np.uint64(col[e])]
        if out.value.size > 0:
            out.value[at] = value[e]


def transpose(matrix: CSRArrays, ptr: np.ndarray) -> CSRArrays:
    """Returns the transpose, whose row pointers are `ptr`; the columns of each row ascend."""
    out = CSRArrays(ptr, np.empty_like(matrix.col), np.empty_like(matrix.value))
    starts, ends = np.array(threads.shares(matrix.ptr, MOST_SHARES)).T
    shares = [(share, share + 1) for share in range(starts.size)]
    dtype = np.uint32 if matrix.col.size < 2**32 else np.int64
    fill_at, begin = np.zeros((starts.size, ptr.size - 1), dtype), ptr[:-1].astype(dtype)
    threads.run(count_columns, shares[:-1], starts, ends, matrix, fill_at)
    for counts in fill_at:  # each share writes after the shares before it
        counts[:], begin = begin, begin + counts
    threads.run(transpose_to, shares, starts, ends, matrix, fill_at, out)
    return out


@inlined
def prefetch_place(at, matrix):
    """Prefetches the place of an entry, which would be waited for when it is written."""
    prefetch(matrix.col, np.int64(at))
    if matrix.value.size > 0:
        prefetch(matrix.value, np.int64(at))


@allocation_free
def count_columns(share, _, starts, ends, matrix, counts):
    """Counts the entries of the rows of a share in each column.

    :func:`threads.run` passes a share as a range of length one.
    """
    counts = counts[share]
    for e in range(np.uint64(matrix.ptr[starts[share]]), np.uint64(matrix.ptr[ends[share]])):
        counts[np.uint64(matrix.col[e])] += 1


@allocation_free
def transpose_to(share, _, starts, ends, matrix, fill_at, out):
    """Writes the entries of the rows of a share to the transpose.

    The next entry of column `j` is written to `fill_at[share, j]`, which then grows by one.
    """
    ptr, col, value, fill_at = matrix.ptr, matrix.col, matrix.value, fill_at[share]
    for i in range(starts[share], ends[share]):
        for e in range(np.uint64(ptr[i]), np.uint64(ptr[i + 1])):
            if e + AHEAD < np.uint64(ptr[ends[share]]):
                prefetch_place(fill_at[np.uint64(col[e + AHEAD])], out)
            j = np.uint64(col[e])
            at = np.uint64(fill_at[j])
            fill_at[j] += 1
            out.col[at] = i
            if value.size > 0:
                out.value[at] = value[e]


class Survey(NamedTuple):
    """Facts about the entries of a matrix."""

    is_sorted: bool  # whether entries are sorted and distinct
    asymmetry: int  # a sum of 64 bits over the entries, zero if each has its mirror image
    all_ones: bool
    whole: bool  # whether all values are integers
    largest: float  # the largest absolute value


def survey(row: np.ndarray, col: np.ndarray, value: np.ndarray) -> Survey:
    """Returns facts about the entries of a matrix from one pass over them."""
    parts: list[tuple] = []

    def survey_part(start: int, end: int) -> None:
        parts.append(survey_entries(start, end, row, col, value, SALT))

    threads.run(survey_part, threads.equal_shares(row.size))
    is_sorted, asymmetry, all_ones, whole, bits = zip(*parts)
    largest = float(np.uint64(max(bits)).view(np.float64))
    return Survey(all(is_sorted), sum(asymmetry) % 2**64, all(all_ones), all(whole), largest)


@allocation_free
def survey_entries(start, end, row, col, value, salt):
    """Returns the fields of a :class:`Survey` for the entries from `start` to `end`.

    The largest absolute value is returned as the bits of a double.

    An entry adds a hash of its two nodes and its value to `asymmetry`, or subtracts it if it is
    below the diagonal. Its mirror image does the opposite. If entries are distinct and not
    symmetric, the sum is zero with a probability of about 2^-64.
    """
    is_sorted, asymmetry, all_ones, whole = True, np.uint64(0), True, True
    largest, one = np.uint64(0 if value.size > 0 else ONE), np.uint64(1)
    for e in range(np.uint64(start), np.uint64(end)):
        i, j = np.uint64(row[e]), np.uint64(col[e])
        number = (salt[0] + min(i, j)) * GOLDEN ^ max(i, j)
        if value.size > 0:
            # Adding zero makes negative zeros positive, so that equal values have equal bits.
            weight = np.float64(value[e]) + 0.0
            bits = np.uint64(np.float64(weight).view(np.int64))
            number += hash64(bits + salt[1])
            all_ones &= weight == 1.0
            whole &= weight == np.rint(weight)
            largest = max(largest, bits & WITHOUT_SIGN)
        asymmetry += hash64(number) * (np.uint64(i < j) - np.uint64(i > j))
    for e in range(np.uint64(max(start, 1)), np.uint64(end)):
        before = e - one
        is_sorted &= (row[before] < row[e]) | ((row[before] == row[e]) & (col[before] < col[e]))
    return is_sorted, asymmetry, all_ones, whole, largest


@inlined
def hash64(number):
    """Returns the hash of an integer by SplitMix64."""
    number = (number + np.uint64(1)) * GOLDEN
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


@allocation_free
def count_repeated(matrix):
    """Returns the number of entries that repeat the one before."""
    repeated = 0
    for i in range(matrix.ptr.size - 1):
        for e in range(matrix.ptr[i] + 1, matrix.ptr[i + 1]):
            repeated += np.int64(matrix.col[e] == matrix.col[e - 1])
    return repeated


@allocation_free
def sum_duplicates(matrix, out):
    """Adds up entries at the same place; a matrix without values holds ones."""
    at = np.int64(0)
    for i in range(matrix.ptr.size - 1):
        out.ptr[i] = at
        e = matrix.ptr[i]
        while e < matrix.ptr[i + 1]:
            first, high, low, absolute = e, 0.0, 0.0, 0.0
            while e < matrix.ptr[i + 1] and matrix.col[e] == matrix.col[first]:
                term = 1.0 if matrix.value.size == 0 else np.float64(matrix.value[e])
                high, low = add(high, low, term)
                absolute += abs(term)
                e += 1
            out.col[at], out.value[at] = matrix.col[first], rounded(high, low, absolute)
            at += 1
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


def compress(matrix: CSRArrays) -> CSRArrays:
    """Returns the matrix with entries at the same place added up, real values in float64."""
    is_real = matrix.value.size > 0 and matrix.value.dtype.kind == "f"
    value = np.empty(matrix.col.size, np.float64 if is_real else np.int32)
    out = CSRArrays(np.empty_like(matrix.ptr), np.empty_like(matrix.col), value)
    sum_duplicates(matrix, out)
    for array in (out.col, out.value):  # shrink in place, without a copy
        array.resize(int(out.ptr[-1]), refcheck=False)
    return out


def squared_norms(matrices: tuple[CSRArrays, ...], scale: np.ndarray = NO_VALUES) -> np.ndarray:
    """Returns the squared norm of each row of matrices side by side, times its `scale` if any."""
    parts = np.zeros((matrices[0].num_rows, 2))
    for matrix in matrices:
        threads.run(add_squares, threads.shares(matrix.ptr), matrix, scale, parts)
    return parts[:, 0] + parts[:, 1]


@allocation_free
def add_squares(start, end, rows, scale, norm2):
    """Adds the sum of squares of each row to `norm2`, in two doubles."""
    for i in range(start, end):
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


class ChosenRows(NamedTuple):
    """Rows of a matrix: row `t` has the entries from `start[t]` to `end[t]`."""

    start: np.ndarray
    end: np.ndarray
    col: np.ndarray
    value: np.ndarray


def all_rows(matrix: CSRArrays) -> ChosenRows:
    """Returns all rows. Nothing is copied."""
    return ChosenRows(matrix.ptr[:-1], matrix.ptr[1:], matrix.col, matrix.value)


def choose_rows(matrix: CSRArrays, numbers: np.ndarray) -> ChosenRows:
    """Returns the rows `numbers`.

    If they have few entries, these are copied to one array, in which kernels read ahead.
    """
    rows = ChosenRows(matrix.ptr[numbers], matrix.ptr[numbers + 1], matrix.col, matrix.value)
    ptr = offsets(rows.end - rows.start)
    if ptr[-1] > MOST_COPIED:
        return rows
    value = np.empty(ptr[-1] if rows.value.size > 0 else 0, rows.value.dtype)
    out = ChosenRows(ptr[:-1], ptr[1:], np.empty(ptr[-1], rows.col.dtype), value)
    threads.run(copy_rows, threads.shares(ptr), rows, out)
    return out


@allocation_free
def copy_rows(start, end, rows, out):
    """Copies the entries of rows."""
    for t in range(start, end):
        shift = rows.start[t] - out.start[t]
        for e in range(out.start[t], out.end[t]):
            out.col[e] = rows.col[e + shift]
            if out.value.size > 0:
                out.value[e] = rows.value[e + shift]


def products_of_rows(rows: ChosenRows, lists: CSRArrays) -> np.ndarray:
    """Returns the number of products of each row."""
    products = np.empty(rows.start.size, np.int64)
    ranges = threads.shares(offsets(rows.end - rows.start))
    threads.run(count_products, ranges, rows, lists, products)
    return products


@allocation_free
def count_products(start, end, rows, lists, products):
    """Writes the sum of the lengths of the lists of each row."""
    for t in range(start, end):
        total = np.int64(0)
        for e in range(np.uint64(rows.start[t]), np.uint64(rows.end[t])):
            j = np.uint64(rows.col[e])
            total += lists.ptr[j + np.uint64(1)] - lists.ptr[j]
        products[t] = total


@allocation_free
def update_extremes(start, end, matrix, largest, smallest):
    """Updates the largest and the smallest positive absolute value of each row."""
    for i in range(start, end):
        for e in range(matrix.ptr[i], matrix.ptr[i + 1]):
            size = abs(matrix.value[e])
            largest[i] = max(largest[i], size)
            if size > 0:
                smallest[i] = min(smallest[i], size)

"""Sparse matrices in CSR form, on threads: transposes, powers and the like."""

from typing import Any, Optional

import numpy as np
import torch

from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.numba import csr, product, threads
from torch_geometric_simpool.topk.numba.arrays import CSRArrays

#: Longer than any list.
NO_LIMIT = np.iinfo(np.int64).max


def transpose(matrix: CSRArrays, num_cols: int) -> CSRArrays:
    """The transpose; the columns of each row ascend."""
    counts, _ = csr.count(matrix.col, num_cols)
    out = CSRArrays(csr.offsets(counts), np.empty_like(matrix.col), np.empty_like(matrix.value))
    csr.transpose(matrix, out, out.ptr[:-1].copy())
    return out


def is_symmetric(matrix: CSRArrays) -> bool:
    """Whether the pattern of a matrix, ascending and without duplicates, is symmetric."""
    differences: list[Optional[int]] = []

    def compare(start: int, end: int, _: Any) -> None:
        differences.append(csr.is_symmetric(matrix, start, end))

    num_threads = torch.get_num_threads()
    threads.run(compare, threads.equal_ranges(matrix.num_rows, num_threads), num_threads)
    return None not in differences and sum(filter(None, differences)) == 0


def select_entries(matrix: CSRArrays, keep_row: np.ndarray, keep_col: np.ndarray) -> CSRArrays:
    """The matrix with only the entries in these rows and columns; an empty array keeps all."""
    out = CSRArrays(*map(np.empty_like, matrix))
    csr.select_entries(matrix, keep_row, keep_col, out)
    size = out.ptr[-1]
    return CSRArrays(out.ptr, out.col[:size], out.value[:size])


def sum_duplicates(matrix: CSRArrays) -> CSRArrays:
    """Adds up entries at the same place; overwrites the matrix."""
    ptr = np.empty_like(matrix.ptr)
    csr.sum_duplicates(matrix, ptr)
    return CSRArrays(ptr, matrix.col[: ptr[-1]], matrix.value[: ptr[-1]])


def renumber(matrix: CSRArrays, order: np.ndarray, rank: np.ndarray) -> CSRArrays:
    """A matrix of ones with its rows in `order`; the ranks of its columns ascend."""
    out = CSRArrays(csr.offsets(matrix.lengths[order]), np.empty_like(matrix.col), matrix.value)

    def renumber_rows(start: int, end: int, _: Any) -> None:
        csr.renumber(matrix, order, rank, start, end, out)

    num_threads = torch.get_num_threads()
    threads.run(renumber_rows, threads.equal_ranges(matrix.num_rows, num_threads), num_threads)
    return out


def power(matrix: CSRArrays, p: int, exact: bool, budget: Budget) -> CSRArrays:
    """The `p`-th power of a square matrix."""
    result = matrix
    for _ in range(p - 1):
        result = multiply(result, matrix, exact, budget)
    return result


def multiply(left: CSRArrays, right: CSRArrays, exact: bool, budget: Budget) -> CSRArrays:
    """The product; the columns of its rows are in no order."""
    num_nodes, id_type = left.num_rows, left.col.dtype
    num_threads = torch.get_num_threads()
    work = np.zeros(num_nodes, np.int64)
    ids = np.arange(num_nodes, dtype=left.col.dtype)
    csr.products_of_rows(left, right, NO_LIMIT, ids, work, 0, num_nodes)
    budget.check_products(int(work.sum(dtype=np.float64)))
    ranges = list(threads.blocks(work, num_threads))
    counts = np.empty(num_nodes, np.int64)

    def count(start: int, end: int, seen: np.ndarray) -> None:
        product.count_entries(left, right, start, end, counts, seen)

    threads.run(count, ranges, num_threads, lambda: product.new_seen(num_nodes, id_type))
    num_entries = int(counts.sum())
    # Twice, because it is transposed afterwards.
    needed = 2 * num_entries * (id_type.itemsize + 8) + left.nbytes + right.nbytes
    budget.check_memory(needed)
    out = CSRArrays(csr.offsets(counts), np.empty(num_entries, id_type), np.empty(num_entries))
    signed = not exact and (is_signed(left) or is_signed(right))

    def fill(start: int, end: int, scratch: product.Scratch) -> None:
        product.fill_entries(left, right, exact, start, end, out, scratch)

    threads.run(fill, ranges, num_threads, lambda: product.new_scratch(num_nodes, id_type, signed))
    return out


def is_signed(matrix: CSRArrays) -> bool:
    """Whether a value is negative."""
    return bool(matrix.value.min(initial=0) < 0)


def largest_sum(matrix: CSRArrays) -> float:
    """The largest sum of absolute values in a row or a column."""
    if matrix.value.size == 0:
        return 0.0
    columns = np.bincount(matrix.col, np.abs(matrix.value))
    return max(csr.absolute_sums(matrix), float(columns.max()))


def largest_of_rows(matrix: CSRArrays) -> np.ndarray:
    """The largest absolute value of each row, 0 of an empty one."""
    largest = np.zeros(matrix.num_rows)
    filled = matrix.lengths > 0
    if filled.any():
        largest[filled] = np.maximum.reduceat(np.abs(matrix.value), matrix.ptr[:-1][filled])
    return largest


def equal(left: CSRArrays, right: CSRArrays) -> bool:
    """Whether two matrices have the same entries, in the same order."""
    return all(np.array_equal(a, b) for a, b in zip(left, right))

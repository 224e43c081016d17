"""Sparse matrices in rows, and products of them in blocks of rows.

What the sparse top k is built from. Values are float64; sums are taken in an
order that depends on the summands alone, never on the numbering of the nodes, so
that nodes which are alike get values that are alike to the last bit.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

#: Bytes that one elementary product of a block costs at its peak: its key, its value,
#: two gathered indices, and the copies that sorting and reducing them make.
BYTES_PER_PRODUCT = 160


@dataclass
class Rows:
    """A sparse matrix by rows: row `i` holds `col[ptr[i]:ptr[i + 1]]`, ascending."""

    ptr: Tensor  # [num_rows + 1]
    col: Tensor  # [nnz]
    value: Tensor  # [nnz], float64
    num_cols: int

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self.ptr.numel() - 1

    @property
    def row(self) -> Tensor:
        """The row of each entry, `[nnz]`."""
        rows = torch.arange(self.num_rows, device=self.ptr.device)
        return rows.repeat_interleave(self.ptr.diff(), output_size=self.col.numel())


def add_duplicates(key: Tensor, value: Tensor, exact: bool) -> tuple[Tensor, Tensor]:
    """Sums the values of equal keys; returns the distinct keys, ascending, and the sums.

    Where sums round (not `exact`), the summands of a key are added in ascending
    order. Differentiable with respect to `value`.
    """
    if not exact:
        order = value.detach().argsort(stable=True)
        key, value = key[order], value[order]
    key, order = key.sort(stable=True)
    unique, counts = torch.unique_consecutive(key, return_counts=True)
    if unique.numel() == key.numel():
        return unique, value[order]
    return unique, torch.segment_reduce(value[order], "sum", lengths=counts)


def from_entries(
    row: Tensor, col: Tensor, value: Tensor, num_rows: int, num_cols: int, exact: bool
) -> Rows:
    """Builds the matrix; entries at the same place add up."""
    key, value = add_duplicates(row * num_cols + col, value, exact)
    return _from_keys(key, value, num_rows, num_cols)


def _from_keys(key: Tensor, value: Tensor, num_rows: int, num_cols: int) -> Rows:
    row = key.div(max(num_cols, 1), rounding_mode="floor")
    ptr = torch.zeros(num_rows + 1, dtype=torch.long, device=key.device)
    ptr[1:] = torch.bincount(row, minlength=num_rows).cumsum(0)
    return Rows(ptr, key - row * num_cols, value, num_cols)


def transpose(matrix: Rows) -> Rows:
    """The transposed matrix, by rows."""
    return from_entries(
        matrix.col, matrix.row, matrix.value, matrix.num_cols, matrix.num_rows, exact=True
    )


def keep(matrix: Rows, kept: Tensor) -> Rows:
    """The matrix with those entries only."""
    before = torch.zeros(kept.numel() + 1, dtype=torch.long, device=kept.device)
    before[1:] = kept.cumsum(0)
    return Rows(before[matrix.ptr], matrix.col[kept], matrix.value[kept], matrix.num_cols)


def is_symmetric(matrix: Rows) -> bool:
    """Whether the matrix is its own transpose."""
    other = transpose(matrix)
    return (
        torch.equal(matrix.ptr, other.ptr)
        and torch.equal(matrix.col, other.col)
        and torch.equal(matrix.value, other.value)
    )


def beside(left: Rows, right: Rows) -> Rows:
    """The concatenation of the columns, `[left | right]`."""
    num_cols = left.num_cols + right.num_cols
    return from_entries(
        torch.cat([left.row, right.row]),
        torch.cat([left.col, right.col + left.num_cols]),
        torch.cat([left.value, right.value]),
        left.num_rows,
        num_cols,
        exact=True,
    )


def row_blocks(left: Rows, right: Rows, memory_budget: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows of `left` whose products with `right` fit the budget.

    A row that does not fit alone is a range of its own. It has at most as many
    products as `right` has entries.
    """
    limit = max(memory_budget // BYTES_PER_PRODUCT, 1)
    per_entry = right.ptr.diff()[left.col]
    before = torch.zeros(left.col.numel() + 1, dtype=torch.long, device=per_entry.device)
    before[1:] = per_entry.cumsum(0)
    before = before[left.ptr].cpu()  # products in all rows before each row
    start = 0
    while start < left.num_rows:
        end = int(torch.searchsorted(before, before[start] + limit, right=True)) - 1
        end = max(end, start + 1)
        yield start, end
        start = end


def multiply_rows(
    left: Rows, right: Rows, start: int, end: int, exact: bool
) -> tuple[Tensor, Tensor]:
    """Rows `start` to `end` of `left @ right`: keys `row * num_cols + col`, and values.

    Expands every elementary product, sorts, and adds up. Differentiable.
    """
    first, last = left.ptr[[start, end]].tolist()
    middle = left.col[first:last]
    per_entry = right.ptr.diff()[middle]
    entry = torch.arange(last - first, device=middle.device).repeat_interleave(per_entry)
    before = per_entry.cumsum(0) - per_entry
    position = torch.arange(entry.numel(), device=entry.device)
    position += (right.ptr[middle] - before)[entry]
    row = left.row[first:last][entry]
    value = left.value[first:last][entry] * right.value[position]
    return add_duplicates(row * right.num_cols + right.col[position], value, exact)


def matrix_power(matrix: Rows, p: int, exact: bool, memory_budget: int) -> Rows:
    """The `p`-th power of a square matrix, a block of rows at a time."""
    power = matrix
    for _ in range(p - 1):
        blocks = [
            multiply_rows(power, matrix, start, end, exact)
            for start, end in row_blocks(power, matrix, memory_budget)
        ]
        if not blocks:
            return matrix
        keys, values = zip(*blocks)
        power = _from_keys(torch.cat(keys), torch.cat(values), matrix.num_rows, matrix.num_cols)
    return power

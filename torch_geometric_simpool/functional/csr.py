"""Sparse matrices in CSR form, and products of them in blocks of rows.

The sparse top k is built from them. Values are float64. Sums depend on the summands alone,
never on the ids of the nodes: so nodes with the same summands get the same values, bit for bit.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_simpool.utils.cancel import CANCELS
from torch_geometric_simpool.utils.scaling import two_to

#: The bytes of one elementary product of a block at its peak: its key, its value, two
#: gathered indices, and the copies made by sorting and reducing.
BYTES_PER_PRODUCT = 160


@dataclass
class CSRMatrix:
    """A sparse matrix: row `i` has entries in columns `col[ptr[i]:ptr[i + 1]]`, ascending."""

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


def sum_duplicates(key: Tensor, value: Tensor, exact: bool) -> tuple[Tensor, Tensor]:
    """Sums the values of equal keys. Returns the distinct keys, ascending, and the sums.

    Differentiable with respect to `value`.
    """
    key, order = key.sort(stable=True)
    unique, counts = torch.unique_consecutive(key, return_counts=True)
    if unique.numel() == key.numel():
        return unique, value[order]
    return unique, sum_segments(value[order], counts, exact)


def sum_segments(value: Tensor, lengths: Tensor, exact: bool) -> Tensor:
    """The sums of consecutive values, `lengths` of them each; differentiable.

    Where sums round (not `exact`), each is rounded once, whatever the order of its terms, and
    is zero where they cancel: see :mod:`torch_geometric_simpool.utils.cancel`.
    """
    if lengths.numel() == 0:
        return value  # which is empty; segment_reduce takes no empty lengths
    if exact:
        return torch.segment_reduce(value, "sum", lengths=lengths, initial=0)
    total = _sum_rounded_once(value.detach(), lengths)
    if not value.requires_grad:
        return total
    plain = torch.segment_reduce(value, "sum", lengths=lengths, initial=0)
    return total + (plain - plain.detach())


def _sum_rounded_once(value: Tensor, lengths: Tensor) -> Tensor:
    """Sums of float64 values, which are cut into parts whose sums are exact.

    The parts are multiples of one power of two, as in `AccSum` of Rump, Ogita and Oishi (2008).
    """

    def reduce(part: Tensor, reduction: str) -> Tensor:
        return torch.segment_reduce(part, reduction, lengths=lengths, initial=0)

    absolute = value.abs()
    bits = torch.frexp(lengths.double()).exponent
    # Added to a value and taken off again, it leaves the bits of a part.
    cut = two_to(torch.frexp(reduce(absolute, "max")).exponent + bits, value.dtype)
    sums, rest = [], value
    for _ in range(3):
        each = cut.repeat_interleave(lengths, output_size=value.numel())
        part = (rest + each) - each
        sums.append(reduce(part, "sum"))
        rest = rest - part
        cut = torch.ldexp(cut, bits - 53)
    high = sums[0] + sums[1]
    part = high - sums[0]
    lost = (sums[0] - (high - part)) + (sums[1] - part)
    total = high + (lost + sums[2])
    return total.masked_fill(total.abs() <= CANCELS * reduce(absolute, "sum"), 0)


def from_coo(
    row: Tensor, col: Tensor, value: Tensor, num_rows: int, num_cols: int, exact: bool
) -> CSRMatrix:
    """Builds a matrix from its entries. Entries at the same place add up."""
    key, value = sum_duplicates(row * num_cols + col, value, exact)
    return _from_keys(key, value, num_rows, num_cols)


def _from_keys(key: Tensor, value: Tensor, num_rows: int, num_cols: int) -> CSRMatrix:
    row = key.div(max(num_cols, 1), rounding_mode="floor")
    ptr = torch.zeros(num_rows + 1, dtype=torch.long, device=key.device)
    ptr[1:] = torch.bincount(row, minlength=num_rows).cumsum(0)
    return CSRMatrix(ptr, key - row * num_cols, value, num_cols)


def transpose(matrix: CSRMatrix) -> CSRMatrix:
    """The transpose."""
    return from_coo(
        matrix.col, matrix.row, matrix.value, matrix.num_cols, matrix.num_rows, exact=True
    )


def mask_entries(matrix: CSRMatrix, mask: Tensor) -> CSRMatrix:
    """The matrix with only those entries where `mask`, `[nnz]`, is true."""
    before = torch.zeros(mask.numel() + 1, dtype=torch.long, device=mask.device)
    before[1:] = mask.cumsum(0)
    return CSRMatrix(before[matrix.ptr], matrix.col[mask], matrix.value[mask], matrix.num_cols)


def select_rows(matrix: CSRMatrix, rows: Tensor) -> CSRMatrix:
    """The matrix of these rows, in their order."""
    lengths = matrix.ptr.diff()[rows]
    ptr = torch.zeros(rows.numel() + 1, dtype=torch.long, device=rows.device)
    ptr[1:] = lengths.cumsum(0)
    entry = torch.arange(int(ptr[-1]), device=rows.device)
    entry += (matrix.ptr[rows] - ptr[:-1]).repeat_interleave(lengths)
    return CSRMatrix(ptr, matrix.col[entry], matrix.value[entry], matrix.num_cols)


def is_symmetric(matrix: CSRMatrix) -> bool:
    """Whether the matrix equals its transpose."""
    other = transpose(matrix)
    return (
        torch.equal(matrix.ptr, other.ptr)
        and torch.equal(matrix.col, other.col)
        and torch.equal(matrix.value, other.value)
    )


def hstack(left: CSRMatrix, right: CSRMatrix) -> CSRMatrix:
    """The concatenation of the columns, `[left | right]`."""
    num_cols = left.num_cols + right.num_cols
    return from_coo(
        torch.cat([left.row, right.row]),
        torch.cat([left.col, right.col + left.num_cols]),
        torch.cat([left.value, right.value]),
        left.num_rows,
        num_cols,
        exact=True,
    )


def row_blocks(left: CSRMatrix, right: CSRMatrix, memory_budget: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows of `left` whose products with `right` fit into the budget.

    A row that does not fit is a range of its own.
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
    left: CSRMatrix, right: CSRMatrix, start: int, end: int, exact: bool
) -> tuple[Tensor, Tensor]:
    """Rows `start` to `end` of `left @ right`: keys `row * num_cols + col`, and values.

    Computes every elementary product, sorts them, and adds up. Differentiable.
    """
    first, last = int(left.ptr[start]), int(left.ptr[end])
    middle = left.col[first:last]
    per_entry = right.ptr.diff()[middle]
    entry = torch.arange(last - first, device=middle.device).repeat_interleave(per_entry)
    before = per_entry.cumsum(0) - per_entry
    position = torch.arange(entry.numel(), device=entry.device)
    position += (right.ptr[middle] - before)[entry]
    row = left.row[first:last][entry]
    value = left.value[first:last][entry] * right.value[position]
    return sum_duplicates(row * right.num_cols + right.col[position], value, exact)


def matrix_power(matrix: CSRMatrix, p: int, exact: bool, memory_budget: int) -> CSRMatrix:
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

"""Sparse matrices in CSR form, and products of them in blocks of rows.

Values are float64. A sum depends only on its summands, and not on the ids of nodes. Nodes with
equal summands get equal values, bit for bit.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.utils import cumsum

from torch_geometric_simpool.topk.budget import Budget, row_ranges
from torch_geometric_simpool.utils.rounding import CANCELS, two_to

#: The most bytes of the products or tables of one block, on a CPU and on a GPU.
BLOCK, BLOCK_ON_GPU = 256 * 2**20, 2**30

#: The bytes of one elementary product of a block at the peak: a key, a value, two gathered indices,
#: the place of its sum, and copies by sorting and summing.
BYTES_PER_PRODUCT = 176

#: The bytes of an entry of a matrix and of its transpose: column, value and row.
BYTES_PER_ENTRY = 48


class CSRMatrix(NamedTuple):
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
        return torch.repeat_interleave(self.ptr.diff(), output_size=self.col.numel())


def sum_duplicates(key: Tensor, value: Tensor, exact: bool) -> tuple[Tensor, Tensor]:
    """Sums the values of equal keys. Returns the distinct keys, ascending, and the sums.

    Differentiable with respect to `value`.
    """
    key, order = key.sort(stable=True)
    unique, place, counts = torch.unique_consecutive(key, return_inverse=True, return_counts=True)
    if unique.numel() == key.numel():
        return unique, value[order]
    return unique, rounded_sums(value[order], place, counts, exact)


def rounded_sums(value: Tensor, segment: Tensor, lengths: Tensor, exact: bool) -> Tensor:
    """Sums each segment of consecutive values. `segment` ascends; differentiable.

    Unless sums are `exact`, a sum is rounded once, independently of the order of its terms, and is
    zero if they cancel. See :mod:`torch_geometric_simpool.utils.rounding`.
    """
    plain = segment_sum(value, segment, lengths.numel())
    if exact:
        return plain
    total, terms = plain.detach(), value.detach()
    # PyTorch rounds the sum of one or two terms only once, too.
    longer = lengths > 2
    if longer.any():
        sums = _sum_rounded_once(terms[longer[segment]], lengths[longer])
        total = total.masked_scatter(longer, sums)
    if (terms < 0).any():
        absolute = segment_sum(terms.abs(), segment, lengths.numel())
        total = total.masked_fill(total.abs() <= CANCELS * absolute, 0)
    return total + (plain - plain.detach()) if value.requires_grad else total


def segment_sum(value: Tensor, segment: Tensor, num_segments: int) -> Tensor:
    """Returns the sum of each segment; differentiable."""
    return value.new_zeros(num_segments).index_add(0, segment, value)


def segment_max(value: Tensor, segment: Tensor, num_segments: int) -> Tensor:
    """Returns the maximum of zero and each segment."""
    return value.new_zeros(num_segments).scatter_reduce_(0, segment, value, "amax")


def _sum_rounded_once(value: Tensor, lengths: Tensor) -> Tensor:
    """Sums float64 values in parts whose sums are exact.

    The parts are multiples of one power of two, as in `AccSum` of Rump, Ogita and Oishi (2008).
    """
    num_segments = lengths.numel()
    segment = torch.repeat_interleave(lengths, output_size=value.numel())
    bits = torch.frexp(lengths.double()).exponent
    # Adding `cut` to a value and subtracting it leaves the bits of a part.
    size = segment_max(value.abs(), segment, num_segments)
    cut = two_to(torch.frexp(size).exponent + bits, value.dtype)
    sums, rest = [], value
    for _ in range(3):
        each = cut[segment]
        part = (rest + each) - each
        sums.append(segment_sum(part, segment, num_segments))
        rest = rest - part
        cut = torch.ldexp(cut, bits - 53)
    high = sums[0] + sums[1]
    part = high - sums[0]
    lost = (sums[0] - (high - part)) + (sums[1] - part)
    return high + (lost + sums[2])


def from_coo(
    row: Tensor, col: Tensor, value: Tensor, num_rows: int, num_cols: int, exact: bool
) -> CSRMatrix:
    """Builds a matrix from its entries. Entries at the same place add up."""
    key, value = sum_duplicates(narrow(row * num_cols + col, num_rows * num_cols), value, exact)
    return _from_keys(key.long(), value, num_rows, num_cols)


def _from_keys(key: Tensor, value: Tensor, num_rows: int, num_cols: int) -> CSRMatrix:
    first_key = torch.arange(num_rows + 1, device=key.device) * num_cols
    return CSRMatrix(torch.searchsorted(key, first_key), key % max(num_cols, 1), value, num_cols)


def transpose(matrix: CSRMatrix) -> CSRMatrix:
    """Returns the transpose."""
    return from_coo(
        matrix.col, matrix.row, matrix.value, matrix.num_cols, matrix.num_rows, exact=True
    )


def is_symmetric(matrix: CSRMatrix) -> bool:
    """Returns whether a square matrix is its own transpose, bit for bit."""
    row, col, num_nodes = matrix.row, matrix.col, matrix.num_cols
    mirrored, order = narrow(col * num_nodes + row, num_nodes**2).sort()
    key = narrow(row * num_nodes + col, num_nodes**2)
    return torch.equal(mirrored, key) and torch.equal(matrix.value[order], matrix.value)


def mask_entries(matrix: CSRMatrix, mask: Tensor) -> CSRMatrix:
    """Returns the matrix with only the entries where `mask`, `[nnz]`, is true."""
    ptr = cumsum(mask.long())[matrix.ptr]
    return matrix._replace(ptr=ptr, col=matrix.col[mask], value=matrix.value[mask])


def select_rows(matrix: CSRMatrix, rows: Tensor) -> CSRMatrix:
    """Returns the rows of a matrix in the order of `rows`."""
    _, entry = entries_of(matrix, rows)
    ptr = cumsum(matrix.ptr.diff()[rows])
    return matrix._replace(ptr=ptr, col=matrix.col[entry], value=matrix.value[entry])


def entries_of(matrix: CSRMatrix, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Returns for each entry of these rows its position in `rows` and in `matrix.col`, `[L]`."""
    start, lengths = matrix.ptr[rows], matrix.ptr.diff()[rows]
    place = torch.repeat_interleave(lengths)
    shift = start - lengths.cumsum(0) + lengths
    return place, torch.arange(place.numel(), device=rows.device).add_(shift.index_select(0, place))


def make_blocks(
    sizes: Tensor, unit: int, fixed: int, budget: Budget
) -> tuple[list[tuple[int, int]], int]:
    """Returns blocks of rows of these sizes, `[M]`, and the used bytes.

    A block is the range of its rows. The products of one block are in memory at a time.

    Args:
        sizes: The size of each row.
        unit: The bytes of a size of one.
        fixed: The bytes that are used beside the blocks.
        budget: The limits of the call.
    """
    ends = cumsum(sizes).cpu()
    room = block_bytes(sizes.is_cpu, fixed, budget)
    # A row is not divided.
    limit = max(room // unit, int(ends.diff().max()) if sizes.numel() > 0 else 0)
    limit = min(limit, int(ends[-1]))
    return row_ranges(ends.numpy(), limit), fixed + limit * unit


def block_bytes(on_cpu: bool, fixed: int, budget: Budget) -> int:
    """Returns the bytes of a block, if `fixed` bytes are used beside it."""
    room = BLOCK if on_cpu else BLOCK_ON_GPU
    if budget.memory is not None or not on_cpu:
        room = min(room, budget.limit - budget.output - fixed)
    return room


def count_products(left: CSRMatrix, right: CSRMatrix) -> Tensor:
    """Returns the number of elementary products of each row of `left @ right`."""
    return cumsum(right.ptr.diff()[left.col])[left.ptr].diff()


def multiply_rows(
    left: CSRMatrix, right: CSRMatrix, start: int, end: int, exact: bool
) -> tuple[Tensor, Tensor]:
    """Returns rows `start` to `end` of `left @ right`: keys `row * num_cols + col`, and values.

    Computes every elementary product, sorts them, and adds up. Differentiable.
    """
    rows = select_rows(left, torch.arange(start, end, device=left.ptr.device))
    entry, position = entries_of(right, rows.col)
    key = (rows.row * right.num_cols).index_select(0, entry)
    key = narrow(key.add_(right.col.index_select(0, position)), (end - start) * right.num_cols)
    value = rows.value.index_select(0, entry) * right.value.index_select(0, position)
    key, total = sum_duplicates(key, value, exact)
    return key.long() + start * right.num_cols, total


def narrow(key: Tensor, size: int) -> Tensor:
    """Returns integers below `size` as int32 if they fit, which are sorted in half the time."""
    return key.int() if size <= 2**31 else key


def matrix_power(matrix: CSRMatrix, p: int, exact: bool, budget: Budget) -> CSRMatrix:
    """Computes the `p`-th power of a square matrix, in blocks of rows."""
    power = matrix
    for _ in range(p - 1):
        sizes, products = count_products(power, matrix) + 1, []
        for start, end in make_blocks(sizes, BYTES_PER_PRODUCT, 0, budget)[0]:
            products.append(multiply_rows(power, matrix, start, end, exact))
            budget.check_memory(sum(key.numel() for key, _ in products) * BYTES_PER_ENTRY)
        if products:
            keys, values = map(torch.cat, zip(*products))
            power = _from_keys(keys, values, matrix.num_rows, matrix.num_cols)
    return power


def positions(keys: Tensor, searched: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the place of each searched number in ascending keys, and whether it is a key.

    There must be keys if numbers are searched.
    """
    place = torch.searchsorted(keys, searched).clamp(max=keys.numel() - 1)
    return place, keys[place] == searched

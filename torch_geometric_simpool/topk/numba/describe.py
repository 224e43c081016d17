"""Computes the descriptions of all nodes from edges: the matrix `[A_hat | A_hat^T]`, and norms."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import torch

from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.numba import csr, threads
from torch_geometric_simpool.topk.numba.best import BLOCK, Norms
from torch_geometric_simpool.topk.numba.csr import NO_VALUES, CSRArrays
from torch_geometric_simpool.topk.numba.power import multiply
from torch_geometric_simpool.topk.parse import BYTES_PER_NODE, BYTES_PER_UNSORTED_EDGE
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings
from torch_geometric_simpool.utils.rounding import power_of_two

#: Products of two values that are not smaller than this, times a squared norm, are normal numbers.
SMALL = 2.0**-250

#: Weights in float32 are not scaled if the largest is below this, and above its inverse. Keys are
#: about as large as squares of weights, and must not overflow in float32.
MOST_UNSCALED = 2.0**30

#: Nodes with values are numbered by degree if rows have at most so many products on average.
FEW_PRODUCTS = 64

#: Entries that are converted at a time.
CHUNK = 1 << 22

#: Makes an array of its parts.
Store = Callable[[Iterable[np.ndarray]], np.ndarray]


class Side(NamedTuple):
    """`A_hat` or `A_hat^T`, by rows and by columns."""

    rows: CSRArrays  # the features of each node
    lists: CSRArrays  # the nodes that have each feature; values are multiplied by `Norms.scale`


class Sides(NamedTuple):
    """The matrices of `[A_hat | A_hat^T]`."""

    first: Side
    second: Side  # the first again if `num_sides` is 1


class Description(NamedTuple):
    """The descriptions of all nodes: row `i` of `[A_hat | A_hat^T]` describes node `i`.

    Nodes are numbered by norm, roughly if there are values or large norms. Where rows have few
    products, nodes with values are numbered by degree. The candidates of a row are the nodes in the
    lists of its features. Arrays are shared where they are equal.
    """

    sides: Sides
    num_sides: int  # 1 if `A_hat` is symmetric, or the graph bipartite: only the first side is used
    norms: Norms
    largest: float  # the largest squared norm; no dot product is larger
    number: np.ndarray  # the number of each id
    exact: bool  # whether no sum of products rounds
    signed: bool  # whether a value is negative, so that products may cancel
    neighbors: CSRArrays  # the nodes that a row leaves out, if any
    building_memory: int  # the largest number of bytes while it was built

    @property
    def num_bytes(self) -> int:
        """The bytes of all arrays."""
        matrices = (*self.sides.first, *self.sides.second, self.neighbors, self.norms)
        arrays = [array for matrix in matrices for array in matrix]
        return sum({id(array): array.nbytes for array in (*arrays, self.number)}.values())

    @property
    def sum_type(self) -> np.dtype:
        """The type of dot products."""
        if self.signed or not self.exact or self.largest >= 2**31:
            return np.dtype(np.float64)
        return np.dtype(np.int32 if self.largest >= 2**16 else np.uint16)


class Entries(NamedTuple):
    """The entries of `A + lam * I`, in any order."""

    row: np.ndarray
    col: np.ndarray
    value: np.ndarray  # int8, int32, float32 or float64; empty if all are one
    row_counts: np.ndarray  # the number of entries of each row
    column_counts: np.ndarray
    is_sorted: bool  # whether they are sorted by row, then by column, and distinct
    symmetric: bool  # whether each has its mirror image; false if bipartite or not sorted
    exact: bool  # whether no sum of products of entries rounds


def describe(edges: EdgeList, settings: TopKSettings, budget: Budget) -> Description:
    """Builds `[A_hat | A_hat^T]` in the order of the kernels; checks the memory first."""
    entries = entries_of(edges, settings)
    row, col, value, row_counts, column_counts, is_sorted, symmetric, exact = entries
    ids = type_of_ids(max(edges.num_nodes, edges.num_cols))
    # A symmetric matrix is its own transpose, and a sorted matrix is not sorted again. Values are
    # counted as if each row had a scale.
    num_matrices, num_values = (1, 4) if symmetric else (2 if is_sorted else 3, 6)
    summed = 4 if exact else 8  # the bytes of a sum of repeated edges
    value_size = 0 if value.size == 0 else value.itemsize if is_sorted else summed
    memory = row.size * (num_matrices * ids.itemsize + num_values * value_size)
    if settings.lam > 0:  # the edges with self-loops
        memory += row.nbytes + col.nbytes
    if not is_sorted and value.size == 0:  # numbers of repeated edges
        memory += BYTES_PER_UNSORTED_EDGE * row.size
    if settings.exclude_neighbors:
        memory += 2 * ids.itemsize * row.size
    memory += BYTES_PER_NODE * max(edges.num_nodes, edges.num_cols)
    if edges.edge_weight is not None:  # weights that are all one may be converted to float64 first
        memory = max(memory, 8 * row.size)
    budget.check_memory(memory)

    in_order = CSRArrays(csr.offsets(row_counts), col, value)  # valid if `is_sorted`
    size = row_counts if edges.bipartite else row_counts + column_counts
    # Rows with few products are faster if rows of one degree follow each other.
    counts = (column_counts,) if edges.bipartite or symmetric else (row_counts, column_counts)
    by_degree = value.size == 0 or (
        settings.p == 1
        and sum(np.square(count, dtype=np.float64).sum() for count in counts)
        <= FEW_PRODUCTS * edges.num_nodes
    )
    if not by_degree:
        # Parallel edges are squared one by one, so norms are approximate.
        def sums_of_squares(ends: np.ndarray) -> np.ndarray:
            return np.bincount(ends, np.square(value, dtype=np.float64), edges.num_nodes)

        size = csr.squared_norms((in_order,)) if is_sorted else sums_of_squares(row)
        if not (edges.bipartite or symmetric):
            size = size + sums_of_squares(col)
    order, number = order_by(size, ids)
    columns = np.arange(edges.num_cols, dtype=ids) if edges.bipartite else number
    ptr = csr.offsets(row_counts[order])
    rows = CSRArrays(ptr, np.empty(row.size, ids), np.empty(value.size, value.dtype))
    if is_sorted:
        ranges = threads.shares(in_order.ptr)
        threads.run(csr.renumber, ranges, in_order, number, columns, rows)
    else:
        csr.fill(row, col, value, number, columns, ptr[:-1].copy(), rows)
    lists = rows
    if not symmetric:
        lengths = column_counts if edges.bipartite else column_counts[order]
        lists = csr.transpose(rows, csr.offsets(lengths))
    if not is_sorted:
        if csr.count_repeated(lists) > 0:
            lists = csr.compress(lists)
            ptr = csr.offsets(np.bincount(lists.col, minlength=edges.num_nodes))
        # Columns ascend now, so that a symmetric matrix and its transpose have equal arrays.
        rows = csr.transpose(lists, ptr)
    if settings.p > 1:
        values = rows.value if rows.value.size > 0 else np.ones(rows.col.size)
        rows = rows._replace(value=values.astype(np.float64))
        factor, held = rows, memory
        for _ in range(settings.p - 1):
            rows, needed = multiply(rows, factor, exact, budget, held)
            memory = max(memory, needed)
        lists = csr.transpose(rows, csr.offsets(np.bincount(rows.col, minlength=edges.num_cols)))
        rows = csr.transpose(lists, rows.ptr)
    symmetric = not edges.bipartite and (rows is lists or all(map(np.array_equal, rows, lists)))
    description = description_of(
        lists if symmetric else rows,
        lists,
        edges.bipartite,
        order,
        number,
        exact,
    )
    if settings.exclude_neighbors:
        description = description._replace(neighbors=neighbors_of(edges, number))
    return description._replace(building_memory=memory)


def entries_of(edges: EdgeList, settings: TopKSettings) -> Entries:
    """Returns the entries of `A + lam * I`."""
    row, col = (ids.contiguous().numpy() for ids in edges.edge_index)
    value = NO_VALUES
    if edges.edge_weight is not None:
        weight = edges.edge_weight.detach().resolve_neg()  # `numpy()` refuses negated views
        if weight.dtype != torch.float32 or settings.p > 1:  # powers are computed in float64
            weight = weight.double()
        value = weight.contiguous().numpy()
    if settings.lam > 0:
        diagonal = np.arange(edges.num_nodes)
        if value.size > 0 or settings.lam != 1:
            ones = value if value.size > 0 else np.ones(row.size)
            value = np.concatenate([ones, np.full(edges.num_nodes, settings.lam)])
        row, col = np.concatenate([row, diagonal]), np.concatenate([col, diagonal])
    survey = csr.survey(row, col, value)
    if survey.all_ones:
        value = NO_VALUES
    # Entries that repeat could cancel in the sum of hashes.
    symmetric = survey.is_sorted and survey.asymmetry == 0 and not edges.bipartite
    row_counts = np.bincount(row, minlength=edges.num_nodes)
    column_counts = row_counts if symmetric else np.bincount(col, minlength=edges.num_cols)
    # No entry of a power exceeds that power of the largest sum, no dot product twice its square.
    limit, exact = 2 ** (26 / settings.p), survey.whole
    if exact and row.size > 0:
        exact = bool(survey.largest < limit / max(row_counts.max(), column_counts.max()))
        if not exact and value.size > 0:  # the largest sum may be much smaller than this product
            size = np.abs(value)
            exact = bool(max(np.bincount(ids, size).max() for ids in (row, col)) < limit)
    if exact:
        value = value.astype(np.int8 if survey.largest < 2**7 else np.int32)
    elif value.dtype == np.float64 or not 1 / MOST_UNSCALED < survey.largest < MOST_UNSCALED:
        # Scaling the whole matrix changes no measure, and keeps powers from overflowing.
        ones = value if value.size > 0 else np.ones(row.size)
        value = np.multiply(ones, scale_of(survey.largest), dtype=np.float64)
    return Entries(row, col, value, row_counts, column_counts, survey.is_sorted, symmetric, exact)


def type_of_ids(num_nodes: int) -> np.dtype:
    """Returns the type of node ids. Without a sign, they are faster to read from arrays."""
    narrow = np.uint16 if num_nodes < 2**16 else np.uint32
    return np.dtype(narrow if num_nodes < 2**32 else np.int64)


def order_by(size: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ids sorted by `size`, then by id, and the number of each id in this order.

    Sizes that are no integers are rounded to three bits first, because similar nodes often have ids
    that are close, and should be close in memory. Sizes from 65,535 on count as equal.
    """
    if size.dtype == np.float64:
        with np.errstate(over="ignore"):
            size = (size.astype(np.float32).view(np.int32) >> 20).astype(np.int64)
    size = np.minimum(size, 65535)
    order, number = np.empty(size.size, dtype), np.empty(size.size, dtype)
    csr.number_by(size, csr.offsets(np.bincount(size)), order, number)
    return order, number


def neighbors_of(edges: EdgeList, number: np.ndarray) -> CSRArrays:
    """Returns the neighbors of each node along edges and against them; some occur twice."""
    row, col = (ids.contiguous().numpy() for ids in edges.edge_index)
    counts = np.empty(edges.num_nodes, np.int64)
    counts[number] = sum(np.bincount(ends, minlength=counts.size) for ends in (row, col))
    out = CSRArrays(csr.offsets(counts), np.empty(2 * row.size, number.dtype), NO_VALUES)
    fill_at = out.ptr[:-1].copy()
    csr.fill(row, col, NO_VALUES, number, number, fill_at, out)
    csr.fill(col, row, NO_VALUES, number, number, fill_at, out)
    return out


def in_memory(parts: Iterable[np.ndarray]) -> np.ndarray:
    """Returns the parts of an array as one."""
    return np.concatenate(list(parts))


def description_of(
    rows: CSRArrays,
    lists: CSRArrays,
    bipartite: bool,
    order: np.ndarray,
    number: np.ndarray,
    exact: bool,
    store: Store = in_memory,
) -> Description:
    """Returns the descriptions of a matrix.

    Args:
        rows: The matrix.
        lists: Its transpose; `rows` if it is symmetric, and not bipartite.
        bipartite: Whether rows and columns are different nodes.
        order: The caller's id of each node.
        number: Its inverse.
        exact: Whether values are integers whose sums of products do not round.
        store: Makes an array of its parts.
    """
    scale = np.empty(0)
    matrices = (rows,) if bipartite or lists is rows else (rows, lists)
    least, most = rows.value.min(initial=1), rows.value.max(initial=1)
    if not exact and least < SMALL:
        largest, smallest = np.zeros(rows.num_rows), np.full(rows.num_rows, np.inf)
        for matrix in matrices:
            ranges = threads.shares(matrix.ptr)
            threads.run(csr.update_extremes, ranges, matrix, largest, smallest)
        if smallest.min(initial=1.0) < SMALL:
            # Each row has a scale of its own, so that no square under- or overflows.
            scale = scale_of(largest)
    if rows.value.size == 0:
        norm2 = np.asarray(sum(matrix.lengths for matrix in matrices), np.float64)
    else:
        norm2 = csr.squared_norms(matrices, scale)
    narrow = np.int8 if least >= -(2**7) and most < 2**7 else np.int32
    dtype = np.dtype(narrow) if exact else rows.value.dtype
    plain = convert(rows, dtype, NO_VALUES, store)
    plain_lists = plain if lists is rows else convert(lists, dtype, NO_VALUES, store)
    first = second = Side(plain, convert(plain_lists, dtype, scale, store))
    if len(matrices) == 2:
        second = Side(plain_lists, convert(plain, dtype, scale, store))
    starts = np.arange(0, norm2.size, BLOCK)
    levels, level = levels_of(norm2, starts)
    return Description(
        sides=Sides(first, second),
        num_sides=len(matrices),
        norms=Norms(
            norm2=norm2,
            levels=levels,
            level=level,
            ceiling=np.maximum.reduceat(norm2, starts) if starts.size else norm2,
            scale=scale,
            id=order,
        ),
        largest=float(norm2.max(initial=0)),
        number=number,
        exact=exact,
        signed=bool(least < 0),
        neighbors=CSRArrays(np.zeros(1, np.int64), order[:0], NO_VALUES),
        building_memory=0,
    )


def levels_of(norm2: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the levels of squared norms, ascending, and for each block of nodes its level.

    The level of a block is its smallest positive norm. It is rounded down to seven bits, because
    each row computes a threshold for each level.
    """
    positive = np.where(norm2 > 0, norm2, np.inf)
    floor = np.minimum.reduceat(positive, starts) if starts.size else norm2
    rounded = (floor.view(np.int64) >> 46 << 46).view(np.float64)
    levels = np.array(sorted(set(rounded.tolist())))  # np.unique takes longer for small graphs
    return levels, levels.searchsorted(rounded).astype(type_of_ids(levels.size))


def convert(matrix: CSRArrays, dtype: np.dtype, scale: np.ndarray, store: Store) -> CSRArrays:
    """Returns a matrix with values of a type, times the scale of their columns."""
    value = matrix.value
    if value.size == 0:
        return matrix._replace(value=np.empty(0, dtype))
    if value.dtype == dtype and scale.size == 0:
        return matrix
    chunks = (slice(first, first + CHUNK) for first in range(0, value.size, CHUNK))
    parts = (
        value[part] * scale[matrix.col[part]] if scale.size > 0 else value[part].astype(dtype)
        for part in chunks
    )
    return matrix._replace(value=store(parts))


def scale_of(largest: Any) -> np.ndarray:
    """Returns the powers of two that numbers up to `largest` are multiplied by."""
    return power_of_two(torch.as_tensor(largest, dtype=torch.float64, device="cpu")).numpy()

"""The top k on a CPU: a graph becomes lists of neighbours, and the kernels do the rest."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
import torch
from torch import Tensor

from torch_geometric_simpool.engine.topk import csr, rows, threads
from torch_geometric_simpool.engine.topk.compiled import call
from torch_geometric_simpool.utils.budget import check_memory, check_products
from torch_geometric_simpool.utils.scaling import power_of_two

#: Lists shorter than this are never those of a hub: they are cheaper to read than to skip.
SHORTEST_HUB = 128

_NOTHING = np.empty(0)
_NO_LIMIT = np.iinfo(np.int64).max


@dataclass
class Lists:
    """A sparse matrix: list `i` is `col[ptr[i]:ptr[i + 1]]`. Without values it holds ones."""

    ptr: np.ndarray
    col: np.ndarray
    value: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """The number of entries of each list."""
        return np.diff(self.ptr)

    @property
    def nbytes(self) -> int:
        """The memory of the arrays."""
        return self.ptr.nbytes + self.col.nbytes + self.value.nbytes


@dataclass
class Described:
    """The descriptions of all nodes, ready for the kernels."""

    by_row: Lists
    by_col: Lists
    sides: int  # 1 where a symmetric matrix is described by its rows alone
    exact: bool
    scale: np.ndarray  # of each node's description; empty if unweighted
    integral: np.ndarray  # whether each holds integers, but for `scale` and one power of two
    norm2: np.ndarray
    order: np.ndarray  # the caller's number of each node; empty if weighted
    unweighted: bool  # it holds ones, so that counts are all there is to compute
    building: int = 0  # bytes that were needed to get here


@dataclass
class Plan:
    """What there is to do for each row."""

    max_length: int
    hub_length: int
    hub_mask: np.ndarray
    hub_ptr: np.ndarray  # where the list of each hub begins and ends
    hub_side: np.ndarray
    work: np.ndarray  # products of each row that are looked at, at most
    products: int  # of all rows, without skipping any


def describe(
    edge_index: Tensor,
    edge_weight: Optional[Tensor],
    num_nodes: int,
    p: int,
    lam: float,
    measure: str,
    memory_budget: Optional[int],
    force: bool,
) -> Described:
    """The lists of `[A_hat | A_hat^T]`, with the norms."""
    row, col = (ids.contiguous().numpy() for ids in edge_index)
    weight = _NOTHING
    if edge_weight is not None and not bool((edge_weight == 1).all()):
        weight = edge_weight.detach().double().contiguous().numpy()
    ids = np.int32 if num_nodes < np.iinfo(np.int32).max else np.int64
    num_entries = row.size + (num_nodes if lam > 0 else 0)
    weighted = p > 1 or weight.size > 0 or lam not in (0.0, 1.0)
    entry = np.dtype(ids).itemsize + (8 if weighted else 0)
    # The entries as they come, and in order: whatever else is needed, this is.
    building = 2 * num_entries * entry
    check_memory(building, memory_budget, force)

    counts, ascending = call(csr.count, row, num_nodes)
    lists = Lists(
        call(csr.offsets, counts, 1 if lam > 0 else 0),
        np.empty(num_entries, ids),
        np.empty(num_entries if weighted else 0),
    )
    call(csr.fill, row, col, weight, lists.ptr, ascending, float(lam), lists.col, lists.value)
    if not weighted:
        described = _ones(lists)
        if described is not None:
            described.building = building
            return described
        lists.value = np.ones(num_entries)
    described = _values(lists, weight, p, lam, measure, memory_budget, force)
    described.building = building
    return described


def _ones(lists: Lists) -> Optional[Described]:
    """Descriptions of ones, in numbers given by norm, then id; or `None` if entries repeat."""
    num_nodes = lists.ptr.size - 1
    by_col_counts, _ = call(csr.count, lists.col, num_nodes)
    order = np.empty(num_nodes, lists.col.dtype)
    rank = np.empty(num_nodes, lists.col.dtype)
    # By the norm of one side and of both alike, whether it is symmetric or not.
    call(csr.rank_by, lists.lengths + by_col_counts, order, rank)
    by_row = Lists(
        call(csr.offsets, lists.lengths[order], 0), np.empty_like(lists.col), lists.value
    )

    def renumber(start: int, end: int, _: Any) -> None:
        arrays = (by_row.ptr, by_row.col)
        call(csr.renumber, lists.ptr, lists.col, order, rank, start, end, *arrays)

    num_threads = torch.get_num_threads()
    threads.run(renumber, _equal_ranges(num_nodes, num_threads), num_threads, lambda: None)
    if call(csr.has_duplicates, by_row.ptr, by_row.col):
        return None
    by_col, sides = by_row, 1
    norm2 = by_row.lengths.astype(np.float64)
    if not _is_symmetric(by_row):
        by_col, sides = _transpose(by_row), 2
        norm2 += by_col.lengths
    return Described(by_row, by_col, sides, True, _NOTHING, _NOTHING, norm2, order, True)


def _values(
    lists: Lists,
    weight: np.ndarray,
    p: int,
    lam: float,
    measure: str,
    memory_budget: Optional[int],
    force: bool,
) -> Described:
    """Descriptions with values, in the caller's numbers."""
    largest_sum = max(
        call(csr.absolute_sums, lists.ptr, lists.value),
        _largest_sum_of_columns(lists),
    )
    integers = float(lam).is_integer() and bool((weight == np.rint(weight)).all())
    # No entry of a power exceeds that power of it, and no dot product twice the square.
    exact = integers and largest_sum < 2 ** (26 / p)
    unit = 1.0  # what 1 has become
    if not exact and lists.value.size > 0:
        # Neither measure changes when the whole matrix is scaled; so no power overflows.
        unit = float(_power_of_two(np.abs(lists.value).max()))
        lists.value *= unit
    by_col = _transpose(lists)
    by_col.ptr = call(csr.merge_duplicates, by_col.ptr, by_col.col, by_col.value)
    num_entries = int(by_col.ptr[-1])
    by_col.col, by_col.value = by_col.col[:num_entries], by_col.value[:num_entries]
    by_row = _transpose(by_col)
    if p > 1:
        matrix = by_row
        for _ in range(p - 1):
            by_row = _multiply(by_row, matrix, exact, memory_budget, force)
        by_col = _transpose(by_row)
        by_row = _transpose(by_col)

    sides = 2
    if np.array_equal(by_row.ptr, by_col.ptr) and np.array_equal(by_row.col, by_col.col):
        sides = 1 if np.array_equal(by_row.value, by_col.value) else 2
    num_nodes = by_row.ptr.size - 1
    scale = np.ones(num_nodes)
    if measure == "cosine" and not exact:
        # Nor does the cosine when a row is; so no square under- or overflows.
        largest = np.maximum(_largest_of_lists(by_row), _largest_of_lists(by_col))
        scale = _power_of_two(largest)
    integral = _integral(by_row, unit, p) & _integral(by_col, unit, p)
    norm2 = np.empty(num_nodes)
    call(
        rows.squared_norms,
        by_row.ptr,
        by_row.value,
        scale,
        by_col.ptr,
        by_col.value,
        sides,
        exact,
        norm2,
    )
    return Described(by_row, by_col, sides, exact, scale, integral, norm2, _NOTHING, False)


def plan(
    described: Described, k: int, max_degree: Optional[int], force: bool, num_threads: int
) -> Plan:
    """Counts the products of every row, and finds the hubs whose lists need not be read."""
    num_nodes = described.norm2.size
    max_length = _NO_LIMIT if max_degree is None else max_degree
    by_side = [described.by_col, described.by_row][: described.sides]
    owners = [described.by_row, described.by_col][: described.sides]
    products = sum(
        int(np.dot(lists.lengths * (lists.lengths <= max_length), lists.lengths))
        for lists in by_side
    )
    result = Plan(
        max_length,
        max_length,
        np.empty(0, np.uint64),
        np.empty((0, 2), np.int64),
        np.empty(0, np.int64),
        np.zeros(num_nodes, np.int64),
        products,
    )
    if described.unweighted:
        _find_hubs(result, by_side, num_nodes)
    limit = min(result.max_length, result.hub_length)

    def count(start: int, end: int, _: Any) -> None:
        for owner, lists in zip(owners, by_side):
            rows_and_limit = (owner.ptr, owner.col, lists.ptr, limit, result.work)
            call(csr.products_of_rows, *rows_and_limit, start, end)
        if result.hub_side.size > 0:
            lengths = np.diff(result.hub_ptr)[:, 0]
            call(rows.hub_visits, result.hub_mask, lengths, k, result.work, start, end)

    threads.run(count, _equal_ranges(num_nodes, num_threads), num_threads, lambda: None)
    # Not `sum()` of NumPy's alone: it would wrap around without a word.
    check_products(int(result.work.sum(dtype=np.float64)), force)
    return result


def select(
    described: Described,
    todo: Plan,
    k: int,
    measure: str,
    loop: bool,
    min_similarity: Optional[float],
    dtype: torch.dtype,
    num_threads: int,
) -> tuple[Tensor, Tensor]:
    """The top k of every node."""
    num_nodes = described.norm2.size
    wide = dtype == torch.float64
    values = np.empty((num_nodes, k), np.float64 if wide else np.float32)
    index = np.empty((num_nodes, k), np.int64)
    jaccard = measure == "jaccard"
    lowest = -2.0 if min_similarity is None else min_similarity
    kernel, arguments, scratch = (_unweighted if described.unweighted else _weighted)(
        described, todo
    )
    settings = (k, loop, jaccard, lowest)

    def work(start: int, end: int, own: tuple) -> None:
        call(kernel, *arguments, *settings, start, end, values, index, *own)

    ranges = list(threads.blocks(todo.work, num_threads))
    threads.run(work, ranges, num_threads, scratch)
    return torch.from_numpy(values).to(dtype), torch.from_numpy(index)


def memory_of(described: Described, todo: Plan, num_threads: int) -> int:
    """The bytes that the computation takes at its peak, beyond input and output."""
    own = (_unweighted if described.unweighted else _weighted)(described, todo)[2]()
    scratch = num_threads * (sum(array.nbytes for array in own) + rows.TABLES)
    # While the lists are turned over, they are there in both orders.
    lists = described.by_col.nbytes + max(described.by_row.nbytes, described.by_col.nbytes)
    by_node = described.norm2.nbytes + described.order.nbytes + described.scale.nbytes
    selecting = lists + scratch + by_node + todo.work.nbytes + todo.hub_mask.nbytes
    return max(described.building, selecting)


def _unweighted(described: Described, todo: Plan) -> tuple[Any, tuple, Callable[[], tuple]]:
    """The kernel for ones, its arguments, and what makes the scratch of a thread."""
    by_row, by_col = described.by_row, described.by_col
    num_nodes, ids = described.norm2.size, by_row.col.dtype
    # Work is at least the number of products that are counted.
    long = int(todo.work.max(initial=0)) > rows.BUFFER
    arguments = (
        *(by_row.ptr, by_row.col, by_col.ptr, by_col.col),
        *(described.sides, described.norm2, described.order),
        *(todo.max_length, todo.hub_length, todo.hub_mask, todo.hub_ptr, todo.hub_side),
    )

    def scratch() -> tuple:
        room = max(rows.BUFFER, num_nodes + 1) if long else rows.BUFFER
        return (
            np.empty((4, room), ids),
            np.full(num_nodes if todo.hub_side.size > 0 else 0, -1, ids),
            np.zeros(num_nodes if long else 0, np.int32),
        )

    return rows.unweighted_rows, arguments, scratch


def _weighted(described: Described, todo: Plan) -> tuple[Any, tuple, Callable[[], tuple]]:
    """The kernel for values, its arguments, and what makes the scratch of a thread."""
    by_row, by_col, scale = described.by_row, described.by_col, described.scale
    num_nodes, ids = described.norm2.size, by_row.col.dtype
    long = int(todo.work.max(initial=0)) > rows.BUFFER
    scaled = [by_row.value, by_col.value]
    if not described.exact and (scale != 1).any():
        scaled = [lists.value * scale[lists.col] for lists in (by_row, by_col)]
    arguments = (
        *(by_row.ptr, by_row.col, by_row.value, scaled[0]),
        *(by_col.ptr, by_col.col, by_col.value, scaled[1]),
        *(described.sides, scale, described.integral, described.norm2),
        *(described.exact, todo.max_length),
    )

    def scratch() -> tuple:
        hashed = num_nodes > 2 * rows.BUFFER
        room = num_nodes if long or not hashed else 2 * rows.BUFFER
        return (
            np.empty(room, np.int64),
            np.full(room if long or not hashed else 0, -1, ids),
            np.empty(room),
            np.empty(room),
        )

    return rows.weighted_rows, arguments, scratch


def _find_hubs(todo: Plan, by_side: list[Lists], num_nodes: int) -> None:
    """At most 64 lists that are longer than all others, shortest first, and who is in them."""
    lengths = np.concatenate([lists.lengths for lists in by_side])
    used = np.where(lengths <= todo.max_length, lengths, 0)
    longest = np.sort(np.partition(used, -65)[-65:] if used.size > 65 else used)
    hub_length = max(SHORTEST_HUB, int(longest[0]) if used.size > 64 else 0)
    hubs = np.flatnonzero(used > hub_length)
    if hubs.size == 0:
        return
    hubs = hubs[np.argsort(used[hubs], kind="stable")]
    todo.hub_length = hub_length
    todo.hub_side = (hubs >= num_nodes).astype(np.int64)
    ptrs = [lists.ptr for lists in by_side]
    todo.hub_ptr = np.array(
        [ptrs[hub // num_nodes][hub % num_nodes : hub % num_nodes + 2] for hub in hubs]
    )
    todo.hub_mask = np.zeros(num_nodes, np.uint64)
    for bit, ((first, last), side) in enumerate(zip(todo.hub_ptr, todo.hub_side)):
        todo.hub_mask[by_side[side].col[first:last]] |= np.uint64(1 << bit)


def _multiply(
    left: Lists, right: Lists, exact: bool, memory_budget: Optional[int], force: bool
) -> Lists:
    """The product, its rows unsorted."""
    num_nodes = left.ptr.size - 1
    num_threads = torch.get_num_threads()
    work = np.zeros(num_nodes, np.int64)
    call(csr.products_of_rows, left.ptr, left.col, right.ptr, _NO_LIMIT, work, 0, num_nodes)
    check_products(int(work.sum(dtype=np.float64)), force)
    ranges = list(threads.blocks(work, num_threads))
    counts = np.empty(num_nodes, np.int64)

    def count(start: int, end: int, stamp: np.ndarray) -> None:
        lists = (left.ptr, left.col, right.ptr, right.col)
        call(rows.multiply_count, *lists, start, end, counts, stamp)

    def stamp() -> np.ndarray:
        return np.full(num_nodes, -1, left.col.dtype)

    threads.run(count, ranges, num_threads, stamp)
    num_entries = int(counts.sum())
    # It is turned over and back afterwards, so it is there twice.
    entry = left.col.itemsize + 8
    check_memory(2 * num_entries * entry + left.nbytes + right.nbytes, memory_budget, force)
    product = Lists(
        call(csr.offsets, counts, 0), np.empty(num_entries, left.col.dtype), np.empty(num_entries)
    )

    def fill(start: int, end: int, own: tuple) -> None:
        call(
            rows.multiply_fill,
            *(left.ptr, left.col, left.value, right.ptr, right.col, right.value),
            *(exact, start, end, product.ptr, product.col, product.value),
            *own,
        )

    threads.run(
        fill,
        ranges,
        num_threads,
        lambda: (stamp(), np.empty(num_nodes), np.empty(num_nodes)),
    )
    return product


def _transpose(lists: Lists) -> Lists:
    counts, _ = call(csr.count, lists.col, lists.ptr.size - 1)
    other = Lists(
        call(csr.offsets, counts, 0), np.empty_like(lists.col), np.empty_like(lists.value)
    )
    arrays = (lists.ptr, lists.col, lists.value, other.ptr, other.col, other.value)
    call(csr.transpose, *arrays)
    return other


def _is_symmetric(lists: Lists) -> bool:
    differences: list[Optional[int]] = []

    def compare(start: int, end: int, _: Any) -> None:
        differences.append(call(csr.is_symmetric, lists.ptr, lists.col, start, end))

    num_threads = torch.get_num_threads()
    num_nodes = lists.ptr.size - 1
    threads.run(compare, _equal_ranges(num_nodes, num_threads), num_threads, lambda: None)
    return None not in differences and sum(filter(None, differences)) == 0


def _equal_ranges(num_rows: int, num_threads: int) -> list[tuple[int, int]]:
    """Eight ranges for each thread, or more of them where there are very many rows."""
    step = min(max(-(-num_rows // (8 * num_threads)), 10_000), 1_000_000)
    return [(start, min(start + step, num_rows)) for start in range(0, num_rows, step)]


def _largest_sum_of_columns(lists: Lists) -> float:
    if lists.value.size == 0:
        return 0.0
    return float(np.bincount(lists.col, np.abs(lists.value)).max())


def _integral(lists: Lists, unit: float, p: int) -> np.ndarray:
    """Of each list, whether it holds integers but for the `p`-th power of a power of two."""
    whole = lists.value.copy()
    with np.errstate(over="ignore"):  # to infinity, which is as good as an integer
        for _ in range(p):
            whole /= unit
    integral = np.ones(lists.ptr.size - 1, np.bool_)
    fractions = np.flatnonzero(whole != np.rint(whole))
    integral[np.searchsorted(lists.ptr, fractions, side="right") - 1] = False
    return integral


def _largest_of_lists(lists: Lists) -> np.ndarray:
    """The largest absolute value of each list, 0 of an empty one."""
    largest = np.zeros(lists.ptr.size - 1)
    filled = lists.lengths > 0
    if filled.any():
        largest[filled] = np.maximum.reduceat(np.abs(lists.value), lists.ptr[:-1][filled])
    return largest


def _power_of_two(largest: Any) -> np.ndarray:
    return power_of_two(torch.as_tensor(largest, dtype=torch.float64)).numpy()

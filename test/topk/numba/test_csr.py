"""Sparse matrices in CSR form, against lists of Python."""

import math
from fractions import Fraction
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from torch_geometric_simpool.topk.numba import csr, matrices
from torch_geometric_simpool.topk.numba.arrays import CSRArrays

NOTHING = np.empty(0)
Lists = list[list[int]]


def arrays(lists: Lists, value: np.ndarray = NOTHING) -> CSRArrays:
    ptr = np.cumsum([0] + [len(ids) for ids in lists]).astype(np.int64)
    return CSRArrays(ptr, np.array([j for ids in lists for j in ids], np.int32), value)


def lists_of(ptr: np.ndarray, col: np.ndarray) -> Lists:
    return [col[first:last].tolist() for first, last in pairwise(ptr)]


def random_lists(rng: Random, size: int, density: float) -> Lists:
    """Ascending, without duplicates."""
    return [[j for j in range(size) if rng.random() < density] for _ in range(size)]


SIZES = [(0, 0.0), (1, 0.0), (1, 1.0), (7, 0.3), (30, 0.1), (50, 0.9)]


@pytest.mark.parametrize(
    ("ids", "ascending"),
    [([], True), ([3], True), ([0, 0, 2, 2, 5], True), ([1, 0], False), ([0, 5, 4, 5], False)],
)
def test_count(ids: list[int], ascending: bool) -> None:
    counts, in_order = csr.count(np.array(ids, np.int64), 6)
    assert counts.tolist() == [ids.count(i) for i in range(6)]
    assert in_order == ascending


@pytest.mark.parametrize("extra", [0, 1])
def test_offsets(extra: int) -> None:
    for counts in ([], [0], [3, 0, 2], [2**40] * 3):
        ptr = csr.offsets(np.array(counts, np.int64), extra)
        expected = [sum(counts[:i]) + extra * i for i in range(len(counts) + 1)]
        assert ptr.tolist() == expected


@pytest.mark.parametrize("weights", ["none", "given", "ones to be written"])
@pytest.mark.parametrize("diagonal", [0.0, 2.5])
@pytest.mark.parametrize("sort", [False, True])
def test_fill(sort: bool, diagonal: float, weights: str) -> None:
    rng = Random(0)
    edges = [(rng.randrange(6), rng.randrange(6), rng.random()) for _ in range(40)]
    edges = sorted(edges, key=lambda edge: edge[0]) if sort else edges
    row, col = (np.array([edge[side] for edge in edges]) for side in (0, 1))
    value = np.array([edge[2] for edge in edges]) if weights == "given" else NOTHING
    counts, ascending = csr.count(row, 6)
    assert ascending == sort
    ptr = csr.offsets(counts, int(diagonal > 0))
    out_col = np.full(ptr[-1], -9, np.int32)
    out_value = np.full(0 if weights == "none" else ptr[-1], np.nan)
    csr.fill(row, col, value, ptr[:-1].copy(), ascending, diagonal, out_col, out_value)
    for i in range(6):
        own = [(j, w if weights == "given" else 1.0) for at, j, w in edges if at == i]
        own = [(i, diagonal), *own] if diagonal else own
        places = slice(ptr[i], ptr[i + 1])
        assert out_col[places].tolist() == [j for j, _ in own]
        if weights != "none":
            assert out_value[places].tolist() == [w for _, w in own]


@pytest.mark.parametrize(("size", "density"), SIZES)
@pytest.mark.parametrize("weighted", [False, True])
def test_transpose(size: int, density: float, weighted: bool) -> None:
    lists = random_lists(Random(size), size, density)
    size_of_value = sum(map(len, lists)) if weighted else 0
    value = np.random.default_rng(0).random(size_of_value)
    matrix = arrays(lists, value)
    counts, _ = csr.count(matrix.col, size)
    out = CSRArrays(csr.offsets(counts), np.empty_like(matrix.col), np.empty_like(value))
    csr.transpose(matrix, out, out.ptr[:-1].copy())
    transposed = [[i for i in range(size) if j in lists[i]] for j in range(size)]
    assert lists_of(out.ptr, out.col) == transposed
    if weighted:
        entries = {(i, j): v for (i, j), v in zip(_places(lists), value)}
        assert [entries[i, j] for j, i in _places(transposed)] == out.value.tolist()


def _places(lists: Lists) -> list[tuple[int, int]]:
    return [(i, j) for i, ids in enumerate(lists) for j in ids]


@pytest.mark.parametrize(("size", "density"), [*SIZES, (32, 1.0), (33, 1.0), (34, 1.0), (300, 0.7)])
def test_renumber(size: int, density: float) -> None:
    """Short lists and long ones, in any ranges of rows."""
    rng = Random(size)
    lists = random_lists(rng, size, density)
    matrix = arrays(lists)
    order = np.array(rng.sample(range(size), size), np.int32)
    rank = np.empty_like(order)
    rank[order] = np.arange(size, dtype=np.int32)
    out = CSRArrays(csr.offsets(matrix.lengths[order]), np.empty_like(matrix.col), NOTHING)
    for start in range(0, size, 7):
        csr.renumber(matrix, order, rank, start, min(start + 7, size), out)
    assert lists_of(out.ptr, out.col) == [sorted(int(rank[j]) for j in lists[old]) for old in order]


@pytest.mark.parametrize(
    ("lists", "has"),
    [
        ([], False),
        ([[], []], False),
        ([[0, 1], [1, 2], [2]], False),  # the same id at an end and a beginning
        ([[0, 0]], True),
        ([[0], [0, 1, 1]], True),
        ([[0], [0, 1, 2], [], [0, 5, 9, 9]], True),
    ],
)
def test_has_duplicates(lists: Lists, has: bool) -> None:
    assert csr.has_duplicates(arrays(lists)) == has


def test_sum_duplicates() -> None:
    lists = [[0, 0, 2, 5], [], [1], [3, 3, 3, 3], [0, 1, 1]]
    value = np.arange(1.0, sum(map(len, lists)) + 1)
    matrix = arrays(lists, value)
    out_ptr = np.empty_like(matrix.ptr)
    csr.sum_duplicates(matrix, out_ptr)
    assert lists_of(out_ptr, matrix.col) == [[0, 2, 5], [], [1], [3], [0, 1]]
    assert value[: out_ptr[-1]].tolist() == [3, 3, 4, 5, 6 + 7 + 8 + 9, 10, 23]


def test_sums_of_duplicates_depend_on_the_summands_alone() -> None:
    rng = Random(1)
    summands = [rng.uniform(-1, 1) * 10 ** rng.randint(-12, 12) for _ in range(30)]
    sums = set()
    for _ in range(20):
        rng.shuffle(summands)
        matrix = arrays([[0] * 30], np.array(summands))
        csr.sum_duplicates(matrix, np.empty_like(matrix.ptr))
        sums.add(float(matrix.value[0]))
    assert len(sums) == 1
    assert math.isclose(sums.pop(), math.fsum(summands), rel_tol=1e-9)


@pytest.mark.parametrize(
    "sizes", [[], [0], [5], [0, 0, 0], [3, 1, 2, 1, 3, 0], [7] * 5, [0, 10**6, 1]]
)
def test_rank_by(sizes: list[int]) -> None:
    order, rank = np.empty(len(sizes), np.int32), np.empty(len(sizes), np.int32)
    place = np.zeros(max(sizes, default=0) + 2, np.int64)
    csr.rank_by(np.array(sizes, np.int64), place, order, rank)
    expected = sorted(range(len(sizes)), key=lambda i: (sizes[i], i))
    assert order.tolist() == expected
    assert [order[place] for place in rank] == list(range(len(sizes)))


def symmetric(lists: Lists, step: int) -> bool:
    matrix = arrays(lists)
    found = [
        csr.is_symmetric(matrix, start, min(start + step, len(lists)))
        for start in range(0, len(lists), step)
    ]
    return None not in found and sum(found) == 0


@pytest.mark.parametrize("step", [1, 5, 1000])
@pytest.mark.parametrize("size", [1, 2, 9, 40, 80])
def test_is_symmetric(size: int, step: int) -> None:
    """One entry that is missing is found, above the diagonal or below, in long rows as well."""
    rng = Random(size)
    pairs = {(i, j) for i in range(size) for j in range(i + 1) if rng.random() < 0.7}
    entries = pairs | {(j, i) for i, j in pairs}
    lists = [sorted(j for at, j in entries if at == i) for i in range(size)]
    assert symmetric(lists, step)
    for i, j in rng.sample(sorted(entries), min(30, len(entries))):
        without = [[c for c in ids if (at, c) != (i, j)] for at, ids in enumerate(lists)]
        assert symmetric(without, step) == (i == j)
    # As many above as below, but not at the mirrored places.
    assert size < 9 or not symmetric([[1], [2], [0]], step)


@pytest.mark.parametrize("size", [9, 40, 80])
def test_as_many_entries_below_as_above_are_not_enough(size: int) -> None:
    """One below the diagonal is moved: to a row as long, where its image is not."""
    rng = Random(size)
    pairs = [(i, j) for i in range(size) for j in range(i)]
    missing = set(rng.sample(pairs, 8))
    there = [pair for pair in pairs if pair not in missing]
    for _ in range(10):
        gone, come = rng.choice(there), rng.choice(sorted(missing))
        entries = {(j, i) for i, j in there} | set(there)
        lists = [sorted(j for at, j in entries if at == i) for i in range(size)]
        assert symmetric(lists, 7)
        lists[gone[0]].remove(gone[1])
        lists[come[0]] = sorted([*lists[come[0]], come[1]])
        assert not symmetric(lists, 7)
        assert not symmetric(lists, size)


@pytest.mark.parametrize(("size", "density"), SIZES)
def test_absolute_sums(size: int, density: float) -> None:
    lists = random_lists(Random(size), size, density)
    value = np.random.default_rng(0).integers(-5, 5, sum(map(len, lists))).astype(float)
    matrix = arrays(lists, value)
    sums = [float(np.abs(value[a:b]).sum()) for a, b in pairwise(matrix.ptr)]
    assert csr.absolute_sums(matrix) == max(sums, default=0.0)


@pytest.mark.parametrize("limit", [0, 2, 5, 2**63 - 1])
def test_products_of_rows(limit: int) -> None:
    rng = Random(3)
    lists, others = random_lists(rng, 12, 0.4), random_lists(rng, 12, 0.3)
    products = np.full(12, 100, np.int64)
    ids = rng.sample(range(12), 12)
    rows = np.array(ids, np.int32)
    csr.products_of_rows(arrays(lists), arrays(others), limit, rows, products, 2, 9)
    lengths = [len(ids) if len(ids) <= limit else 0 for ids in others]
    expected = [100 + (2 <= t < 9) * sum(lengths[m] for m in lists[i]) for t, i in enumerate(ids)]
    assert products.tolist() == expected


def test_products_beyond_32_bits() -> None:
    """The offsets of a matrix that no machine here holds."""
    other_ptr = np.array([0, 3 * 2**31, 7 * 2**31], np.int64)
    left = arrays([[0, 1], [1]])
    right = CSRArrays(other_ptr, left.col, NOTHING)
    products = np.zeros(2, np.int64)
    csr.products_of_rows(left, right, 2**62, np.arange(2), products, 0, 2)
    assert products.tolist() == [7 * 2**31, 4 * 2**31]
    assert Fraction(int(products.sum()), 2**31) == 11


@pytest.mark.parametrize(("size", "density"), SIZES)
@pytest.mark.parametrize("weighted", [False, True])
def test_select_entries(size: int, density: float, weighted: bool) -> None:
    rng = Random(size)
    lists = random_lists(rng, size, density)
    value = np.arange(sum(map(len, lists)), dtype=float) if weighted else NOTHING
    matrix = arrays(lists, value)
    keep_row, keep_col = (np.array([rng.random() < 0.5 for _ in range(size)], np.bool_),) * 2
    everything = np.empty(0, np.bool_)
    for rows, cols in ((keep_row, everything), (everything, keep_col), (keep_row, keep_col)):
        found = matrices.select_entries(matrix, rows, cols)
        kept = [
            [(j, e) for j, e in zip(ids, range(first, last)) if cols.size == 0 or cols[j]]
            if rows.size == 0 or rows[i]
            else []
            for i, (ids, (first, last)) in enumerate(zip(lists, pairwise(matrix.ptr)))
        ]
        assert found.lengths.tolist() == [len(ids) for ids in kept]
        assert found.col.tolist() == [j for ids in kept for j, _ in ids]
        if weighted:
            assert found.value.tolist() == [float(e) for ids in kept for _, e in ids]
    assert matrix.col.tolist() == [j for ids in lists for j in ids]

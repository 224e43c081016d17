"""The top k of a graph on disk: its arrays are mapped, and rows are computed in blocks.

What is computed here a part at a time has the bits of what :mod:`.describe` computes at once.
"""

from collections.abc import Iterator
from typing import NamedTuple, Optional

import numpy as np
import torch

from torch_geometric_simpool.topk.numba import backend as in_memory
from torch_geometric_simpool.topk.numba import csr, describe, external, matrices, plan, weighted
from torch_geometric_simpool.topk.numba.arrays import CSRArrays, Description, Hubs, Rows
from torch_geometric_simpool.topk.numba.backend import Prepared
from torch_geometric_simpool.topk.spec import Selection

#: Entries that are read from a mapped matrix at a time.
CHUNK = 1 << 22

_NO_VALUES = np.empty(0)
_ALL = np.empty(0, np.bool_)

# These rules are the same in memory.
type_of_ids = describe.type_of_ids
order_by = describe.order_by
scale_of = describe.scale_of


class Entries(NamedTuple):
    """Entries of a sparse matrix, in any order. If `value` has size zero, they are ones."""

    row: np.ndarray
    col: np.ndarray
    value: np.ndarray


class Ends(NamedTuple):
    """What is counted over all edges: degrees, and sums of absolute weights."""

    row_counts: np.ndarray
    col_counts: np.ndarray
    row_sums: np.ndarray  # empty if unweighted, like `col_sums`
    col_sums: np.ndarray


def new_ends(num_rows: int, num_cols: int, weights: bool) -> Ends:
    """No edge has been counted."""
    sums = (num_rows, num_cols) if weights else (0, 0)
    counts = (np.zeros(size, np.int64) for size in (num_rows, num_cols))
    return Ends(*counts, *map(np.zeros, sums))


def count_ends(entries: Entries, ends: Ends) -> None:
    """Adds entries to the counts."""
    external.count_ends(*entries, *ends)


def distribute(
    entries: Entries, ranks: tuple[np.ndarray, np.ndarray], bounds: np.ndarray, dtype: np.dtype
) -> tuple[Entries, np.ndarray]:
    """Entries sorted by bucket, and where each bucket begins."""
    size = entries.row.size
    out = Entries(np.empty(size, dtype), np.empty(size, dtype), np.empty(entries.value.size))
    return out, external.distribute(entries, *ranks, bounds, out)


def sort_bucket(entries: Entries, counts: np.ndarray) -> Optional[CSRArrays]:
    """The rows of a bucket; `counts` are their numbers of entries.

    Entries with values at the same place are added up; without, the result is `None`.
    """
    matrix = CSRArrays(
        csr.offsets(counts), np.empty_like(entries.col), np.empty_like(entries.value)
    )
    fill_at = matrix.ptr[:-1].copy()
    csr.fill(*entries, fill_at, False, 0.0, matrix.col, matrix.value)
    external.sort_rows(matrix)
    if matrix.value.size > 0:
        return matrices.sum_duplicates(matrix)
    return None if csr.has_duplicates(matrix) else matrix


def transposed_entries(matrix: CSRArrays) -> Iterator[Entries]:
    """The entries of the transpose of a mapped matrix, a part at a time."""
    ptr, col, value = matrix
    for first in range(0, col.size, CHUNK):
        last = min(first + CHUNK, col.size)
        start = int(np.searchsorted(ptr, first, side="right")) - 1
        end = int(np.searchsorted(ptr, last, side="left"))
        lengths = np.diff(np.clip(ptr[start : end + 1], first, last))
        row = np.repeat(np.arange(start, end, dtype=col.dtype), lengths)
        yield Entries(col[first:last], row, value[first:last])


def column_counts(matrix: CSRArrays, num_cols: int) -> np.ndarray:
    """The number of entries of each column of a mapped matrix."""
    return csr.count(matrix.col, num_cols)[0]


class Norms(NamedTuple):
    """What the descriptions with values have beside their entries; see `Description`."""

    norm2: np.ndarray
    scale: np.ndarray
    integral: np.ndarray


def norms_of(rows: CSRArrays, lists: Optional[CSRArrays], exact: bool, unit: float) -> Norms:
    """The norms of mapped descriptions; `lists` are `None` unless they are two-sided."""
    num_rows = rows.num_rows
    scale, integral, norm2 = np.ones(num_rows), np.ones(num_rows, np.bool_), np.empty(num_rows)
    largest = np.zeros(num_rows)
    for side in (rows, lists):
        for start, end, part in [] if side is None else _parts(side):
            integral[start:end] &= describe.is_integral(part, unit, 1)
            most = matrices.largest_of_rows(part)
            largest[start:end] = np.maximum(largest[start:end], most)
    if not exact:
        scale = scale_of(largest)
    two_sided = lists is not None
    other = lists if lists is not None else rows
    weighted.squared_norms(rows, other, two_sided, scale, exact, norm2)
    return Norms(norm2, scale, integral)


def is_signed(matrix: CSRArrays) -> bool:
    """Whether a value of a mapped matrix is negative."""
    return any(matrices.is_signed(part) for _, _, part in _parts(matrix))


def scaled_values(matrix: CSRArrays, scale: np.ndarray) -> Iterator[np.ndarray]:
    """The values of mapped lists times the scale of the node they stand for, in parts."""
    for first in range(0, matrix.col.size, CHUNK):
        part = slice(first, first + CHUNK)
        yield matrix.value[part] * scale[matrix.col[part]]


def _parts(matrix: CSRArrays) -> Iterator[tuple[int, int, CSRArrays]]:
    """Ranges of rows with about `CHUNK` entries each, at least one row."""
    ptr, start = matrix.ptr, 0
    while start < matrix.num_rows:
        end = int(np.searchsorted(ptr, ptr[start] + CHUNK, side="right")) - 1
        end = min(max(end, start + 1), matrix.num_rows)
        entries = slice(ptr[start], ptr[end])
        part = CSRArrays(
            ptr[start : end + 1] - ptr[start], matrix.col[entries], matrix.value[entries]
        )
        yield start, end, part
        start = end


class Graph(NamedTuple):
    """The mapped arrays of a graph; those that it does not have are `None`."""

    rows: CSRArrays
    lists: Optional[CSRArrays]  # None if they are equal to `rows`
    scaled_rows: Optional[np.ndarray]  # values times the scale of their column; None if equal
    scaled_lists: Optional[np.ndarray]
    bipartite: bool
    nodes: np.ndarray  # of a graph of ones, as in `Description`; else empty
    rank: np.ndarray
    norms: Optional[Norms]  # of a graph with values
    exact: bool
    signed: bool


def description_of(graph: Graph) -> Description:
    """The descriptions of all nodes of a mapped graph."""
    two_sided = graph.lists is not None and not graph.bipartite
    lists = graph.lists if graph.lists is not None else graph.rows
    unscaled = lists
    if graph.scaled_lists is not None:
        lists = lists._replace(value=graph.scaled_lists)
    elif graph.lists is None and graph.scaled_rows is not None:
        lists = lists._replace(value=graph.scaled_rows)
    back_lists = graph.rows
    if two_sided and graph.scaled_rows is not None:
        back_lists = back_lists._replace(value=graph.scaled_rows)
    norms = graph.norms or Norms(_NO_VALUES, _NO_VALUES, _ALL)
    return Description(
        rows=graph.rows,
        lists=lists,
        back_rows=unscaled if two_sided else graph.rows,
        back_lists=back_lists,
        two_sided=two_sided,
        norm2=norms.norm2,
        nodes=graph.nodes.astype(graph.rows.col.dtype, copy=False),
        rank=graph.rank.astype(graph.rows.col.dtype, copy=False),
        is_candidate=_ALL,
        exact=graph.exact,
        signed=graph.signed,
        scale=norms.scale,
        integral=norms.integral,
        unweighted=graph.norms is None,
        building_memory=0,
    )


def find_hubs(description: Description) -> Hubs:
    """The hubs of a graph all of whose nodes are candidates."""
    return plan.find_hubs(description, [lists for _, lists in description.sides])


def work_of(prepared: Prepared, k: int, skip_hubs: bool) -> np.ndarray:
    """An upper bound of the products that are visited for each of the caller's nodes."""
    hubs = prepared.hubs if skip_hubs else plan.NO_HUBS
    description = prepared.description
    ids = description.rank  # of the caller's nodes, in their order
    if ids.size == 0:
        ids = np.arange(description.rows.num_rows, dtype=description.rows.col.dtype)
    rows = Rows(ids, ids)
    return plan.work_of(description, hubs, rows, k, torch.get_num_threads())


def scratch_memory(prepared: Prepared, largest: int, k: int) -> int:
    """The bytes of working memory of a thread, if no row has more work than `largest`."""
    return in_memory.size_of(in_memory.scratch_of(prepared, np.array([largest]), k)())


def select(
    prepared: Prepared,
    start: int,
    end: int,
    settings: Selection,
    dtype: torch.dtype,
    num_threads: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The top k of the caller's nodes `start` to `end`."""
    rows, _ = plan.rows_of(prepared.description, np.arange(start, end))
    found = plan.work_of(prepared.description, prepared.hubs, rows, settings.k, num_threads)
    return in_memory.select(prepared, rows, found, settings, dtype, num_threads)

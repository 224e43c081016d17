"""Prepares a graph whose matrix is mapped from disk, a part at a time.

Only arrays over the nodes are in memory. The results have the bits of :mod:`.describe`. The room
`distributed` uses this file and :class:`Prepared`, and nothing else of the backend.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Optional

import numpy as np

from torch_geometric_simpool.topk.numba import csr, describe, matrices, plan, weighted
from torch_geometric_simpool.topk.numba.arrays import CSRArrays, Description
from torch_geometric_simpool.topk.numba.backend import Prepared

#: Entries that are read at a time.
CHUNK = 1 << 22

#: Writes the parts of an array to disk and returns the mapped array.
Store = Callable[[Iterable[np.ndarray]], np.ndarray]

_NO_VALUES = np.empty(0)
_ALL = np.empty(0, np.bool_)


# These rules are the same in memory.
type_of_ids = describe.type_of_ids
scale_of = describe.scale_of
offsets = csr.offsets
is_symmetric = matrices.is_symmetric
equal = matrices.equal


def sum_repeated(place: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Returns the sum of the values at each place; places ascend from 0."""
    row = CSRArrays(np.array([0, place.size]), place, value.copy())
    return matrices.sum_duplicates(row).value


def prepare_mapped(
    rows: CSRArrays,
    columns: Optional[CSRArrays],
    bipartite: bool,
    exact: bool,
    unit: float,
    store: Store,
) -> Prepared:
    """Returns a prepared graph whose large arrays are written by `store`.

    Args:
        rows: The matrix `A + lam * I` times `unit`. Columns ascend and are distinct.
        columns: Its transpose. `None` if the matrix is symmetric and not bipartite.
        bipartite: Whether rows and columns are different nodes.
        exact: Whether values are integers whose sums of products do not round.
        unit: The power of two that values were multiplied by.
        store: Writes an array.
    """
    if rows.value.size == 0:
        description = _describe_ones(rows, columns, bipartite, store)
    else:
        description = _describe_values(rows, columns, bipartite, exact, unit, store)
    hubs = plan.find_hubs(description, [lists for _, lists in description.sides])
    return Prepared(description, hubs, jaccard=False)


def with_measure(prepared: Prepared, measure: str) -> Prepared:
    """Returns the graph with another measure: the arrays do not depend on it."""
    if measure not in ("cosine", "jaccard"):
        raise ValueError(
            f"`measure` must be 'cosine' or 'jaccard' for a graph on disk, got {measure!r}"
        )
    return prepared._replace(jaccard=measure == "jaccard")


def _describe_ones(
    rows: CSRArrays, columns: Optional[CSRArrays], bipartite: bool, store: Store
) -> Description:
    """Describes a matrix of ones: nodes are numbered by norm, then by id."""
    two_sided = columns is not None and not bipartite
    norm2 = rows.lengths
    if columns is not None and not bipartite:
        norm2 = norm2 + columns.lengths
    order, rank = describe.order_by(norm2, rows.col.dtype)
    if columns is None:
        ranked = lists = _renumber(rows, order, rank, store)
    else:
        features = np.arange(columns.num_rows, dtype=rank.dtype)
        ranked = _renumber(rows, order, features if bipartite else rank, store)
        lists = _renumber(columns, features if bipartite else order, rank, store)
    return Description(
        rows=ranked,
        lists=lists,
        back_rows=lists if two_sided else ranked,
        back_lists=ranked,
        two_sided=two_sided,
        norm2=_NO_VALUES,
        nodes=np.stack([order, norm2[order].astype(order.dtype)], axis=1),
        rank=rank,
        is_candidate=_ALL,
        exact=True,
        signed=False,
        scale=_NO_VALUES,
        integral=_ALL,
        unweighted=True,
        building_memory=0,
    )


def _renumber(matrix: CSRArrays, order: np.ndarray, rank: np.ndarray, store: Store) -> CSRArrays:
    """Returns a matrix of ones with its rows in `order`; the ranks of its columns ascend."""
    ptr = csr.offsets(matrix.lengths[order])

    def parts() -> Iterator[np.ndarray]:
        yield np.empty(0, matrix.col.dtype)
        for start, end in _ranges(ptr):
            part = CSRArrays(
                ptr[start : end + 1] - ptr[start],
                np.empty(ptr[end] - ptr[start], matrix.col.dtype),
                matrix.value,
            )
            csr.renumber(matrix, order[start:end], rank, 0, end - start, part)
            yield part.col

    return CSRArrays(ptr, store(parts()), matrix.value)


def _describe_values(
    rows: CSRArrays,
    columns: Optional[CSRArrays],
    bipartite: bool,
    exact: bool,
    unit: float,
    store: Store,
) -> Description:
    """Describes a matrix with values, in the caller's ids."""
    two_sided = columns is not None and not bipartite
    lists = rows if columns is None else columns
    scale, integral = np.ones(rows.num_rows), np.ones(rows.num_rows, np.bool_)
    signed = False
    if not exact:
        largest = np.zeros(rows.num_rows)
        for side in (rows, lists) if two_sided else (rows,):
            for start, end in _ranges(side.ptr):
                entries = slice(side.ptr[start], side.ptr[end])
                ptr = side.ptr[start : end + 1] - side.ptr[start]
                part = CSRArrays(ptr, side.col[entries], side.value[entries])
                integral[start:end] &= describe.is_integral(part, unit, 1)
                of_rows = matrices.largest_of_rows(part)
                largest[start:end] = np.maximum(largest[start:end], of_rows)
                signed |= matrices.is_signed(part)
        scale = describe.scale_of(largest)
    norm2 = np.empty(rows.num_rows)
    weighted.squared_norms(rows, lists, two_sided, scale, exact, norm2)
    return Description(
        rows=rows,
        lists=_scale(lists, scale, store),
        back_rows=lists if two_sided else rows,
        back_lists=_scale(rows, scale, store) if two_sided else rows,
        two_sided=two_sided,
        norm2=norm2,
        nodes=np.empty((0, 2), rows.col.dtype),
        rank=np.empty(0, rows.col.dtype),
        is_candidate=_ALL,
        exact=exact,
        signed=signed,
        scale=scale,
        integral=integral,
        unweighted=False,
        building_memory=0,
    )


def _scale(lists: CSRArrays, scale: np.ndarray, store: Store) -> CSRArrays:
    """Returns lists whose values are times the scale of the node that they stand for."""
    if (scale == 1).all():
        return lists
    chunks = (slice(first, first + CHUNK) for first in range(0, lists.col.size, CHUNK))
    return lists._replace(value=store(lists.value[at] * scale[lists.col[at]] for at in chunks))


def _ranges(ptr: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yields ranges of rows with about `CHUNK` entries each, at least one row."""
    start, num_rows = 0, ptr.size - 1
    while start < num_rows:
        end = int(np.searchsorted(ptr, ptr[start] + CHUNK, side="right")) - 1
        end = min(max(end, start + 1), num_rows)
        yield start, end
        start = end

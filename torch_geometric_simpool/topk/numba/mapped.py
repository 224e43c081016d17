"""Prepares a graph whose matrix is mapped from disk, a part at a time.

Only arrays over the nodes are in memory. The results have the bits of a graph in memory. The room
`distributed` uses this file, and nothing else of the backend.
"""

from collections.abc import Iterator
from typing import Optional

import numpy as np

from torch_geometric_simpool.topk.numba import csr, describe
from torch_geometric_simpool.topk.numba.backend import NumbaGraph
from torch_geometric_simpool.topk.numba.csr import CSRArrays
from torch_geometric_simpool.topk.numba.describe import Store

Prepared = NumbaGraph

#: Entries that are renumbered at a time.
CHUNK = 1 << 20

# These rules are the same in memory.
type_of_ids = describe.type_of_ids
scale_of = describe.scale_of
offsets = csr.offsets
is_symmetric = csr.is_symmetric
equal = describe.equal


def sum_repeated(place: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Returns the sum of the values at each place; places ascend from 0."""
    return csr.compress(CSRArrays(np.array([0, place.size]), place, value), value.dtype).value


def prepare_mapped(
    rows: CSRArrays,
    columns: Optional[CSRArrays],
    bipartite: bool,
    exact: bool,
    unit: float,
    store: Store,
) -> NumbaGraph:
    """Returns a prepared graph whose large arrays are written by `store`.

    Args:
        rows: The matrix `A + lam * I` times `unit`. Columns ascend and are distinct.
        columns: Its transpose. `None` if the matrix is symmetric and not bipartite.
        bipartite: Whether rows and columns are different nodes.
        exact: Whether values are integers whose sums of products do not round.
        unit: The power of two that values were multiplied by.
        store: Writes an array.
    """
    order = number = np.arange(rows.num_rows, dtype=rows.col.dtype)
    lists = rows if columns is None else columns
    if rows.value.size == 0:
        both = rows.lengths
        if columns is not None and not bipartite:
            both = both + columns.lengths
        order, number = describe.order_by(both, rows.col.dtype)
        features = np.arange(lists.num_rows, dtype=number.dtype) if bipartite else number
        by_feature = features if bipartite else order
        rows = _renumber(rows, order, features, store)
        lists = rows if columns is None else _renumber(columns, by_feature, number, store)
    description = describe.description_of(
        rows, lists, bipartite, order, number, exact, unit, 1, store
    )
    return NumbaGraph(description, "cosine")


def with_measure(graph: NumbaGraph, measure: str) -> NumbaGraph:
    """Returns the graph with another measure: the arrays do not depend on it."""
    return graph._replace(measure=measure)


def _renumber(matrix: CSRArrays, order: np.ndarray, number: np.ndarray, store: Store) -> CSRArrays:
    """Returns a matrix of ones with its rows in `order`, and ascending numbers of its columns."""
    lengths = matrix.lengths[order]
    ptr = csr.offsets(lengths)

    def parts() -> Iterator[np.ndarray]:
        yield np.empty(0, matrix.col.dtype)
        start, num_rows = 0, ptr.size - 1
        while start < num_rows:
            end = int(np.searchsorted(ptr, ptr[start] + CHUNK, side="right")) - 1
            end = min(max(end, start + 1), num_rows)
            row = np.repeat(np.arange(end - start), lengths[start:end])
            entry = np.arange(ptr[start], ptr[end]) - ptr[start:end][row]
            col = number[matrix.col[entry + matrix.ptr[order[start:end]][row]]]
            yield np.sort(row * number.size + col) % max(number.size, 1)
            start = end

    as_ids = (part.astype(matrix.col.dtype) for part in parts())
    return CSRArrays(ptr, store(as_ids), matrix.value)

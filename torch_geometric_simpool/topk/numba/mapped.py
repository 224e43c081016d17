"""Prepares a graph whose matrix is mapped from disk, a part at a time.

Only arrays over the nodes are in memory. The results have the bits of a graph in memory.
"""

from collections.abc import Iterator
from typing import Optional

import numpy as np

from torch_geometric_simpool.topk.budget import row_ranges
from torch_geometric_simpool.topk.numba import csr, describe
from torch_geometric_simpool.topk.numba.csr import CSRArrays
from torch_geometric_simpool.topk.numba.describe import Description, Store

#: Entries that are renumbered at a time.
CHUNK = 1 << 20


def prepare_mapped(
    rows: CSRArrays,
    columns: Optional[CSRArrays],
    bipartite: bool,
    exact: bool,
    store: Store,
) -> Description:
    """Returns the descriptions of a matrix whose large arrays are written by `store`.

    Args:
        rows: The matrix `A + lam * I`, times a power of two, without repeated entries.
        columns: Its transpose. `None` if the matrix is symmetric and not bipartite.
        bipartite: Whether rows and columns are different nodes.
        exact: Whether values are integers whose sums of products do not round.
        store: Writes an array.
    """
    order = number = np.arange(rows.num_rows, dtype=rows.col.dtype)
    lists = rows if columns is None else columns
    if rows.value.size == 0:
        size = rows.lengths if bipartite else rows.lengths + lists.lengths
        order, number = describe.order_by(size, rows.col.dtype)
        features = np.arange(lists.num_rows, dtype=number.dtype) if bipartite else number
        rows = _renumber(rows, order, features, store)
        by_feature = features if bipartite else order
        lists = rows if columns is None else _renumber(columns, by_feature, number, store)
    return describe.description_of(rows, lists, bipartite, order, number, exact, store)


def _renumber(matrix: CSRArrays, order: np.ndarray, number: np.ndarray, store: Store) -> CSRArrays:
    """Returns a matrix of ones with its rows in `order`, and the numbers of its columns."""
    lengths = matrix.lengths[order]
    ptr = csr.offsets(lengths)

    def columns() -> Iterator[np.ndarray]:
        yield np.empty(0, matrix.col.dtype)
        for start, end in row_ranges(ptr, CHUNK):
            row = np.repeat(np.arange(end - start), lengths[start:end])
            entry = np.arange(ptr[start], ptr[end]) - ptr[start:end][row]
            yield number[matrix.col[entry + matrix.ptr[order[start:end]][row]]]

    return CSRArrays(ptr, store(columns()), matrix.value)

"""Selects features, rows and candidates, and counts the work of each row."""

from collections.abc import Callable
from typing import NamedTuple, Optional

import numpy as np

from torch_geometric_simpool.topk.numba import csr
from torch_geometric_simpool.topk.numba.describe import Description, Side, Sides

#: The bytes for each entry of a matrix that it takes to select entries, beside the result.
SELECTING = 12


class Rows(NamedTuple):
    """The rows that are computed, each once."""

    numbers: np.ndarray  # in the numbers of the description, ascending
    places: np.ndarray  # where each row is written
    inverse: np.ndarray  # the place of the row of each node that is asked for; empty if its own


def drop_long_lists(description: Description, max_degree: int) -> Description:
    """Leaves out features that more than `max_degree` nodes share; norms stay as they are."""

    def drop(side: Side) -> Side:
        short, every = side.lists.lengths <= max_degree, np.ones(side.rows.num_rows, np.bool_)
        return Side(csr.select(side.rows, every, short), csr.select(side.lists, short, every))

    return _with_sides(description, drop)


def drop_others(description: Description, candidates: np.ndarray) -> Description:
    """Leaves only `candidates`, a boolean for each of the caller's nodes, in the lists."""
    candidates = candidates[description.norms.id]

    def drop(side: Side) -> Side:
        every = np.ones(side.lists.num_rows, np.bool_)
        return side._replace(lists=csr.select(side.lists, every, candidates))

    return _with_sides(description, drop)


def _with_sides(description: Description, change: Callable[[Side], Side]) -> Description:
    sides = [change(side) for side in description.sides[: description.num_sides]]
    return description._replace(sides=Sides(sides[0], sides[-1]))


def rows_of(description: Description, nodes: Optional[np.ndarray]) -> Rows:
    """Returns the rows of these nodes, or of all, in the order in which they are best computed."""
    none = np.empty(0, np.int64)
    if nodes is None:
        numbers = np.arange(description.norms.id.size, dtype=description.norms.id.dtype)
        return Rows(numbers, description.norms.id, none)
    numbers, inverse = np.unique(description.number[nodes], return_inverse=True)
    return Rows(numbers, np.arange(numbers.size, dtype=numbers.dtype), inverse)


def work_of(description: Description, rows: Rows) -> np.ndarray:
    """Returns the number of products of each row."""
    work = np.zeros(rows.numbers.size, np.int64)
    for side in description.sides[: description.num_sides]:
        csr.count_products(side.rows, side.lists, rows.numbers, work)
    return work

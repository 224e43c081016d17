"""Selects features, rows and candidates, and counts the work of each row."""

from typing import NamedTuple, Optional

import numpy as np

from torch_geometric_simpool.topk.numba import csr
from torch_geometric_simpool.topk.numba.describe import Description


class Rows(NamedTuple):
    """The rows that are computed, each once."""

    numbers: np.ndarray  # in the numbers of the description, ascending
    places: np.ndarray  # where each row is written
    inverse: np.ndarray  # the place of the row of each node that is asked for; empty if its own


def drop_long_lists(description: Description, max_degree: int) -> Description:
    """Leaves out features that more than `max_degree` nodes share; norms stay as they are."""
    sides = []
    for rows, lists in description.sides:
        short = lists.lengths <= max_degree
        if not short.all():
            rows = csr.select(rows, np.ones(rows.num_rows, np.bool_), short)
            lists = csr.select(lists, short, np.ones(rows.num_rows, np.bool_))
        sides.append((rows, lists))
    return _with_sides(description, sides)


def drop_others(description: Description, candidates: np.ndarray) -> Description:
    """Leaves only `candidates`, a boolean for each of the caller's nodes, in the lists."""
    candidates = candidates[description.norms.id]
    sides = [
        (rows, csr.select(lists, np.ones(lists.num_rows, np.bool_), candidates))
        for rows, lists in description.sides
    ]
    return _with_sides(description, sides)


def _with_sides(description: Description, sides: list) -> Description:
    (rows, lists), (back_rows, back_lists) = sides[0], sides[-1]
    return description._replace(rows=rows, lists=lists, back_rows=back_rows, back_lists=back_lists)


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
    for names, lists in description.sides:
        csr.count_products(names, lists, rows.numbers, work)
    return work

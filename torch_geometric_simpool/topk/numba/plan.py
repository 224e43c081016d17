"""Selects features, rows and candidates, and counts the work of each row."""

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


def select(
    description: Description, max_degree: Optional[int], candidates: Optional[np.ndarray]
) -> Description:
    """Leaves out features that more than `max_degree` nodes share, and nodes that cannot be chosen.

    `candidates` is a boolean for each of the caller's nodes. Norms stay as they are.
    """
    every = np.ones(description.norms.id.size, np.bool_)
    chosen = every if candidates is None else candidates[description.norms.id]

    def selected(side: Side) -> Side:
        lengths = side.lists.lengths
        short = lengths <= (lengths.max(initial=0) if max_degree is None else max_degree)
        return Side(csr.select(side.rows, every, short), csr.select(side.lists, short, chosen))

    sides = [selected(side) for side in description.sides[: description.num_sides]]
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

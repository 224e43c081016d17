"""Selects features, rows and candidates, and counts the products of each row."""

from typing import NamedTuple, Optional

import numpy as np
from torch import Tensor

from torch_geometric_simpool.topk.numba import csr
from torch_geometric_simpool.topk.numba.csr import ChosenRows
from torch_geometric_simpool.topk.numba.describe import Description, Side, Sides

#: The bytes for each entry of a matrix from which entries are selected, beside the result.
BYTES_TO_SELECT = 12


class Rows(NamedTuple):
    """The rows that are computed, in an order that is fast."""

    numbers: np.ndarray  # in the numbers of the description, ascending
    features: tuple[ChosenRows, ChosenRows]  # of each side: row `t` belongs to `numbers[t]`
    places: np.ndarray  # where each row is written
    work: np.ndarray  # the number of products of each row

    @property
    def num_products(self) -> int:
        """The number of products, in float64, because a sum of integers overflows silently."""
        return int(self.work.sum(dtype=np.float64))


def select(
    description: Description, max_degree: Optional[int], candidates: Optional[np.ndarray]
) -> Description:
    """Drops features that more than `max_degree` nodes share, and other nodes than `candidates`.

    `candidates` is a boolean for each of the caller's nodes. Rows of all nodes, and norms, stay.
    """
    all_nodes = np.ones(description.norms.id.size, np.bool_)
    chosen = all_nodes if candidates is None else candidates[description.norms.id]
    limit = np.inf if max_degree is None else max_degree

    def selected(side: Side) -> Side:
        short = side.lists.lengths <= limit
        return Side(csr.select(side.rows, all_nodes, short), csr.select(side.lists, short, chosen))

    sides = [selected(side) for side in description.sides[: description.num_sides]]
    return description._replace(sides=Sides(sides[0], sides[-1]))


def rows_of(description: Description, nodes: Optional[Tensor]) -> Rows:
    """Returns the rows of these nodes, or of all, in the order in which they are best computed."""
    ids = description.norms.id
    numbers, places = np.arange(ids.size, dtype=ids.dtype), ids.astype(np.int64)
    if nodes is not None:
        numbers = description.number[nodes.numpy()]
        places = numbers.argsort(kind="stable")
        numbers = numbers[places]
    work, features = np.zeros(numbers.size, np.int64), []
    for side in description.sides[: description.num_sides]:
        rows = csr.all_rows(side.rows) if nodes is None else csr.choose_rows(side.rows, numbers)
        features.append(rows)
        work += csr.products_of_rows(rows, side.lists)
    return Rows(numbers, (features[0], features[-1]), places, work)

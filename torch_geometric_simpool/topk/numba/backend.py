"""The top k on a CPU: edges are turned into descriptions, and the kernels do the rest."""

from typing import NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor

from torch_geometric_simpool.topk.backend import Cost
from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.measures import SPARSE_MEASURES
from torch_geometric_simpool.topk.numba import csr, threads
from torch_geometric_simpool.topk.numba.best import Options
from torch_geometric_simpool.topk.numba.csr import ChosenRows
from torch_geometric_simpool.topk.numba.describe import Description, Side, Sides, describe
from torch_geometric_simpool.topk.numba.rows import Scratch, new_scratch, topk_rows
from torch_geometric_simpool.topk.numba.short import id_mask_of
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings
from torch_geometric_simpool.utils.rounding import smallest_value

#: The bytes for each entry of a matrix from which entries are selected, beside the result.
BYTES_TO_SELECT = 12


class Rows(NamedTuple):
    """The rows that are computed, in the order of the description, which is fast."""

    numbers: np.ndarray  # the node of each row, ascending; a node may occur twice
    features: tuple[ChosenRows, ChosenRows]  # of each side: row `t` belongs to `numbers[t]`
    places: np.ndarray  # where each row is written
    work: np.ndarray  # the number of products of each row, which the kernel overwrites


class NumbaGraph(NamedTuple):
    """A graph whose rows can be computed."""

    description: Description
    settings: TopKSettings

    def topk(
        self, nodes: Optional[Tensor], k: int, budget: Budget, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Returns values and indices, `[M, k]`, of the rows of `nodes`, or of all."""
        rows, scratch, cost = self._plan(nodes, k)
        budget.check_products(cost.products)
        budget.check_memory(cost.memory)
        shape = rows.numbers.size, k
        values = np.empty(shape, np.float64 if dtype == torch.float64 else np.float32)
        index = np.empty(shape, np.int64)
        graph, code = self.description, SPARSE_MEASURES[self.settings.measure].code
        smallest = smallest_value(dtype)
        options = Options(k, self.settings.loop, code, smallest, id_mask_of(graph))
        planned = iter([scratch])  # the scratch of the first thread
        threads.run(
            topk_rows,
            threads.blocks(rows.work),
            graph,
            options,
            rows,
            values,
            index,
            new_scratch=lambda: (next(planned, None) or new_scratch(graph, k),),
        )
        return self.settings.cut(torch.from_numpy(values).to(dtype), torch.from_numpy(index))

    def cost(self, nodes: Optional[Tensor], k: int, budget: Budget) -> Cost:
        """Returns the cost of :meth:`topk`."""
        return self._plan(nodes, k)[2]

    def _plan(self, nodes: Optional[Tensor], k: int) -> tuple[Rows, Scratch, Cost]:
        """Returns the rows, the working memory of a thread, and the cost."""
        graph = self.description
        rows, scratch = rows_of(graph, nodes), new_scratch(graph, k)
        arrays = (*scratch[:-2], *scratch.candidates, *scratch.lanes)
        memory = graph.num_bytes + torch.get_num_threads() * sum(array.nbytes for array in arrays)
        memory += rows.numbers.nbytes + rows.places.nbytes + rows.work.nbytes
        if nodes is not None:
            for chosen, side in zip(rows.features[: graph.num_sides], graph.sides):
                new = chosen[:2] if chosen.col is side.rows.col else chosen
                memory += sum(array.nbytes for array in new)
        # In float64, because a sum of integers overflows silently.
        products = int(rows.work.sum(dtype=np.float64))
        return rows, scratch, Cost(products, max(graph.building_memory, memory))


def prepare(
    edges: EdgeList,
    settings: TopKSettings,
    budget: Budget,
    candidates: Optional[Tensor] = None,
) -> NumbaGraph:
    """Returns the graph, whose rows can be computed."""
    description = describe(edges, settings, budget)
    if settings.max_degree is not None or candidates is not None:
        num_entries = description.sides.first.rows.col.size
        memory = BYTES_TO_SELECT * num_entries + 2 * description.num_bytes
        budget.check_memory(memory)
        chosen = None if candidates is None else candidates.numpy()
        description = select(description, settings.max_degree, chosen)._replace(
            building_memory=max(memory, description.building_memory)
        )
    return NumbaGraph(description, settings)


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

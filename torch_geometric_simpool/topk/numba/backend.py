"""The top k on a CPU: edges are turned into descriptions, and the kernels do the rest."""

from collections.abc import Callable
from typing import Any, NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor

from torch_geometric_simpool.topk.backend import Cost, PreparedGraph
from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.numba import plan, threads, unweighted, weighted
from torch_geometric_simpool.topk.numba.arrays import Description, Hubs, Rows
from torch_geometric_simpool.topk.numba.counting import BUFFER
from torch_geometric_simpool.topk.numba.describe import describe
from torch_geometric_simpool.topk.numba.heap import Options, TopK
from torch_geometric_simpool.topk.numba.nearby import edges_nearby
from torch_geometric_simpool.topk.rounding import smallest_value
from torch_geometric_simpool.topk.spec import EdgeList, Selection, SimilaritySpec
from torch_geometric_simpool.topk.torch import backend as topk_torch


class Prepared(NamedTuple):
    """A graph of which any rows can be computed."""

    description: Description
    hubs: Hubs
    jaccard: bool

    def topk(
        self, nodes: Optional[Tensor], selection: Selection, budget: Budget, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Returns values and indices, `[M, k]`, of the rows of `nodes`, or of all."""
        return topk(self, nodes, selection, budget, dtype)

    def cost(self, nodes: Optional[Tensor], k: int, budget: Budget) -> Cost:
        """Returns the cost of :meth:`topk`."""
        return Cost(*cost(self, nodes, k, budget))


def prepare(
    graph: EdgeList,
    settings: SimilaritySpec,
    budget: Budget,
    nodes: Optional[Tensor] = None,
) -> PreparedGraph:
    """What rows have in common: those of `nodes`, if no others are to be computed."""
    if settings.measure not in ("cosine", "jaccard") or settings.exclude_neighbors:
        return topk_torch.prepare(graph, settings, budget, nodes)  # no kernel for it
    degrees, memory = None, 0
    if nodes is not None:
        ids = nodes.contiguous().numpy()
        graph, degrees, memory = edges_nearby(graph, settings, ids, budget)
    description = describe(graph, settings, budget, degrees)
    memory = max(memory, description.building_memory)
    description = description._replace(building_memory=memory)
    if settings.max_degree is not None:
        description = plan.drop_long_lists(description, settings.max_degree)
    members = [lists for _, lists in description.sides]
    if settings.candidates is not None:
        description = plan.drop_others(description, settings.candidates.numpy())
    hubs = plan.find_hubs(description, members)
    return Prepared(description, hubs, settings.measure == "jaccard")


def topk(
    prepared: Prepared,
    nodes: Optional[Tensor],
    settings: Selection,
    budget: Budget,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Values and indices of the top k of these nodes, or of all."""
    num_threads = torch.get_num_threads()
    rows, inverse, work = _plan(prepared, nodes, settings.k, num_threads)
    # In float64, because a sum of integers would overflow silently.
    budget.check_products(int(work.sum(dtype=np.float64)))
    budget.check_memory(memory_of(prepared, rows, work, settings.k, num_threads))
    values, index = select(prepared, rows, work, settings, dtype, num_threads)
    if inverse.size > 0:
        values, index = values[inverse], index[inverse]
    return torch.from_numpy(values).to(dtype), torch.from_numpy(index)


def cost(
    prepared: Prepared, nodes: Optional[Tensor], k: int, budget: Budget
) -> tuple[int, int, int]:
    """The products, those that are visited, and the bytes of working memory."""
    num_threads = torch.get_num_threads()
    rows, _, work = _plan(prepared, nodes, k, num_threads)
    products = plan.work_of(prepared.description, plan.NO_HUBS, rows, k, num_threads)
    memory = memory_of(prepared, rows, work, k, num_threads)
    return int(products.sum()), int(work.sum()), memory


def _plan(
    prepared: Prepared, nodes: Optional[Tensor], k: int, num_threads: int
) -> tuple[Rows, np.ndarray, np.ndarray]:
    rows, inverse = plan.rows_of(
        prepared.description, None if nodes is None else nodes.contiguous().numpy()
    )
    work = plan.work_of(prepared.description, prepared.hubs, rows, k, num_threads)
    return rows, inverse, work


def select(
    prepared: Prepared,
    rows: Rows,
    work: np.ndarray,
    settings: Selection,
    dtype: torch.dtype,
    num_threads: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The top k of the rows, at their places."""
    description, hubs, jaccard = prepared
    kernel = unweighted.unweighted_rows if description.unweighted else weighted.weighted_rows
    shape = rows.ids.size, settings.k
    result = TopK(
        np.empty(shape, np.float64 if dtype == torch.float64 else np.float32),
        np.empty(shape, np.int64),
    )
    lowest = -np.inf if settings.min_similarity is None else float(settings.min_similarity)
    options = Options(settings.k, settings.loop, jaccard, lowest, smallest_value(dtype))

    def select_rows(start: int, end: int, scratch: Any) -> None:
        kernel(description, hubs, options, rows, start, end, result, scratch)

    ranges = list(threads.blocks(work, num_threads))
    threads.run(select_rows, ranges, num_threads, scratch_of(prepared, work, settings.k))
    return result


def memory_of(prepared: Prepared, rows: Rows, work: np.ndarray, k: int, num_threads: int) -> int:
    """The bytes that the computation takes at its peak, beyond input and output."""
    scratch = num_threads * size_of(scratch_of(prepared, work, k)())
    kept = size_of((prepared, rows, work))
    return max(prepared.description.building_memory, kept + scratch)


def size_of(arrays: Any) -> int:
    """The bytes of nested tuples of arrays; what is there twice counts once."""
    found: dict[int, int] = {}

    def collect(arrays: Any) -> None:
        if isinstance(arrays, np.ndarray):
            found[id(arrays)] = arrays.nbytes
        elif isinstance(arrays, tuple):
            for part in arrays:
                collect(part)

    collect(arrays)
    return sum(found.values())


def scratch_of(prepared: Prepared, work: np.ndarray, k: int) -> Callable[[], Any]:
    """What allocates the working memory of a thread."""
    rows = prepared.description.rows
    num_nodes, ids = rows.num_rows, rows.col.dtype
    # No row has more products to count than its work.
    long_rows = int(work.max(initial=0)) > BUFFER
    if prepared.description.unweighted:
        hubs = prepared.hubs.side.size > 0
        return lambda: unweighted.new_scratch(num_nodes, k, ids, hubs, long_rows)
    return lambda: weighted.new_scratch(num_nodes, k, ids, long_rows, prepared.description.signed)

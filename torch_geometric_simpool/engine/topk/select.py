"""The top k on a CPU: edges are turned into descriptions, and the kernels do the rest."""

from collections.abc import Callable
from typing import Any, Optional

import numpy as np
import torch
from torch import Tensor

from torch_geometric_simpool.engine.compile import call
from torch_geometric_simpool.engine.topk import threads, unweighted, weighted
from torch_geometric_simpool.engine.topk.arrays import Description, Plan
from torch_geometric_simpool.engine.topk.counting import BUFFER
from torch_geometric_simpool.engine.topk.describe import describe
from torch_geometric_simpool.engine.topk.heap import Options, TopK
from torch_geometric_simpool.engine.topk.plan import make_plan
from torch_geometric_simpool.utils.budget import Budget
from torch_geometric_simpool.utils.settings import DescriptionSettings, SelectionSettings


def topk(
    edge_index: Tensor,
    edge_weight: Optional[Tensor],
    num_nodes: int,
    describing: DescriptionSettings,
    selecting: SelectionSettings,
    budget: Budget,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Values and indices of the top k of every node."""
    num_threads = torch.get_num_threads()
    description = describe(edge_index, edge_weight, num_nodes, describing, budget)
    plan = make_plan(description, selecting.k, selecting.max_degree, budget, num_threads)
    budget.check_memory(memory_of(description, plan, selecting.k, num_threads))
    return select(description, plan, selecting, dtype, num_threads)


def cost(
    edge_index: Tensor,
    edge_weight: Optional[Tensor],
    num_nodes: int,
    describing: DescriptionSettings,
    selecting: SelectionSettings,
) -> tuple[int, int, int]:
    """The products, those that are visited, and the bytes of working memory."""
    num_threads = torch.get_num_threads()
    unlimited = Budget(None, force=True)
    description = describe(edge_index, edge_weight, num_nodes, describing, unlimited)
    plan = make_plan(description, selecting.k, selecting.max_degree, unlimited, num_threads)
    memory = memory_of(description, plan, selecting.k, num_threads)
    return plan.products, int(plan.work.sum()), memory


def select(
    description: Description,
    plan: Plan,
    settings: SelectionSettings,
    dtype: torch.dtype,
    num_threads: int,
) -> tuple[Tensor, Tensor]:
    """The top k of every node."""
    num_nodes, k = description.by_row.num_rows, settings.k
    kernel = unweighted.unweighted_rows if description.unweighted else weighted.weighted_rows
    result = TopK(
        np.empty((num_nodes, k), np.float64 if dtype == torch.float64 else np.float32),
        np.empty((num_nodes, k), np.int64),
    )
    # No similarity is below -1.
    lowest = -2.0 if settings.min_similarity is None else settings.min_similarity
    options = Options(k, settings.loop, settings.measure == "jaccard", lowest)

    def select_rows(start: int, end: int, scratch: Any) -> None:
        call(kernel, description, plan, options, start, end, result, scratch)

    ranges = list(threads.blocks(plan.work, num_threads))
    threads.run(select_rows, ranges, num_threads, _scratch(description, plan, k))
    return torch.from_numpy(result.values).to(dtype), torch.from_numpy(result.indices)


def memory_of(description: Description, plan: Plan, k: int, num_threads: int) -> int:
    """The bytes that the computation takes at its peak, beyond input and output."""
    scratch = num_threads * _size_of(_scratch(description, plan, k)())
    by_row, by_col = description.by_row, description.by_col
    # While a matrix is transposed, both forms are there.
    matrices = by_col.nbytes + max(by_row.nbytes, by_col.nbytes)
    if description.scaled_row is not by_row.value:
        matrices += description.scaled_row.nbytes + description.scaled_col.nbytes
    by_node = (description.norm2, description.nodes, description.scale, plan.work, plan.hubs.mask)
    return max(description.building_memory, matrices + scratch + _size_of(by_node))


def _size_of(arrays: Any) -> int:
    """The bytes of nested tuples of arrays."""
    if isinstance(arrays, np.ndarray):
        return arrays.nbytes
    return sum(map(_size_of, arrays))


def _scratch(description: Description, plan: Plan, k: int) -> Callable[[], Any]:
    """What allocates the working memory of a thread."""
    num_nodes, ids = description.by_row.num_rows, description.by_row.col.dtype
    # No row has more products to count than its work.
    long_rows = int(plan.work.max(initial=0)) > BUFFER
    if description.unweighted:
        hubs = plan.hubs.side.size > 0
        return lambda: unweighted.new_scratch(num_nodes, k, ids, hubs, long_rows)
    return lambda: weighted.new_scratch(num_nodes, k, ids, long_rows)

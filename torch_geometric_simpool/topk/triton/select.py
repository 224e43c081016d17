"""The top k of rows: the plan, and the kernels that it needs."""

import importlib
from typing import Optional

import torch
from torch import Tensor

from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.rounding import smallest_value
from torch_geometric_simpool.topk.spec import Selection
from torch_geometric_simpool.topk.triton import matrices
from torch_geometric_simpool.topk.triton.arrays import Matrix, Prepared, Result
from torch_geometric_simpool.topk.triton.plan import (
    TABLES,
    Plan,
    bytes_per_slot,
    make_plan,
    make_tables,
    table_sizes,
)


def prepare(
    rows: tuple[Tensor, Tensor, Tensor],
    lists: tuple[Tensor, Tensor, Tensor],
    norm2: Tensor,
    scale: Tensor,
    integral: Tensor,
    exact: bool,
    jaccard: bool,
) -> Prepared:
    """What all rows have in common: see :func:`matrices.prepare`."""
    return matrices.prepare(Matrix(*rows), Matrix(*lists), norm2, scale, integral, exact, jaccard)


def topk(
    prepared: Prepared,
    nodes: Optional[Tensor],
    settings: Selection,
    budget: Budget,
    kept: int,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """Values and indices of the top k of these nodes, or of all, and rows that are not computed.

    The last are those that need a block for more candidates than the kernels have. `kept` are the
    bytes that are in use already.
    """
    descriptions, hubs = prepared.descriptions, prepared.hubs
    plan = make_plan(prepared, nodes, settings.k)
    sizes = table_sizes(plan, descriptions.num_nodes)
    budget.check_products(int(plan.work.double().sum()))
    budget.check_memory(kept + _memory(prepared, plan, sizes, 1))
    launch = importlib.import_module("torch_geometric_simpool.topk.triton.launch")

    # In float32 first, as on a CPU: a narrower type then rounds a second time.
    computed = torch.float64 if dtype == torch.float64 else torch.float32
    shape, device = (plan.work.numel(), settings.k), descriptions.norm2.device
    result = Result(
        torch.empty(shape, dtype=computed, device=device),
        torch.empty(shape, dtype=torch.long, device=device),
    )
    lowest = -torch.inf if settings.min_similarity is None else float(settings.min_similarity)
    smallest = smallest_value(dtype)
    limits = torch.tensor([lowest, smallest], dtype=torch.float64, device=device)
    # The dot product and both norms of integers are in [1, 2^53), so no similarity is smaller.
    options = launch.Options(settings, limits, not descriptions.exact or smallest > 2.0**-53)
    best = None
    if plan.groups is not None and hubs is not None:
        best = launch.run_hubs(hubs, plan.groups, plan.num_best, descriptions.jaccard)
    of_place = None if plan.groups is None else plan.groups.of_place
    for size, places in plan.short:
        launch.run_short(descriptions, places, size, nodes, of_place, best, options, result)
    limit = _most_slots(budget, kept, bytes_per_slot(descriptions))
    for tables in make_tables(descriptions, plan, nodes, sizes, limit):
        launch.run_long(descriptions, tables, best, options, result)
    return result.values.to(dtype), result.indices, plan.unplanned


def cost(
    prepared: Prepared, nodes: Optional[Tensor], k: int, budget: Budget, kept: int
) -> tuple[int, int, int]:
    """The products, those that are visited at most, and the bytes of working memory."""
    plan = make_plan(prepared, nodes, k)
    products = prepared.products + prepared.skipped
    products = products if nodes is None else products[nodes]
    sizes = table_sizes(plan, prepared.descriptions.num_nodes)
    limit = _most_slots(budget, kept, bytes_per_slot(prepared.descriptions))
    memory = kept + _memory(prepared, plan, sizes, limit)
    return int(products.double().sum()), int(plan.work.double().sum()), memory


def _most_slots(budget: Budget, kept: int, slot: int) -> int:
    """The slots of the tables that are in use at a time, unless one is larger."""
    room = budget.working_memory
    free = TABLES if room is None else min(TABLES, room - kept)
    return max(free // slot, 1)


def _memory(prepared: Prepared, plan: Plan, sizes: list[int], limit: int) -> int:
    """The bytes that the rows take, if tables of at most `limit` slots are in use at a time."""
    slots = max(max(sizes, default=0), min(sum(sizes), limit))
    groups = 0 if plan.groups is None else plan.groups.mask.numel()
    ids = prepared.descriptions.lists.col.dtype.itemsize
    of_rows = 3 * plan.work.numel() * torch.long.itemsize
    return slots * bytes_per_slot(prepared.descriptions) + groups * plan.num_best * ids + of_rows

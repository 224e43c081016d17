"""The top k by kernels written in Triton: on a GPU, or in Triton's interpreter.

The descriptions are those of the torch backend, and so are the bits of the result. The torch
backend computes rows whose `k` is too large for a block of a kernel, and graphs with
`exclude_neighbors`.
"""

from typing import NamedTuple, Optional

import torch
import triton
from torch import Tensor

from torch_geometric_simpool.topk.backend import Cost, PreparedGraph
from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.rounding import smallest_value
from torch_geometric_simpool.topk.spec import EdgeList, Selection, SimilaritySpec
from torch_geometric_simpool.topk.torch import backend as topk_torch
from torch_geometric_simpool.topk.torch import csr
from torch_geometric_simpool.topk.triton.arrays import Problem, Result, Tables, prepare_arrays
from torch_geometric_simpool.topk.triton.hubs import best_of_hubs
from torch_geometric_simpool.topk.triton.long_rows import best_of_tables, fill_tables
from torch_geometric_simpool.topk.triton.plan import Plan, make_plan, make_tables
from torch_geometric_simpool.topk.triton.short_rows import short_rows

#: The bytes of an entry of a description: in the torch backend, and in a narrow copy.
BYTES_PER_ENTRY = csr.BYTES_PER_ENTRY + 16

#: The products of a program that computes short rows.
PRODUCTS = 1 << 10
PRODUCTS_INTERPRETED = 1 << 14

#: The members of a list that are read at a time.
MEMBERS = 128

#: A block of candidates, half of which are the best so far, is at least this large.
SMALLEST_BLOCK = 128


class Options(NamedTuple):
    """The rule that selects the entries of a row, for the kernels."""

    selection: Selection
    limits: Tensor  # the smallest similarity, and the largest absolute value that is zero
    tiny: bool  # whether similarities could be zero in the type of the result


class TritonGraph(NamedTuple):
    """A graph whose rows can be computed."""

    common: topk_torch.TorchGraph
    problem: Problem

    def topk(
        self, nodes: Optional[Tensor], selection: Selection, budget: Budget, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Returns values and indices, `[M, k]`, of the rows of `nodes`, or of all."""
        problem, plan = self.problem, make_plan(self.problem, nodes, selection.k)
        budget.check_products(int(plan.work.double().sum()))
        budget.check_memory(self._memory + plan.memory(problem, 1))
        # In float32 first, as on a CPU: a narrower type then rounds a second time.
        computed = torch.float64 if dtype == torch.float64 else torch.float32
        shape, device = (plan.work.numel(), selection.k), plan.work.device
        result = Result(
            torch.empty(shape, dtype=computed, device=device),
            torch.empty(shape, dtype=torch.long, device=device),
        )
        lowest = -torch.inf if selection.min_similarity is None else selection.min_similarity
        smallest = smallest_value(dtype)
        limits = torch.tensor([lowest, smallest], dtype=torch.float64, device=device)
        # The dot product and both norms of integers are in [1, 2^53), so no similarity is smaller.
        tiny = not problem.descriptions.exact or smallest > 2.0**-53
        options = Options(selection, limits, tiny)
        with torch.cuda.device_of(plan.work):
            best = run_hubs(problem, plan)
            for size, places in plan.short:
                run_short(problem, plan, places, size, nodes, best, options, result)
            slots = plan.most_slots(problem, budget, self._memory)
            for tables in make_tables(problem.descriptions, plan, nodes, slots):
                run_long(problem, tables, best, options, result)
        values, index, rest = result.values.to(dtype), result.indices, plan.unplanned
        if rest.numel() > 0:
            of_rest = rest if nodes is None else nodes[rest]
            values[rest], index[rest] = self.common.topk(of_rest, selection, budget, dtype)
        return values, index

    def cost(self, nodes: Optional[Tensor], k: int, budget: Budget) -> Cost:
        """Returns the cost of :meth:`topk`."""
        plan = make_plan(self.problem, nodes, k)
        products = self.problem.products + self.problem.skipped
        products = products if nodes is None else products[nodes]
        slots = plan.most_slots(self.problem, budget, self._memory)
        memory = self._memory + plan.memory(self.problem, slots)
        return Cost(int(products.double().sum()), int(plan.work.double().sum()), memory)

    @property
    def _memory(self) -> int:
        """The bytes of the descriptions."""
        return BYTES_PER_ENTRY * (self.common.left.col.numel() + self.common.right.col.numel())


def prepare(
    edges: EdgeList, spec: SimilaritySpec, budget: Budget, nodes: Optional[Tensor] = None
) -> PreparedGraph:
    """Computes the descriptions, their transpose and their norms."""
    common = topk_torch.prepare(edges, spec, budget, nodes)
    if common.neighbors is not None:
        return common  # no kernel leaves out neighbors
    return TritonGraph(common, prepare_arrays(common))


def run_hubs(problem: Problem, plan: Plan) -> Optional[Tensor]:
    """Returns the best of each group by its hubs alone, `[num_groups, num_best]`, -1 behind them.

    Returns `None` if there are no groups.
    """
    hubs, groups, num_best = problem.hubs, plan.groups, plan.num_best
    if hubs is None or groups is None:
        return None
    best = torch.empty(
        groups.mask.numel(), num_best, dtype=hubs.ids.dtype, device=groups.mask.device
    )
    half = _half_block(num_best)
    best_of_hubs[(groups.mask.numel(),)](
        groups.mask, groups.norm2, *hubs, best, hubs.ptr.numel() - 1, num_best,
        HALF=half, MEASURE=problem.descriptions.measure, num_warps=_warps(2 * half),
        enable_fp_fusion=False,
    )  # fmt: skip
    return best


def run_short(
    problem: Problem,
    plan: Plan,
    places: Tensor,
    size: int,
    nodes: Optional[Tensor],
    best: Optional[Tensor],
    options: Options,
    result: Result,
) -> None:
    """Computes the rows `places` of the result, of at most `size` products each."""
    descriptions, selection = problem.descriptions, options.selection
    norm2, groups = descriptions.norm2, plan.groups
    at_once = max(PRODUCTS // size, 1)
    if not isinstance(short_rows, triton.runtime.JITFunction):
        # In the interpreter a program takes about as long for any number of rows.
        at_once = min(triton.next_power_of_2(places.numel()), PRODUCTS_INTERPRETED // size)
    # A kernel takes any tensor in the place of one that it does not read.
    short_rows[(triton.cdiv(places.numel(), at_once),)](
        places, places if nodes is None else nodes, *descriptions.rows, *descriptions.lists,
        norm2, descriptions.scale, descriptions.integral, descriptions.mask,
        norm2 if groups is None else groups.of_place, norm2 if best is None else best,
        options.limits, *result,
        places.numel(), selection.k, 0 if best is None else best.size(1),
        ROWS=at_once, SIZE=size, LOG_SIZE=size.bit_length() - 1, SOME=nodes is not None,
        HUBS=best is not None, WEIGHTED=descriptions.weighted, EXACT=descriptions.exact,
        SIGNED=descriptions.signed, LOOP=selection.loop, MEASURE=descriptions.measure,
        REDUCE=not descriptions.small, TINY=options.tiny,
        num_warps=_warps(size * at_once), enable_fp_fusion=False,
    )  # fmt: skip


def run_long(
    problem: Problem, tables: Tables, best: Optional[Tensor], options: Options, result: Result
) -> None:
    """Computes the rows that have tables."""
    descriptions, selection = problem.descriptions, options.selection
    weighted, exact, norm2 = descriptions.weighted, descriptions.exact, descriptions.norm2
    ids = descriptions.lists.col
    slots = torch.full((tables.num_slots,), -1, dtype=ids.dtype, device=ids.device)
    sums = torch.zeros_like(slots, dtype=torch.float64 if weighted else torch.int32)
    lost = sums if exact else torch.zeros_like(sums)
    absolute = torch.zeros_like(sums) if descriptions.signed else sums
    fill_tables[(tables.task_table.numel(),)](
        tables.task_table, tables.task_first, tables.task_last, tables.ptr, tables.group,
        *descriptions.rows[1:], *descriptions.lists, norm2 if best is None else best,
        slots, sums, lost, absolute, 0 if best is None else best.size(1),
        SIZE=MEMBERS, WEIGHTED=weighted, EXACT=exact, SIGNED=descriptions.signed,
        HUBS=best is not None,
        num_warps=_warps(MEMBERS), enable_fp_fusion=False,
    )  # fmt: skip
    half = _half_block(selection.k)
    best_of_tables[(tables.place.numel(),)](
        tables.place, tables.node, tables.ptr, slots, sums, lost, absolute, norm2,
        descriptions.scale, descriptions.integral, descriptions.mask, options.limits,
        *result, selection.k,
        HALF=half, EXACT=exact, SIGNED=descriptions.signed, HUBS=best is not None,
        LOOP=selection.loop, MEASURE=descriptions.measure, REDUCE=not descriptions.small,
        TINY=options.tiny, num_warps=_warps(2 * half), enable_fp_fusion=False,
    )  # fmt: skip


def _half_block(num_best: int) -> int:
    """Returns half of the size of a block of candidates; the best are in the first half."""
    return max(triton.next_power_of_2(num_best), SMALLEST_BLOCK // 2)


def _warps(size: int) -> int:
    """Returns four for a block of 1024, so that a thread has eight of its numbers."""
    return min(max(size // 256, 1), 8)

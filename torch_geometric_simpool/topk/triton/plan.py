"""The plan of a top k: short rows by their number of products, long rows, groups of hubs.

The plan of a call reads a few numbers from the device, whatever the number of blocks.
"""

from collections.abc import Iterator
from typing import NamedTuple, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.measures import COSINE
from torch_geometric_simpool.topk.triton.arrays import (
    Descriptions,
    Groups,
    Problem,
    Tables,
)

#: A row of more products than this is long. Powers of two, each half of the next, are the sizes of
#: the blocks in which shorter rows are sorted.
LONGEST_SORTED = 2048
SHORTEST_BLOCK = 64

#: The best candidates of a long row, or of a group, are in one block, so there are at most as many.
MOST_BEST = 256

#: The bytes of the tables that are in use at a time, if the budget allows as much.
TABLES = 256 * 2**20

#: The features of a long row that one program adds to its table, where sums are exact.
FEATURES = 64


class Plan(NamedTuple):
    """The rows that are asked for, by how they are computed. Rows are places in the result."""

    short: list[tuple[int, Tensor]]  # sizes of blocks, and rows of at most as many products
    long: Tensor
    unplanned: Tensor  # rows that the kernels do not compute, because `k` is too large for them
    groups: Optional[Groups]
    work: Tensor  # [M], the products that are visited for each row
    num_best: int  # the candidates of a group
    table_sizes: list[int]  # the slots of the table of each long row; half of them are in use

    def most_slots(self, problem: Problem, budget: Budget, used: int) -> int:
        """Returns the slots of the tables that are in use at a time, unless one is larger."""
        room = budget.working_memory
        free = TABLES if room is None else min(TABLES, room - used)
        return max(free // problem.descriptions.bytes_per_slot, 1)

    def memory(self, problem: Problem, most_slots: int) -> int:
        """Returns the bytes that the rows take if tables of so many slots are in use at a time."""
        slots = max(max(self.table_sizes, default=0), min(sum(self.table_sizes), most_slots))
        groups = 0 if self.groups is None else self.groups.mask.numel()
        of_groups = groups * self.num_best * problem.descriptions.lists.col.dtype.itemsize
        of_rows = 3 * self.work.numel() * torch.long.itemsize
        return slots * problem.descriptions.bytes_per_slot + of_groups + of_rows


def make_plan(problem: Problem, nodes: Optional[Tensor], k: int) -> Plan:
    """Sorts the rows of these nodes, or of all, by their number of products."""
    work = problem.products if nodes is None else problem.products[nodes]
    mask = problem.descriptions.mask
    groups, unsorted = None, work > LONGEST_SORTED
    num_best = k + 1  # a row may leave itself out
    if problem.hubs is not None:
        own = mask if nodes is None else mask[nodes]
        if num_best > MOST_BEST:
            unsorted = unsorted | (own != 0)
        else:
            groups = _group(problem.descriptions, own, nodes)
            work = work + num_best * (own != 0)
            unsorted = work > LONGEST_SORTED
    sizes = [1 << log for log in range(_log2(SHORTEST_BLOCK), _log2(LONGEST_SORTED) + 1)]
    limits = torch.tensor(sizes, device=work.device)
    bins = torch.bucketize(work, limits).masked_fill(unsorted, len(sizes))
    # The rows of a bin stay in their order, so that neighbors in memory are read together.
    places = bins.to(torch.uint8).argsort(stable=True)
    ends = torch.bincount(bins, minlength=len(sizes) + 1).cumsum(0).tolist()
    parts = [places[first:last] for first, last in zip([0, *ends], ends)]
    short = [(size, part) for size, part in zip(sizes, parts) if part.numel() > 0]
    none = places[:0]
    too_large = (k if problem.hubs is None else num_best) > MOST_BEST
    long, unplanned = (none, parts[-1]) if too_large else (parts[-1], none)
    most = work[long].clamp(max=problem.descriptions.num_nodes).tolist()
    tables = [1 << (2 * int(products) - 1).bit_length() for products in most]
    return Plan(short, long, unplanned, groups, work, num_best, tables)


def _log2(power: int) -> int:
    return power.bit_length() - 1


def _group(descriptions: Descriptions, own: Tensor, nodes: Optional[Tensor]) -> Groups:
    """Groups the rows whose hubs are the masks `own`."""
    places = own.nonzero().view(-1)
    mask, group = own[places].unique(return_inverse=True)
    norm2 = descriptions.norm2.new_ones(mask.numel())
    if descriptions.measure != COSINE:
        # The order of candidates depends on the norm of the row.
        norm2_i = descriptions.norm2[places if nodes is None else nodes[places]].long()
        scale = descriptions.norm2.max().long() + 1
        pair, group = (group * scale + norm2_i).unique(return_inverse=True)
        mask = mask[pair.div(scale, rounding_mode="floor")]
        norm2 = (pair % scale).to(norm2.dtype)
    of_place = torch.full_like(own, -1)
    of_place[places] = group
    return Groups(of_place, mask, norm2)


def batches(sizes: list[int], limit: int) -> Iterator[tuple[int, int]]:
    """Ranges of tables of at most `limit` slots together; a larger table is a range of its own."""
    start, used = 0, 0
    for number, size in enumerate(sizes):
        if number > start and used + size > limit:
            yield start, number
            start, used = number, 0
        used += size
    if sizes:
        yield start, len(sizes)


def make_tables(
    descriptions: Descriptions, plan: Plan, nodes: Optional[Tensor], limit: int
) -> Iterator[Tables]:
    """The tables of the long rows, a batch at a time."""
    ptr, device = descriptions.rows.ptr, plan.long.device
    place = plan.long
    node = place if nodes is None else nodes[place]
    group = torch.full_like(place, -1) if plan.groups is None else plan.groups.of_place[place]
    first, last = torch.stack([ptr[node], ptr[node + 1]]).cpu()
    for start, end in batches(plan.table_sizes, limit):
        slots = torch.tensor([0, *plan.table_sizes[start:end]]).cumsum(0)
        table, task_first, task_last = _tasks(first[start:end], last[start:end], descriptions.exact)
        yield Tables(
            place[start:end],
            node[start:end],
            group[start:end],
            slots.to(device),
            table.to(device),
            task_first.to(device),
            task_last.to(device),
            int(slots[-1]),
        )


def _tasks(first: Tensor, last: Tensor, exact: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Parts of rows: the row, and where each part begins and ends."""
    row = torch.arange(first.numel())
    if not exact:  # then the order of sums matters
        return row, first, last
    parts = (last - first + FEATURES - 1).div(FEATURES, rounding_mode="floor").clamp(min=1)
    row = row.repeat_interleave(parts)
    number = torch.arange(row.numel()) - (parts.cumsum(0) - parts)[row]
    begin = first[row] + number * FEATURES
    return row, begin, torch.minimum(begin + FEATURES, last[row])

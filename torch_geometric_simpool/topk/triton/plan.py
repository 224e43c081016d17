"""What a top k has to compute: short rows by their number of products, long rows, groups of hubs.

The plan of a call reads a few numbers from the device, whatever the number of blocks.
"""

from collections.abc import Iterator
from typing import NamedTuple, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.topk.triton.arrays import (
    Descriptions,
    Groups,
    Prepared,
    Tables,
    type_of_ids,
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


def make_plan(prepared: Prepared, nodes: Optional[Tensor], k: int) -> Plan:
    """Sorts the rows of these nodes, or of all, by their number of products."""
    work = prepared.products if nodes is None else prepared.products[nodes]
    mask = prepared.descriptions.mask
    groups, unsorted = None, work > LONGEST_SORTED
    num_best = k + 1  # a row may leave itself out
    if prepared.hubs is not None:
        own = mask if nodes is None else mask[nodes]
        if num_best > MOST_BEST:
            unsorted = unsorted | (own != 0)
        else:
            groups = _group(prepared.descriptions, own, nodes)
            work = work + num_best * (own != 0)
            unsorted = work > LONGEST_SORTED
    sizes = []
    size = SHORTEST_BLOCK
    while size < LONGEST_SORTED:
        sizes.append(size)
        size *= 2
    sizes.append(LONGEST_SORTED)
    limits = torch.tensor(sizes, device=work.device)
    bins = torch.bucketize(work, limits).masked_fill(unsorted, len(sizes))
    # The rows of a bin stay in their order, so that neighbors in memory are read together.
    places = bins.to(torch.uint8).argsort(stable=True)
    ends = torch.bincount(bins, minlength=len(sizes) + 1).cumsum(0).tolist()
    parts = [places[first:last] for first, last in zip([0, *ends], ends)]
    short = [(size, part) for size, part in zip(sizes, parts) if part.numel() > 0]
    none = places[:0]
    too_large = (k if prepared.hubs is None else num_best) > MOST_BEST
    long, unplanned = (none, parts[-1]) if too_large else (parts[-1], none)
    return Plan(short, long, unplanned, groups, work, num_best)


def _group(descriptions: Descriptions, own: Tensor, nodes: Optional[Tensor]) -> Groups:
    """Groups the rows whose hubs are the masks `own`."""
    places = own.nonzero().view(-1)
    mask, group = own[places].unique(return_inverse=True)
    norm2 = descriptions.norm2.new_ones(mask.numel())
    if descriptions.jaccard:
        # The order of candidates depends on the norm of the row.
        norm2_i = descriptions.norm2[places if nodes is None else nodes[places]].long()
        scale = descriptions.norm2.max().long() + 1
        pair, group = (group * scale + norm2_i).unique(return_inverse=True)
        mask = mask[pair.div(scale, rounding_mode="floor")]
        norm2 = (pair % scale).to(norm2.dtype)
    of_place = torch.full_like(own, -1)
    of_place[places] = group
    return Groups(of_place, mask, norm2)


def bytes_per_slot(descriptions: Descriptions) -> int:
    """The bytes of a slot of a table: an id, and its sum, in up to three doubles."""
    ids = type_of_ids(descriptions.num_nodes).itemsize
    if not descriptions.weighted:
        return ids + 4
    if descriptions.exact:
        return ids + 8
    return ids + (24 if descriptions.signed else 16)


def table_sizes(plan: Plan, num_nodes: int) -> list[int]:
    """The slots of the table of each long row: at most half of them are in use."""
    work = plan.work[plan.long].clamp(max=num_nodes).tolist()
    return [1 << (2 * int(most) - 1).bit_length() for most in work]


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
    descriptions: Descriptions, plan: Plan, nodes: Optional[Tensor], sizes: list[int], limit: int
) -> Iterator[Tables]:
    """The tables of the long rows, a batch at a time."""
    ptr, device = descriptions.rows.ptr, plan.long.device
    place = plan.long
    node = place if nodes is None else nodes[place]
    group = torch.full_like(place, -1) if plan.groups is None else plan.groups.of_place[place]
    first, last = torch.stack([ptr[node], ptr[node + 1]]).cpu()
    for start, end in batches(sizes, limit):
        slots = torch.tensor([0, *sizes[start:end]]).cumsum(0)
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

"""Starts the kernels: which sizes of blocks, and how many programs."""

from typing import NamedTuple, Optional

import torch
import triton
from torch import Tensor

from torch_geometric_simpool.topk.spec import Selection
from torch_geometric_simpool.topk.triton.arrays import (
    Descriptions,
    Groups,
    Hubs,
    Result,
    Tables,
)
from torch_geometric_simpool.topk.triton.hubs import best_of_hubs
from torch_geometric_simpool.topk.triton.long_rows import best_of_tables, fill_tables
from torch_geometric_simpool.topk.triton.short_rows import short_rows

#: The products of a program that computes short rows.
PRODUCTS = 1 << 10
PRODUCTS_INTERPRETED = 1 << 14

#: The members of a list that are read at a time.
MEMBERS = 128

#: A block of candidates, half of which are the best so far, is at least this large.
SMALLEST_BLOCK = 128


class Options(NamedTuple):
    """Which candidates take a place."""

    settings: Selection
    limits: Tensor  # the smallest similarity, and the largest absolute value that is zero
    tiny: bool  # whether similarities could be zero in the type of the result


def run_hubs(hubs: Hubs, groups: Groups, num_best: int, jaccard: bool) -> Tensor:
    """The best of each group by its hubs alone, `[num_groups, num_best]`, -1 behind them."""
    _, mask, norm2 = groups
    best = torch.empty(mask.numel(), num_best, dtype=hubs.ids.dtype, device=mask.device)
    half = _half_block(num_best)
    with torch.cuda.device_of(mask):
        best_of_hubs[(mask.numel(),)](
            mask, norm2, *hubs, best, hubs.ptr.numel() - 1, num_best,
            HALF=half, JACCARD=jaccard, num_warps=_warps(2 * half),
            enable_fp_fusion=False,
        )  # fmt: skip
    return best


def run_short(
    descriptions: Descriptions,
    places: Tensor,
    size: int,
    nodes: Optional[Tensor],
    group: Optional[Tensor],
    best: Optional[Tensor],
    options: Options,
    result: Result,
) -> None:
    """Computes the rows `places` of the result, of at most `size` products each."""
    norm2, settings = descriptions.norm2, options.settings
    at_once = max(PRODUCTS // size, 1)
    if _interpreted():  # a program takes about as long for any number of rows
        at_once = min(triton.next_power_of_2(places.numel()), PRODUCTS_INTERPRETED // size)
    programs = triton.cdiv(places.numel(), at_once)
    with torch.cuda.device_of(places):
        short_rows[(programs,)](
            places, places if nodes is None else nodes, *descriptions.rows, *descriptions.lists,
            norm2, descriptions.scale, descriptions.integral, descriptions.mask,
            _or(group, norm2), _or(best, norm2), options.limits, *result,
            places.numel(), settings.k, 0 if best is None else best.size(1),
            ROWS=at_once, SIZE=size, LOG_SIZE=size.bit_length() - 1, SOME=nodes is not None,
            HUBS=best is not None, WEIGHTED=descriptions.weighted, EXACT=descriptions.exact,
            SIGNED=descriptions.signed, LOOP=settings.loop, JACCARD=descriptions.jaccard,
            REDUCE=not descriptions.small, TINY=options.tiny,
            num_warps=_warps(size * at_once), enable_fp_fusion=False,
        )  # fmt: skip


def run_long(
    descriptions: Descriptions,
    tables: Tables,
    best: Optional[Tensor],
    options: Options,
    result: Result,
) -> None:
    """Computes the rows that have tables."""
    weighted, exact, settings = descriptions.weighted, descriptions.exact, options.settings
    device, lists = tables.ptr.device, descriptions.lists
    slots = torch.full((tables.num_slots,), -1, dtype=lists.col.dtype, device=device)
    type_of_sums = torch.float64 if weighted else torch.int32
    sums = torch.zeros(tables.num_slots, dtype=type_of_sums, device=device)
    lost = sums if exact else torch.zeros_like(sums)
    absolute = torch.zeros_like(sums) if descriptions.signed else sums
    norm2 = descriptions.norm2
    with torch.cuda.device_of(slots):
        fill_tables[(tables.task_table.numel(),)](
            tables.task_table, tables.task_first, tables.task_last, tables.ptr, tables.group,
            *descriptions.rows[1:], *lists, _or(best, norm2), slots, sums, lost, absolute,
            0 if best is None else best.size(1),
            SIZE=MEMBERS, WEIGHTED=weighted, EXACT=exact, SIGNED=descriptions.signed,
            HUBS=best is not None,
            num_warps=_warps(MEMBERS), enable_fp_fusion=False,
        )  # fmt: skip
        half = _half_block(settings.k)
        best_of_tables[(tables.place.numel(),)](
            tables.place, tables.node, tables.ptr, slots, sums, lost, absolute, norm2,
            descriptions.scale, descriptions.integral, descriptions.mask, options.limits,
            *result, settings.k,
            HALF=half, EXACT=exact, SIGNED=descriptions.signed, HUBS=best is not None,
            LOOP=settings.loop, JACCARD=descriptions.jaccard, REDUCE=not descriptions.small,
            TINY=options.tiny, num_warps=_warps(2 * half), enable_fp_fusion=False,
        )  # fmt: skip


def _or(given: Optional[Tensor], nothing: Tensor) -> Tensor:
    """What is given, or any other tensor: a kernel takes tensors that it does not read."""
    return nothing if given is None else given


def _half_block(num_best: int) -> int:
    """Half of the size of a block of candidates, the best of which are in the first half."""
    return max(triton.next_power_of_2(num_best), SMALLEST_BLOCK // 2)


def _warps(size: int) -> int:
    """Four for a block of 1024, so that a thread has eight of its numbers."""
    return min(max(size // 256, 1), 8)


def _interpreted() -> bool:
    return not isinstance(short_rows, triton.runtime.JITFunction)

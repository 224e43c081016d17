"""Kernels: rows of many products. The sums of a row are in a hash table in global memory.

Where sums are exact, several programs add the products of a row, each those of some of its
features. Else one program adds them, feature by feature, in the order of the CPU backend.
Then one program reads the table, and keeps the best.
"""

import triton
import triton.language as tl

from torch_geometric_simpool.topk.triton.arithmetic import (
    NONE,
    add,
    keep_best,
    popcount,
    rank_candidates,
    rounded_sum,
    write,
)


@triton.jit
def fill_tables(task_table, task_first, task_last, table_ptr, table_best, row_col, row_value,
                list_ptr, list_col, list_value, hub_best, slots, sums, lost, absolute,
                num_best, SIZE: tl.constexpr, WEIGHTED: tl.constexpr, EXACT: tl.constexpr,
                SIGNED: tl.constexpr, HUBS: tl.constexpr):  # fmt: skip
    """Adds the products of the features `task_first` to `task_last` of a row to its table.

    `slots` holds the ids, -1 where a slot is empty; `sums` what is in it, and, unless `EXACT`,
    `lost` what rounding lost. If `SIGNED`, `absolute` holds the sums of the absolute values. The
    sizes of tables are powers of two.
    """
    task = tl.program_id(0)
    table = tl.load(task_table + task)
    start_of_table = tl.load(table_ptr + table)
    last_slot = tl.load(table_ptr + table + 1) - start_of_table - 1
    slots += start_of_table
    sums += start_of_table
    lost += start_of_table
    absolute += start_of_table
    column = tl.arange(0, SIZE)
    e = tl.load(task_first + task)
    last = tl.load(task_last + task)
    while e < last:
        feature = tl.load(row_col + e).to(tl.int64)
        at = tl.load(list_ptr + feature)
        end = tl.load(list_ptr + feature + 1)
        while at < end:
            inside = at + column < end
            j = tl.load(list_col + at + column, mask=inside, other=0)
            slot = find_slot(slots, j, inside, last_slot)
            if WEIGHTED:
                factor = tl.load(row_value + e)
                term = factor * tl.load(list_value + at + column, mask=inside, other=0.0)
                if EXACT:
                    tl.atomic_add(sums + slot, term, mask=inside, sem="relaxed")
                else:
                    high = tl.load(sums + slot, mask=inside, other=0.0)
                    low = tl.load(lost + slot, mask=inside, other=0.0)
                    high, more = add(high, term)
                    tl.store(sums + slot, high, mask=inside)
                    tl.store(lost + slot, low + more, mask=inside)
                    if SIGNED:
                        before = tl.load(absolute + slot, mask=inside, other=0.0)
                        tl.store(absolute + slot, before + tl.abs(term), mask=inside)
            else:
                one = inside.to(tl.int32)
                tl.atomic_add(sums + slot, one, mask=inside, sem="relaxed")
            at += SIZE
        if not EXACT:
            # A list has no id twice, but another thread may have the same one in the next list.
            tl.debug_barrier()
        e += 1
    if HUBS:
        group = tl.load(table_best + table)
        named_best = tl.where(group >= 0, num_best, 0)  # a row without hubs has no group
        rank = column
        while tl.max(rank) - SIZE < num_best - 1:
            named = rank < named_best
            j = tl.load(hub_best + group * num_best + rank, mask=named, other=-1)
            # The table of a row has the type of the lists.
            find_slot(slots, j.to(slots.dtype.element_ty), j >= 0, last_slot)
            rank += SIZE


@triton.jit
def find_slot(slots, j, real, last_slot):
    """The slot of each id, which is put there if it is new; it has any value if not `real`."""
    slot = ((j.to(tl.int64) * 2654435761) >> 12) & last_slot
    searching = real
    while tl.max(searching.to(tl.int32)) > 0:
        # No slot holds -2, so that nothing is written where no slot is searched.
        empty = tl.where(searching, -1, -2).to(slots.dtype.element_ty)
        old = tl.atomic_cas(slots + slot, empty, j, sem="relaxed")
        searching = searching & (old != -1) & (old != j)
        slot = tl.where(searching, (slot + 1) & last_slot, slot)
    return slot


@triton.jit(do_not_specialize=["k"])
def best_of_tables(table_place, table_node, table_ptr, slots, sums, lost, absolute, norm2,
                   scale, integral, mask, limits, values, index, k, HALF: tl.constexpr,
                   EXACT: tl.constexpr, SIGNED: tl.constexpr, HUBS: tl.constexpr,
                   LOOP: tl.constexpr, MEASURE: tl.constexpr, REDUCE: tl.constexpr,
                   TINY: tl.constexpr):  # fmt: skip
    """Writes the best of each table, at most `HALF` of them, to a row of the result."""
    table = tl.program_id(0)
    i = tl.load(table_node + table)
    norm2_i = tl.load(norm2 + i).to(tl.float64)
    lowest, smallest = tl.load(limits), tl.load(limits + 1)
    place = tl.arange(0, 2 * HALF)
    best_bits = tl.full([2 * HALF], NONE, tl.int64)
    best_ids = tl.full([2 * HALF], -1, tl.int64)
    worst = tl.max(best_bits, 0)
    end = tl.load(table_ptr + table + 1)
    at = tl.load(table_ptr + table)
    while at < end:
        slot = at + place - HALF
        inside = (place >= HALF) & (slot < end)
        j = tl.load(slots + slot, mask=inside, other=-1).to(tl.int64)
        inside = inside & (j >= 0)
        dot = tl.load(sums + slot, mask=inside, other=0).to(tl.float64)
        if not EXACT:
            low = tl.load(lost + slot, mask=inside, other=0.0)
            size = low
            if SIGNED:
                size = tl.load(absolute + slot, mask=inside, other=0.0)
            dot = rounded_sum(dot, low, size, SIGNED)
        if HUBS:
            own = tl.load(mask + i)
            hubbed_end = tl.where(own != 0, end, at)  # a row without hubs reads no masks
            theirs = tl.load(mask + j, mask=inside & (slot < hubbed_end), other=0)
            dot += popcount(theirs & own).to(tl.float64)
        inside = inside & (dot != 0)
        if not LOOP:
            inside = inside & (j != i)
        bits = rank_candidates(dot, inside, i, j, norm2_i, norm2, scale, integral,
                               smallest, EXACT, MEASURE, REDUCE, TINY)  # fmt: skip
        if tl.max(bits, 0) >= worst:
            best_bits, best_ids = keep_best(best_bits, best_ids, bits, j, place, k, HALF)
            worst = tl.max(tl.where(place == k - 1, best_bits, NONE), 0)
        at += HALF
    at = tl.load(table_place + table).to(tl.int64) * k + place
    write(at, place < k, best_bits, best_ids, norm2_i, lowest, values, index, MEASURE)

"""Kernels: the products of a row are added in a hash table in global memory; the best are kept.

The sizes of tables are powers of two. `slots` holds the candidates, -1 in an empty slot, and `sums`
holds their dot products. Unless `EXACT`, `lost` holds the rounding errors and `absolute` the sums
of the absolute values.
"""

import triton
import triton.language as tl

from torch_geometric_simpool.topk.triton.arithmetic import (
    NONE,
    add,
    keep_best,
    key_of,
    rank_candidates,
    rounded_sum,
    similarity_of_key,
)


@triton.jit
def fill_tables(nodes, table_ptr, row_ptr, row_col, row_value, list_ptr, list_col, list_value,
                slots, sums, lost, absolute,
                SIZE: tl.constexpr, WEIGHTED: tl.constexpr, EXACT: tl.constexpr):  # fmt: skip
    """Adds the products of a row to its table.

    Several programs add exact sums, each for some of the features. One program adds rounded sums,
    feature by feature, in the order of the other backends.
    """
    row = tl.program_id(0)
    i = tl.load(nodes + row)
    start = tl.load(table_ptr + row)
    last_slot = tl.load(table_ptr + row + 1) - start - 1
    column = tl.arange(0, SIZE)
    e = tl.load(row_ptr + i) + tl.program_id(1)
    last = tl.load(row_ptr + i + 1)
    while e < last:
        feature = tl.load(row_col + e).to(tl.int64)
        at = tl.load(list_ptr + feature)
        end = tl.load(list_ptr + feature + 1)
        while at < end:
            inside = at + column < end
            j = tl.load(list_col + at + column, mask=inside, other=0)
            slot = start + find_slot(slots + start, j, inside, last_slot)
            term = inside.to(tl.float64)
            if WEIGHTED:
                term = tl.load(list_value + at + column, mask=inside, other=0.0)
                term = tl.load(row_value + e) * term
            if EXACT:
                tl.atomic_add(sums + slot, term, mask=inside, sem="relaxed")
            else:
                high, low = add(tl.load(sums + slot, mask=inside, other=0.0), term)
                low += tl.load(lost + slot, mask=inside, other=0.0)
                size = tl.abs(term) + tl.load(absolute + slot, mask=inside, other=0.0)
                tl.store(sums + slot, high, mask=inside)
                tl.store(lost + slot, low, mask=inside)
                tl.store(absolute + slot, size, mask=inside)
            at += SIZE
        if not EXACT:
            # A list has no id twice, but another thread may have the same one in the next list.
            tl.debug_barrier()
        e += tl.num_programs(1)


@triton.jit
def find_slot(slots, j, real, last_slot):
    """Returns the slot of each id. A new id is put there. The slot is any number if not `real`."""
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
def best_of_tables(nodes, table_ptr, slots, sums, lost, absolute, norm2, scale, integral, limits,
                   values, index, k, HALF: tl.constexpr, EXACT: tl.constexpr, LOOP: tl.constexpr,
                   MEASURE: tl.constexpr):  # fmt: skip
    """Writes the `k` best candidates of a table, at most `HALF`, to a row of the result.

    The `limits` are the smallest similarity that takes a place, and the largest absolute value that
    is zero in the type of the result.
    """
    row = tl.program_id(0)
    i = tl.load(nodes + row)
    lowest, zero = tl.load(limits), tl.load(limits + 1)
    place = tl.arange(0, 2 * HALF)
    best_bits = tl.full([2 * HALF], NONE, tl.int64)
    best_ids = tl.full([2 * HALF], -1, tl.int64)
    worst = tl.max(best_bits, 0)
    at = tl.load(table_ptr + row)
    end = tl.load(table_ptr + row + 1)
    while at < end:
        slot = at + place - HALF
        inside = (place >= HALF) & (slot < end)
        j = tl.load(slots + slot, mask=inside, other=-1).to(tl.int64)
        inside = inside & (j >= 0)
        dot = tl.load(sums + slot, mask=inside, other=0.0)
        if not EXACT:
            low = tl.load(lost + slot, mask=inside, other=0.0)
            dot = rounded_sum(dot, low, tl.load(absolute + slot, mask=inside, other=0.0))
        inside = inside & (dot != 0)
        if not LOOP:
            inside = inside & (j != i)
        bits = rank_candidates(dot, inside, i, j, norm2, scale, integral, zero, MEASURE)
        if tl.max(bits, 0) >= worst:
            best_bits, best_ids = keep_best(best_bits, best_ids, bits, j, place, k, HALF)
            worst = tl.max(tl.where(place == k - 1, best_bits, NONE), 0)
        at += HALF
    value = similarity_of_key(key_of(best_bits), tl.load(norm2 + i), MEASURE)
    kept = (best_bits != NONE) & (value >= lowest)
    # An offset into the result exceeds 32 bits long before the number of nodes does.
    at = row.to(tl.int64) * k + place
    value = tl.where(kept, value, 0.0).to(values.dtype.element_ty)
    tl.store(values + at, value, mask=place < k)
    tl.store(index + at, tl.where(kept, best_ids, -1), mask=place < k)

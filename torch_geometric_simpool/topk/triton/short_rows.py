"""Kernel: rows of few products, several in one program.

All products of a row are in one block. They are sorted by the id of their candidate; then those
with the same id are added up, and the candidates are put in order.
"""

import triton
import triton.language as tl

from torch_geometric_simpool.topk.triton.arithmetic import (
    LAST,
    NONE,
    add_counts,
    add_doubles,
    add_signed_doubles,
    popcount,
    rank_candidates,
    rounded_sum,
    write,
)


@triton.jit(do_not_specialize=["num_rows", "k", "num_best"])
def short_rows(places, nodes, row_ptr, row_col, row_value, list_ptr, list_col, list_value, norm2,
               scale, integral, mask, group, hub_best, limits, values, index, num_rows, k,
               num_best, ROWS: tl.constexpr, SIZE: tl.constexpr, LOG_SIZE: tl.constexpr,
               SOME: tl.constexpr, WEIGHTED: tl.constexpr, EXACT: tl.constexpr,
               SIGNED: tl.constexpr, HUBS: tl.constexpr, LOOP: tl.constexpr,
               MEASURE: tl.constexpr, REDUCE: tl.constexpr, TINY: tl.constexpr):  # fmt: skip
    """Rows whose number of products, with the best of their hubs, is at most `SIZE`."""
    number = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    real = number < num_rows
    place = tl.load(places + number, mask=real, other=0)
    i = place
    if SOME:
        i = tl.load(nodes + place, mask=real, other=0)
    column = tl.arange(0, SIZE)[None, :] + tl.zeros([ROWS, SIZE], tl.int32)

    # Where the product in each column is found.
    first = tl.load(row_ptr + i, mask=real, other=0)
    degree = (tl.load(row_ptr + i + 1, mask=real, other=0) - first).to(tl.int32)
    most_features = tl.max(degree)
    size = tl.zeros([ROWS], tl.int32)
    at = tl.zeros([ROWS, SIZE], tl.int64)
    factor = tl.zeros([ROWS, SIZE], tl.float64)
    e = most_features * 0
    while e < most_features:
        named = real & (e < degree)
        feature = tl.load(row_col + first + e, mask=named, other=0).to(tl.int64)
        start = tl.load(list_ptr + feature, mask=named, other=0)
        end = tl.load(list_ptr + feature + 1, mask=named, other=0)
        length = (end - start).to(tl.int32)
        inside = (column >= size[:, None]) & (column < (size + length)[:, None])
        at = tl.where(inside, (start - size)[:, None] + column, at)
        if WEIGHTED:
            value = tl.load(row_value + first + e, mask=named, other=0.0)
            factor = tl.where(inside, value[:, None], factor)
        size += length
        e += 1
    listed = column < size[:, None]
    candidate = tl.load(list_col + at, mask=listed, other=0).to(tl.int64)

    # Sorted by candidate, so that the products of one are next to each other and add up.
    if WEIGHTED:
        product = factor * tl.load(list_value + at, mask=listed, other=0.0)
        entry = tl.sort(tl.where(listed, (candidate << LOG_SIZE) | column, LAST))
        counted = entry != LAST
        candidate = entry >> LOG_SIZE
        high = tl.gather(product, (entry & (SIZE - 1)).to(tl.int32), 1)
        if EXACT:
            _, dot = tl.associative_scan((candidate, high), 1, add_counts)
        elif SIGNED:
            parts = candidate, high, tl.zeros_like(high), tl.abs(high)
            _, high, low, absolute = tl.associative_scan(parts, 1, add_signed_doubles)
            dot = rounded_sum(high, low, absolute, SIGNED)
        else:
            low = tl.zeros_like(high)
            _, high, low = tl.associative_scan((candidate, high, low), 1, add_doubles)
            dot = rounded_sum(high, low, low, SIGNED)
        # The last has the sum of all.
        one = tl.full([ROWS, SIZE], 1, tl.int32)
        _, following = tl.associative_scan((candidate, one), 1, add_counts, reverse=True)
        counted = counted & (following == 1) & (dot != 0)
    else:
        # A candidate of a hub counts 0 here: its hubs are counted below, whoever shares them.
        entry = tl.where(listed, 2 * candidate, LAST)
        if HUBS:
            best_of = tl.load(group + place, mask=real, other=-1)[:, None]
            rank = column - size[:, None]
            added = (best_of >= 0) & (rank >= 0) & (rank < num_best)
            best = tl.load(hub_best + best_of * num_best + rank, mask=added, other=-1)
            entry = tl.where(best >= 0, 2 * best.to(tl.int64) + 1, entry)
        entry = tl.sort(entry)
        counted = entry != LAST
        candidate = entry >> 1
        one = 1 - (entry & 1).to(tl.int32)
        # The last has the count of all, which is the largest: it is chosen first.
        _, count = tl.associative_scan((candidate, one), 1, add_counts)
        dot = count.to(tl.float64)
    if HUBS:
        own = tl.load(mask + i, mask=real, other=0)[:, None]
        theirs = tl.load(mask + candidate, mask=counted & (own != 0), other=0)
        dot += popcount(theirs & own).to(tl.float64)

    if not LOOP:
        counted = counted & (candidate != i[:, None])
    norm2_i = tl.load(norm2 + i, mask=real, other=1).to(tl.float64)
    norm2_i = tl.where(norm2_i == 0, 1.0, norm2_i)  # a row without candidates
    lowest, smallest = tl.load(limits), tl.load(limits + 1)
    bits = rank_candidates(dot, counted, i[:, None], candidate, norm2_i[:, None], norm2, scale,
                           integral, smallest, EXACT, MEASURE, REDUCE, TINY)  # fmt: skip

    # An offset into the result exceeds 32 bits long before the number of nodes does.
    row = place.to(tl.int64) * k
    taken = k * 0
    top = tl.max(bits, 1)
    while (taken < k) & (tl.max(top, 0) > NONE):
        winner = tl.min(tl.where(bits == top[:, None], candidate, LAST), 1)
        write(row + taken, real, top, winner, norm2_i, lowest, values, index, MEASURE)
        bits = tl.where(candidate == winner[:, None], NONE, bits)
        top = tl.max(bits, 1)
        taken += 1
    while taken < k:
        inside = real[:, None] & (column + taken < k)
        rest = row[:, None] + taken + column
        tl.store(values + rest, tl.zeros_like(dot).to(values.dtype.element_ty), mask=inside)
        tl.store(index + rest, tl.zeros_like(rest) - 1, mask=inside)
        taken += SIZE

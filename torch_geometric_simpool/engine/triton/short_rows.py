"""Kernel: rows of few products, several in one program.

All products of a row are in one block. They are sorted by the id of their candidate; then those
with the same id are added up, and the candidates are put in order.
"""

import triton
import triton.language as tl

from torch_geometric_simpool.engine.triton.ordering import (
    LAST,
    NONE,
    in_order,
    order_key,
    popcount,
    sortable,
    write,
)


@triton.jit(do_not_specialize=["num_rows", "k", "num_best"])
def short_rows(places, nodes, row_ptr, row_col, row_value, list_ptr, list_col, list_value, norm2,
               mask, group, hub_best, lowest, values, index, num_rows, k, num_best,
               ROWS: tl.constexpr, SIZE: tl.constexpr, LOG_SIZE: tl.constexpr,
               SOME: tl.constexpr, WEIGHTED: tl.constexpr, EXACT: tl.constexpr, HUBS: tl.constexpr,
               LOOP: tl.constexpr, JACCARD: tl.constexpr, REDUCE: tl.constexpr):  # fmt: skip
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

    # Sorted by candidate; of each one, the last column has the sum.
    if WEIGHTED:
        product = factor * tl.load(list_value + at, mask=listed, other=0.0)
        entry = tl.where(listed, (candidate << LOG_SIZE) | column, LAST)
        entry = tl.sort(entry)
        real_entry = entry != LAST
        candidate = entry >> LOG_SIZE
        high = tl.gather(product, (entry & (SIZE - 1)).to(tl.int32), 1)
        dot = add_runs(candidate, high, column, most_features, EXACT)
    else:
        # A candidate of a hub counts 0 here: its hubs are counted below, whoever shares them.
        entry = tl.where(listed, 2 * candidate, LAST)
        if HUBS:
            best_of = tl.load(group + place, mask=real, other=-1)[:, None]
            rank = column - size[:, None]
            added = (best_of >= 0) & (rank >= 0) & (rank < num_best)
            best = tl.load(hub_best + best_of * num_best + rank, mask=added, other=-1)
            entry = tl.where(best >= 0, 2 * best + 1, entry)
        entry = tl.sort(entry)
        real_entry = entry != LAST
        candidate = entry >> 1
        count = count_runs(candidate, 1 - (entry & 1).to(tl.int32), column, most_features)
        dot = count.to(tl.float64)
    following = tl.gather(candidate, tl.minimum(column + 1, SIZE - 1), 1)
    real_entry = real_entry & ((following != candidate) | (column == SIZE - 1))
    if HUBS:
        own = tl.load(mask + i, mask=real, other=0)[:, None]
        shared = tl.load(mask + candidate, mask=real_entry & (own != 0), other=0) & own
        dot += popcount(shared).to(tl.float64)

    real_entry = real_entry & (dot != 0)
    if not LOOP:
        real_entry = real_entry & (candidate != i[:, None])
    norm2_i = tl.load(norm2 + i, mask=real, other=1).to(tl.float64)[:, None]
    norm2_i = tl.where(norm2_i == 0, 1.0, norm2_i)  # a row without candidates
    norm2_j = tl.load(norm2 + candidate, mask=real_entry, other=1).to(tl.float64)
    dot = tl.where(real_entry, dot, 0.0)
    bits = sortable(order_key(dot, norm2_i, norm2_j, JACCARD, REDUCE))
    bits, best = in_order(tl.where(real_entry, bits, NONE), candidate, column, LOG_SIZE)
    write(
        place, real, bits, best, norm2_i, column, tl.load(lowest), values, index, k, SIZE, JACCARD
    )


@triton.jit
def count_runs(ids, count, column, longest):
    """Of each run of equal `ids`, `[R, SIZE]` and sorted, the sum of `count` up to each column.

    A run has at most `longest + 1` columns. Sums of twice as many columns in each step.
    """
    width = longest * 0 + 1
    while width <= longest:
        before = tl.maximum(column - width, 0)
        same = (column >= width) & (tl.gather(ids, before, 1) == ids)
        count += tl.where(same, tl.gather(count, before, 1), 0)
        width *= 2
    return count


@triton.jit
def add_runs(ids, high, column, longest, EXACT: tl.constexpr):
    """The same of float64, as the sum of two doubles unless sums are `EXACT`.

    The second collects what rounding loses, so that the order of terms matters little.
    """
    low = tl.zeros_like(high)
    width = longest * 0 + 1
    while width <= longest:
        before = tl.maximum(column - width, 0)
        same = (column >= width) & (tl.gather(ids, before, 1) == ids)
        term = tl.where(same, tl.gather(high, before, 1), 0.0)
        if EXACT:
            high += term
        else:
            lost = tl.where(same, tl.gather(low, before, 1), 0.0)
            total = high + term
            part = total - high
            low += lost + ((high - (total - part)) + (term - part))
            high = total
        width *= 2
    return high + low

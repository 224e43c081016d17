"""Kernels that add the products of a row in a table, and select the best candidates.

All sums are exact, because squared norms are integers below `2^26`. Tables are in global memory,
and hold int32. A dense table has a sum for each node. A hash table of `S` slots, a power of two,
has `S` ids, each plus one and 0 if a slot is empty, and `S` sums.

Keys are float64, and are turned into integers of equal order. Programs keep the best candidates in
any order, and replace the worst: the smallest key, then the largest id among equal keys.
"""

import triton
import triton.language as tl

from torch_geometric_simpool.topk import measures

#: The codes of the measures.
COSINE = tl.constexpr(measures.COSINE)
JACCARD = tl.constexpr(measures.JACCARD)
DICE = tl.constexpr(measures.DICE)
OVERLAP = tl.constexpr(measures.OVERLAP)

#: The integer of a place without a candidate. All keys are larger.
NONE = tl.constexpr(-(2**63))

#: The largest int64: all bits but the sign. All ids are smaller.
LAST = tl.constexpr(2**63 - 1)

#: The relative error of keys in float32 is less than a tenth of this. No denominator cancels: a dot
#: product is at most half of the sum of both squared norms.
SLACK = tl.constexpr(2.0**-16)


@triton.jit(do_not_specialize=["num_slots"], do_not_specialize_on_alignment=["order"])
def fill_tables(order, nodes, row_ptr, row_col, row_value, list_ptr, list_col, list_value,
                tables, num_slots, SIZE: tl.constexpr, HASHED: tl.constexpr):  # fmt: skip
    """Adds the products of a row to its table. Each program adds products of some features."""
    i = tl.load(nodes + tl.load(order + tl.program_id(0)))
    ids, sums = table_of(tables, num_slots, HASHED)
    column = tl.arange(0, SIZE)
    e = tl.load(row_ptr + i) + tl.program_id(1)
    last = tl.load(row_ptr + i + 1)
    while e < last:
        feature = tl.load(row_col + e)
        at = tl.load(list_ptr + feature)
        end = tl.load(list_ptr + feature + 1)
        while at < end:
            inside = at + column < end
            slot = tl.load(list_col + at + column, mask=inside, other=0)
            if HASHED:
                slot = find_slot(ids, slot, inside, num_slots - 1)
            value = tl.load(list_value + at + column, mask=inside, other=0)
            tl.atomic_add(sums + slot, value * tl.load(row_value + e), mask=inside, sem="relaxed")
            at += SIZE
        e += tl.num_programs(1)


@triton.jit
def table_of(tables, num_slots, HASHED: tl.constexpr):
    """Returns the ids of the program's table if it is a hash table, and its sums."""
    # Offsets into tables and into the result can exceed 32 bits, even if numbers of nodes do not.
    ids = tables + tl.program_id(0).to(tl.int64) * num_slots * (1 + HASHED)
    return ids, ids + num_slots * HASHED


@triton.jit
def find_slot(ids, j, real, last_slot):
    """Returns the slot of each id, and stores new ids. The slot is arbitrary if not `real`."""
    slot = (((j.to(tl.int64) * 2654435761) >> 12) & last_slot).to(tl.int32)
    searching = real
    while tl.max(searching.to(tl.int32)) > 0:
        # No slot holds -1, so ids that are not searched write no slot.
        empty = tl.where(searching, 0, -1)
        old = tl.atomic_cas(ids + slot, empty, j + 1, sem="relaxed")
        searching = searching & (old != 0) & (old != j + 1)
        slot = tl.where(searching, (slot + 1) & last_slot, slot)
    return slot


@triton.jit(do_not_specialize=["k", "num_slots"], do_not_specialize_on_alignment=["order"])
def best_of_tables(order, nodes, tables, num_slots, norm2, smallest, values, index, k,
                   MOST: tl.constexpr, SIZE: tl.constexpr, HASHED: tl.constexpr,
                   LOOP: tl.constexpr, MEASURE: tl.constexpr):  # fmt: skip
    """Writes the `k` best candidates of a table, at most `MOST`, to a row of the result.

    `smallest` holds the smallest positive number of the type of the result. Similarities up to it
    are zero.
    """
    row = tl.load(order + tl.program_id(0))
    i = tl.load(nodes + row)
    ids, sums = table_of(tables, num_slots, HASHED)
    norm2_i = tl.load(norm2 + i).to(tl.float64)
    zero = tl.load(smallest)
    # Places from `k` on are never the worst. Each empty place has an id of its own.
    place = tl.arange(0, MOST)
    best_bits = tl.where(place < k, NONE, LAST)
    best_ids = LAST - place.to(tl.int64)
    worst, worst_id = last_of(best_bits, best_ids)
    least = -float("inf")
    start = 0
    while start < num_slots:
        slot = start + tl.arange(0, SIZE)
        dot = tl.load(sums + slot, mask=slot < num_slots, other=0)
        inside = dot != 0  # a zero norm has only zero dot products
        j = slot.to(tl.int64)
        if HASHED:
            j = tl.load(ids + slot, mask=inside, other=0).to(tl.int64) - 1
        if not LOOP:
            inside = inside & (j != i)
        norm2_j = tl.load(norm2 + j, mask=inside, other=1)
        # Keys in float32 take less time, and rule out most candidates.
        key = order_key(dot.to(tl.float32), norm2_i.to(tl.float32), norm2_j.to(tl.float32), MEASURE)
        near = inside & (key + tl.abs(key) * SLACK >= least)
        if tl.max(near.to(tl.int32), 0) > 0:
            exact = order_key(dot.to(tl.float64), norm2_i, norm2_j.to(tl.float64), MEASURE)
            near = near & (tl.abs(similarity_of_key(exact, norm2_i, MEASURE)) > zero)
            bits = tl.where(near, sortable(exact), NONE)
            top, top_id = first_of(bits, j)
            while (top > NONE) & ((top > worst) | ((top == worst) & (top_id < worst_id))):
                replaced = best_ids == worst_id
                best_bits = tl.where(replaced, top, best_bits)
                best_ids = tl.where(replaced, top_id, best_ids)
                worst, worst_id = last_of(best_bits, best_ids)
                bits = tl.where(j == top_id, NONE, bits)
                top, top_id = first_of(bits, j)
            if worst > NONE:
                least = key_of(worst).to(tl.float32)
        start += SIZE
    best_bits = tl.where(place < k, best_bits, NONE)
    at = row * k
    end = at + k
    while at < end:
        top, top_id = first_of(best_bits, best_ids)
        value = similarity_of_key(key_of(top), norm2_i, MEASURE)
        value = tl.where(top > NONE, value, 0.0).to(values.dtype.element_ty)
        tl.store(values + at, value)
        tl.store(index + at, tl.where(top > NONE, top_id, -1))
        best_bits = tl.where(best_ids == top_id, NONE, best_bits)
        at += 1


@triton.jit
def first_of(bits, ids):
    """Returns the largest key, and the smallest of its ids."""
    top = tl.max(bits, 0)
    return top, tl.min(tl.where(bits == top, ids, LAST), 0)


@triton.jit
def last_of(bits, ids):
    """Returns the smallest key, and the largest of its ids."""
    worst = tl.min(bits, 0)
    return worst, tl.max(tl.where(bits == worst, ids, -1), 0)


@triton.jit
def order_key(dot, norm2_i, norm2_j, MEASURE: tl.constexpr):
    """Returns a number that orders the candidates of a row as the measure does.

    It is the similarity, except for the cosine, whose key takes no square root.
    """
    if MEASURE == COSINE:
        key = dot * tl.abs(dot) / norm2_j  # in float64, the square is exact
    elif MEASURE == JACCARD:
        key = dot / (norm2_i + norm2_j - dot)
    elif MEASURE == DICE:
        key = 2 * dot / (norm2_i + norm2_j)
    else:
        tl.static_assert(MEASURE == OVERLAP)
        key = dot / tl.minimum(norm2_i, norm2_j)
    return key


@triton.jit
def similarity_of_key(key, norm2_i, MEASURE: tl.constexpr):
    """Returns the similarity of a candidate. Equal keys have equal similarities."""
    if MEASURE != COSINE:
        value = key
    else:
        root = tl.minimum(tl.sqrt(tl.abs(key) / norm2_i), 1.0)
        value = tl.where(key < 0, -root, root)
    return value


@triton.jit
def sortable(key):
    """Returns int64 numbers in the order of the float64 `key`. 0 and -0 give one number."""
    bits = (key + 0.0).to(tl.int64, bitcast=True)
    return tl.where(bits < 0, bits ^ LAST, bits)


@triton.jit
def key_of(bits):
    """Returns the key that :func:`sortable` turned into an integer."""
    return tl.where(bits < 0, bits ^ LAST, bits).to(tl.float64, bitcast=True)

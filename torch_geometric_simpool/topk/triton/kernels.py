"""Kernels that add the products of a row in a hash table, and select the best candidates.

All sums are exact, because squared norms are integers below `2^26`. Tables are in global memory,
and their sizes are powers of two. `slots` holds the candidates, -1 in an empty slot, and `sums`
holds their dot products.

Keys are float64, and are turned into integers of equal order. The best candidates are taken one
after another: the largest key, then the smallest id among equal keys. Sorting pairs of keys and ids
would take two sorts, whose compiled code grows with the number of candidates.
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

_MANTISSA = tl.constexpr(2**52 - 1)


@triton.jit
def fill_tables(nodes, table_ptr, row_ptr, row_col, row_value, list_ptr, list_col, list_value,
                slots, sums, SIZE: tl.constexpr):  # fmt: skip
    """Adds the products of a row to its table. Each program adds products of some features."""
    row = tl.program_id(0)
    i = tl.load(nodes + row)
    start = tl.load(table_ptr + row)
    last_slot = tl.load(table_ptr + row + 1) - start - 1
    column = tl.arange(0, SIZE)
    e = tl.load(row_ptr + i) + tl.program_id(1)
    last = tl.load(row_ptr + i + 1)
    while e < last:
        feature = tl.load(row_col + e)
        at = tl.load(list_ptr + feature)
        end = tl.load(list_ptr + feature + 1)
        while at < end:
            inside = at + column < end
            j = tl.load(list_col + at + column, mask=inside, other=0)
            slot = start + find_slot(slots + start, j, inside, last_slot)
            value = tl.load(list_value + at + column, mask=inside, other=0.0)
            tl.atomic_add(sums + slot, value * tl.load(row_value + e), mask=inside, sem="relaxed")
            at += SIZE
        e += tl.num_programs(1)


@triton.jit
def find_slot(slots, j, real, last_slot):
    """Returns the slot of each id, and stores new ids. The slot is arbitrary if not `real`."""
    slot = ((j * 2654435761) >> 12) & last_slot
    searching = real
    while tl.max(searching.to(tl.int32)) > 0:
        # No slot holds -2, so ids that are not searched write no slot.
        empty = tl.where(searching, -1, -2).to(tl.int64)
        old = tl.atomic_cas(slots + slot, empty, j, sem="relaxed")
        searching = searching & (old != -1) & (old != j)
        slot = tl.where(searching, (slot + 1) & last_slot, slot)
    return slot


@triton.jit(do_not_specialize=["k"])
def best_of_tables(nodes, table_ptr, slots, sums, norm2, smallest, values, index, k,
                   HALF: tl.constexpr, LOOP: tl.constexpr, MEASURE: tl.constexpr):  # fmt: skip
    """Writes the `k` best candidates of a table, at most `HALF`, to a row of the result.

    `smallest` holds the smallest positive number of the type of the result. Similarities up to it
    are zero.
    """
    row = tl.program_id(0)
    i = tl.load(nodes + row)
    norm2_i = tl.load(norm2 + i)
    zero = tl.load(smallest)
    place = tl.arange(0, 2 * HALF)
    best_bits = tl.full([2 * HALF], NONE, tl.int64)
    best_ids = tl.full([2 * HALF], -1, tl.int64)
    worst = tl.max(best_bits, 0)
    at = tl.load(table_ptr + row)
    end = tl.load(table_ptr + row + 1)
    while at < end:
        slot = at + place - HALF
        inside = (place >= HALF) & (slot < end)
        j = tl.load(slots + slot, mask=inside, other=-1)
        inside = inside & (j >= 0)
        if not LOOP:
            inside = inside & (j != i)
        dot = tl.load(sums + slot, mask=inside, other=0.0)
        inside = inside & (dot != 0)  # a zero norm has only zero dot products
        key = order_key(dot, norm2_i, tl.load(norm2 + j, mask=inside, other=1.0), MEASURE)
        inside = inside & (tl.abs(similarity_of_key(key, norm2_i, MEASURE)) > zero)
        bits = tl.where(inside, sortable(key), NONE)
        if tl.max(bits, 0) >= worst:
            best_bits, best_ids = keep_best(best_bits, best_ids, bits, j, place, k, HALF)
            worst = tl.max(tl.where(place == k - 1, best_bits, NONE), 0)
        at += HALF
    value = similarity_of_key(key_of(best_bits), norm2_i, MEASURE)
    kept = best_bits != NONE
    # Offsets into the result can exceed 32 bits, even if numbers of nodes do not.
    at = row.to(tl.int64) * k + place
    value = tl.where(kept, value, 0.0).to(values.dtype.element_ty)
    tl.store(values + at, value, mask=place < k)
    tl.store(index + at, tl.where(kept, best_ids, -1), mask=place < k)


@triton.jit
def order_key(dot, norm2_i, norm2_j, MEASURE: tl.constexpr):
    """Returns a number that orders the candidates of a row as the measure does.

    It is the similarity, except for the cosine, whose key takes no square root.
    """
    if MEASURE == COSINE:
        # A quotient that is a power of two, as for a node and itself, is computed first. The key is
        # then exact.
        differing = dot.to(tl.int64, bitcast=True) ^ norm2_j.to(tl.int64, bitcast=True)
        power = dot * tl.abs(dot / norm2_j)
        key = tl.where(differing & _MANTISSA == 0, power, dot * tl.abs(dot) / norm2_j)
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


@triton.jit
def keep_best(best_bits, best_ids, bits, ids, place, num_best, HALF: tl.constexpr):
    """Returns the `num_best` best of a sorted list and of new candidates, sorted, `[2 * HALF]`.

    The list is in the first half, `place < HALF`, and the candidates are in the second half. No id
    occurs twice. The key is :data:`NONE` and the id -1 at a place without a candidate.
    """
    bits = tl.where(place < HALF, best_bits, bits)
    ids = tl.where(place < HALF, best_ids, ids)
    best_bits = tl.full([2 * HALF], NONE, tl.int64)
    best_ids = tl.full([2 * HALF], -1, tl.int64)
    taken = num_best * 0
    top = tl.max(bits, 0)
    while (taken < num_best) & (top > NONE):
        winner = tl.min(tl.where(bits == top, ids, LAST), 0)
        best_bits = tl.where(place == taken, top, best_bits)
        best_ids = tl.where(place == taken, winner, best_ids)
        bits = tl.where(ids == winner, NONE, bits)
        top = tl.max(bits, 0)
        taken += 1
    return best_bits, best_ids

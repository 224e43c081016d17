"""Kernels: rows of the top k of a matrix with values, and the sums they are made of."""

from typing import NamedTuple

import numpy as np

from torch_geometric_simpool.topk.numba.counting import BUFFER, bits_for, find_slot
from torch_geometric_simpool.topk.numba.heap import (
    Candidates,
    new_candidates,
    push,
    sort_heap,
    write,
)
from torch_geometric_simpool.topk.numba.jit import allocation_free, helper
from torch_geometric_simpool.topk.numba.order import order_key, similarity_of_key
from torch_geometric_simpool.topk.numba.read_ahead import read_ahead
from torch_geometric_simpool.topk.numba.sums import (
    Sums,
    add,
    add_to,
    new_sums,
    start_sum,
    total,
)
from torch_geometric_simpool.utils.scaling import LEAST_RATIO

#: The square of a similarity that is larger does not round to zero.
SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)


class Scratch(NamedTuple):
    """The working memory of a thread. A slot is one of a hash table in short rows, else a node."""

    found: np.ndarray  # the slots of the candidates
    seen: np.ndarray  # the last row that a node was a candidate of; empty if all rows are short
    sums: Sums
    hash_ids: np.ndarray  # -1 where a slot is empty; empty if no row is hashed
    heap: Candidates
    sink: np.ndarray


def new_scratch(num_nodes: int, k: int, dtype: np.dtype, long_rows: bool, signed: bool) -> Scratch:
    """Allocates the working memory of a thread."""
    slots = 2 * BUFFER
    hashed = num_nodes > slots
    room = num_nodes if long_rows or not hashed else slots
    return Scratch(
        found=np.empty(room, np.int64),
        seen=np.full(room if long_rows or not hashed else 0, -1, dtype),
        sums=new_sums(room, signed),
        hash_ids=np.full(slots if hashed else 0, -1, dtype),
        heap=new_candidates(min(k, num_nodes)),
        sink=np.empty(1),
    )


@allocation_free
def squared_norms(rows, back_rows, two_sided, scale, exact, norm2):
    """The squared norm of every description."""
    for i in range(norm2.size):
        high, low = add_squares(i, rows, scale[i], exact, 0.0, 0.0)
        if two_sided:
            high, low = add_squares(i, back_rows, scale[i], exact, high, low)
        norm2[i] = high + low


@helper
def add_squares(i, matrix, scale, exact, high, low):
    """Adds the squares of a row."""
    for e in range(matrix.ptr[i], matrix.ptr[i + 1]):
        scaled = matrix.value[e] * scale
        high, low = add(high, low, scaled * scaled, exact)
    return high, low


@allocation_free
def weighted_rows(description, hubs, options, rows, start, end, result, scratch):
    """The rows `start` to `end` of those that are asked for; there are no `hubs`."""
    norm2 = description.norm2
    for t in range(start, end):
        read_ahead(t, start, end, rows.ids, description, scratch.sink)
        i = rows.ids[t]
        bits = table_bits(i, description, scratch)
        num_found = add_row(i, description, bits, scratch)
        size = rank(i, description, options, bits, scratch, num_found)
        sort_heap(scratch.heap, size)
        write(result, rows.places[t], scratch.heap, size, norm2[i], options)


@helper
def table_bits(i, description, scratch):
    """The logarithm of the size of the hash table for row `i`; 0 if it is not hashed."""
    if scratch.hash_ids.size == 0:
        return 0
    products = count_products(i, description.rows, description.lists.ptr)
    if description.two_sided:
        products += count_products(i, description.back_rows, description.back_lists.ptr)
    return bits_for(products) if products <= BUFFER else 0


@helper
def count_products(i, row, ptr):
    """The total length of the lists that row `i` names; they begin at `ptr`."""
    products = np.int64(0)
    for e in range(row.ptr[i], row.ptr[i + 1]):
        products += ptr[row.col[e] + 1] - ptr[row.col[e]]
    return products


@helper
def add_row(i, description, bits, scratch):
    """Sums the products of row `i`; returns the number of candidates."""
    scale, exact = description.scale[i], description.exact
    size = add_products(i, description.rows, description.lists, scale, exact, bits, scratch, 0)
    if description.two_sided:
        rows, lists = description.back_rows, description.back_lists
        size = add_products(i, rows, lists, scale, exact, bits, scratch, size)
    return size


@helper
def add_products(i, row, lists, scale, exact, bits, scratch, size):
    """Sums the products of row `i` with the lists it names; appends new slots to `found`."""
    for e in range(row.ptr[i], row.ptr[i + 1]):
        m = row.col[e]
        factor = row.value[e] * scale
        for f in range(lists.ptr[m], lists.ptr[m + 1]):
            slot, new = slot_of(i, lists.col[f], bits, scratch)
            if new:
                scratch.found[size] = slot
                size += 1
                start_sum(scratch.sums, slot)
            add_to(scratch.sums, slot, factor * lists.value[f], exact)
    return size


@helper
def of_one_scale(i, j, description):
    """The squared norms of two descriptions, both in the scale of their dot product.

    A ratio that is larger gives a similarity of zero in any case.
    """
    ratio = description.scale[j] / description.scale[i]
    ratio = min(max(ratio, LEAST_RATIO), 1 / LEAST_RATIO)
    return description.norm2[i] * ratio, description.norm2[j] / ratio


@helper
def rounds_to_zero(key, norm2_i, options):
    """Whether a similarity is zero in the type of the result."""
    return abs(similarity_of_key(key, norm2_i, options.jaccard)) <= options.smallest


@helper
def slot_of(i, j, bits, scratch):
    """The slot of a candidate of row `i`, and whether it is new."""
    if bits > 0:
        slot = find_slot(j, scratch.hash_ids, bits)
        new = scratch.hash_ids[slot] < 0
        scratch.hash_ids[slot] = j
    else:
        slot = np.int64(j)
        new = scratch.seen[j] != i
        scratch.seen[j] = i
    return slot, new


@helper
def rank(i, description, options, bits, scratch, num_found):
    """Offers the candidates to the heap and empties the hash table; returns the heap's size."""
    norm2, heap = description.norm2, scratch.heap
    bound = options.smallest  # keys above it do not round to zero
    if not options.jaccard:
        bound = 2 * max(bound * bound, SMALLEST_NORMAL) * norm2[i]
    size = 0
    for t in range(num_found):
        slot = scratch.found[t]
        j = slot
        if bits > 0:
            j = np.int64(scratch.hash_ids[slot])
            scratch.hash_ids[slot] = -1
        dot = total(scratch.sums, slot)
        if dot == 0 or (j == i and not options.loop):
            continue
        norm2_i, norm2_j = norm2[i], norm2[j]
        if options.jaccard:
            norm2_i, norm2_j = of_one_scale(i, j, description)
        key = order_key(dot, norm2_i, norm2_j, options.jaccard, description.integral[i])
        if abs(key) <= bound and rounds_to_zero(key, norm2_i, options):
            continue
        if size < options.k or key >= heap.keys[0]:
            size = push(heap, size, options.k, key, j)
    return size

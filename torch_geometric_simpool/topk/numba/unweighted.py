"""Kernels: rows of the top k where all entries are one, so that dot products are counts.

Nodes are numbered by norm, then by id. Among candidates with equal counts the order is that
of these numbers, so most of a row is sorted as small integers, without reading a norm.
"""

from typing import NamedTuple

import numpy as np

from torch_geometric_simpool.topk.numba.counting import (
    BUFFER,
    Tables,
    count_repeated,
    new_tables,
    split_repeated,
)
from torch_geometric_simpool.topk.numba.heap import (
    BINS,
    RANKED,
    Candidates,
    new_candidates,
    push,
    smallest,
    sort_heap,
    write,
)
from torch_geometric_simpool.topk.numba.hubs import popcount, scan_hubs
from torch_geometric_simpool.topk.numba.jit import allocation_free, helper, inlined
from torch_geometric_simpool.topk.numba.order import count_key, is_worse
from torch_geometric_simpool.topk.numba.read_ahead import read_ahead
from torch_geometric_simpool.topk.numba.short import SHORT, count_few, write_few


class Scratch(NamedTuple):
    """The working memory of a thread: lists of ids, long enough for a row, and tables."""

    gathered: np.ndarray
    single: np.ndarray  # candidates with a count of one
    found: np.ndarray  # candidates with any count
    counts: np.ndarray  # theirs
    seen: np.ndarray  # the last row that a node was a candidate of; empty without hubs
    totals: np.ndarray  # a count for each node, zero between rows; empty if all rows are short
    tables: Tables
    short: Candidates
    heap: Candidates
    ranked: Candidates
    spare: np.ndarray
    bins: np.ndarray
    sink: np.ndarray


def new_scratch(num_nodes: int, k: int, dtype: np.dtype, hubs: bool, long_rows: bool) -> Scratch:
    """Allocates the working memory of a thread."""
    room = max(BUFFER, num_nodes + 1) if long_rows else BUFFER
    return Scratch(
        gathered=np.empty(room, dtype),
        single=np.empty(room, dtype),
        found=np.empty(room, dtype),
        counts=np.empty(room, np.int32),
        seen=np.full(num_nodes if hubs else 0, -1, dtype),
        totals=np.zeros(num_nodes if long_rows else 0, np.int32),
        tables=new_tables(dtype),
        short=new_candidates(SHORT + 1),
        heap=new_candidates(min(k, num_nodes)),
        ranked=new_candidates(min(k, num_nodes)),
        spare=np.empty(max(RANKED, SHORT), dtype),
        bins=np.empty(BINS, np.int32),
        sink=np.empty(1),
    )


@allocation_free
def unweighted_rows(description, hubs, options, rows, start, end, result, scratch):
    """The rows `start` to `end` of those that are asked for."""
    nodes = description.nodes
    for t in range(start, end):
        read_ahead(t, start, end, rows.ids, description, scratch.sink)
        i, place = rows.ids[t], rows.places[t]
        degree, products = count_products(i, description, hubs.length)
        hubbed = has_hubs(i, hubs)
        names_itself = options.loop and degree > 0 and is_candidate(i, description)
        if products <= SHORT and not hubbed:
            size = gather_row(i, description, hubs.length, scratch.gathered)
            size = count_few(scratch.gathered, size, scratch.spare, scratch.found, scratch.counts)
            if names_itself:
                scratch.found[size] = i
                scratch.counts[size] = degree
                size += 1
            write_few(i, size, nodes, options, scratch, place, result)
            continue

        if products > BUFFER:
            num_single = 0
            num_found = count_long_row(i, description, hubs.length, scratch)
        else:
            num_single, num_found = count_row(i, description, hubs.length, scratch)

        size = np.int64(0)
        if names_itself:
            size = offer(i, i, degree, nodes, options, scratch.heap, size)
        num_single, size = rank_repeated(
            i, nodes, hubs, options, scratch, num_single, num_found, size
        )
        if hubbed:
            num_single, size = rank_hub_members(i, nodes, hubs, options, scratch, num_single, size)
        sort_heap(scratch.heap, size)
        num_single = smallest(scratch.single, num_single, options.k, scratch.spare, scratch.bins)
        size = merge(i, nodes, options, scratch, num_single, size)
        if hubbed:
            size = scan_hubs(i, description, hubs, options, scratch.seen, scratch.ranked, size)
        write(result, place, scratch.ranked, size, np.float64(nodes[i, 1]), options)


@inlined
def has_hubs(i, hubs):
    """Whether row `i` names a hub."""
    return hubs.mask.size > 0 and hubs.mask[i] != 0


@inlined
def is_candidate(i, description):
    """Whether row `i` may name itself."""
    return description.is_candidate.size == 0 or description.is_candidate[i]


@inlined
def count_products(i, description, hub_length):
    """The number of features of row `i`, and of the products in lists that are not hubs'."""
    rows, lists = description.rows, description.lists
    degree, products = count_products_of_side(i, rows, lists.ptr, hub_length)
    if description.two_sided:
        rows, lists = description.back_rows, description.back_lists
        more, more_products = count_products_of_side(i, rows, lists.ptr, hub_length)
        degree += more
        products += more_products
    return degree, products


@helper
def count_products_of_side(i, row, ptr, hub_length):
    """The same of one side; `row` names lists that begin at `ptr`."""
    products = np.int64(0)
    for e in range(row.ptr[i], row.ptr[i + 1]):
        m = row.col[e]
        length = ptr[m + 1] - ptr[m]
        if length <= hub_length:
            products += length
    return row.ptr[i + 1] - row.ptr[i], products


@inlined
def count_row(i, description, hub_length, scratch):
    """Writes candidates with a count of one to `single`, and others to `found`."""
    gathered, single, found = scratch.gathered, scratch.single, scratch.found
    size = gather_row(i, description, hub_length, gathered)
    num_single, size = split_repeated(gathered, size, scratch.tables, single, found)
    for t in range(size):
        gathered[t] = found[t]
    return num_single, count_repeated(gathered, size, scratch.tables, found, scratch.counts)


@inlined
def gather_row(i, description, hub_length, out):
    """Writes the ids in the lists that row `i` names, apart from `i`; returns how many."""
    size = gather(i, description.rows, description.lists, hub_length, out, np.int64(0))
    if description.two_sided:
        size = gather(i, description.back_rows, description.back_lists, hub_length, out, size)
    return size


@helper
def gather(i, row, lists, hub_length, out, size):
    """Appends the ids in the lists that row `i` names, apart from `i`; returns the new size."""
    for e in range(row.ptr[i], row.ptr[i + 1]):
        m = row.col[e]
        first = lists.ptr[m]
        last = lists.ptr[m + 1]
        if last - first <= hub_length:
            for t in range(first, last):
                j = lists.col[t]
                out[size] = j
                size += np.int64(j != i)
    return size


@inlined
def count_long_row(i, description, hub_length, scratch):
    """Writes all candidates to `found`, with their counts; returns how many there are."""
    size = add_counts(i, description.rows, description.lists, hub_length, scratch, np.int64(0))
    if description.two_sided:
        size = add_counts(
            i, description.back_rows, description.back_lists, hub_length, scratch, size
        )
    for t in range(size):
        j = scratch.found[t]
        scratch.counts[t] = scratch.totals[j]
        scratch.totals[j] = 0
    return size


@helper
def add_counts(i, row, lists, hub_length, scratch, size):
    """Counts the ids in the lists that row `i` names; new ones are appended to `found`."""
    found, totals = scratch.found, scratch.totals
    for e in range(row.ptr[i], row.ptr[i + 1]):
        m = row.col[e]
        first = lists.ptr[m]
        last = lists.ptr[m + 1]
        if last - first <= hub_length:
            for t in range(first, last):
                j = lists.col[t]
                found[size] = j
                size += np.int64(totals[j] == 0)
                totals[j] += 1
    return size


@helper
def offer(i, j, common, nodes, options, heap, size):
    """Offers a candidate with `common` entries in common to the heap; returns its new size."""
    key = count_key(i, j, common, nodes, options.jaccard)
    if size < options.k or key >= heap.keys[0]:
        size = push(heap, size, options.k, key, np.int64(nodes[j, 0]))
    return size


@inlined
def rank_repeated(i, nodes, hubs, options, scratch, num_single, num_found, size):
    """Offers `found` to the heap, with what hubs add; counts of one are appended to `single`."""
    own = hubs.mask[i] if hubs.mask.size > 0 else np.uint64(0)
    for t in range(num_found):
        j = scratch.found[t]
        if j == i:
            continue
        common = np.int64(scratch.counts[t])
        if own != 0:
            scratch.seen[j] = i
            common += popcount(own & hubs.mask[j])
        if common == 1:
            scratch.single[num_single] = j
            num_single += 1
        else:
            size = offer(i, j, common, nodes, options, scratch.heap, size)
    return num_single, size


@helper
def rank_hub_members(i, nodes, hubs, options, scratch, num_single, size):
    """Moves what has a hub in common from `single` to the heap."""
    own = hubs.mask[i]
    kept = 0
    for t in range(num_single):
        j = scratch.single[t]
        scratch.seen[j] = i
        common = 1 + popcount(own & hubs.mask[j])
        if common == 1:
            scratch.single[kept] = j
            kept += 1
        else:
            size = offer(i, j, common, nodes, options, scratch.heap, size)
    return kept, size


@inlined
def merge(i, nodes, options, scratch, num_single, size):
    """Merges the sorted heap and the smallest of `single` into `ranked`; returns how many."""
    heap, ranked, single = scratch.heap, scratch.ranked, scratch.single
    merged = 0
    taken = 0
    for t in range(size):
        while taken < num_single and merged < options.k:
            j = single[taken]
            key = count_key(i, j, np.int64(1), nodes, options.jaccard)
            if not is_worse(heap.keys[t], heap.ids[t], key, np.int64(nodes[j, 0])):
                break
            ranked.keys[merged] = key
            ranked.ids[merged] = nodes[j, 0]
            merged += 1
            taken += 1
        if merged == options.k:
            break
        ranked.keys[merged] = heap.keys[t]
        ranked.ids[merged] = heap.ids[t]
        merged += 1
    for t in range(taken, min(taken + options.k - merged, num_single)):
        j = single[t]
        ranked.keys[merged] = count_key(i, j, np.int64(1), nodes, options.jaccard)
        ranked.ids[merged] = nodes[j, 0]
        merged += 1
    return merged

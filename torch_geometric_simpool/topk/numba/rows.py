"""Kernels: rows of the top k.

The dot products of a row are added up in an array over all nodes. In a row with few products, the
nodes that get one are listed. In a row with many, the array is read in blocks of 64 nodes, and a
block is skipped whose largest dot product and smallest norm cannot reach the bound. Nodes are
numbered by norm, so that the norms of a block are about equal.

Dot products are integers, or real numbers in float64 with a bound of their error.
"""

from typing import NamedTuple

import numpy as np

from torch_geometric_simpool.topk.numba.best import (
    BLOCK,
    NO_ID,
    Buffer,
    clear,
    new_buffer,
    offer,
    write,
)
from torch_geometric_simpool.topk.numba.hubs import common_hubs, offer_members_of_hubs
from torch_geometric_simpool.topk.numba.jit import allocation_free, helper, inlined, prefetch
from torch_geometric_simpool.topk.numba.keys import SLACK, is_below, order_key

#: A row has few products if there are so many times as many nodes, for integers and real numbers.
FEW = 64
FEW_REAL = 16

#: Rows whose lists are read from memory ahead of time.
AHEAD = 8

#: Smaller matrices stay in the cache.
LARGE = 1 << 16

#: Keys are counted in bins, eight for each power of two below the largest.
BINS = 256
BIN_BITS = 49


class Scratch(NamedTuple):
    """The working memory of a thread."""

    dots: np.ndarray  # a dot product for each node, zero between rows
    bits: np.ndarray  # the same memory as integers of the same order
    top: np.ndarray  # [1], and its bits
    top_bits: np.ndarray
    touched: np.ndarray  # the nodes with a dot product
    passing: np.ndarray  # those that can pass the bound
    mark: np.ndarray  # whether a node is touched; empty unless signs differ
    left_out: np.ndarray  # the last row that left a node out; empty unless neighbors are
    bins: np.ndarray
    float_bits: np.ndarray  # [1], the memory of a double
    bits_float: np.ndarray
    buffer: Buffer


def new_scratch(num_nodes: int, dtype: np.dtype, k: int, signed: bool, exclude: bool) -> Scratch:
    """Allocates the working memory of a thread."""
    room = -(-num_nodes // BLOCK) * BLOCK
    dots, top = np.zeros(room, dtype), np.zeros(1, dtype)
    ids = np.int32 if num_nodes < 2**31 else np.int64
    real = dots.dtype == np.float64
    one = np.zeros(1)
    return Scratch(
        dots=dots,
        bits=dots.view(np.int64) if real else dots,
        top=top,
        top_bits=top.view(np.int64) if real else top,
        touched=np.empty(num_nodes + num_nodes // FEW + 1, ids),
        passing=np.empty(num_nodes + 1, ids),
        mark=np.zeros(num_nodes if signed else 0, np.uint8),
        left_out=np.full(num_nodes if exclude else 0, -1, ids),
        bins=np.zeros(BINS, np.int32),
        float_bits=one.view(np.int64),
        bits_float=one,
        buffer=new_buffer(min(k, num_nodes)),
    )


@allocation_free
def topk_rows(graph, hubs, options, numbers, places, start, end, result, scratch):
    """Writes the rows of the nodes `numbers[start:end]` to their places of the result."""
    num_nodes, buffer = graph.norm2.size, scratch.buffer
    for t in range(start, end):
        if graph.lists.col.size > LARGE:
            read_ahead(t, end, numbers, graph.rows, graph.lists)
            if graph.two_sided:
                read_ahead(t, end, numbers, graph.back_rows, graph.back_lists)
        i = numbers[t]
        clear(buffer)
        if scratch.left_out.size > 0:
            leave_out(i, graph.neighbors, scratch.left_out)
            leave_out(i, graph.back_neighbors, scratch.left_out)
        products, degree = count_products(i, graph.rows, graph.lists.ptr, hubs.length)
        if graph.two_sided:
            more, other = count_products(i, graph.back_rows, graph.back_lists.ptr, hubs.length)
            products, degree = products + more, degree + other
        few = FEW if graph.exact else FEW_REAL
        relative = 0.0 if graph.exact else (degree + 4) * 2.0**-52
        if graph.signed or products * few <= num_nodes:
            size = list_sums(i, graph.rows, graph.lists, graph.scale, hubs.length, scratch, 0)
            if graph.two_sided:
                size = list_sums(
                    i, graph.back_rows, graph.back_lists, graph.scale, hubs.length, scratch, size
                )
            if graph.signed:
                for u in range(size):
                    scratch.mark[scratch.touched[u]] = 0
            elif size > 2 * options.k:
                raise_bound(i, size, relative, graph, options, scratch)
            own = common_hubs(hubs.mask[i], hubs.mask[i]) if hubs.mask.size > 0 else 0
            passed = pass_bound(i, size, own, relative, graph, options, scratch)
            offer_touched(i, passed, relative, graph, hubs, options, scratch)
            if hubs.mask.size > 0 and hubs.mask[i] != 0:
                offer_members_of_hubs(i, graph, hubs, options, scratch)
            for u in range(size):
                scratch.dots[scratch.touched[u]] = 0
        else:
            add_sums(i, graph.rows, graph.lists, graph.scale, hubs.length, scratch.dots)
            if graph.two_sided:
                add_sums(
                    i, graph.back_rows, graph.back_lists, graph.scale, hubs.length, scratch.dots
                )
            offer_blocks(i, relative, graph, hubs, options, scratch)
            if hubs.mask.size > 0 and hubs.mask[i] != 0:
                offer_members_of_hubs(i, graph, hubs, options, scratch)
            scratch.dots[:] = 0
        write(i, places[t], graph, options, buffer, result)


@helper
def read_ahead(t, end, numbers, rows, lists):
    """Asks for the lists of a row that comes soon, and for the offsets of a later one."""
    if t + AHEAD < end:
        i = numbers[t + AHEAD]
        for e in range(rows.ptr[i], rows.ptr[i + 1]):
            prefetch(lists.ptr, rows.col[e])
    if t + AHEAD // 2 < end:
        i = numbers[t + AHEAD // 2]
        for e in range(rows.ptr[i], rows.ptr[i + 1]):
            first = lists.ptr[rows.col[e]]
            prefetch(lists.col, first)
            if lists.value.size > 0:
                prefetch(lists.value, first)


@helper
def leave_out(i, neighbors, left_out):
    """Marks the neighbors of a node."""
    for e in range(neighbors.ptr[i], neighbors.ptr[i + 1]):
        left_out[neighbors.col[e]] = i


@helper
def count_products(i, rows, ptr, limit):
    """Returns the products of a row in lists of at most `limit` nodes, and its entries."""
    products = np.int64(0)
    for e in range(rows.ptr[i], rows.ptr[i + 1]):
        length = ptr[rows.col[e] + 1] - ptr[rows.col[e]]
        if length <= limit:
            products += length
    return products, rows.ptr[i + 1] - rows.ptr[i]


@helper
def add_sums(i, rows, lists, scale, limit, dots):
    """Adds the products of a row to the dot products."""
    ptr, col, value = lists.ptr, lists.col, lists.value
    for e in range(rows.ptr[i], rows.ptr[i + 1]):
        first, last = ptr[rows.col[e]], ptr[rows.col[e] + 1]
        if last - first > limit:
            continue
        if value.size == 0:
            for f in range(first, last):
                dots[col[f]] += 1
        else:
            factor = rows.value[e]
            if scale.size > 0:
                factor *= dots.dtype.type(scale[i])
            for f in range(first, last):
                dots[col[f]] += factor * value[f]


@helper
def list_sums(i, rows, lists, scale, limit, scratch, size):
    """Adds the products of a row, and appends to `touched` the nodes that had none before."""
    ptr, col, value = lists.ptr, lists.col, lists.value
    dots, touched, mark, start = scratch.dots, scratch.touched, scratch.mark, size
    for e in range(rows.ptr[i], rows.ptr[i + 1]):
        first, last = ptr[rows.col[e]], ptr[rows.col[e] + 1]
        if last - first > limit:
            continue
        if value.size == 0:
            for f in range(first, last):
                touched[size] = col[f]
                prefetch(dots, col[f])
                size += 1
            continue
        factor = rows.value[e]
        if scale.size > 0:
            factor *= dots.dtype.type(scale[i])
        for f in range(first, last):
            j = col[f]
            touched[size] = j
            if mark.size > 0:
                size += np.int64(mark[j] == 0)
                mark[j] = 1
            else:
                size += np.int64(dots[j] == 0)
            dots[j] += factor * value[f]
    return size if value.size > 0 else count_listed(start, size, touched, dots)


@helper
def count_listed(start, size, touched, dots):
    """Counts the nodes that are listed, and keeps each once."""
    distinct = start
    for t in range(start, size):
        j = touched[t]
        count = dots[j]
        touched[distinct] = j
        distinct += np.int64(count == 0)
        dots[j] = count + 1
    return distinct


@inlined
def consider(i, j, relative, graph, hubs, options, scratch):
    """Offers a node that has a dot product to the buffer."""
    if (j == i and not options.loop) or (scratch.left_out.size > 0 and scratch.left_out[j] == i):
        return
    dot = np.float64(scratch.dots[j])
    if hubs.mask.size > 0:
        dot += common_hubs(hubs.mask[i], hubs.mask[j])
    error = relative * abs(dot)
    if graph.signed:
        error = relative * np.sqrt(graph.norm2[i] * graph.norm2[j])
    if dot == 0 and error == 0:
        return
    offer(i, j, dot, error, graph, options, scratch.buffer)


@helper
def raise_bound(i, size, relative, graph, options, scratch):
    """Sets a bound that `k` of the touched nodes pass, by counting keys in bins.

    Most touched nodes then are not offered. The keys are those of the largest norm in a block.
    """
    bins, bits, number = scratch.bins, scratch.float_bits, scratch.bits_float
    norm2_i, measure = graph.norm2[i], options.measure
    number[0] = norm2_i if measure == 0 else 1.0
    largest = bits[0] >> BIN_BITS
    for b in range(BINS):
        bins[b] = 0
    for t in range(size):
        j = np.int64(scratch.touched[t])
        if (j == i and not options.loop) or (
            scratch.left_out.size > 0 and scratch.left_out[j] == i
        ):
            continue
        dot, norm2_j = np.float64(scratch.dots[j]), graph.ceiling[j // BLOCK]
        number[0] = order_key(dot, norm2_i, norm2_j, measure, False)
        bins[min(max(largest - (bits[0] >> BIN_BITS), 0), BINS - 1)] += 1
    passing = np.int64(bins[0])
    b = 0
    while passing < options.k and b < BINS - 2:
        b += 1
        passing += bins[b]
    if passing >= options.k:
        bits[0] = (largest - b) << BIN_BITS
        scratch.buffer.worst_key[0] = number[0] * (SLACK - 8 * relative)
        scratch.buffer.worst_id[0] = NO_ID


@helper
def pass_bound(i, size, own, relative, graph, options, scratch):
    """Moves touched nodes that can pass the bound to `passing`; returns how many."""
    norm2_i, measure = graph.norm2[i], options.measure
    bound, passed = scratch.buffer.worst_key[0] * (SLACK - 8 * relative), 0
    for u in range(size):
        j = np.int64(scratch.touched[u])
        scratch.passing[passed] = j
        most, floor = np.float64(scratch.dots[j]) + own, graph.floor[j // BLOCK]
        passed += 1 - np.int64(is_below(most, norm2_i, floor, measure, bound))
    return passed


@helper
def offer_touched(i, size, relative, graph, hubs, options, scratch):
    """Offers the nodes that are listed."""
    for u in range(size):
        consider(i, np.int64(scratch.passing[u]), relative, graph, hubs, options, scratch)


@helper
def offer_blocks(i, relative, graph, hubs, options, scratch):
    """Offers the nodes that have a dot product, and skips blocks of nodes."""
    own = common_hubs(hubs.mask[i], hubs.mask[i]) if hubs.mask.size > 0 else 0
    norm2_i, worst_key = graph.norm2[i], scratch.buffer.worst_key
    dots, bits = scratch.dots, scratch.bits
    for b in range(graph.floor.size):
        first = b * BLOCK
        most = bits[first]
        for j in range(first, first + BLOCK):
            most = max(most, bits[j])
        if most == 0:
            continue
        scratch.top_bits[0] = most
        floor, bound = graph.floor[b], worst_key[0] * (SLACK - 8 * relative)
        top = np.float64(scratch.top[0]) + own
        if is_below(top, norm2_i, floor, options.measure, bound):
            continue
        for j in range(first, first + BLOCK):
            if dots[j] != 0 and not is_below(
                np.float64(dots[j]) + own,
                norm2_i,
                floor,
                options.measure,
                worst_key[0] * (SLACK - 8 * relative),
            ):
                consider(i, j, relative, graph, hubs, options, scratch)

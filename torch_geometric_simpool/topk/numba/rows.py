"""Kernels: rows of the top k.

The dot products of a row are added up in an array over all nodes. In a row with few products, the
nodes that get one are listed. In a row with many, the array is read in blocks of nodes, and a block
is skipped in vector code unless one of its dot products can reach the bound. Nodes are numbered by
norm, so that the norms of a block are about equal.

Dot products are integers, or real numbers in float64 with a bound of their error.
"""

from typing import NamedTuple

import numpy as np

from torch_geometric_simpool.topk.measures import COSINE
from torch_geometric_simpool.topk.numba.best import (
    BLOCK,
    Buffer,
    add,
    clear,
    make_room,
    new_buffer,
    write,
)
from torch_geometric_simpool.topk.numba.jit import allocation_free, helper, prefetch
from torch_geometric_simpool.topk.numba.keys import SLACK, is_below, least_dot

#: A row has few products if there are so many times as many nodes.
FEW = 16

#: Rows whose lists are read from memory ahead of time.
AHEAD = 8

#: Smaller matrices stay in the cache.
LARGE = 1 << 16

#: The smallest positive double.
SMALLEST = np.nextafter(0, 1)


class Scratch(NamedTuple):
    """The working memory of a thread."""

    dots: np.ndarray  # a dot product for each node, zero between rows
    touched: np.ndarray  # the nodes with a dot product
    mark: np.ndarray  # whether a node is touched; empty unless signs differ
    left_out: np.ndarray  # the last row that left a node out; empty unless neighbors are
    reaches: np.ndarray  # which nodes of a block can reach the bound
    reach_words: np.ndarray  # the same memory, eight nodes in a word
    buffer: Buffer


def new_scratch(num_nodes: int, dtype: np.dtype, k: int, signed: bool, exclude: bool) -> Scratch:
    """Allocates the working memory of a thread."""
    reaches = np.zeros(BLOCK, np.uint8)
    return Scratch(
        dots=np.zeros(-(-num_nodes // BLOCK) * BLOCK, dtype),
        touched=np.empty(
            num_nodes + num_nodes // FEW + 1, np.uint32 if num_nodes < 2**32 else np.int64
        ),
        mark=np.zeros(num_nodes if signed else 0, np.uint8),
        left_out=np.full(num_nodes if exclude else 0, -1),
        reaches=reaches,
        reach_words=reaches.view(np.uint64),
        buffer=new_buffer(min(k, num_nodes)),
    )


@allocation_free
def topk_rows(graph, options, numbers, places, work, start, end, result, scratch):
    """Writes the rows of the nodes `numbers[start:end]` to their places of the result.

    `work` is the number of products of each row.
    """
    num_nodes, buffer = graph.norm2.size, scratch.buffer
    for t in range(start, end):
        if graph.lists.col.size > LARGE:
            read_ahead(t, end, numbers, graph.rows, graph.lists)
            if graph.two_sided:
                read_ahead(t, end, numbers, graph.back_rows, graph.back_lists)
        i = np.int64(numbers[t])
        clear(buffer)
        if scratch.left_out.size > 0:
            leave_out(i, graph.neighbors, scratch.left_out)
            leave_out(i, graph.back_neighbors, scratch.left_out)
        degree = graph.rows.ptr[i + 1] - graph.rows.ptr[i]
        if graph.two_sided:
            degree += graph.back_rows.ptr[i + 1] - graph.back_rows.ptr[i]
        relative = 0.0 if graph.exact else (degree + 4) * 2.0**-52
        is_listed = graph.signed or work[t] * FEW <= num_nodes
        size = np.int64(0)
        if is_listed:
            size = list_sums(i, graph.rows, graph.lists, graph.scale, scratch, size)
            if graph.two_sided:
                size = list_sums(i, graph.back_rows, graph.back_lists, graph.scale, scratch, size)
            offer_listed(i, size, relative, graph, options, scratch)
            for u in range(size):
                scratch.dots[scratch.touched[u]] = 0
        else:
            add_sums(i, graph.rows, graph.lists, graph.scale, scratch.dots)
            if graph.two_sided:
                add_sums(i, graph.back_rows, graph.back_lists, graph.scale, scratch.dots)
            offer_blocks(i, relative, graph, options, scratch)
            scratch.dots[:] = 0
        write(i, places[t], graph, options, buffer, result)


@helper
def read_ahead(t, end, numbers, rows, lists):
    """Asks for the lists of a row that comes soon, and for the offsets of a later one."""
    if t + AHEAD < end:
        i = numbers[t + AHEAD]
        for e in range(rows.ptr[i], rows.ptr[i + 1]):
            prefetch(lists.ptr, np.int64(rows.col[e]))
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
def add_sums(i, rows, lists, scale, dots):
    """Adds the products of a row to the dot products."""
    ptr, col, value = lists.ptr, lists.col, lists.value
    one = dots.dtype.type(1)
    for e in range(rows.ptr[i], rows.ptr[i + 1]):
        first, last = ptr[rows.col[e]], ptr[rows.col[e] + 1]
        if value.size == 0:
            for f in range(first, last):
                dots[col[f]] += one
        else:
            factor = rows.value[e]
            if scale.size > 0:
                factor *= dots.dtype.type(scale[i])
            for f in range(first, last):
                dots[col[f]] += factor * value[f]


@helper
def list_sums(i, rows, lists, scale, scratch, size):
    """Adds the products of a row, and appends to `touched` the nodes that had none before."""
    ptr, col, value = lists.ptr, lists.col, lists.value
    dots, touched, mark, start = scratch.dots, scratch.touched, scratch.mark, size
    for e in range(rows.ptr[i], rows.ptr[i + 1]):
        first, last = ptr[rows.col[e]], ptr[rows.col[e] + 1]
        if value.size == 0:
            for f in range(first, last):
                touched[size] = col[f]
                prefetch(dots, np.int64(col[f]))
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
    one = dots.dtype.type(1)
    for t in range(start, size):
        j = touched[t]
        count = dots[j]
        touched[distinct] = j
        distinct += np.int64(count == 0)
        dots[j] = count + one
    return distinct


@helper
def is_left_out(i, j, loop, left_out):
    """Returns whether a node is no candidate of row `i`."""
    return (j == i and not loop) or (left_out.size > 0 and left_out[j] == i)


@helper
def bound_of(relative, comparable, buffer):
    """Returns what the key of an inexact dot product must reach, if norms can be compared."""
    worst = buffer.worst_key[0]
    return worst * (SLACK - 8 * relative) if worst > 0 and comparable else -np.inf


@helper
def offer_listed(i, size, relative, graph, options, scratch):
    """Adds the nodes that are listed to the buffer."""
    norm2, buffer, dots, bound = graph.norm2, scratch.buffer, scratch.dots, -np.inf
    comparable = options.measure == COSINE or graph.scale.size == 0  # not scaled norms
    for u in range(size):
        j = np.int64(scratch.touched[u])
        dot = np.float64(dots[j])
        error = relative * dot
        if graph.signed:
            scratch.mark[j] = 0
            error = relative * np.sqrt(norm2[i] * norm2[j])
        elif is_below(dot, norm2[i], graph.floor[j // BLOCK], options.measure, bound):
            continue
        if is_left_out(i, j, options.loop, scratch.left_out):
            continue
        if dot == 0 and error == 0:
            continue
        if not graph.exact:  # where the norms of a block differ
            prefetch(norm2, j)
        add(j, dot, error, buffer)
        if buffer.size[0] == buffer.key.size:
            make_room(i, graph, options, buffer)
            bound = bound_of(relative, comparable, buffer)


@helper
def offer_blocks(i, relative, graph, options, scratch):
    """Adds the nodes that have a dot product to the buffer, and skips blocks of nodes."""
    norm2_i, buffer, dots = graph.norm2[i], scratch.buffer, scratch.dots
    comparable = options.measure == COSINE or graph.scale.size == 0  # not scaled norms
    largest, number = graph.ceiling[graph.ceiling.size - 1], dots.dtype.type
    bound, floor, least = -np.inf, -1.0, number(0)
    for b in range(graph.floor.size):
        if graph.floor[b] != floor or bound_of(relative, comparable, buffer) != bound:
            floor, bound = graph.floor[b], bound_of(relative, comparable, buffer)
            dot = smallest_dot(floor, bound, norm2_i, options.measure, graph.exact)
            least = number(min(dot, largest))  # the type of the sums can hold it
        if not any_reaches(dots, b * BLOCK, least):
            continue
        compare(dots, b * BLOCK, least, scratch.reaches)
        for w in range(BLOCK // 8):
            if scratch.reach_words[w] == 0:
                continue
            for t in range(8 * w, 8 * w + 8):
                j = b * BLOCK + t
                if scratch.reaches[t] == 0 or is_left_out(i, j, options.loop, scratch.left_out):
                    continue
                dot = np.float64(dots[j])
                add(j, dot, relative * dot, buffer)
                if buffer.size[0] == buffer.key.size:
                    make_room(i, graph, options, buffer)


@helper
def smallest_dot(floor, bound, norm2_i, measure, exact):
    """Returns the smallest positive dot product that may reach the bound."""
    least = least_dot(norm2_i, floor, measure, bound) * SLACK if bound > 0 else 0.0
    return max(np.ceil(least), 1.0) if exact else max(least, SMALLEST)


@helper
def compare(dots, first, least, reaches):
    """Writes whether each dot product of a block is `least` or larger."""
    for t in range(np.uint64(BLOCK)):
        reaches[t] = dots[np.uint64(first) + t] >= least


@helper
def any_reaches(dots, first, least):
    """Returns whether a dot product of a block is `least` or larger; compiles to vector code."""
    any_larger = False
    for j in range(np.uint64(first), np.uint64(first + BLOCK)):
        any_larger |= dots[j] >= least
    return any_larger

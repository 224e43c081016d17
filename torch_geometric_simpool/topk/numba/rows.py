"""Kernels: rows of the top k.

Row `i` of `rows` holds the features of node `i`. A row of `lists` holds the nodes that have a
feature. The products of a row are added up in an array of dot products over all nodes, in
:func:`list_sums`, :func:`list_exact_sums` or :func:`add_sums`. In a row with few products, the
nodes that get a product are listed. In a row with many products, the array is read in blocks of
nodes. A block is skipped in vector code unless one of its dot products can reach the bound, the key
that a candidate must reach. Nodes are numbered by norm, so that the norms of a block are about
equal.

Dot products are integers, or real numbers in float64 with a bound of their error. Where products
may cancel, the sums are exact. Hot loops have unsigned indices: Numba tests signed ones for being
negative, which takes a tenth of the time.
"""

from typing import NamedTuple

import numpy as np

from torch_geometric_simpool.topk.measures import COSINE
from torch_geometric_simpool.topk.numba import csr
from torch_geometric_simpool.topk.numba.best import (
    BLOCK,
    NO_ID,
    Candidates,
    key_of,
    make_room,
    new_candidates,
    num_reaching,
    write,
)
from torch_geometric_simpool.topk.numba.jit import allocation_free, helper, inlined, prefetch
from torch_geometric_simpool.topk.numba.keys import (
    SLACK,
    is_below,
    least_dot,
    similarity_of_key,
)

#: A row has few products if `FEW` times their number is at most the bytes of the dot products.
FEW = 32

#: A row begins with this share of the bound of the row before.
REMAINS = 0.8

#: Offsets of lists are read from memory so many rows ahead, and lists half as many rows ahead.
AHEAD = 8

#: Matrices with at most so many entries stay in the cache. Their lists are not read ahead.
LARGE = 1 << 16

#: The smallest positive double.
SMALLEST = np.nextafter(0, 1)


class Scratch(NamedTuple):
    """The working memory of a thread."""

    dots: np.ndarray  # a dot product for each node, zero between rows
    touched: np.ndarray  # the nodes with a dot product
    low: np.ndarray  # what rounding loses of each dot product; empty unless signs differ
    absolute: np.ndarray  # sums of absolute terms, -1 if not touched; empty unless signs differ
    left_out: np.ndarray  # the last row that left each node out; empty if no row does
    reaches: np.ndarray  # which nodes of a block can reach the bound
    reach_words: np.ndarray  # the same memory, eight nodes in a word
    candidates: Candidates


def new_scratch(num_nodes: int, dtype: np.dtype, k: int, signed: bool, exclude: bool) -> Scratch:
    """Allocates the working memory of a thread."""
    reaches = np.zeros(BLOCK, np.uint8)
    return Scratch(
        dots=np.zeros(-(-num_nodes // BLOCK) * BLOCK, dtype),
        touched=np.empty(
            num_nodes + num_nodes * dtype.itemsize // FEW + 1,
            np.uint32 if num_nodes < 2**32 else np.int64,
        ),
        low=np.zeros(num_nodes if signed else 0),
        absolute=np.full(num_nodes if signed else 0, -1.0),
        left_out=np.full(num_nodes if exclude else 0, -1),
        reaches=reaches,
        reach_words=reaches.view(np.uint64),
        candidates=new_candidates(min(k, num_nodes)),
    )


@allocation_free
def topk_rows(graph, options, numbers, places, work, start, end, result, scratch):
    """Writes the rows of the nodes `numbers[start:end]` to their places of the result.

    `work` is the number of products of each row. A row begins with about the bound of the row
    before. If fewer than `k` candidates reach this bound, the dot products are read again without a
    bound.
    """
    num_nodes, dots, candidates = graph.norms.norm2.size, scratch.dots, scratch.candidates
    last_bound = 0.0
    for t in range(start, end):
        if graph.lists.col.size > LARGE:
            read_ahead(t, end, numbers, graph.rows, graph.lists)
            if graph.two_sided:
                read_ahead(t, end, numbers, graph.back_rows, graph.back_lists)
        i = np.int64(numbers[t])
        if scratch.left_out.size > 0:
            for e in range(graph.neighbors.ptr[i], graph.neighbors.ptr[i + 1]):
                scratch.left_out[graph.neighbors.col[e]] = i
        degree = graph.rows.ptr[i + 1] - graph.rows.ptr[i]
        if graph.two_sided:
            degree += graph.back_rows.ptr[i + 1] - graph.back_rows.ptr[i]
        relative = 0.0 if graph.exact or graph.signed else (degree + 4) * 2.0**-52
        unit = graph.norms.norm2[i] if options.measure == COSINE else 1.0
        bound = -np.inf if graph.signed else last_bound * unit
        if graph.signed or work[t] * FEW <= num_nodes * dots.itemsize:
            num_listed = list_row(i, graph, scratch)
            size = offer_listed(i, num_listed, relative, bound, graph, options, scratch)
            if bound > 0 and num_reaching(bound, size, candidates) < options.k:
                size = offer_listed(i, num_listed, relative, 0.0, graph, options, scratch)
            for u in range(np.uint64(num_listed)):
                dots[scratch.touched[u]] = 0
        else:
            add_sums(i, graph.rows, graph.lists, graph.norms.scale, dots)
            if graph.two_sided:
                add_sums(i, graph.back_rows, graph.back_lists, graph.norms.scale, dots)
            size = offer_blocks(i, relative, bound, graph, options, scratch)
            if bound > 0 and num_reaching(bound, size, candidates) < options.k:
                size = offer_blocks(i, relative, 0.0, graph, options, scratch)
            dots[:] = 0
        size = write(i, places[t], size, graph, options, candidates, result)
        last_bound = 0.0
        if size >= options.k:
            last_bound = REMAINS * candidates.key[candidates.place[options.k - 1]] / unit


@inlined
def read_ahead(t, end, numbers, rows, lists):
    """Asks for the lists of a row that comes soon, and for the offsets of a later row."""
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


@inlined
def add_sums(i, rows, lists, scale, dots):
    """Adds the products of a row to the dot products."""
    ptr, col, value = lists.ptr, lists.col, lists.value
    number = dots.dtype.type
    for e in range(rows.ptr[i], rows.ptr[i + 1]):
        first, last = np.uint64(ptr[rows.col[e]]), np.uint64(ptr[rows.col[e] + 1])
        if value.size == 0:
            for f in range(first, last):
                dots[col[f]] += number(1)
        else:
            factor = number(rows.value[e])
            if scale.size > 0:
                factor *= number(scale[i])
            for f in range(first, last):
                dots[col[f]] += factor * number(value[f])


@inlined
def list_row(i, graph, scratch):
    """Adds the products of a row; returns how many nodes with a dot product are listed."""
    scale, size = graph.norms.scale, np.int64(0)
    if graph.signed:
        size = list_exact_sums(i, graph.rows, graph.lists, scale, scratch, size)
        if graph.two_sided:
            size = list_exact_sums(i, graph.back_rows, graph.back_lists, scale, scratch, size)
        round_sums(size, graph.exact, scratch)
        return size
    dots, touched = scratch.dots, scratch.touched
    size = list_sums(i, graph.rows, graph.lists, scale, dots, touched, size)
    if graph.two_sided:
        size = list_sums(i, graph.back_rows, graph.back_lists, scale, dots, touched, size)
    return size


@inlined
def list_sums(i, rows, lists, scale, dots, touched, size):
    """Adds the products of a row, and appends to `touched` the nodes that had no product before."""
    ptr, col, value, start = lists.ptr, lists.col, lists.value, size
    number = dots.dtype.type
    if value.size == 0:
        for e in range(rows.ptr[i], rows.ptr[i + 1]):
            first, last = np.uint64(ptr[rows.col[e]]), np.uint64(ptr[rows.col[e] + 1])
            for f in range(first, last):
                touched[np.uint64(size)] = col[f]
                prefetch(dots, np.int64(col[f]))
                size += 1
        end, size = size, start
        for t in range(np.uint64(start), np.uint64(end)):
            j = touched[t]
            count = dots[j]
            touched[np.uint64(size)] = j
            size += np.int64(count == 0)
            dots[j] = count + number(1)
        return size
    for e in range(rows.ptr[i], rows.ptr[i + 1]):
        factor = number(rows.value[e])
        if scale.size > 0:
            factor *= number(scale[i])
        first, last = np.uint64(ptr[rows.col[e]]), np.uint64(ptr[rows.col[e] + 1])
        for f in range(first, last):
            j = col[f]
            touched[np.uint64(size)] = j
            size += np.int64(dots[j] == 0)
            dots[j] += factor * number(value[f])
    return size


@helper
def list_exact_sums(i, rows, lists, scale, scratch, size):
    """Adds the products of a row as :func:`list_sums` does, exactly, where terms may cancel."""
    dots, low, absolute = scratch.dots, scratch.low, scratch.absolute
    for e in range(rows.ptr[i], rows.ptr[i + 1]):
        factor = np.float64(rows.value[e])
        if scale.size > 0:
            factor *= scale[i]
        for f in range(lists.ptr[rows.col[e]], lists.ptr[rows.col[e] + 1]):
            j, term = lists.col[f], factor * lists.value[f]
            if absolute[j] < 0:
                scratch.touched[size] = j
                size += 1
                absolute[j] = 0.0
            dots[j], low[j] = csr.add(dots[j], low[j], term)
            absolute[j] += abs(term)
    return size


@helper
def round_sums(size, exact, scratch):
    """Rounds the dot products that are listed; a sum whose terms cancel is zero."""
    dots, low, absolute = scratch.dots, scratch.low, scratch.absolute
    for u in range(size):
        j = scratch.touched[u]
        dots[j] = csr.rounded(dots[j], low[j], 0.0 if exact else absolute[j])
        low[j], absolute[j] = 0.0, -1.0


@inlined
def is_left_out(i, j, loop, left_out):
    """Returns whether a node is no candidate of row `i`."""
    return (j == i and not loop) or (left_out.size > 0 and left_out[j] == i)


@inlined
def offer(i, j, dot, relative, size, bound, last_id, graph, options, candidates):
    """Adds a candidate unless it is below the bound; returns the number of candidates.

    `relative` bounds the relative error of `dot`. A candidate whose key equals the bound is added
    if its id is at most `last_id`.
    """
    key = key_of(i, j, dot, graph.norms, options.measure)
    error = key * (2 * relative + 2.0**-50) if relative > 0 else 0.0
    if key + error < bound or (key == bound and np.int64(graph.norms.id[j]) > last_id):
        return size
    if graph.signed:
        value = similarity_of_key(key, graph.norms.norm2[i], options.measure)
        if abs(value) <= options.smallest:
            return size
    candidates.key[size] = key
    candidates.error[size] = error
    candidates.node[size] = j
    return size + 1


@inlined
def offer_listed(i, num_listed, relative, bound, graph, options, scratch):
    """Adds the nodes that are listed to the candidates; returns the number of candidates."""
    norm2_i, floor, dots = graph.norms.norm2[i], graph.norms.floor, scratch.dots
    comparable = options.measure == COSINE or graph.norms.scale.size == 0  # norms have one scale
    slack = SLACK - 8 * relative if comparable else 0.0
    size, last_id, least = 0, NO_ID, bound * slack
    for u in range(np.uint64(num_listed)):
        j = scratch.touched[u]
        dot = np.float64(dots[j])
        if not graph.signed and is_below(dot, norm2_i, floor[j // BLOCK], options.measure, least):
            continue
        if dot == 0 or is_left_out(i, j, options.loop, scratch.left_out):
            continue
        size = offer(i, j, dot, relative, size, bound, last_id, graph, options, scratch.candidates)
        if size == scratch.candidates.key.size:
            size, bound, last_id = make_room(i, size, graph, options, scratch.candidates)
            least = bound * slack
    return size


@inlined
def offer_blocks(i, relative, bound, graph, options, scratch):
    """Adds the nodes with a dot product to the candidates, and skips blocks of nodes."""
    norm2_i, dots, candidates = graph.norms.norm2[i], scratch.dots, scratch.candidates
    floor, measure = graph.norms.floor, options.measure
    comparable = measure == COSINE or graph.norms.scale.size == 0  # norms have one scale
    # The type of the sums can hold the largest norm; a graph of zeros has no candidates.
    largest, number = max(graph.norms.ceiling[floor.size - 1], 1.0), dots.dtype.type
    slack = SLACK - 8 * relative if comparable else 0.0
    size, last_id, lowest, block_floor = 0, NO_ID, bound * slack, -1.0
    least = number(0)
    for b in range(floor.size):
        if floor[b] != block_floor:
            block_floor = floor[b]
            dot = smallest_dot(block_floor, lowest, norm2_i, measure, graph.exact)
            least = number(min(dot, largest))
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
                size = offer(i, j, dot, relative, size, bound, last_id, graph, options, candidates)
                if size == candidates.key.size:
                    size, bound, last_id = make_room(i, size, graph, options, candidates)
                    lowest = bound * slack
                    block_floor = -1.0
    return size


@inlined
def smallest_dot(floor, bound, norm2_i, measure, exact):
    """Returns the smallest positive dot product that may reach the bound."""
    least = least_dot(norm2_i, floor, measure, bound) * SLACK if bound > 0 else 0.0
    return max(np.ceil(least), 1.0) if exact else max(least, SMALLEST)


@inlined
def compare(dots, first, least, reaches):
    """Writes whether each dot product of a block is `least` or larger."""
    for t in range(np.uint64(BLOCK)):
        reaches[t] = dots[np.uint64(first) + t] >= least


@inlined
def any_reaches(dots, first, least):
    """Returns whether a dot product of a block is `least` or larger; compiles to vector code."""
    any_larger = False
    for j in range(np.uint64(first), np.uint64(first + BLOCK)):
        any_larger |= dots[j] >= least
    return any_larger

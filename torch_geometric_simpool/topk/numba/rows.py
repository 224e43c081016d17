"""Kernels: rows of the top k.

A side has two matrices: row `i` of `rows` holds the features of node `i`, row `c` of `lists` the
nodes that have feature `c`. The products of a row are added up in an array of dot products over all
nodes, in :func:`list_sums`, :func:`list_exact_sums` or :func:`add_sums`. In a row with few
products, a node is listed as soon as its dot product can reach the bound, the key that a candidate
must reach. In a row with many products, the array is read in blocks of nodes. A block is skipped in
vector code unless one of its dot products can reach the bound. Nodes are numbered by norm, roughly,
so that the norms of a block are about equal. Weighted graphs on disk keep their numbers, which
costs time alone.

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
    norm2_of,
    num_reaching,
    write,
)
from torch_geometric_simpool.topk.numba.csr import AHEAD
from torch_geometric_simpool.topk.numba.jit import allocation_free, helper, inlined, prefetch
from torch_geometric_simpool.topk.numba.keys import SLACK, least_dot, similarity_of_key

#: A row has few products if `FEW` times their number is at most the bytes of the dot products.
FEW = 16

#: The entries of a list that are read ahead. The processor reads on by itself.
BEGINNING = 128

#: The bytes that come into the cache at once.
LINE = 64

#: The first bound for rows of about one size, as a share of the `k`-th key of a row of this size.
FIRST = 0.8

#: The factors of this bound after a row that reached it, and after a row that did not. Then
#: about 3 % of the rows are computed again.
RAISE, LOWER = 1.003, 0.9

#: The smallest positive double.
SMALLEST = np.nextafter(0, 1)


class Scratch(NamedTuple):
    """The working memory of a thread."""

    dots: np.ndarray  # a dot product for each node, zero between rows
    listed: np.ndarray  # the nodes whose dot products can reach the bound
    least_dots: np.ndarray  # the smallest dot product that can reach it, for each level of norms
    bounds: np.ndarray  # the bounds with which rows begin, by their number of products
    low: np.ndarray  # what rounding loses of each dot product; empty unless signs differ
    absolute: np.ndarray  # sums of absolute terms, -1 if not listed; empty unless signs differ
    nodes: np.ndarray  # the nodes of a block that reach the bound
    sums: np.ndarray  # their dot products
    reaches: np.ndarray  # which nodes of a block can reach the bound
    reach_words: np.ndarray  # the same memory, eight nodes in a word
    candidates: Candidates


def new_scratch(num_nodes: int, num_levels: int, dtype: np.dtype, k: int, signed: bool) -> Scratch:
    """Allocates the working memory of a thread."""
    reaches = np.zeros(BLOCK, np.uint8)
    return Scratch(
        dots=np.zeros(-(-num_nodes // BLOCK) * BLOCK, dtype),
        listed=np.empty(num_nodes + 1, np.uint32 if num_nodes < 2**32 else np.int64),
        least_dots=np.empty(num_levels, dtype),
        bounds=np.zeros(256),
        low=np.zeros(num_nodes if signed else 0),
        absolute=np.full(num_nodes if signed else 0, -1.0),
        nodes=np.empty(BLOCK, np.int64),
        sums=np.empty(BLOCK),
        reaches=reaches,
        reach_words=reaches.view(np.uint64),
        candidates=new_candidates(min(k, num_nodes)),
    )


@allocation_free
def topk_rows(graph, options, numbers, places, work, start, end, result, scratch):
    """Writes the rows of the nodes `numbers[start:end]` to their places of the result.

    `work` is the number of products of each row. A row begins with a bound that nearly all rows of
    about its size have reached. If fewer than `k` candidates reach it, the row is computed again
    with half of the bound, then without a bound.
    """
    dots, candidates, neighbors = scratch.dots, scratch.candidates, graph.neighbors
    bytes_of_dots = graph.norms.norm2.size * dots.itemsize
    comparable = options.measure == COSINE or graph.norms.scale.size == 0  # norms have one scale
    for t in range(start, end):
        i = np.int64(numbers[t])
        degree = 0
        for side in range(graph.num_sides):
            rows = graph.sides[side].rows
            degree += rows.ptr[i + 1] - rows.ptr[i]
        relative = 0.0 if graph.exact or graph.signed else (degree + 4) * 2.0**-52
        slack = SLACK - 8 * relative if comparable else 0.0
        unit = graph.norms.norm2[i] if options.measure == COSINE else 1.0
        bucket = bucket_of(work[t])
        bound = -np.inf if graph.signed else scratch.bounds[bucket] * unit
        is_listed = graph.signed or work[t] * FEW <= bytes_of_dots
        enough, size, num_listed, tries = False, 0, 0, 0
        while not enough:
            write_least_dots(i, bound * slack, graph, options.measure, scratch.least_dots)
            if is_listed:
                num_listed = list_row(i, graph, scratch)
            else:
                for side in range(graph.num_sides):
                    add_sums(i, graph.sides[side], graph.norms.scale, dots)
            # A node without a dot product is no candidate.
            if not options.loop:
                dots[i] = 0
            if neighbors.col.size > 0:
                for e in range(neighbors.ptr[i], neighbors.ptr[i + 1]):
                    dots[neighbors.col[e]] = 0
            size = offer_row(
                i, is_listed, num_listed, relative, slack, bound, graph, options, scratch
            )
            if is_listed:
                for side in range(graph.num_sides):
                    clear(i, graph.sides[side], dots)
            enough = bound <= 0 or num_reaching(bound, size, candidates) >= options.k
            tries += 1
            bound = bound / 2 if tries == 1 else 0.0
        size = write(i, places[t], size, graph, options, candidates, result)
        if size < options.k:
            scratch.bounds[bucket] = 0.0
        elif scratch.bounds[bucket] == 0:
            last = candidates.place[options.k - 1]
            scratch.bounds[bucket] = FIRST * candidates.key[last] / unit
        else:
            scratch.bounds[bucket] *= RAISE if tries == 1 else LOWER


@inlined
def bucket_of(num_products):
    """Returns the place of the bound for rows of this size, four for each power of two."""
    return (np.float64(num_products + 1).view(np.int64) >> 50) - (1023 << 2)


@inlined
def read_ahead(e, rows, lists):
    """Asks for the list of an entry that comes soon, and for the offsets of a later list."""
    if e + 2 * AHEAD < rows.col.size:
        prefetch(lists.ptr, np.int64(rows.col[np.uint64(e + 2 * AHEAD)]))
        soon = rows.col[np.uint64(e + AHEAD)]
        first = lists.ptr[soon]
        last = min(lists.ptr[soon + 1], first + BEGINNING)
        for f in range(first, last, LINE // lists.col.itemsize):
            prefetch(lists.col, f)
        if lists.value.size > 0:
            for f in range(first, last, LINE // lists.value.itemsize):
                prefetch(lists.value, f)


@inlined
def add_sums(i, side, scale, dots):
    """Adds the products of a row to the dot products."""
    rows, lists = side
    ptr, col, value = lists.ptr, lists.col, lists.value
    number = dots.dtype.type
    for e in range(rows.ptr[i], rows.ptr[i + 1]):
        read_ahead(e, rows, lists)
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
    """Adds the products of a row; returns how many nodes are listed."""
    scale, size = graph.norms.scale, np.int64(0)
    if graph.signed:
        for side in range(graph.num_sides):
            size = list_exact_sums(i, graph.sides[side], scale, scratch, size)
        round_sums(size, graph.exact, scratch)
        return size
    for side in range(graph.num_sides):
        size = list_sums(i, graph.sides[side], graph.norms, scratch, size)
    return size


@inlined
def list_sums(i, side, norms, scratch, size):
    """Adds the products of a row; lists each node when its dot product can reach the bound."""
    rows, lists = side
    ptr, col, value, level = lists.ptr, lists.col, lists.value, norms.level
    dots, listed, least_dots = scratch.dots, scratch.listed, scratch.least_dots
    number = dots.dtype.type
    for e in range(rows.ptr[i], rows.ptr[i + 1]):
        read_ahead(e, rows, lists)
        first, last = np.uint64(ptr[rows.col[e]]), np.uint64(ptr[rows.col[e] + 1])
        if value.size == 0:
            for f in range(first, last):
                j = col[f]
                dot = dots[j] + number(1)
                dots[j] = dot
                listed[np.uint64(size)] = j
                size += np.int64(dot == least_dots[level[j // BLOCK]])
        else:
            factor = number(rows.value[e])
            if norms.scale.size > 0:
                factor *= number(norms.scale[i])
            for f in range(first, last):
                j = col[f]
                before = dots[j]
                dot = before + factor * number(value[f])
                dots[j] = dot
                least = least_dots[level[j // BLOCK]]
                listed[np.uint64(size)] = j
                # `least` may be a denormal number, and the processor may take these for zero.
                is_new = (before < least) | (before == 0)
                size += np.int64(is_new & (dot >= least) & (dot > 0))
    return size


@inlined
def clear(i, side, dots):
    """Sets the dot products of a row to zero."""
    rows, lists = side
    for e in range(rows.ptr[i], rows.ptr[i + 1]):
        for f in range(np.uint64(lists.ptr[rows.col[e]]), np.uint64(lists.ptr[rows.col[e] + 1])):
            dots[lists.col[f]] = 0


@helper
def list_exact_sums(i, side, scale, scratch, size):
    """Adds the products of a row as :func:`list_sums` does, exactly, where terms may cancel."""
    rows, lists = side
    dots, low, absolute = scratch.dots, scratch.low, scratch.absolute
    for e in range(rows.ptr[i], rows.ptr[i + 1]):
        factor = np.float64(rows.value[e])
        if scale.size > 0:
            factor *= scale[i]
        for f in range(lists.ptr[rows.col[e]], lists.ptr[rows.col[e] + 1]):
            j, term = lists.col[f], factor * lists.value[f]
            if absolute[j] < 0:
                scratch.listed[size] = j
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
        j = scratch.listed[u]
        dots[j] = csr.rounded(dots[j], low[j], 0.0 if exact else absolute[j])
        low[j], absolute[j] = 0.0, -1.0


@inlined
def offer(i, size, num_nodes, relative, bound, last_id, graph, options, scratch):
    """Adds the nodes that were collected to the candidates, unless they are below the bound.

    `relative` bounds the relative error of the dot products. A candidate whose key equals the bound
    is added if its id is at most `last_id`. Returns the number of candidates.
    """
    candidates, norms = scratch.candidates, graph.norms
    for u in range(np.uint64(num_nodes)):
        j, dot = scratch.nodes[u], scratch.sums[u]
        if dot == 0:
            continue
        key = key_of(i, j, dot, norms, options.measure)
        error = key * (2 * relative + 2.0**-50) if relative > 0 else 0.0
        if key + error < bound or (key == bound and np.int64(norms.id[j]) > last_id):
            continue
        if graph.signed:
            value = similarity_of_key(key, norms.norm2[i], options.measure)
            if abs(value) <= options.smallest:
                continue
        prefetch(norms.id, np.int64(j))
        candidates.key[size] = key
        candidates.error[size] = error
        candidates.node[size] = j
        size += 1
    return size


@inlined
def offer_counts(size, num_nodes, bound, last_id, norms, scratch):
    """Adds nodes as :func:`offer` does, where squares of dot products are exact.

    It has no branch that depends on the nodes, which the processor could not predict.
    """
    candidates = scratch.candidates
    for u in range(np.uint64(num_nodes)):
        j, dot = scratch.nodes[u], scratch.sums[u]
        key = dot * dot / norm2_of(j, norms)
        if last_id < NO_ID and key == bound and np.int64(norms.id[j]) > last_id:
            continue
        prefetch(norms.id, np.int64(j))
        candidates.key[size] = key
        candidates.error[size] = 0.0
        candidates.node[size] = j
        size += np.int64((key >= bound) & (dot > 0))
    return size


@inlined
def offer_row(i, is_listed, num_listed, relative, slack, bound, graph, options, scratch):
    """Adds the nodes with a dot product to the candidates, a block at a time.

    Returns the number of candidates.
    """
    norms, least_dots = graph.norms, scratch.least_dots
    # With a literal 0, Numba would compile `make_room` a second time.
    size, last_id, num_nodes = np.int64(0), NO_ID, np.int64(0)
    full = scratch.candidates.key.size - BLOCK
    for start in range(0, num_listed if is_listed else norms.norm2.size, BLOCK):
        if size > full:
            size, bound, last_id = make_room(i, size, graph, options, scratch.candidates)
            write_least_dots(i, bound * slack, graph, options.measure, least_dots)
        if is_listed:
            num_nodes = collect_listed(start, min(start + BLOCK, num_listed), graph, scratch)
        else:
            num_nodes = collect_block(start, least_dots[norms.level[start // BLOCK]], scratch)
        if options.exact_squares:
            size = offer_counts(size, num_nodes, bound, last_id, norms, scratch)
        else:
            size = offer(i, size, num_nodes, relative, bound, last_id, graph, options, scratch)
    return size


@inlined
def collect_listed(start, end, graph, scratch):
    """Collects the nodes of `listed[start:end]` that can reach the bound; all if signs differ."""
    level, num_nodes = graph.norms.level, np.int64(0)
    for u in range(np.uint64(start), np.uint64(end)):
        j = scratch.listed[u]
        dot = scratch.dots[j]
        scratch.nodes[np.uint64(num_nodes)], scratch.sums[np.uint64(num_nodes)] = j, dot
        num_nodes += np.int64(graph.signed | (dot >= scratch.least_dots[level[j // BLOCK]]))
    return num_nodes


@inlined
def collect_block(start, threshold, scratch):
    """Collects the nodes of a block whose dot products reach a threshold.

    All dot products of the block are set to zero.
    """
    dots, num_nodes = scratch.dots, np.int64(0)
    if any_reaches(dots, start, threshold):
        compare(dots, start, threshold, scratch.reaches)
        for w in range(BLOCK // 8):
            if scratch.reach_words[w] == 0:
                continue
            for t in range(8 * w, 8 * w + 8):
                scratch.nodes[num_nodes] = start + t
                scratch.sums[num_nodes] = np.float64(dots[start + t])
                num_nodes += np.int64(scratch.reaches[t])
    for j in range(np.uint64(start), np.uint64(start + BLOCK)):
        dots[j] = 0
    return num_nodes


@inlined
def write_least_dots(i, key, graph, measure, least_dots):
    """Writes the smallest positive dot product that may reach a key, for each level of norms."""
    norms, number = graph.norms, least_dots.dtype.type
    # The type of the sums can hold it. A smaller threshold finds more nodes than needed.
    most = max(norms.ceiling[norms.ceiling.size - 1], 1.0)
    for c in range(least_dots.size):
        dot = 0.0
        if key > 0:
            dot = least_dot(norms.norm2[i], norms.levels[c], measure, key) * SLACK
        dot = max(np.ceil(dot), 1.0) if graph.exact else max(dot, SMALLEST)
        least_dots[c] = number(min(dot, most))


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

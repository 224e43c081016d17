"""Kernels: rows of the top k.

A side has two matrices: row `i` of `rows` holds the features of node `i`, row `c` of `lists` the
nodes that have feature `c`. The products of a row are added up in an array of dot products over all
nodes, in :func:`touch_sums`, :func:`touch_exact_sums` or :func:`add_sums`. Then the nodes are
listed whose dot product can reach the bound, the key that a candidate must reach. In a row with few
products, the touched nodes are read. In a row with many products, the whole array is read, in
vector code that compares 64 dot products at a time. Nodes are numbered by norm, roughly, so that
the norms of a block are about equal. Weighted graphs on disk keep their numbers, and weighted
graphs with short rows are numbered by degree, which changes the time alone.

Short rows are written first, by :func:`write_short_rows`. They have no bound.

Dot products are integers, or real numbers in float64 with a bound of their error. Where products
may cancel, this bound holds for large cosines alone. A row that needs others has exact sums, which
take about four times as long. Hot loops have unsigned indices: Numba tests signed ones for being
negative, which takes a tenth of the time.
"""

from typing import NamedTuple

import numpy as np

from torch_geometric_simpool.topk.measures import COSINE
from torch_geometric_simpool.topk.numba.best import (
    BLOCK,
    NO_ID,
    Candidates,
    key_of,
    make_room,
    new_candidates,
    rank,
    write_features,
    write_places,
)
from torch_geometric_simpool.topk.numba.describe import Description
from torch_geometric_simpool.topk.numba.jit import (
    allocation_free,
    bits_above,
    inlined,
    lowest_bit,
    prefetch,
)
from torch_geometric_simpool.topk.numba.keys import SLACK, least_dot, similarity_of_key
from torch_geometric_simpool.topk.numba.short import (
    MOST_TRIED,
    WRITTEN,
    Lanes,
    new_lanes,
    write_short_rows,
)
from torch_geometric_simpool.topk.numba.sums import add_sums, leave_out, prefetch_row, touch_row

#: A row has few products if `FEW` times their number is at most the bytes of the dot products.
FEW = 48

#: The first bound for rows of about one size, as a share of the `k`-th key of a row of this size.
FIRST = 0.8

#: The factors of this bound after a row that reached it, and after a row that did not. Then
#: about 3 % of the rows are computed again.
RAISE, LOWER = 1.003, 0.9

#: The least cosine that is computed from rounded sums where products may cancel. The absolute terms
#: of a dot product add up to the product of the norms at most, so its relative error is at most the
#: error without cancellation, divided by the cosine. Other measures have no such bound.
LEAST = 2.0**-10


class Scratch(NamedTuple):
    """The working memory of a thread."""

    dots: np.ndarray  # a dot product for each node, zero between rows
    touched: np.ndarray  # the touched nodes of a row; some may occur twice
    listed: np.ndarray  # nodes that can reach the bound; all if sums are exact
    sums: np.ndarray  # their dot products
    thresholds: np.ndarray  # for each level of norms: only larger dot products reach the bound
    bounds: np.ndarray  # the first bounds of rows by their number of products; -1: exact sums
    low: np.ndarray  # what rounding loses of each dot product; empty unless real or signed
    absolute: np.ndarray  # sums of absolute terms, -1 if not touched; empty unless signs differ
    candidates: Candidates
    lanes: Lanes


def new_scratch(graph: Description, k: int) -> Scratch:
    """Allocates the working memory of a thread."""
    num_nodes, sum_type = graph.norms.norm2.size, graph.sum_type
    num_signed, num_real = num_nodes * graph.signed, num_nodes * (graph.signed or not graph.exact)
    num_cols = 0 if graph.exact else graph.sides.first.lists.num_rows  # exact keys are not refined
    dots = np.zeros(-(-num_nodes // BLOCK) * BLOCK, sum_type)
    return Scratch(
        dots=dots,
        touched=np.empty(max(dots.nbytes // FEW, MOST_TRIED), graph.sides.first.lists.col.dtype),
        listed=np.empty(num_nodes + 1, graph.sides.first.lists.col.dtype),
        sums=np.empty(num_nodes + 1, sum_type),
        thresholds=np.empty(graph.norms.levels.size, sum_type),
        bounds=np.zeros(256),
        low=np.zeros(num_real),
        absolute=np.full(num_signed, -1.0),
        candidates=new_candidates(min(k, num_nodes), graph.num_sides, num_cols),
        lanes=new_lanes(),
    )


@allocation_free
def topk_rows(start, end, graph, options, rows, values, index, scratch):
    """Writes the rows from `start` to `end` to their places of the result.

    Row `t` of `rows` belongs to node `i`, which may have other rows too. Unless row `t` is short,
    it begins with a bound that nearly all rows of about its size have reached. If fewer than `k`
    candidates reach it, the row is computed again with half of the bound, then without a bound.
    Where products may cancel, a row without a bound has exact sums.
    """
    write_short_rows(start, end, graph, options, rows, values, index, scratch)
    dots, candidates = scratch.dots, scratch.candidates
    work, features, scales = rows.work, rows.features, graph.norms.scale
    comparable = options.measure == COSINE or scales.size == 0  # norms have one scale
    for t in range(start, end):
        i = np.int64(rows.numbers[t])
        if work[t] == WRITTEN:
            continue
        prefetch_row(rows.places[t], options.k, values)
        prefetch_row(rows.places[t], options.k, index)
        scale = 1.0 if scales.size == 0 else scales[i]
        degree = 0
        for side in range(graph.num_sides):
            degree += features[side].end[t] - features[side].start[t]
        mean_length = work[t] // max(degree, 1)  # of the lists of the row
        relative = 0.0 if graph.exact else (degree + 4) * 2.0**-52
        if graph.signed:
            relative /= LEAST
        slack = SLACK - 8 * relative if comparable else 0.0
        unit = graph.norms.norm2[i] if options.measure == COSINE else 1.0
        least = LEAST * LEAST * unit if options.measure == COSINE else np.inf
        bucket = bucket_of(work[t])
        bound = scratch.bounds[bucket] * unit
        # `size` is the number of touched nodes, of listed nodes, then of candidates. Several names
        # make the code slower.
        enough, size, tries, exact_sums = False, np.int64(0), 0, False
        while not enough:
            exact_sums = graph.signed and bound < least
            if exact_sums:
                bound = -np.inf
            has_few = exact_sums or work[t] * FEW <= dots.nbytes
            write_thresholds(i, bound * slack, graph, options.measure, scratch.thresholds)
            if has_few:
                size = touch_row(t, mean_length, exact_sums, features, scale, graph, scratch)
            else:
                for side in range(graph.num_sides):
                    lists = graph.sides[side].lists
                    add_sums(t, mean_length, features[side], lists, scale, dots)
            leave_out(i, options.loop, graph.neighbors, dots)
            if has_few:
                size = list_touched(size, exact_sums, graph, scratch)
            else:
                size = list_blocks(graph.norms.level, scratch)
            error = 0.0 if exact_sums else relative
            size = offer_row(i, size, error, bound, graph, options, scratch)
            rank(i, size, graph, options, candidates)
            enough, last = bound <= 0, np.int64(0)
            if size >= options.k:
                last = candidates.place[options.k - 1]
                enough |= candidates.key[last] - candidates.error[last] >= bound
            tries += 1
            bound = bound / 2 if tries == 1 else 0.0
        write_places(i, rows.places[t], size, graph, options, candidates, values, index)
        num_read = candidates.num_read[0]
        if num_read > 0:
            write_features(i, 0.0, graph, candidates)
            candidates.num_read[0] = 0
        if scratch.bounds[bucket] < 0:
            continue
        if graph.signed and num_read > work[t]:
            scratch.bounds[bucket] = -1.0  # there are many near ties, and exact sums are faster
        elif size < options.k:
            scratch.bounds[bucket] = 0.0
        elif exact_sums or scratch.bounds[bucket] == 0:
            scratch.bounds[bucket] = max(FIRST * candidates.key[last] / unit, 0.0)
        else:
            scratch.bounds[bucket] *= RAISE if tries == 1 else LOWER


@inlined
def bucket_of(num_products):
    """Returns the place of the bound for rows of this size, four for each power of two."""
    return (np.float64(num_products + 1).view(np.int64) >> 50) - (1023 << 2)


@inlined
def list_touched(num_touched, exact_sums, graph, scratch):
    """Lists the touched nodes that can reach the bound, and sets all dot products to zero."""
    dots, listed, sums = scratch.dots, scratch.listed, scratch.sums
    touched = listed if exact_sums else scratch.touched
    level, thresholds, size = graph.norms.level, scratch.thresholds, np.uint64(0)
    for u in range(np.uint64(num_touched)):
        j = touched[u]
        dot = dots[j]
        dots[j], listed[size], sums[size] = 0, j, dot
        size += np.uint64(exact_sums | (dot > thresholds[level[j // BLOCK]]))
    if not graph.exact:  # norms in a block differ, so :func:`norm2_of` reads the node's own
        for u in range(size):
            prefetch(graph.norms.norm2, np.int64(listed[u]))
    return np.int64(size)


@inlined
def list_blocks(level, scratch):
    """Lists the nodes that can reach the bound, and sets all dot products to zero."""
    dots, size = scratch.dots, np.int64(0)
    for start in range(0, dots.size, BLOCK):
        threshold = scratch.thresholds[level[start // BLOCK]]
        for first in range(start, start + BLOCK, 64):
            above = bits_above(dots, first, threshold)
            while above != 0:
                j = first + lowest_bit(above)
                scratch.listed[size], scratch.sums[size] = j, dots[j]
                size += 1
                above &= above - np.uint64(1)
        for j in range(np.uint64(start), np.uint64(start + BLOCK)):
            dots[j] = 0
    return size


@inlined
def offer_row(i, num_listed, relative, bound, graph, options, scratch):
    """Adds the nodes that are listed to the candidates, unless they are below the bound.

    `relative` bounds the relative error of the dot products. A candidate whose key equals the bound
    is added if its id is at most `last_id`. Whether a node is added decides no branch, because the
    processor could not predict it. Returns the number of candidates.
    """
    candidates, norms = scratch.candidates, graph.norms
    # With a literal 0, Numba would compile `make_room` a second time.
    size, last_id, full = np.int64(0), NO_ID, candidates.key.size - BLOCK
    for start in range(0, num_listed, BLOCK):
        if size > full:
            size, bound, last_id = make_room(i, size, graph, options, candidates)
        for u in range(np.uint64(start), np.uint64(min(start + BLOCK, num_listed))):
            j, dot = np.int64(scratch.listed[u]), np.float64(scratch.sums[u])
            key = key_of(i, j, dot, norms, options.measure)
            error = key * (2 * relative + 2.0**-50) if relative > 0 else 0.0
            if error == 0 and last_id < NO_ID and key == bound and np.int64(norms.id[j]) > last_id:
                continue
            if graph.signed and bound < 0:
                value = similarity_of_key(key, norms.norm2[i], options.measure)
                if abs(value) <= options.smallest:
                    continue
            prefetch(norms.id, j)
            candidates.key[size] = key
            candidates.error[size] = error
            candidates.node[size] = j
            size += np.int64((key + error >= bound) & (dot != 0))
    return size


@inlined
def write_thresholds(i, key, graph, measure, thresholds):
    """Writes a threshold for each level of norms; only larger dot products can reach the key."""
    norms, as_sum = graph.norms, thresholds.dtype.type
    for c in range(thresholds.size):
        dot = 0.0
        if key > 0:
            dot = least_dot(norms.norm2[i], norms.levels[c], measure, key) * SLACK
        if graph.exact:
            dot = max(np.ceil(dot) - 1, 0.0)
        # The type of the sums can hold the largest norm. No dot product is larger.
        thresholds[c] = as_sum(min(dot, graph.largest))

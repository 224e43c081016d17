"""Kernels: the sums of products of a row, and prefetching."""

import numpy as np

from torch_geometric_simpool.topk.numba import csr
from torch_geometric_simpool.topk.numba.jit import helper, inlined, prefetch

#: Lists are prefetched so many entries of a row ahead, and their offsets further ahead.
AHEAD, FURTHER = np.uint64(16), np.uint64(32)

#: The lines of a long list that are prefetched. The processor reads on by itself.
BEGINNING = 6

#: The bytes of a line of the cache.
LINE = 64


@inlined
def prefetch_row(place, k, result):
    """Prefetches a row of the result, which would be waited for when it is written."""
    first = np.int64(place) * k
    for at in range(first, first + k, LINE // result.itemsize):
        prefetch(result, at)
    prefetch(result, first + k - 1)


@inlined
def leave_out(i, loop, neighbors, dots):
    """Sets the dot products of nodes that row `i` leaves out to zero, so none is a candidate."""
    if not loop:
        dots[i] = 0
    if neighbors.col.size > 0:
        for e in range(neighbors.ptr[i], neighbors.ptr[i + 1]):
            dots[neighbors.col[e]] = 0


@inlined
def prefetch_ahead(e, mean_length, features, lists):
    """Prefetches the list of an entry that comes soon, and the offsets of a later list.

    They may belong to the next rows.
    """
    if e + FURTHER < np.uint64(features.col.size):
        prefetch(lists.ptr, np.int64(features.col[e + FURTHER]))
        soon = features.col[e + AHEAD]
        first, last = lists.ptr[soon], lists.ptr[soon + 1] - 1
        prefetch_list(first, last, mean_length, lists.col)
        if lists.value.size > 0:
            prefetch_list(first, last, mean_length, lists.value)


@inlined
def prefetch_list(first, last, mean_length, array):
    """Prefetches `array[first : last + 1]`: its first line and its last, and more of long lists.

    The mean length decides, because the processor could not predict the length of each list.
    """
    in_line = LINE // array.itemsize
    prefetch(array, first)
    if mean_length >= in_line:
        for line in range(1, BEGINNING):
            prefetch(array, min(first + line * in_line, last))
    prefetch(array, last)


@inlined
def add_sums(t, mean_length, features, lists, scale, dots):
    """Adds the products of a row to the dot products."""
    ptr, col, value = lists.ptr, lists.col, lists.value
    for e in range(np.uint64(features.start[t]), np.uint64(features.end[t])):
        prefetch_ahead(e, mean_length, features, lists)
        first, last = np.uint64(ptr[features.col[e]]), np.uint64(ptr[features.col[e] + 1])
        factor = factor_of(e, features, scale, dots)
        if value.size == 0:
            for f in range(first, last):
                dots[col[f]] += factor
        else:
            for f in range(first, last):
                dots[col[f]] += factor * dots.dtype.type(value[f])


@inlined
def factor_of(e, features, scale, dots):
    """Returns the factor of an entry, in the type of the dot products."""
    as_sum = dots.dtype.type
    return as_sum(1) if features.value.size == 0 else as_sum(features.value[e]) * as_sum(scale)


@inlined
def touch_row(t, mean_length, exact_sums, features, scale, graph, scratch):
    """Adds the products of a row; returns how many nodes are touched."""
    num_touched = np.uint64(0)
    for side in range(graph.num_sides):
        lists, row = graph.sides[side].lists, features[side]
        if exact_sums:
            num_touched = touch_exact_sums(t, row, lists, scale, scratch, num_touched)
        else:
            num_touched = touch_sums(t, mean_length, row, lists, scale, scratch, num_touched)
    if exact_sums:
        round_sums(num_touched, graph.exact, scratch)
    return np.int64(num_touched)


@inlined
def touch_sums(t, mean_length, features, lists, scale, scratch, num_touched):
    """Adds the products of a row to the dot products, and returns the number of touched nodes.

    The node of every product is written to the end of `touched`. It stays if its sum was zero, so
    no branch depends on it. If terms cancel or are zero, a node may be touched twice.
    """
    ptr, col, value = lists.ptr, lists.col, lists.value
    dots, touched = scratch.dots, scratch.touched
    as_sum = dots.dtype.type
    for e in range(np.uint64(features.start[t]), np.uint64(features.end[t])):
        prefetch_ahead(e, mean_length, features, lists)
        first, last = np.uint64(ptr[features.col[e]]), np.uint64(ptr[features.col[e] + 1])
        factor = factor_of(e, features, scale, dots)
        if value.size == 0:
            for f in range(first, last):
                j = col[f]
                before = dots[j]
                dots[j], touched[num_touched] = before + factor, j
                num_touched += np.uint64(before == 0)
        else:
            for f in range(first, last):
                j = col[f]
                before = dots[j]
                dots[j], touched[num_touched] = before + factor * as_sum(value[f]), j
                num_touched += np.uint64(before == 0)
    return num_touched


@inlined
def touch_in_two_doubles(i, t, features, graph, scratch):
    """Adds the products of row `t` of node `i` in two doubles, and rounds the sums once.

    No value is negative. Returns how many nodes are touched; nodes may be touched twice.
    """
    dots, low, touched, num_touched = scratch.dots, scratch.low, scratch.touched, np.uint64(0)
    scale = 1.0 if graph.norms.scale.size == 0 else graph.norms.scale[i]
    for side in range(graph.num_sides):
        lists, row = graph.sides[side].lists, features[side]
        for e in range(np.uint64(row.start[t]), np.uint64(row.end[t])):
            prefetch_ahead(e, 0, row, lists)
            factor = factor_of(e, row, scale, dots)
            first, last = lists.ptr[row.col[e]], lists.ptr[row.col[e] + 1]
            for f in range(np.uint64(first), np.uint64(last)):
                j = lists.col[f]
                before = dots[j]
                dots[j], low[j] = csr.add(before, low[j], factor * lists.value[f])
                touched[num_touched] = j
                num_touched += np.uint64(before == 0)
    for u in range(num_touched):
        j = touched[u]
        dots[j] += low[j]
        low[j] = 0.0
    return num_touched


@helper
def touch_exact_sums(t, features, lists, scale, scratch, num_touched):
    """Adds the products of a row exactly, where terms may cancel. All nodes are in `listed`."""
    dots, low, absolute = scratch.dots, scratch.low, scratch.absolute
    for e in range(features.start[t], features.end[t]):
        factor = factor_of(e, features, scale, dots)
        for f in range(lists.ptr[features.col[e]], lists.ptr[features.col[e] + 1]):
            j, term = lists.col[f], factor * lists.value[f]
            if absolute[j] < 0:
                scratch.listed[num_touched] = j
                num_touched += np.uint64(1)
                absolute[j] = 0.0
            dots[j], low[j] = csr.add(dots[j], low[j], term)
            absolute[j] += abs(term)
    return num_touched


@helper
def round_sums(num_touched, exact, scratch):
    """Rounds the dot products that were added exactly; a sum whose terms cancel is zero."""
    dots, low, absolute = scratch.dots, scratch.low, scratch.absolute
    for u in range(num_touched):
        j = scratch.listed[u]
        dots[j] = csr.rounded(dots[j], low[j], 0.0 if exact else absolute[j])
        low[j], absolute[j] = 0.0, -1.0

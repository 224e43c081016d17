"""Kernels: rows that name a long list, most of which cannot be among the best.

In a list of more than `k` members, the first `k` but the row itself share a feature with the row,
and members ascend in norm, then id. So a larger id that is met once is not among the best. Of the
longest list, which is read last, such ids are dropped at once.
"""

import numpy as np

from torch_geometric_simpool.engine.compile import helper
from torch_geometric_simpool.engine.topk.counting import (
    NO_BOUND,
    bits_of_marks,
    count_repeated,
    mark,
    split_marked,
)


@helper
def count_skewed_row(i, rows, lists, products, longest, k, scratch):
    """Writes candidates with a count of one to `single`, and others to `found`."""
    gathered, single, found = scratch.gathered, scratch.single, scratch.found
    occurrences = scratch.tables.occurrences
    size, last, bound = gather_others(i, rows, lists, longest, k, gathered)
    bits = bits_of_marks(products)
    mark(gathered, np.int64(0), size, bits, occurrences)
    before = size
    size = gather_longest(i, lists, last, bound, bits, occurrences, gathered, size)
    mark(gathered, before, size, bits, occurrences)
    num_single, size = split_marked(gathered, size, bound, bits, occurrences, single, found)
    for t in range(size):
        gathered[t] = found[t]
    return num_single, count_repeated(gathered, size, scratch.tables, found, scratch.counts)


@helper
def gather_others(i, rows, lists, longest, k, out):
    """Writes the ids in all lists but one of the longest, apart from `i`.

    Returns how many, the feature of that list, and the bound.
    """
    size = 0
    last = np.int64(-1)
    bound = NO_BOUND
    for e in range(rows.ptr[i], rows.ptr[i + 1]):
        m = rows.col[e]
        first = lists.ptr[m]
        end = lists.ptr[m + 1]
        if end - first > k:
            # One more than `k`, as `i` may be among them.
            bound = min(bound, np.int64(lists.col[first + k]))
        if end - first == longest and last < 0:
            last = m
            continue
        for t in range(first, end):
            j = lists.col[t]
            out[size] = j
            size += np.int64(j != i)
    return size, last, bound


@helper
def gather_longest(i, lists, m, bound, bits, occurrences, out, size):
    """Appends the ids of a list that can be among the best, apart from `i`."""
    mask = (1 << bits) - 1
    for t in range(lists.ptr[m], lists.ptr[m + 1]):
        j = lists.col[t]
        out[size] = j
        size += np.int64((j <= bound) | (occurrences[j & mask] > 0)) & np.int64(j != i)
    return size

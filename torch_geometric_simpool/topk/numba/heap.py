"""Kernels: the best `k` candidates of a row, as a heap or as a sorted list.

Both are stored in `Candidates`; how many there are is passed along.
"""

from typing import NamedTuple

import numpy as np

from torch_geometric_simpool.topk.numba.jit import helper
from torch_geometric_simpool.topk.numba.order import is_worse, similarity_of_key

#: The number of bins in one pass of :func:`smallest`.
BINS = 128

#: Up to this many ids are sorted by counting, for each, how many are smaller.
RANKED = 96


class Candidates(NamedTuple):
    """Room for `k` candidates."""

    keys: np.ndarray
    ids: np.ndarray


class Options(NamedTuple):
    """Which candidates take a place, and how they are compared."""

    k: int
    loop: bool
    jaccard: bool
    min_similarity: float
    smallest: float  # similarities up to it are zero in the type of the result


class TopK(NamedTuple):
    """The result, `[N, k]` each."""

    values: np.ndarray
    indices: np.ndarray


def new_candidates(k: int) -> Candidates:
    """Empty room for `k`."""
    return Candidates(np.empty(k), np.empty(k, np.int64))


@helper
def sift_down(heap, size, key, j):
    """Replaces the root of a heap, which is its worst candidate."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        right = child + 1
        if right < size and is_worse(
            heap.keys[right], heap.ids[right], heap.keys[child], heap.ids[child]
        ):
            child = right
        if not is_worse(heap.keys[child], heap.ids[child], key, j):
            break
        heap.keys[at] = heap.keys[child]
        heap.ids[at] = heap.ids[child]
        at = child
    heap.keys[at] = key
    heap.ids[at] = j


@helper
def push(heap, size, k, key, j):
    """Offers a candidate to a heap of at most `k`; returns the new size."""
    if size == k:
        if is_worse(heap.keys[0], heap.ids[0], key, j):
            sift_down(heap, size, key, j)
        return size
    at = size
    while at > 0:
        parent = (at - 1) // 2
        if not is_worse(key, j, heap.keys[parent], heap.ids[parent]):
            break
        heap.keys[at] = heap.keys[parent]
        heap.ids[at] = heap.ids[parent]
        at = parent
    heap.keys[at] = key
    heap.ids[at] = j
    return size + 1


@helper
def sort_heap(heap, size):
    """Turns the heap into a list, the best first."""
    while size > 1:
        size -= 1
        key = heap.keys[size]
        j = heap.ids[size]
        heap.keys[size] = heap.keys[0]
        heap.ids[size] = heap.ids[0]
        sift_down(heap, size, key, j)


@helper
def insert(ranked, size, k, key, j):
    """Offers a candidate to a sorted list of at most `k`; returns the new size."""
    if size == k:
        if not is_worse(ranked.keys[k - 1], ranked.ids[k - 1], key, j):
            return size
        at = k - 1
    else:
        at = size
        size += 1
    while at > 0 and is_worse(ranked.keys[at - 1], ranked.ids[at - 1], key, j):
        ranked.keys[at] = ranked.keys[at - 1]
        ranked.ids[at] = ranked.ids[at - 1]
        at -= 1
    ranked.keys[at] = key
    ranked.ids[at] = j
    return size


@helper
def write(result, row, ranked, size, norm2_i, options):
    """Writes a sorted list to a row of the result, up to `min_similarity`; then padding."""
    place = 0
    while place < size:
        value = similarity_of_key(ranked.keys[place], norm2_i, options.jaccard)
        if value < options.min_similarity:
            break
        result.values[row, place] = value
        result.indices[row, place] = ranked.ids[place]
        place += 1
    while place < options.k:
        result.values[row, place] = 0
        result.indices[row, place] = -1
        place += 1


@helper
def smallest(ids, size, k, spare, bins):
    """Moves the `k` smallest of distinct ids to the front, ascending; returns how many."""
    size = drop_large(ids, size, k, bins)
    if size > RANKED:
        sort_ids(ids, size)
        return min(size, k)
    for t in range(size):
        spare[t] = ids[t]
    for t in range(size):
        j = spare[t]
        rank = 0
        for u in range(size):
            rank += np.int64(spare[u] < j)
        ids[rank] = j
    return min(size, k)


@helper
def sort_ids(ids, size):
    """Sorts ids, ascending: a heapsort, because NumPy's sort allocates memory."""
    for root in range(size // 2 - 1, -1, -1):
        sift_id_down(ids, root, size, ids[root])
    for last in range(size - 1, 0, -1):
        j = ids[last]
        ids[last] = ids[0]
        sift_id_down(ids, np.int64(0), last, j)


@helper
def sift_id_down(ids, at, size, j):
    """Puts `j` at a place of a heap of ids, whose root is the largest, or below."""
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and ids[child + 1] > ids[child]:
            child += 1
        if ids[child] <= j:
            break
        ids[at] = ids[child]
        at = child
    ids[at] = j


@helper
def drop_large(ids, size, k, bins):
    """Drops ids that are not among the `k` smallest, by histograms, until few are left."""
    while size > k + 16:
        low = ids[0]
        high = ids[0]
        for t in range(size):
            low = min(low, ids[t])
            high = max(high, ids[t])
        shift = 0
        while (high - low) >> shift >= BINS:
            shift += 1
        for b in range(BINS):
            bins[b] = 0
        for t in range(size):
            bins[(ids[t] - low) >> shift] += 1
        within = 0
        b = 0
        while within < k:
            within += bins[b]
            b += 1
        if within == size:
            break
        bound = np.int64(low) + (np.int64(b) << shift)
        kept = 0
        for t in range(size):
            j = ids[t]
            ids[kept] = j
            kept += np.int64(j < bound)
        size = kept
    return size

"""Kernels: rows of the top k with few products, sorted by comparing every pair.

The loops over pairs have no branches, so a processor compares several pairs at a time. For few
products that is faster than a hash table and a heap.
"""

import numpy as np

from torch_geometric_simpool.topk.numba.jit import helper
from torch_geometric_simpool.topk.numba.order import count_key, similarity_of_key

#: Rows with up to this many products are short.
SHORT = 64


@helper
def count_few(ids, size, spare, found, counts):
    """Writes each id once to `found`, ascending, with its count; returns how many differ."""
    for t in range(size):
        j = ids[t]
        smaller = 0
        equal = 0
        for u in range(size):
            smaller += np.int64(ids[u] < j)
            equal += np.int64(ids[u] == j)
        spare[smaller] = j
        counts[smaller] = equal
    distinct = 0
    t = 0
    while t < size:
        equal = counts[t]
        found[distinct] = spare[t]
        counts[distinct] = equal
        distinct += 1
        t += equal
    return distinct


@helper
def write_few(i, size, nodes, options, scratch, place, result):
    """Writes the best of `found` to a row of the result, then padding."""
    found, counts = scratch.found, scratch.counts
    keys, ids = scratch.short
    norm2_i = np.float64(nodes[i, 1])
    for t in range(size):
        keys[t] = count_key(i, found[t], np.int64(counts[t]), nodes, options.jaccard)
        ids[t] = nodes[found[t], 0]
    values, indices = result.values[place], result.indices[place]
    for t in range(options.k):
        values[t] = 0
        indices[t] = -1
    for t in range(size):
        key = keys[t]
        j = ids[t]
        rank = 0
        for u in range(size):
            rank += np.int64((keys[u] > key) | ((keys[u] == key) & (ids[u] < j)))
        if rank < options.k:
            value = similarity_of_key(key, norm2_i, options.jaccard)
            if value >= options.min_similarity:
                values[rank] = value
                indices[rank] = j

"""Kernels: candidates that a row shares only hubs with.

The members of a hub's list are in order of their norms. So the list is read from its front,
and only until no later member can be among the best.
"""

import numpy as np

from torch_geometric_simpool.topk.numba.heap import insert
from torch_geometric_simpool.topk.numba.jit import allocation_free, helper
from torch_geometric_simpool.topk.numba.order import count_key, is_worse


@helper
def popcount(word):
    """The number of bits that are set."""
    one = np.uint64(1)
    two = np.uint64(2)
    four = np.uint64(4)
    word = word - ((word >> one) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> two) & np.uint64(0x3333333333333333))
    word = (word + (word >> four)) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@helper
def scan_hubs(i, description, hubs, options, seen, ranked, size):
    """Offers the members of the hubs of row `i` to its sorted list; returns the new size.

    Nodes `j` with `seen[j] == i` have been offered already.
    """
    own = hubs.mask[i]
    nodes = description.nodes
    earlier = np.uint64(0)
    for b in range(hubs.side.size):
        bit = np.uint64(1) << np.uint64(b)
        if own < bit:
            break
        if own & bit == 0:
            continue
        # Nodes with an earlier hub in common have been offered: no other shares more than these.
        most = popcount(own & ~earlier)
        col = description.lists.col if hubs.side[b] == 0 else description.back_lists.col
        for t in range(hubs.ptr[b, 0], hubs.ptr[b, 1]):
            j = col[t]
            id_j = np.int64(nodes[j, 0])
            if size == options.k:
                key = count_key(i, j, most, nodes, options.jaccard)
                if not is_worse(ranked.keys[size - 1], ranked.ids[size - 1], key, id_j):
                    break
            if j == i or seen[j] == i or hubs.mask[j] & earlier != 0:
                continue
            common = popcount(own & hubs.mask[j])
            key = count_key(i, j, common, nodes, options.jaccard)
            size = insert(ranked, size, options.k, key, id_j)
        earlier |= bit
    return size


@allocation_free
def hub_visits(mask, lengths, k, ids, visits, start, end):
    """Adds to `visits[t]` an upper bound of the members that :func:`scan_hubs` reads of `ids[t]`.

    The candidates of the longest list share one hub with row `i`: the first `k` of those that
    are not yet known end the scan.
    """
    for t in range(start, end):
        own = mask[ids[t]]
        last = np.int64(0)
        for b in range(lengths.size):
            if own & (np.uint64(1) << np.uint64(b)) != 0:
                visits[t] += last
                last = lengths[b]
        visits[t] += min(last, visits[t] + k)

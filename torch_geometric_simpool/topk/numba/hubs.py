"""Kernels: candidates that share the longest lists, of hub nodes, with a row.

A list of a hub is in order of norms. So it is not added up: it is read from its front, and only
until no later member can pass the bound. The hubs that two nodes share are counted by bit masks.
"""

from typing import NamedTuple

import numpy as np

from torch_geometric_simpool.topk.numba.best import offer
from torch_geometric_simpool.topk.numba.jit import allocation_free, helper
from torch_geometric_simpool.topk.numba.keys import order_key


class Hubs(NamedTuple):
    """At most 64 long lists, the shortest first. Hub `b` has bit `b` in the masks."""

    length: int  # all lists that are longer belong to hubs
    mask: np.ndarray  # the hubs of each node; empty if there are none
    ptr: np.ndarray  # the first and the last entry of each list, [num_hubs, 2]
    side: np.ndarray  # 0 for `lists`, 1 for `back_lists`


@helper
def common_hubs(mask, other):
    """Returns the number of bits that two masks share."""
    word = mask & other
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@helper
def offer_members_of_hubs(i, graph, hubs, options, scratch):
    """Offers nodes that share hubs alone with row `i`."""
    own, buffer = hubs.mask[i], scratch.buffer
    earlier = np.uint64(0)
    for b in range(hubs.side.size):
        bit = np.uint64(1) << np.uint64(b)
        if own & bit == 0:
            continue
        # Nodes with an earlier hub in common are done: no other shares more than these.
        most = np.float64(common_hubs(own, ~earlier))
        col = graph.lists.col if hubs.side[b] == 0 else graph.back_lists.col
        for f in range(hubs.ptr[b, 0], hubs.ptr[b, 1]):
            j = np.int64(col[f])
            key = order_key(most, graph.norm2[i], graph.norm2[j], options.measure, True)
            worst, j_id = buffer.worst_key[0], np.int64(graph.id[j])
            if key < worst or (key == worst and j_id > buffer.worst_id[0]):
                break
            is_done = scratch.dots[j] != 0 or hubs.mask[j] & earlier != 0
            if is_done or (j == i and not options.loop):
                continue
            if scratch.left_out.size > 0 and scratch.left_out[j] == i:
                continue
            dot = np.float64(common_hubs(own, hubs.mask[j]))
            offer(i, j, dot, 0.0, graph, options, buffer)
        earlier |= bit


@allocation_free
def count_visits(mask, lengths, k, numbers, visits, start, end):
    """Adds to `visits[t]` an upper bound of the members that are read for row `numbers[t]`.

    The candidates of the longest list share one hub with a row: the first `k` of those that have
    not been offered end it.
    """
    for t in range(start, end):
        own = mask[numbers[t]]
        last = np.int64(0)
        for b in range(lengths.size):
            if own & (np.uint64(1) << np.uint64(b)) != 0:
                visits[t] += last
                last = lengths[b]
        visits[t] += min(last, visits[t] + k)

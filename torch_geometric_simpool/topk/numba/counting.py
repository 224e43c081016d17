"""Kernels: how often each id occurs in a short list.

Most ids occur once. Those are split off first, without branches, and only the rest goes
through a hash table.
"""

from typing import NamedTuple

import numpy as np

from torch_geometric_simpool.topk.numba.jit import helper

#: Rows with up to this many products are collected in a buffer and counted there: its tables
#: fit into the second-level cache. Longer rows are counted in an array over all nodes.
BUFFER = 1 << 14


class Tables(NamedTuple):
    """Hash tables for the ids of one row. They are as clean after a call as before."""

    occurrences: np.ndarray  # by the low bits of an id, zero
    ids: np.ndarray  # -1 where a slot is empty
    counts: np.ndarray
    used: np.ndarray  # the slots in use


def new_tables(dtype: np.dtype) -> Tables:
    """Tables for `BUFFER` ids of a type."""
    return Tables(
        np.zeros(8 * BUFFER, np.uint16),
        np.full(2 * BUFFER, -1, dtype),
        np.empty(2 * BUFFER, np.int32),
        np.empty(BUFFER, np.int32),
    )


@helper
def bits_for(size):
    """The logarithm of the number of slots for `size` ids: at most half of them are in use."""
    bits = 4
    while (1 << bits) < 2 * size:
        bits += 1
    return bits


@helper
def find_slot(j, table, bits):
    """The slot of an id among the first `2^bits`, or the empty one where it belongs."""
    mask = (1 << bits) - 1
    slot = np.int64((np.uint64(j) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - bits))
    while table[slot] >= 0 and table[slot] != j:
        slot = (slot + 1) & mask
    return slot


@helper
def count_repeated(ids, size, tables, found, counts):
    """Counts ids: writes each once to `found`, with its count; returns how many differ."""
    bits = bits_for(size)
    distinct = 0
    for t in range(size):
        j = ids[t]
        slot = find_slot(j, tables.ids, bits)
        if tables.ids[slot] < 0:
            tables.ids[slot] = j
            tables.counts[slot] = 0
            tables.used[distinct] = slot
            distinct += 1
        tables.counts[slot] += 1
    for t in range(distinct):
        slot = tables.used[t]
        found[t] = tables.ids[slot]
        counts[t] = tables.counts[slot]
        tables.ids[slot] = -1
    return distinct


@helper
def split_repeated(ids, size, tables, single, others):
    """Splits ids into those that certainly occur once, and the others; returns the sizes."""
    occurrences = tables.occurrences
    bits = 10
    while (1 << bits) < 8 * size and (1 << bits) < occurrences.size:
        bits += 1
    mask = (1 << bits) - 1
    for t in range(size):
        occurrences[ids[t] & mask] += 1
    num_single = 0
    num_others = 0
    for t in range(size):
        j = ids[t]
        once = np.int64(occurrences[j & mask] == 1)
        single[num_single] = j
        others[num_others] = j
        num_single += once
        num_others += 1 - once
    for t in range(size):
        occurrences[ids[t] & mask] = 0
    return num_single, num_others

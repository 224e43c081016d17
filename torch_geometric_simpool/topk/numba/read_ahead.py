"""Kernels: reading from memory what the next rows need, many places at a time.

The lists that a row names lie anywhere in memory. Where they are read one by one, each read
waits for the one before. The loops here do nothing else, so that a processor has many reads
under way.
"""

import numpy as np

from torch_geometric_simpool.topk.numba.jit import helper, inlined

#: The number of rows that are read ahead together.
ROWS = 32

#: Lists with fewer entries than this, in all, fit into the cache anyway.
LARGE = 1 << 20

#: At most this many lists are read ahead together: they must fit into the cache.
LISTS = 1024


@inlined
def read_ahead(t, start, end, ids, description, sink):
    """Brings the ends of the lists of the next rows into the cache, once every `ROWS` rows.

    A sum of what is read is written to `sink`: otherwise a compiler drops the reads.
    """
    if (t - start) % ROWS != 0 or description.lists.col.size < LARGE:
        return
    last = min(t + ROWS, end)
    sink[0] = read_ends(ids, t, last, description.rows, description.lists)
    if description.two_sided:
        sink[0] += read_ends(ids, t, last, description.back_rows, description.back_lists)


@helper
def read_ends(ids, start, end, rows, lists):
    """Reads the first and the last entry of each list that the rows `ids[start:end]` name."""
    total = np.int64(0)
    values = 0.0
    left = LISTS
    for t in range(start, end):
        first = rows.ptr[ids[t]]
        last = min(rows.ptr[ids[t] + 1], first + left)
        left -= last - first
        for e in range(first, last):
            begin = lists.ptr[rows.col[e]]
            final = lists.ptr[rows.col[e] + 1] - 1
            if final < begin:  # a list without candidates
                continue
            total += lists.col[begin] + lists.col[final]
            if lists.value.size > 0:
                values += lists.value[begin] + lists.value[final]
    return values + total

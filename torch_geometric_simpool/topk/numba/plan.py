"""What a top k has to compute: the features to use, the hubs to skip, the work of each row."""

from typing import Any, Optional

import numpy as np

from torch_geometric_simpool.topk.numba import csr, hubs, matrices, threads
from torch_geometric_simpool.topk.numba.arrays import CSRArrays, Description, Hubs, Rows
from torch_geometric_simpool.topk.numba.matrices import NO_LIMIT

#: Shorter lists are never those of a hub: reading them is cheaper than skipping them.
SHORTEST_HUB = 128

#: There is one bit in a mask for each hub.
MOST_HUBS = 64

_ALL = np.empty(0, np.bool_)


def drop_long_lists(description: Description, max_degree: int) -> Description:
    """Leaves out features that more than `max_degree` nodes share; norms stay as they are."""
    sides = []
    for rows, lists in description.sides:
        short = lists.lengths <= max_degree
        if not short.all():
            rows = matrices.select_entries(rows, _ALL, short)
            lists = matrices.select_entries(lists, short, _ALL)
        sides.append((rows, lists))
    return _with_sides(description, sides)


def drop_others(description: Description, candidates: np.ndarray) -> Description:
    """Leaves only `candidates`, a boolean for each of the caller's nodes, in the lists."""
    if description.rank.size > 0:
        candidates = candidates[description.nodes[:, 0]]
    sides = [
        (rows, matrices.select_entries(lists, _ALL, candidates))
        for rows, lists in description.sides
    ]
    return _with_sides(description, sides)._replace(is_candidate=candidates)


def _with_sides(description: Description, sides: list[tuple[CSRArrays, CSRArrays]]) -> Description:
    (rows, lists), (back_rows, back_lists) = sides[0], sides[-1]
    return description._replace(rows=rows, lists=lists, back_rows=back_rows, back_lists=back_lists)


def find_hubs(description: Description, members: list[CSRArrays]) -> Hubs:
    """At most 64 lists that are longer than all others, and the nodes that have these features.

    `members` are the lists of all nodes, candidates or not.
    """
    if not description.unweighted:
        return NO_HUBS
    lists = [candidates for _, candidates in description.sides]
    lengths = np.concatenate([matrix.lengths for matrix in lists])
    length = SHORTEST_HUB
    if lengths.size > MOST_HUBS:
        length = max(length, int(np.partition(lengths, -MOST_HUBS - 1)[-MOST_HUBS - 1]))
    found = np.flatnonzero(lengths > length)
    if found.size == 0:
        return NO_HUBS
    found = found[np.argsort(lengths[found], kind="stable")]
    side, feature = np.divmod(found, lists[0].num_rows)
    ptr = np.array([lists[s].ptr[m : m + 2] for s, m in zip(side, feature)])
    mask = np.zeros(description.rows.num_rows, np.uint64)
    for bit, (m, s) in enumerate(zip(feature, side)):
        first, last = members[s].ptr[m : m + 2]
        mask[members[s].col[first:last]] |= np.uint64(1 << bit)
    return Hubs(length, mask, ptr, side)


#: No list is skipped.
NO_HUBS = Hubs(NO_LIMIT, np.empty(0, np.uint64), np.empty((0, 2), np.int64), np.empty(0, np.int64))


def rows_of(description: Description, nodes: Optional[np.ndarray]) -> tuple[Rows, np.ndarray]:
    """The rows of these nodes, or of all, in the order in which they are best computed.

    Each is computed once. What is written to the place `inverse[t]` is the row of `nodes[t]`;
    where `inverse` is empty, places are those of the nodes.
    """
    none = np.empty(0, np.int64)
    dtype = description.rows.col.dtype
    if nodes is None:
        ids = np.arange(description.rows.num_rows, dtype=dtype)
        places = (
            ids if description.rank.size == 0 else np.ascontiguousarray(description.nodes[:, 0])
        )
        return Rows(ids, places), none
    wanted = nodes.astype(dtype) if description.rank.size == 0 else description.rank[nodes]
    ids, inverse = np.unique(wanted, return_inverse=True)
    places = np.arange(ids.size, dtype=dtype)
    if ids.size < nodes.size:
        return Rows(ids, places), inverse
    places[inverse] = np.arange(ids.size, dtype=dtype)
    return Rows(ids, places), none


def work_of(
    description: Description, found: Hubs, rows: Rows, k: int, num_threads: int
) -> np.ndarray:
    """An upper bound of the products that are visited for each row."""
    work = np.zeros(rows.ids.size, np.int64)

    def count(start: int, end: int, _: Any) -> None:
        for names, lists in description.sides:
            csr.products_of_rows(names, lists, found.length, rows.ids, work, start, end)
        if found.side.size > 0:
            lengths = np.diff(found.ptr)[:, 0]
            hubs.hub_visits(found.mask, lengths, k, rows.ids, work, start, end)

    threads.run(count, threads.equal_ranges(rows.ids.size, num_threads), num_threads)
    return work

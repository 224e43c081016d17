"""What a top k has to compute: the work of each row, the hubs to skip, the memory it takes."""

from typing import Any, Optional

import numpy as np

from torch_geometric_simpool.engine.compile import call
from torch_geometric_simpool.engine.topk import csr, hubs, threads
from torch_geometric_simpool.engine.topk.arrays import CSRArrays, Description, Hubs, Plan
from torch_geometric_simpool.engine.topk.matrices import NO_LIMIT
from torch_geometric_simpool.utils.budget import Budget

#: Shorter lists are never those of a hub: reading them is cheaper than skipping them.
SHORTEST_HUB = 128

#: There is one bit in a mask for each hub.
MOST_HUBS = 64


def make_plan(
    description: Description, k: int, max_degree: Optional[int], budget: Budget, num_threads: int
) -> Plan:
    """Counts the products of every row, and finds the hubs whose lists need not be read."""
    num_nodes = description.by_row.num_rows
    max_length = NO_LIMIT if max_degree is None else max_degree
    # `rows` name lists in `lists`: those of the nodes that share a feature.
    sides = 2 if description.two_sided else 1
    rows = [description.by_row, description.by_col][:sides]
    lists = [description.by_col, description.by_row][:sides]
    lengths = [matrix.lengths for matrix in lists]
    products = sum(int(np.dot(length * (length <= max_length), length)) for length in lengths)
    found = _no_hubs(max_length)
    if description.unweighted:
        found = find_hubs(lists, max_length)
    work = np.zeros(num_nodes, np.int64)

    def count(start: int, end: int, _: Any) -> None:
        for row, matrix in zip(rows, lists):
            call(csr.products_of_rows, row, matrix, found.length, work, start, end)
        if found.side.size > 0:
            hub_lengths = np.diff(found.ptr)[:, 0]
            call(hubs.hub_visits, found.mask, hub_lengths, k, work, start, end)

    threads.run(count, threads.equal_ranges(num_nodes, num_threads), num_threads)
    # In float64, because a sum of integers would overflow silently.
    budget.check_products(int(work.sum(dtype=np.float64)))
    return Plan(max_length, found, work, products)


def _no_hubs(max_length: int) -> Hubs:
    return Hubs(
        max_length, np.empty(0, np.uint64), np.empty((0, 2), np.int64), np.empty(0, np.int64)
    )


def find_hubs(lists: list[CSRArrays], max_length: int) -> Hubs:
    """At most 64 lists that are longer than all others, and who is in them."""
    num_nodes = lists[0].num_rows
    lengths = np.concatenate([matrix.lengths for matrix in lists])
    used = np.where(lengths <= max_length, lengths, 0)
    length = SHORTEST_HUB
    if used.size > MOST_HUBS:
        length = max(length, int(np.partition(used, -MOST_HUBS - 1)[-MOST_HUBS - 1]))
    hubs = np.flatnonzero(used > length)
    if hubs.size == 0:
        return _no_hubs(max_length)
    hubs = hubs[np.argsort(used[hubs], kind="stable")]
    side, node = np.divmod(hubs, num_nodes)
    ptr = np.array([lists[s].ptr[i : i + 2] for s, i in zip(side, node)])
    mask = np.zeros(num_nodes, np.uint64)
    for bit, ((first, last), s) in enumerate(zip(ptr, side)):
        mask[lists[s].col[first:last]] |= np.uint64(1 << bit)
    return Hubs(min(max_length, length), mask, ptr, side)

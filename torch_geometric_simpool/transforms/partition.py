"""Color refinement as a kernel, near-linear on every graph.

In a round, nodes of one color are split by the sums of the hashes of their neighbors' colors.
Three facts keep the rounds cheap, as in partition refinement by Hopcroft:

- The largest part of a split color counts as unchanged: the other parts are enough to split what
  depends on the color. So a node changes its color `O(log n)` times.
- Nodes without a changed neighbor stay together, and are not visited.
- All nodes of a part have equal sums, which decide the order of the parts. So the sum is computed
  for one node of each part, and a color that is split has as many nodes as parts.

A color is the rank of a cell among the cells, which a Fenwick tree counts. Cells have lasting
numbers besides: when a cell is split, the largest part keeps the number.
"""

import numpy as np

from torch_geometric_simpool.topk.numba.jit import helper, kernel

#: Up to this many nodes of a shared color, the one with the lowest number is chosen.
_SEARCHED = 256


@helper
def _hash(number):
    """The finalizer of splitmix64, as in `refinement.hash_of`."""
    x = (np.uint64(number) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@helper
def _add_start(tree, place):
    """Counts a cell that starts at a place."""
    place += 1
    while place < len(tree):
        tree[place] += 1
        place += place & -place


@helper
def _rank(tree, place):
    """The number of cells that start before the one that starts at a place."""
    place += 1
    count = -1
    while place > 0:
        count += tree[place]
        place -= place & -place
    return count


@helper
def _sum_of_neighbors(indptr, indices, codes, cell, first, tree, v):
    """The sum that splits colors, of one node."""
    total = np.uint64(0)
    for e in range(indptr[v], indptr[v + 1]):
        total += codes[e] * _hash(_rank(tree, first[cell[indices[e]]]))
    return total


@kernel
def refined(indptr, indices, codes, color, node, individualize):
    """Returns the coarsest stable refinement of a coloring, or of one with distinct colors.

    Args:
        indptr, indices, codes: The graph, a sparse matrix with sorted indices.
        color: The colors, ranks without gaps.
        node: The nodes, sorted by color, int32; the kernel overwrites it.
        individualize: Whether to give a node that shares its color a color of its own, and refine
            again, until no color is shared. The lowest shared color comes first.
    """
    n = len(color)
    place = np.empty(n, np.int32)  # of a node in `node`
    cell = np.empty(n, np.int32)  # of a node
    first = np.empty(n, np.int32)  # place of a cell
    size = np.zeros(n, np.int32)  # of a cell
    touched = np.zeros(n, np.int32)  # nodes at the end of a cell that have a changed neighbor
    tree = np.zeros(n + 1, np.int32)
    key = np.empty(n, np.uint64)  # sum over the changed neighbors of a node
    changed = np.empty(n, np.int32)  # nodes
    queue = np.empty(n, np.int32)  # cells with touched nodes
    begin = np.empty(n + 1, np.int32)  # place of a part
    part_sum = np.empty(n, np.uint64)
    num_cells, num_changed, lowest = 0, n, 0
    for i in range(n):
        v = node[i]
        if i == 0 or color[v] != color[node[i - 1]]:
            first[num_cells] = i
            _add_start(tree, i)
            num_cells += 1
        place[v], cell[v], changed[i] = i, num_cells - 1, v
        size[num_cells - 1] += 1
    while True:
        if num_changed == 0:
            while lowest < n and size[cell[node[lowest]]] == 1:
                lowest += 1
            if lowest == n or not individualize:
                break
            c = cell[node[lowest]]
            chosen = node[lowest]
            if size[c] <= _SEARCHED:
                for i in range(lowest, lowest + size[c]):
                    chosen = min(chosen, node[i])
            other, i = node[lowest], place[chosen]
            node[lowest], node[i], place[chosen], place[other] = chosen, other, lowest, i
            first[c] += 1
            size[c] -= 1
            _add_start(tree, first[c])
            cell[chosen], first[num_cells], size[num_cells] = num_cells, lowest, 1
            num_cells += 1
            changed[0], num_changed = chosen, 1

        # Nodes with a changed neighbor move to the end of their cells.
        num_queued = 0
        for t in range(num_changed):
            u = changed[t]
            hash_of_cell = _hash(cell[u])
            for e in range(indptr[u], indptr[u + 1]):
                v = indices[e]
                c = cell[v]
                if size[c] == 1:
                    continue
                border = first[c] + size[c] - touched[c]
                if place[v] < border:
                    other, i = node[border - 1], place[v]
                    node[border - 1], node[i], place[v], place[other] = v, other, border - 1, i
                    key[v] = 0
                    if touched[c] == 0:
                        queue[num_queued] = c
                        num_queued += 1
                    touched[c] += 1
                key[v] += codes[e] * hash_of_cell

        # Parts have equal keys; untouched nodes are a part. Sums use the colors before the round.
        num_parts = 0
        num_split = 0
        for q in range(num_queued):
            c = queue[q]
            end = first[c] + size[c]
            border = end - touched[c]
            members = node[border:end].copy()
            members = members[np.argsort(key[members])]
            first_part = num_parts
            if border > first[c]:
                begin[num_parts] = first[c]
                num_parts += 1
            for t in range(len(members)):
                node[border + t] = members[t]
                place[members[t]] = border + t
                if t == 0 or key[members[t]] != key[members[t - 1]]:
                    begin[num_parts] = border + t
                    num_parts += 1
            if num_parts == first_part + 1:
                touched[c] = 0
                num_parts = first_part
                continue
            for part in range(first_part, num_parts):
                v = node[begin[part]]
                part_sum[part] = _sum_of_neighbors(indptr, indices, codes, cell, first, tree, v)
            queue[num_split] = c
            num_split += 1

        # Parts move to their places, sorted by sums, and get cells.
        num_changed = 0
        last_part = 0
        for q in range(num_split):
            c = queue[q]
            start, end = first[c], first[c] + size[c]
            border = end - touched[c]
            touched[c] = 0
            first_part = last_part
            while last_part < num_parts and start <= begin[last_part] < end:
                last_part += 1
            sizes = np.empty(last_part - first_part, np.int32)
            for part in range(first_part, last_part):
                stop = begin[part + 1] if part + 1 < last_part else end
                sizes[part - first_part] = stop - begin[part]
            by_sum = np.argsort(part_sum[first_part:last_part])
            largest = 0
            for t in range(len(by_sum)):
                if sizes[by_sum[t]] >= sizes[by_sum[largest]]:
                    largest = t
            # Untouched nodes are part 0; those that stand where lower parts come move behind.
            moved = node[border:end].copy()
            untouched = border - start
            lower = 0
            for t in range(len(by_sum)):
                if untouched > 0 and by_sum[t] == 0:
                    break
                lower += sizes[by_sum[t]]
            count = min(lower, untouched)
            for i in range(count):
                v = node[start + i]
                j = start + lower + untouched - count + i
                node[j], place[v] = v, j
            at = start
            for t in range(len(by_sum)):
                part, count = by_sum[t], sizes[by_sum[t]]
                if begin[first_part + part] >= border:
                    for i in range(count):
                        v = moved[begin[first_part + part] - border + i]
                        node[at + i], place[v] = v, at + i
                number = c
                if t != largest:
                    number = num_cells
                    num_cells += 1
                    for i in range(at, at + count):
                        cell[node[i]] = number
                        changed[num_changed] = node[i]
                        num_changed += 1
                first[number], size[number] = at, count
                if at > start:
                    _add_start(tree, at)
                at += count
    out = np.empty(n, np.int64)
    for i in range(n):
        out[node[i]] = _rank(tree, first[cell[node[i]]])
    return out

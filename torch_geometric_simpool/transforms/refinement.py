"""Canonical labels by color refinement, which depend only on structure.

Refinement splits a color if its nodes have different neighbors, as the one-dimensional
Weisfeiler-Leman test does. Neighbors are compared by sums of hashes modulo `2^64`.
"""

import numpy as np
from scipy.sparse import csr_matrix

from torch_geometric_simpool.topk.numba.csr import hash64
from torch_geometric_simpool.topk.numba.jit import helper, kernel

#: An odd factor that tells the two directions of an edge apart.
_DIRECTION = np.uint64(0xD6E8FEB86659FD93)


def hash_of(number: np.ndarray) -> np.ndarray:
    """Computes SplitMix64, a bijection of the 64-bit integers."""
    return hash64.py_func(number.astype(np.uint64))


def encode(
    source: np.ndarray, target: np.ndarray, weight: np.ndarray, n: int
) -> tuple[csr_matrix, np.ndarray]:
    """Encodes a weighted, directed graph. Parallel edges add up, and a weight of 0 is no edge.

    Returns a matrix `[n, n]` and the codes of the self-loops, `[n]`. The entry `(i, j)` of the
    matrix encodes the weights of `i -> j` and of `j -> i`, in this order.
    """
    # Weights are summed in ascending order, so that sums do not depend on the order of the edges.
    key = source * n + target
    by_key = np.lexsort((weight, key))
    key, inverse = np.unique(key[by_key], return_inverse=True)
    weight = np.bincount(inverse, weight[by_key], minlength=len(key))
    row, column = np.divmod(key[weight != 0], max(n, 1))
    weight = weight[weight != 0]
    code = hash_of(weight.view(np.uint64))  # a sum that starts at 0 is never -0
    loop = np.zeros(n, dtype=np.uint64)
    loop[row[row == column]] = code[row == column]
    code = np.where(row == column, np.uint64(0), code)
    forward = csr_matrix((code * _DIRECTION, (row, column)), shape=(n, n))
    adj = forward + csr_matrix((code, (column, row)), shape=(n, n))
    adj.eliminate_zeros()
    adj.sort_indices()
    return adj, loop


def inverse_of(permutation: np.ndarray) -> np.ndarray:
    """Returns the place of each number in a permutation."""
    place = np.empty_like(permutation)
    place[permutation] = np.arange(len(place))
    return place


def canonical_labels(
    adj: csr_matrix, graph: np.ndarray, color: np.ndarray, nearby: np.ndarray
) -> np.ndarray:
    """Returns labels that are distinct in each graph and depend only on structure and colors.

    Colors are refined. While nodes of a graph share a color, one of them gets a new color, and
    colors are refined again. The result is canonical up to automorphism if nodes that share a color
    after refinement are automorphic. It does not depend on other graphs.

    Args:
        adj: The graphs as one matrix of codes; see :func:`encode`.
        graph: The graph of each node.
        color: The initial colors.
        nearby: The nodes in an order that places neighbors close to each other in memory. It
            changes the time alone, for a shuffled tree of 10^6 nodes by half.
    """
    n = len(color)
    # Numbers of four bytes are enough for most graphs.
    place = inverse_of(nearby).astype(np.int32 if n < 2**30 else np.int64)
    # The cells are numbered by graph, then by color.
    color = np.unique(color, return_inverse=True)[1]
    cell = np.unique(graph * n + color, return_inverse=True)[1][nearby].astype(place.dtype)
    adj, hashes = adj[nearby], hash_of(np.arange(n))
    indices = place[adj.indices]
    return _refine(adj.indptr, indices, adj.data, graph[nearby], cell, place, hashes)[place]


@helper
def _move(following, preceding, node, target):
    """Moves a node of a ring to the place behind another node."""
    following[preceding[node]] = following[node]
    preceding[following[node]] = preceding[node]
    following[node], preceding[node] = following[target], target
    preceding[following[node]] = following[target] = node


@kernel
def _refine(indptr, indices, codes, graph, color, sequence, hashes):
    """Returns the labels of the nodes; see :func:`canonical_labels`.

    Nodes of one color are a cell. As in partition refinement by Hopcroft, the largest part of a
    split cell keeps its number, so a node moves to another cell `O(log n)` times. Only nodes with
    a neighbor that has moved are visited.

    Args:
        indptr, indices, codes: The graphs, a sparse matrix.
        graph: The graph of each node.
        color: The initial cell of each node, ranks without gaps that ascend with the graphs.
        sequence: The nodes in the order in which equal ones are chosen.
        hashes: A hash of each number below `n`.
    """
    n, dtype = len(color), color.dtype
    cell = color.copy()
    num_cells = 0 if n == 0 else cell.max() + 1
    size = np.zeros(n, dtype)  # of a cell
    number = np.empty(n, dtype)  # of a cell in its graph
    num_cells_of = np.zeros(n, dtype)  # of a graph
    # The nodes of cell `c` form a ring that starts behind the entry `n + c`.
    following = np.arange(2 * n).astype(dtype)
    preceding = following.copy()
    for v in sequence[::-1]:
        _move(following, preceding, v, n + cell[v])
        size[cell[v]] += 1
    for c in range(num_cells):
        g = graph[following[n + c]]
        number[c] = num_cells_of[g]
        num_cells_of[g] += 1
    moved, num_moved = sequence.copy(), n  # nodes whose cell has changed
    opens = np.zeros(n, np.bool_)  # whether a moved node is the first of its cell
    visited, round_of = np.empty(n, dtype), np.full(n, -1, dtype)
    num_visited = np.zeros(n, dtype)  # of a cell
    key = np.zeros(n, np.uint64)  # sum over the neighbors of a node that have moved
    current, lowest = 0, 0
    while num_moved > 0:
        count = 0
        for t in range(num_moved):
            u = moved[t]
            for e in range(indptr[u], indptr[u + 1]):
                v = indices[e]
                if size[cell[v]] == 1:
                    continue
                if round_of[v] != current:
                    round_of[v], key[v], visited[count] = current, 0, v
                    num_visited[cell[v]] += 1
                    count += 1
                key[v] += codes[e] * hashes[number[cell[u]]]
        # The sort is stable, so that the choice among equal nodes does not depend on other graphs.
        nodes = visited[:count]
        nodes = nodes[np.argsort(key[nodes], kind="mergesort")]
        nodes = nodes[np.argsort(cell[nodes], kind="mergesort")]

        # The parts of a cell are runs of equal keys, and the nodes that were not visited.
        num_moved, start = 0, 0
        while start < count:
            c = cell[nodes[start]]
            end = start + num_visited[c]
            num_visited[c] = 0
            largest, length, begin = -1, size[c] - (end - start), start
            for t in range(start + 1, end + 1):
                if t == end or key[nodes[t]] != key[nodes[begin]]:
                    if t - begin > length:
                        largest, length = begin, t - begin
                    begin = t
            for t in range(start, end):
                if t == start or key[nodes[t]] != key[nodes[begin]]:
                    begin = t
                if begin != largest:
                    moved[num_moved], opens[num_moved] = nodes[t], t == begin
                    num_moved += 1
            if largest >= 0:
                first, v = num_moved, following[n + c]
                while v < n:
                    if round_of[v] != current:
                        moved[num_moved], opens[num_moved] = v, num_moved == first
                        num_moved += 1
                    v = following[v]
            start = end
        current += 1

        if num_moved == 0:  # a node of the first cell of several nodes gets a new cell
            while lowest < num_cells and size[lowest] == 1:
                lowest += 1
            if lowest < num_cells:
                moved[0], opens[0], num_moved = following[n + lowest], True, 1
        for t in range(num_moved):
            v = moved[t]
            if opens[t]:
                number[num_cells] = num_cells_of[graph[v]]
                num_cells_of[graph[v]] += 1
                num_cells += 1
            size[cell[v]] -= 1
            cell[v] = num_cells - 1
            size[cell[v]] += 1
            _move(following, preceding, v, n + cell[v])
    return number[cell]

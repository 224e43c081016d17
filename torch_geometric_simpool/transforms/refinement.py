"""Canonical labeling by color refinement: a number for every node that depends on structure only.

A graph is given as a sparse matrix of 64-bit codes, made by :func:`encode`. Colors are
integers `0, 1, ...`; refinement splits a color where its nodes have different neighbors, as
the one-dimensional Weisfeiler-Leman test does. Multisets of neighbors are compared by sums of
hashes modulo `2^64`.
"""

import numpy as np
from scipy.sparse import csr_matrix

from torch_geometric_simpool.transforms.partition import refined

#: The code of a missing edge. Hashes of weights differ from it.
_NO_EDGE = np.uint64(0)


def encode(
    source: np.ndarray, target: np.ndarray, weight: np.ndarray, n: int
) -> tuple[csr_matrix, np.ndarray]:
    """Encodes a weighted, directed graph; parallel edges add up.

    Returns a matrix `[n, n]` with an entry wherever there is an edge in either direction, and
    the codes of the self-loops, `[n]`. Entry `(i, j)` encodes the weights of `i -> j` and of
    `j -> i`, in this order. It is 1 where both weights are 1: an unweighted, undirected graph
    is encoded by its adjacency matrix.
    """
    # Weights are summed in ascending order: then the order of the edges makes no difference.
    key = source * n + target
    by_key = np.lexsort((weight, key))
    key, inverse = np.unique(key[by_key], return_inverse=True)
    weight = np.bincount(inverse, weight[by_key], minlength=len(key))
    row, column = key // max(n, 1), key % max(n, 1)
    code = hash_of(weight.view(np.uint64))  # a sum that starts at 0 is never -0
    loop = np.full(n, _NO_EDGE)
    loop[row[row == column]] = code[row == column]

    off_diagonal = row != column
    row, column, key, code = (a[off_diagonal] for a in (row, column, key, code))
    opposite = column * n + row
    at = np.searchsorted(key, opposite)
    at[at == len(key)] = 0
    mutual = key[at] == opposite
    back = np.where(mutual, code[at], _NO_EDGE)
    one_way = ~mutual
    rows = np.concatenate([row, column[one_way]])
    columns = np.concatenate([column, row[one_way]])
    forth = np.concatenate([code, np.full(one_way.sum(), _NO_EDGE)])
    back = np.concatenate([back, code[one_way]])
    one = hash_of(np.ones(1).view(np.uint64))
    # Odd numbers have an inverse modulo 2^64: multiplying a hash by one loses nothing.
    both = hash_of(hash_of(forth) + back) | np.uint64(1)
    both[(forth == one) & (back == one)] = 1
    adj = csr_matrix((both, (rows, columns)), shape=(n, n))
    adj.sort_indices()
    return adj, loop


def canonical_labels(adj: csr_matrix, color: np.ndarray) -> np.ndarray:
    """Returns a permutation of `0, ..., n - 1` that depends on structure and colors only.

    Refines the colors; then, while several nodes share a color, gives one of them a color of
    its own and refines again. The result is canonical up to automorphism if nodes that
    refinement leaves with one color are automorphic.
    """
    color = _refine(adj, color, False)
    if color.max() + 1 == len(color):
        return color
    return _refine(adj, rank_pairs(color, _number_twins(adj, color)), True)


def _refine(adj: csr_matrix, color: np.ndarray, individualize: bool) -> np.ndarray:
    node = np.argsort(color, kind="stable").astype(np.int32)
    return refined(adj.indptr, adj.indices, adj.data, color, node, individualize)


def rank_pairs(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The rank of each pair among the distinct pairs, by `first`, then by `second`."""
    by_both = np.lexsort((second, first))
    change = (np.diff(first[by_both]) != 0) | (np.diff(second[by_both]) != 0)
    out = np.empty(len(first), dtype=np.int64)
    out[by_both] = np.r_[0, np.cumsum(change)]
    return out


def _number_twins(adj: csr_matrix, color: np.ndarray) -> np.ndarray:
    """Numbers twins `0, 1, ...`: nodes of one color that have the same neighbors.

    Swapping two twins is an automorphism, so any order of them will do.
    """
    own = hash_of(np.arange(adj.shape[0]))
    others = adj @ own
    # Adjacent twins have the same neighbors but for each other: the code of the edge between
    # them, which is the same in both directions, is added to the sums of both.
    row, column = np.repeat(np.arange(adj.shape[0]), np.diff(adj.indptr)), adj.indices
    twins = others[row] + adj.data * own[row] == others[column] + adj.data * own[column]
    between = np.ones(len(own), dtype=np.uint64)
    between[row[twins]] = adj.data[twins]
    separate = _number_equal(rank_pairs(color, others))
    return separate + _number_equal(rank_pairs(color, others + between * own))


def _number_equal(values: np.ndarray) -> np.ndarray:
    """Numbers equal values `0, 1, ...` in the order in which they stand."""
    by_value = np.argsort(values, kind="stable")
    place = np.arange(len(values))
    first = np.r_[True, np.diff(values[by_value]) != 0]
    out = np.empty_like(place)
    out[by_value] = place - np.maximum.accumulate(np.where(first, place, 0))
    return out


def hash_of(number: np.ndarray) -> np.ndarray:
    """The finalizer of splitmix64: a bijection of the 64-bit integers that scatters them."""
    x = (number.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))

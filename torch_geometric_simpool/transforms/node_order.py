"""Node orders: ways to number the nodes of a graph by its structure.

Mapped features encode node indices, so they change with the numbering of a graph. If nodes are
first numbered by structure, all numberings of a graph give equal features, up to the symmetries of
the graph.

Ties are broken by canonical labels, which color refinement computes. It splits a color if its nodes
have different neighbors, as the one-dimensional Weisfeiler-Leman test does. Neighbors are compared
by sums of hashes modulo `2^64`.
"""

from dataclasses import replace
from typing import Optional

import numpy as np
import torch
from scipy.sparse import csgraph, csr_matrix
from torch import Tensor

from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.numba.csr import hash64
from torch_geometric_simpool.topk.numba.jit import helper, kernel
from torch_geometric_simpool.topk.parse import check_edges
from torch_geometric_simpool.topk.spec import EdgeList
from torch_geometric_simpool.utils.checks import check_batch, check_choice, check_int

#: The values of `order` in :func:`node_order`.
ORDERS = ("bfs", "fiedler", "rcm")

#: The default order, which takes near-linear time on every graph.
DEFAULT_ORDER = "bfs"

#: The most searches for a pseudo-peripheral node. Most graphs take two to six.
_SEARCHES = 50

#: The largest number of nodes of a component for which a Fiedler vector is computed.
_MAX_FIEDLER = 1000

#: The number of nodes whose arrays fit into the cache of a core.
_CACHED_NODES = 2**17

#: The number of digits of a Fiedler vector. Entries with equal digits tie.
_DIGITS = 9

#: An odd factor that tells the two directions of an edge apart.
_DIRECTION = np.uint64(0xD6E8FEB86659FD93)


def node_order(
    edge_index: Tensor,
    order: str,
    num_nodes: Optional[int] = None,
    batch: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
    edge_weight: Optional[Tensor] = None,
) -> Tensor:
    r"""Returns the position of every node in an order of its graph, counted from 0.

    ===========  ==================================================================
    `order`      the nodes of a graph are sorted
    ===========  ==================================================================
    `'bfs'`      by a breadth-first search from a pseudo-peripheral node
    `'fiedler'`  by the eigenvector of the second smallest eigenvalue of the Laplacian
    `'rcm'`      by the reverse Cuthill-McKee algorithm, which keeps neighbors close
    ===========  ==================================================================

    Orders ignore directions, weights and self-loops. Connected components follow each other, the
    largest first. Ties are broken by color refinement, which reads directions, weights (parallel
    edges add up) and self-loops. If nodes share a color, an arbitrary one of them comes first, and
    colors are refined again.

    Args:
        edge_index (torch.Tensor): Edges `[2, E]`, integers. No edge may join two graphs.
        order (str): :obj:`"bfs"`, :obj:`"fiedler"` or :obj:`"rcm"`.
        num_nodes (int, optional): Number of nodes.
            (default: :obj:`None`, the size of `batch`, else the largest id plus one)
        batch (torch.Tensor, optional): Graph of each node, `[N]`, in any order.
            (default: :obj:`None`, one graph)
        batch_size (int, optional): Number of graphs. (default: :obj:`None`, taken from `batch`)
        edge_weight (torch.Tensor, optional): Edge weights `[E]` or `[E, 1]`, finite. An edge of
            weight 0 is no edge. (default: :obj:`None`, ones)

    Returns:
        torch.Tensor: Positions `[N]`, int64. In a graph of `n` nodes, they are a permutation of
        `0, ..., n - 1`.

    Raises:
        TypeError: If an argument has a wrong type.
        ValueError: If `order` is unknown, an edge joins two graphs, or an argument has a wrong
            shape or range.
        TooExpensiveError: If the order needs more than half of the free memory. It is a
            `ValueError`.

    Computed on the CPU. `'bfs'` and `'rcm'` take `O((n + E) log n)` time and `O(n + E)` memory on
    any graph. `'fiedler'` adds a dense eigenvector for each distinct component of up to 1,000
    nodes, and sorts larger components by `'bfs'`.

    .. note::
        The order does not depend on the numbering, up to automorphism, if color refinement
        distinguishes all nodes that are not automorphic. It does so in trees and in almost all
        graphs, but not in all regular graphs, such as the Frucht graph. `'fiedler'` also depends on
        LAPACK where the second smallest eigenvalue is not simple, as in a ring.

    Source: beyond Shulman (2020), whose mapped features depend on the numbering (section
    'Assignment matrix').

    Example:
        >>> path = torch.tensor([[2, 0, 0, 1], [0, 2, 1, 0]])  # 2 - 0 - 1
        >>> node_order(path, "bfs")
        tensor([1, 0, 2])
    """
    check_choice("order", order, ORDERS)
    if num_nodes is not None:
        num_nodes = check_int("num_nodes", num_nodes, 0)  # refuses bipartite graphs
    elif isinstance(batch, Tensor):
        num_nodes = batch.numel()
    edges = check_edges(edge_index, edge_weight, num_nodes)
    batch, batch_size = check_batch(
        batch, edges.num_nodes, batch_size, edges.device, edge_index=edges.edge_index
    )
    check_order(edges, order, Budget(None, False))
    size = torch.bincount(batch, minlength=batch_size)
    return order_nodes(edges, batch, order) - (size.cumsum(0) - size)[batch]


def check_order(edges: EdgeList, order: str, budget: Budget, other_memory: int = 0) -> None:
    """Raises if an order exceeds the budget, and `other_memory` bytes that are needed anyway."""
    n, num_edges = edges.num_nodes, edges.edge_index.size(1)
    # The numbers are measured. Edges are encoded first, and colors are refined afterwards.
    needed = max(130 * num_edges, 190 * n + (65 if order == "fiedler" else 30) * num_edges)
    if needed > other_memory:
        replace(
            budget,
            output=0,
            device="cpu",
            task=f"the node order {order!r}",
            advice="pass fewer graphs at a time, or keep the given numbering (`order=None` of "
            "StructuralSimilarity)",
        ).check_memory(needed)


def order_nodes(edges: EdgeList, batch: Tensor, order: str) -> Tensor:
    """Returns the position of every node, graph after graph; see :func:`node_order`.

    Args:
        edges (EdgeList): The graphs as one block-diagonal graph.
        batch (torch.Tensor): The graph of each node, `[N]`.
        order (str): One of the orders.
    """
    n, graph = edges.num_nodes, batch.cpu().numpy()
    source, target = edges.edge_index.cpu().numpy()
    weight = np.ones(len(source))
    if edges.edge_weight is not None:  # in double precision, as in the similarity
        weight = edges.edge_weight.detach().double().cpu().numpy()
    adj, color = encode(source, target, weight, n)
    component = csgraph.connected_components(adj, directed=False)[1]
    first = np.unique(component, return_index=True)[1]
    bfs_order = _search(adj, first)[0] if n > _CACHED_NODES else np.arange(n)
    label = canonical_labels(adj, graph, color, bfs_order)
    # Components are sorted by size and label. Nodes are relabeled, so that a search breaks ties by
    # structure.
    lowest = np.full(len(first), n)
    np.minimum.at(lowest, component, label)
    in_order = np.lexsort((lowest, -np.bincount(component), graph[first]))
    component = inverse_of(in_order)[component]
    degree = np.diff(adj.indptr)
    nodes = np.lexsort((label, degree, component) if order == "rcm" else (label, component))
    adj = csr_matrix((np.ones(adj.nnz), adj.indices, adj.indptr), shape=(n, n))[nodes][:, nodes]
    adj.sort_indices()
    first = np.flatnonzero(np.diff(component[nodes], prepend=-1))
    if order == "fiedler":
        nodes = nodes[_by_fiedler_vectors(adj, first)]
    else:
        nodes = nodes[_bfs(adj, first, reverse=order == "rcm")]
    return torch.from_numpy(inverse_of(nodes)).to(edges.device)


def _bfs(adj: csr_matrix, first: np.ndarray, reverse: bool = False) -> np.ndarray:
    """Sorts every component by a breadth-first search.

    The search starts at a pseudo-peripheral node (George and Liu, 1979): no node of its last level
    has a larger eccentricity.

    Args:
        adj: The graphs, one component after the other.
        first: The first node of each component.
        reverse: Whether to reverse the nodes of each component.
    """
    n, degree = adj.shape[0], np.diff(adj.indptr)
    component = np.repeat(np.arange(len(first)), np.diff(np.r_[first, n]))

    def lowest_of_degree(candidates: np.ndarray) -> np.ndarray:
        """Returns the first candidate of the lowest degree in each component."""
        degrees = np.where(candidates, degree, n)
        nodes = np.flatnonzero(degrees == np.minimum.reduceat(degrees, first)[component])
        return nodes[np.diff(component[nodes], prepend=-1) != 0]

    start, eccentricity = lowest_of_degree(np.ones(n, dtype=bool)), np.full(len(first), -1)
    for _ in range(_SEARCHES):
        visited, distance = _search(adj, start)
        farthest = np.maximum.reduceat(distance, first)
        further = farthest > eccentricity
        if not further.any():
            break
        eccentricity = np.maximum(farthest, eccentricity)
        last = lowest_of_degree(distance == farthest[component])
        start = np.where(further, last, start)
    visited = visited[::-1] if reverse else visited
    return visited[np.argsort(component[visited], kind="stable")]


def _search(adj: csr_matrix, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the nodes in the order of a breadth-first search, and distances from the start.

    All components are searched at once, from an additional node that is joined to all starting
    nodes.
    """
    n = adj.shape[0]
    indices, indptr = np.r_[adj.indices, start], np.r_[adj.indptr, adj.nnz + len(start)]
    joined = csr_matrix((np.ones(len(indices)), indices, indptr), shape=(n + 1, n + 1))
    visited, parent = csgraph.breadth_first_order(joined, n)
    parent[n] = n
    distance = np.ones(n + 1, dtype=np.int64)
    distance[n] = 0
    while (parent != n).any():  # every step doubles the distance to the ancestor
        distance += distance[parent]
        parent = parent[parent]
    return visited[1:], distance[:n] - 1


def _by_fiedler_vectors(adj: csr_matrix, first: np.ndarray) -> np.ndarray:
    """Sorts every component by its Fiedler vector, or as :func:`_bfs` if it is large.

    Equal components are sorted once."""
    size = np.diff(np.r_[first, adj.shape[0]])
    offset = np.repeat(first, size)
    row = np.repeat(np.arange(adj.shape[0]), np.diff(adj.indptr))
    code = hash_of(hash_of(row - offset[row]) + (adj.indices - offset[row]).astype(np.uint64))
    total = np.r_[np.uint64(0), np.cumsum(code)][np.r_[adj.indptr[first], adj.nnz]]  # mod 2^64
    _, distinct, number = np.unique(
        hash_of(size) + np.diff(total), return_index=True, return_inverse=True
    )
    orders = []
    for low, high in zip(first[distinct], (first + size)[distinct]):
        part = adj[low:high, low:high]
        small = high - low <= _MAX_FIEDLER
        orders.append(
            _fiedler_vector(part).argsort(kind="stable") if small else _bfs(part, np.array([0]))
        )
    return np.concatenate([first[:0], *(low + orders[i] for low, i in zip(first, number))])


def _fiedler_vector(adj: csr_matrix) -> np.ndarray:
    """Returns the eigenvector of the second smallest eigenvalue of the Laplacian, rounded.

    Its sign makes its skewness positive.
    """
    n = adj.shape[0]
    if n < 3:
        return np.arange(n)
    vector = np.linalg.eigh(csgraph.laplacian(adj).toarray())[1][:, 1]
    vector = (vector * np.sqrt(n)).round(_DIGITS)
    skew = (vector**3).sum().round(_DIGITS)
    return -vector if (skew or vector[np.flatnonzero(vector)[0]]) < 0 else vector


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
    adj: csr_matrix, graph: np.ndarray, color: np.ndarray, bfs_order: np.ndarray
) -> np.ndarray:
    """Returns labels that are distinct in each graph and depend only on structure and colors.

    Colors are refined. While nodes of a graph share a color, one of them gets a new color, and
    colors are refined again. The result is canonical up to automorphism if nodes that share a color
    after refinement are automorphic. It does not depend on other graphs.

    Args:
        adj: The graphs as one matrix of codes; see :func:`encode`.
        graph: The graph of each node.
        color: The initial colors.
        bfs_order: The nodes in an order that places neighbors close to each other in memory. It
            changes the time alone.
    """
    n = len(color)
    # Numbers of four bytes are enough for most graphs.
    place = inverse_of(bfs_order).astype(np.int32 if n < 2**30 else np.int64)
    # The cells are numbered by graph, then by color.
    color = np.unique(color, return_inverse=True)[1]
    cell = np.unique(graph * n + color, return_inverse=True)[1][bfs_order].astype(place.dtype)
    adj, hashes = adj[bfs_order], hash_of(np.arange(n))
    indices = place[adj.indices]
    return _refine(adj.indptr, indices, adj.data, graph[bfs_order], cell, place, hashes)[place]


@helper
def _move(following: np.ndarray, preceding: np.ndarray, node: int, target: int) -> None:
    """Moves a node of a ring to the place behind another node."""
    following[preceding[node]] = following[node]
    preceding[following[node]] = preceding[node]
    following[node], preceding[node] = following[target], target
    preceding[following[node]] = following[target] = node


@kernel
def _refine(
    indptr: np.ndarray,
    indices: np.ndarray,
    codes: np.ndarray,
    graph: np.ndarray,
    color: np.ndarray,
    sequence: np.ndarray,
    hashes: np.ndarray,
) -> np.ndarray:
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

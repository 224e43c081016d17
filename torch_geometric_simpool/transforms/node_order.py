"""Orders of the nodes: numbers for them that do not depend on the numbers they came with.

The mapped features name nodes by number. Numbered by its structure, a graph has the same
features however it was numbered before: the same rows, which node has which being settled
up to the symmetries of the graph.
"""

from typing import Optional

import numpy as np
import torch
from scipy.sparse import csgraph, csr_matrix
from scipy.sparse.linalg import eigsh
from torch import Tensor

from torch_geometric_simpool.utils.checks import (
    check_batch,
    check_choice,
    check_edge_index,
    check_edge_weight,
    check_node_attr,
    check_within_graphs,
)

#: What :func:`node_order` can order by.
ORDERS = ("random", "rcm", "bfs", "fiedler")
#: Up to this many nodes, all eigenvectors at once are faster than the one that is needed.
_DENSE = 400
#: Entries of a Fiedler vector that are closer than this are ties.
_DIGITS = 9
#: What stands where there is no edge: the hash of a weight is another number.
_NO_EDGE = np.uint64(0)


def node_order(
    edge_index: Tensor,
    order: str,
    num_nodes: Optional[int] = None,
    batch: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
    edge_weight: Optional[Tensor] = None,
    node_attr: Optional[Tensor] = None,
) -> Tensor:
    r"""The place of every node in an order of its graph, counted from 0.

    ===========  =================================================================
    `order`      nodes are taken
    ===========  =================================================================
    `'random'`   as PyTorch's generator of random numbers has it, anew at every call
    `'rcm'`      by the reverse Cuthill-McKee algorithm, which keeps neighbours close
    `'bfs'`      breadth first, from a peripheral node: one at which a search from a
                 search's last level gets no further
    `'fiedler'`  by the eigenvector of the Laplacian's second smallest eigenvalue
    ===========  =================================================================

    All but `'random'` look at the graph without directions, weights and self-loops, component
    by component, the largest first. Ties they settle by the number of a node, so they run on
    a graph that is renumbered by colour refinement first, and that looks at all there is: at
    the matrix `A` of the weighted edges, in which parallel edges add up, with its two
    entries for every pair of nodes and its diagonal, and at the rows of `node_attr`, if they
    are given, from which the colours start. Where it leaves nodes of one colour, twins are
    taken in any order, then one node of the first such colour is set apart and the
    refinement goes on.

    Two numberings of a graph, with the same weights and attributes, then give the same order,
    up to an automorphism of all that was looked at, if nodes that the refinement cannot tell
    apart are automorphic. So they are in trees and in almost all graphs, not in all regular
    ones: all nodes of the Frucht graph have one colour, and none is automorphic to another.

    Args:
        edge_index: The edges, integers, `[2, E]`; none joins two graphs.
        order: One of the above.
        num_nodes: The number of nodes; from `batch` or `edge_index` if `None`.
        batch: The graph of each node, `[N]`, ascending; one graph if `None`.
        batch_size: The number of graphs.
        edge_weight: Edge weights, `[E]`, finite; ones if `None`. An edge of weight 0 is an
            edge.
        node_attr: What else tells nodes apart, `[N]` or `[N, F]`, real and finite: nodes with
            equal rows start with one colour. Only which rows of a graph are equal and
            how they are sorted, number by number, counts.

    Returns:
        `[N]`, int64, on the device of `edge_index`: of a graph of `n` nodes, a
        permutation of `0, ..., n - 1`.

    Raises:
        TypeError, ValueError: The error names the argument, what came and what was
            expected.

    Computed by NumPy and SciPy on the CPU, graph by graph. Time `O(r (E + n \log n))` with
    `r` rounds of refinement, memory `O(n + E)`. There are few rounds in most graphs, but in
    the order of `n` on a path, and one or more for every node that is set apart: for each
    of many equal components, for example. On one core, `'bfs'`: 10 ms for a random graph of
    3000 nodes and 6000 edges, 0.1 s for ten times that; 0.4 s for a path of 3000 nodes, 0.3 s
    for 1500 separate edges, 20 ms for 5000 isolated nodes. `'fiedler'` adds an eigenvector
    of every component. Deterministic, but for `'random'`, on which weights and attributes
    have no effect; where a second smallest eigenvalue is a double one, as of a ring, `'fiedler'`
    goes by the eigenvector that LAPACK returns, which is the same on one machine.

    Source: none; the paper's mapped features are not invariant (its section 'Top-k').

    Example:
        >>> path = torch.tensor([[2, 0, 0, 1], [0, 2, 1, 0]])  # 2 - 0 - 1
        >>> node_order(path, "bfs")
        tensor([1, 2, 0])
        >>> node_order(path, "bfs", node_attr=torch.tensor([0.5, 0.5, 0.25]))
        tensor([1, 0, 2])
    """
    check_choice("order", order, ORDERS)
    if num_nodes is None and batch is not None:
        num_nodes = batch.numel()
    edge_index, num_nodes = check_edge_index(edge_index, num_nodes)
    edge_weight = check_edge_weight(edge_weight, edge_index.size(1))
    batch, batch_size = check_batch(batch, num_nodes, batch_size, edge_index.device)
    if batch_size > 1:
        check_within_graphs(edge_index, batch)
    node_attr = check_node_attr("node_attr", node_attr, (num_nodes,))
    sizes = torch.bincount(batch.cpu(), minlength=batch_size).tolist()
    if order == "random":
        places = [torch.randperm(n) for n in sizes]
        return torch.cat(places or [batch.cpu()]).to(edge_index.device)
    colour = np.zeros(num_nodes, dtype=np.int64)
    if node_attr is not None:
        colour = row_ranks(node_attr).numpy()
    source, target = edge_index.cpu().numpy()
    # As the similarity has them, in double precision.
    weight = None if edge_weight is None else edge_weight.detach().double().cpu().numpy()
    by_graph = np.argsort(source, kind="stable")  # ids ascend with the graphs
    source, target = source[by_graph], target[by_graph]
    weight = np.ones(len(source)) if weight is None else weight[by_graph]
    ends = np.searchsorted(source, np.cumsum(sizes))
    place = np.empty(num_nodes, dtype=np.int64)
    first, first_edge = 0, 0
    for n, last_edge in zip(sizes, ends):
        edges, nodes = slice(first_edge, last_edge), slice(first, first + n)
        adj, loop = _joined(source[edges] - first, target[edges] - first, weight[edges], n)
        place[first + _order(adj, _ranks(colour[nodes], loop), order)] = np.arange(n)
        first, first_edge = first + n, last_edge
    return torch.from_numpy(place).to(edge_index.device)


def row_ranks(values: Tensor) -> Tensor:
    """The place of each row, `[N]` or `[N, F]`, among the different ones in their order.

    `[N]`, int64, on the CPU; equal rows share a place. Ranks of a part of these ranks are
    those of that part of the rows, whatever their type.
    """
    values = values.detach().cpu()
    # To types that sorting knows, and that hold all the numbers.
    values = values.double() if values.is_floating_point() else values.long()
    if values.numel() == 0:  # no rows, or nothing in them
        return torch.zeros(values.size(0), dtype=torch.long)
    return torch.unique(values.view(values.size(0), -1), dim=0, return_inverse=True)[1]


def _joined(
    source: np.ndarray, target: np.ndarray, weight: np.ndarray, n: int
) -> tuple[csr_matrix, np.ndarray]:
    """What lies between each two nodes that are joined in either direction, and on the diagonal.

    Numbers that depend on the weights both ways, as seen from the row; 1 where both are 1, so
    that a graph without weights has one order whether it is looked at in this way or by its
    edges alone.
    """
    # Equal edges are added up as the similarity adds them: in ascending order of the weights.
    key = source * n + target
    by_key = np.lexsort((weight, key))
    key, inverse = np.unique(key[by_key], return_inverse=True)
    weight = np.bincount(inverse, weight[by_key], minlength=len(key))
    row, column = key // max(n, 1), key % max(n, 1)
    there = _hash(weight.view(np.uint64))  # adding up from 0 has left no -0
    loop = np.full(n, _NO_EDGE)
    loop[row[row == column]] = there[row == column]

    apart = row != column
    row, column, key, there = row[apart], column[apart], key[apart], there[apart]
    opposite = column * n + row
    at = np.searchsorted(key, opposite)
    at[at == len(key)] = 0
    mutual = key[at] == opposite
    back = np.where(mutual, there[at], _NO_EDGE)
    lone = ~mutual
    rows = np.concatenate([row, column[lone]])
    columns = np.concatenate([column, row[lone]])
    ahead = np.concatenate([there, np.full(lone.sum(), _NO_EDGE)])
    back = np.concatenate([back, there[lone]])
    one = _hash(np.ones(1).view(np.uint64))
    # Odd, so that a product with one loses nothing.
    both = _hash(_hash(ahead) + back) | np.uint64(1)
    both[(ahead == one) & (back == one)] = 1
    adj = csr_matrix((both, (rows, columns)), shape=(n, n))
    adj.sort_indices()
    return adj, loop


def _order(adj: csr_matrix, colour: np.ndarray, order: str) -> np.ndarray:
    """The nodes of one graph in their order."""
    if adj.shape[0] == 0:
        return np.empty(0, dtype=np.int64)
    # On the renumbered graph, whatever a method does with ties is settled by structure.
    colour = _canonical(adj, colour)
    skeleton = csr_matrix((np.ones(adj.nnz), adj.indices, adj.indptr), shape=adj.shape)
    component = csgraph.connected_components(skeleton, directed=False)[1]
    size = np.bincount(component)
    lowest = np.full(len(size), len(colour))
    np.minimum.at(lowest, component, colour)
    named = np.lexsort((colour, lowest[component], -size[component]))
    skeleton = skeleton[named][:, named]
    skeleton.sort_indices()
    method = {"rcm": _rcm, "bfs": _bfs, "fiedler": _fiedler}[order]
    # Most graphs of many components have few different ones: those of one node, for example.
    known: dict[tuple[bytes, bytes], np.ndarray] = {}
    parts, first = [], 0
    for n in -np.sort(-size):
        indptr = skeleton.indptr[first : first + n + 1]
        ones, indices = skeleton.data[indptr[0] : indptr[-1]], skeleton.indices
        indices, indptr = indices[indptr[0] : indptr[-1]] - first, indptr - indptr[0]
        what = (indptr.tobytes(), indices.tobytes())
        if what not in known:
            known[what] = method(csr_matrix((ones, indices, indptr), shape=(n, n)))
        parts.append(first + known[what])
        first += n
    return named[np.concatenate(parts)]


def _rcm(adj: csr_matrix) -> np.ndarray:
    return csgraph.reverse_cuthill_mckee(adj, symmetric_mode=True)


def _bfs(adj: csr_matrix) -> np.ndarray:
    degree = np.diff(adj.indptr)
    start, reached = int(degree.argmin()), -1.0
    while True:
        distance = csgraph.dijkstra(adj, indices=start, unweighted=True)
        if distance.max() <= reached:
            break
        reached = distance.max()
        last = np.flatnonzero(distance == reached)
        start = int(last[degree[last].argmin()])
    return csgraph.breadth_first_order(adj, start, directed=False, return_predecessors=False)


def _fiedler(adj: csr_matrix) -> np.ndarray:
    n = adj.shape[0]
    if n < 3:
        return np.arange(n)
    laplacian = csgraph.laplacian(adj)
    if n <= _DENSE:
        vector = np.linalg.eigh(laplacian.toarray())[1][:, 1]
    else:
        start = np.linspace(1, 2, n)
        values, vectors = eigsh(laplacian.tocsc(), k=2, sigma=-1e-2, which="LM", v0=start)
        vector = vectors[:, values.argsort()[1]]
    vector = (vector * np.sqrt(n)).round(_DIGITS)
    # An eigenvector has no sign: its longer tail is made to come last.
    skew = (vector**3).sum().round(_DIGITS)
    if skew < 0 or (skew == 0 and vector[np.flatnonzero(vector)[0]] < 0):
        vector = -vector
    return np.argsort(vector, kind="stable")


def _canonical(adj: csr_matrix, colour: np.ndarray) -> np.ndarray:
    """A colour for each node, no two alike, that comes of the structure and of the colours."""
    everywhere = np.ones(len(colour), dtype=bool)
    colour = _refined(colour, adj, everywhere)
    colour = _refined(_ranks(colour, _among_twins(adj, colour)), adj, everywhere)
    while True:
        size = np.bincount(colour)
        if size.max() == 1:
            return colour
        among = (size > 1).argmax()
        here = np.arange(len(colour)) == (colour == among).argmax()
        colour = _refined(colour + ((colour >= among) & ~here), adj, here)


def _refined(colour: np.ndarray, adj: csr_matrix, moved: np.ndarray) -> np.ndarray:
    """Tells nodes apart by the colours of their neighbours, until that tells none apart.

    Nodes of one colour have alike neighbours, but for those that have `moved` from one colour
    to another; so other colours than those next to them need not be looked at.
    """
    while True:
        size = np.bincount(colour)
        again = np.zeros(len(size), dtype=bool)
        again[colour[adj @ moved.astype(np.uint64) != 0]] = True
        nodes = np.flatnonzero((again & (size > 1))[colour])
        if len(nodes) == 0:
            return colour
        sums = (adj @ _hash(colour))[nodes]
        by_both = np.lexsort((sums, colour[nodes]))
        old = colour[nodes[by_both]]
        split = np.r_[False, (np.diff(old) == 0) & (np.diff(sums[by_both]) != 0)]
        if not split.any():
            return colour
        more = np.bincount(old[split], minlength=len(size))
        finer = colour + (np.cumsum(more) - more)[colour]
        finer[nodes[by_both]] = old + np.cumsum(split)
        # The largest part of a colour may be said to have stayed, the others to have moved.
        came_from = np.repeat(np.arange(len(size)), more + 1)
        parts = np.bincount(finer)
        stayed = np.empty(len(size), dtype=np.int64)
        by_size = np.argsort(parts, kind="stable")
        stayed[came_from[by_size]] = by_size
        has_moved = np.ones(len(parts), dtype=bool)
        has_moved[stayed] = False
        colour, moved = finer, has_moved[finer]


def _among_twins(adj: csr_matrix, colour: np.ndarray) -> np.ndarray:
    """The place of each node among those of its colour that it can change places with.

    They are joined to the same nodes, themselves left out or not, in the same way.
    """
    own = _hash(np.arange(adj.shape[0]))
    others = adj @ own
    # Twins that are joined are so in one way, the same seen from both: that of their edge.
    row, column = np.repeat(np.arange(adj.shape[0]), np.diff(adj.indptr)), adj.indices
    twins = others[row] + adj.data * own[row] == others[column] + adj.data * own[column]
    between = np.ones(len(own), dtype=np.uint64)
    between[row[twins]] = adj.data[twins]
    apart = _place_among_equal(_ranks(colour, others))
    return apart + _place_among_equal(_ranks(colour, others + between * own))


def _place_among_equal(values: np.ndarray) -> np.ndarray:
    by_value = np.argsort(values, kind="stable")
    place = np.arange(len(values))
    first = np.r_[True, np.diff(values[by_value]) != 0]
    out = np.empty_like(place)
    out[by_value] = place - np.maximum.accumulate(np.where(first, place, 0))
    return out


def _ranks(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Numbers from 0 for the different pairs, in the order of `first`, then of `second`."""
    by_both = np.lexsort((second, first))
    change = (np.diff(first[by_both]) != 0) | (np.diff(second[by_both]) != 0)
    out = np.empty(len(first), dtype=np.int64)
    out[by_both] = np.r_[0, np.cumsum(change)]
    return out


def _hash(number: np.ndarray) -> np.ndarray:
    """Scatters numbers over 64 bits (the finaliser of splitmix64), so that sums tell sets."""
    x = (number.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))

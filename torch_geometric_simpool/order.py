"""Orders of the nodes: numbers for them that do not depend on the numbers they came with.

The mapped features name nodes by number. Numbered by its structure, a graph has the same
features however it was numbered before.
"""

from typing import Optional

import numpy as np
import torch
from scipy.sparse import csgraph, csr_matrix
from scipy.sparse.linalg import eigsh
from torch import Tensor

from torch_geometric_simpool.validate import (
    check_batch,
    check_choice,
    check_edge_index,
    check_within_graphs,
)

#: What :func:`node_order` can order by.
ORDERS = ("random", "rcm", "bfs", "fiedler")
#: Up to this many nodes, all eigenvectors at once are faster than the one that is needed.
_DENSE = 400
#: Entries of a Fiedler vector that are closer than this are ties.
_DIGITS = 9


def node_order(
    edge_index: Tensor,
    order: str,
    num_nodes: Optional[int] = None,
    batch: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
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

    All but `'random'` look at the graph without directions and weights, component by
    component, the largest first, and depend on its structure alone: they run on a graph
    that is renumbered by colour refinement first. Where that leaves nodes of one colour,
    twins are taken in any order, then one node of the first such colour is set apart and
    the refinement goes on. Two numberings of a graph then give the same order, up to an
    automorphism, if nodes that the refinement cannot tell apart are automorphic; so they
    are in trees and in almost all graphs, not in all regular ones.

    Args:
        edge_index: The edges, integers, `[2, E]`; none joins two graphs.
        order: One of the above.
        num_nodes: The number of nodes; from `batch` or `edge_index` if `None`.
        batch: The graph of each node, `[N]`, ascending; one graph if `None`.
        batch_size: The number of graphs.

    Returns:
        `[N]`, int64, on the device of `edge_index`: of a graph of `n` nodes, a
        permutation of `0, ..., n - 1`.

    Raises:
        TypeError, ValueError: The error names the argument, what came and what was
            expected.

    Computed by SciPy on the CPU, graph by graph. Time `O(r (E + n \log n))` with `r` rounds
    of refinement: few in most graphs, in the order of `n` on a path; memory `O(n + E)`.
    Deterministic, but for `'random'`.

    Source: none; the paper's mapped features are not invariant (its section 'Top-k').

    Example:
        >>> path = torch.tensor([[2, 0, 0, 1], [0, 2, 1, 0]])  # 2 - 0 - 1
        >>> node_order(path, "bfs")
        tensor([1, 2, 0])
    """
    check_choice("order", order, ORDERS)
    if num_nodes is None and batch is not None:
        num_nodes = batch.numel()
    edge_index, num_nodes = check_edge_index(edge_index, num_nodes)
    batch, batch_size = check_batch(batch, num_nodes, batch_size, edge_index.device)
    if batch_size > 1:
        check_within_graphs(edge_index, batch)
    sizes = torch.bincount(batch.cpu(), minlength=batch_size).tolist()
    if order == "random":
        places = [torch.randperm(n) for n in sizes]
        return torch.cat(places or [batch.cpu()]).to(edge_index.device)
    source, target = edge_index.cpu().numpy()
    by_graph = np.argsort(source, kind="stable")  # ids ascend with the graphs
    source, target = source[by_graph], target[by_graph]
    ends = np.searchsorted(source, np.cumsum(sizes))
    place = np.empty(num_nodes, dtype=np.int64)
    first, first_edge = 0, 0
    for n, last_edge in zip(sizes, ends):
        edges = slice(first_edge, last_edge)
        adj = _symmetric(source[edges] - first, target[edges] - first, n)
        place[first + _order(adj, order)] = np.arange(n)
        first, first_edge = first + n, last_edge
    return torch.from_numpy(place).to(edge_index.device)


def _symmetric(source: np.ndarray, target: np.ndarray, n: int) -> csr_matrix:
    """Who is joined to whom, in either direction; no self-loops."""
    apart = source != target
    rows = np.concatenate([source[apart], target[apart]])
    columns = np.concatenate([target[apart], source[apart]])
    adj = csr_matrix((np.ones(len(rows), dtype=np.uint64), (rows, columns)), shape=(n, n))
    adj.sum_duplicates()
    adj.data[:] = 1
    return adj


def _order(adj: csr_matrix, order: str) -> np.ndarray:
    """The nodes of one graph in their order."""
    if adj.shape[0] == 0:
        return np.empty(0, dtype=np.int64)
    # On the renumbered graph, whatever a method does with ties is settled by structure.
    named = np.argsort(_canonical(adj))
    adj = adj[named][:, named].astype(np.float64)
    adj.sort_indices()
    component = csgraph.connected_components(adj, directed=False)[1]
    members = [np.flatnonzero(component == c) for c in range(component.max() + 1)]
    members.sort(key=lambda nodes: -len(nodes))
    method = {"rcm": _rcm, "bfs": _bfs, "fiedler": _fiedler}[order]
    parts = [nodes[method(adj[nodes][:, nodes])] for nodes in members]
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


def _canonical(adj: csr_matrix) -> np.ndarray:
    """A colour for each node, no two alike, that comes of the structure."""
    colour = _refined(np.zeros(adj.shape[0], dtype=np.int64), adj)
    colour = _refined(_ranks(colour, _among_twins(adj)), adj)
    while True:
        size = np.bincount(colour)
        if size.max() == 1:
            return colour
        alike = np.flatnonzero(colour == (size > 1).argmax())
        apart = np.ones(len(colour), dtype=np.int64)
        apart[alike[0]] = 0
        colour = _refined(_ranks(colour, apart), adj)


def _refined(colour: np.ndarray, adj: csr_matrix) -> np.ndarray:
    """Tells nodes apart by the colours of their neighbours, until that tells none apart."""
    while True:
        finer = _ranks(colour, adj @ _hash(colour))
        if finer.max() == colour.max():
            return colour
        colour = finer


def _among_twins(adj: csr_matrix) -> np.ndarray:
    """The place of each node among those with the same neighbours, itself left out or not."""
    own = _hash(np.arange(adj.shape[0]))
    others = adj @ own
    return _place_among_equal(others) + _place_among_equal(others + own)


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

"""Node orders: ways to number the nodes of a graph by its structure.

Mapped features name nodes by number, so they change with the numbering of a graph. If nodes
are first numbered by structure, all numberings of a graph give the same rows of features; up
to the symmetries of the graph, the same node has the same row.
"""

from collections.abc import Callable
from typing import Optional

import numpy as np
import torch
from scipy.sparse import csgraph, csr_matrix, identity
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from torch import Tensor

from torch_geometric_simpool.topk.spec import EdgeList
from torch_geometric_simpool.transforms.refinement import canonical_labels, encode, rank_pairs
from torch_geometric_simpool.utils.checks import (
    check_batch,
    check_choice,
    check_edge_index,
    check_edge_weight,
    check_node_attr,
    check_within_graphs,
)

#: Up to this many nodes, all eigenvectors of a dense matrix are faster than one of a sparse one.
_DENSE = 400
#: Up to this many nodes, the Laplacian is factored for one eigenvector of it.
_FACTORED = 2000
#: Above, restarts of the Lanczos method without factors, before these are tried.
_RESTARTS = 100
#: What is added to the Laplacian, whose smallest eigenvalue is 0, before it is factored.
_SHIFT = 1e-6
#: Digits to which a Fiedler vector is rounded: entries that are closer tie.
_DIGITS = 9


def node_order(
    edge_index: Tensor,
    order: str,
    num_nodes: Optional[int] = None,
    batch: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
    edge_weight: Optional[Tensor] = None,
    node_attr: Optional[Tensor] = None,
) -> Tensor:
    r"""The position of every node in an order of its graph, counted from 0.

    ===========  ==================================================================
    `order`      the nodes of a graph are sorted
    ===========  ==================================================================
    `'random'`   at random, by PyTorch's generator, anew in every call
    `'rcm'`      by the reverse Cuthill-McKee algorithm, which keeps neighbors close
    `'bfs'`      by a breadth-first search from a pseudo-peripheral node
    `'fiedler'`  by the eigenvector of the second smallest eigenvalue of the Laplacian
    ===========  ==================================================================

    All but `'random'` ignore directions, weights and self-loops, and take connected components
    one after the other, the largest first. They break ties by node number. To make ties
    independent of the given numbering, nodes are first relabeled by color refinement, which
    uses directions, weights (parallel edges add up), self-loops and, if given, the rows of
    `node_attr` as initial colors. Among nodes that refinement leaves with one color, twins
    (nodes with the same neighbors) are numbered arbitrarily; of other nodes one is given a
    color of its own, and refinement continues.

    Two numberings of one graph then give the same order up to automorphism, provided that
    nodes that refinement cannot distinguish are automorphic. This holds for trees and for
    almost all graphs, but not for all regular graphs: in the Frucht graph, all nodes have one
    color, and no two are automorphic.

    Args:
        edge_index: The edges, integers, `[2, E]`; no edge joins two graphs.
        order: One of the above.
        num_nodes: The number of nodes; from `batch` or `edge_index` if `None`.
        batch: The graph of each node, `[N]`, ascending; one graph if `None`.
        batch_size: The number of graphs.
        edge_weight: Edge weights, `[E]` or `[E, 1]`, finite; ones if `None`. An edge of weight
            0 is an edge.
        node_attr: Node attributes, `[N]` or `[N, F]`, real and finite: nodes of a graph with
            equal rows start with the same color. Only the sorted order of the rows counts.

    Returns:
        `[N]`, int64, on the device of `edge_index`: for a graph of `n` nodes, a permutation of
        `0, ..., n - 1`.

    Raises:
        ValueError: `order` is unknown, an edge joins two graphs, or an argument has a wrong
            shape or range.
        TypeError: An argument has a wrong type.

    Computed by NumPy and SciPy on the CPU, graph by graph. Time `O(r (E + n \log n))` for `r`
    rounds of refinement, memory `O(n + E)`. Most graphs take few rounds; a path takes `O(n)`,
    and every node that is given a color of its own takes at least one, for example one per
    component if all components are equal. On one core, `'bfs'` takes 10 ms for a random graph
    of 3000 nodes and 6000 edges and 0.1 s for one ten times as large; 0.4 s for a path of 3000
    nodes, 0.3 s for 1500 separate edges, 20 ms for 5000 isolated nodes. `'fiedler'` adds an
    eigenvector per component: of up to 400 nodes by a dense solver, `O(n^3)`; of up to 2000 by a
    sparse factorization; above by the Lanczos method, 0.5 s for the random graph of 30,000 nodes.
    Where that does not converge, the matrix is factored as well, which is fast for paths and
    meshes, and takes memory up to `O(n^2)` for large dense parts with few edges between them.

    Deterministic, but for `'random'`, which ignores weights and attributes. Where the second
    smallest eigenvalue is not simple, as in a ring, `'fiedler'` depends on the eigenvector that
    LAPACK returns, which may differ between machines.

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
    edges = EdgeList(edge_index, edge_weight, num_nodes)
    return order_nodes(edges, batch, torch.bincount(batch, minlength=batch_size), order, node_attr)


def order_nodes(
    edges: EdgeList, batch: Tensor, size: Tensor, order: str, node_attr: Optional[Tensor]
) -> Tensor:
    """Returns the position of every node in its graph; see :func:`node_order`.

    Args:
        edges (EdgeList): The graphs as one block-diagonal graph.
        batch (torch.Tensor): The graph of each node, `[N]`, ascending.
        size (torch.Tensor): The number of nodes of each graph, `[B]`.
        order (str): One of the orders.
        node_attr (torch.Tensor, optional): Attributes that distinguish nodes, `[N]` or `[N, F]`.
    """
    edge_index, edge_weight, num_nodes = edges.edge_index, edges.edge_weight, edges.num_nodes
    sizes = size.tolist()
    if order == "random":
        positions = [torch.randperm(n) for n in sizes]
        return torch.cat(positions or [batch.cpu()]).to(edge_index.device)

    color = np.zeros(num_nodes, dtype=np.int64)
    if node_attr is not None:
        color = row_ranks(node_attr).numpy()
    source, target = edge_index.cpu().numpy()
    # In double precision, as in the similarity.
    weight = None if edge_weight is None else edge_weight.detach().double().cpu().numpy()
    by_graph = np.argsort(source, kind="stable")  # node numbers ascend with the graphs
    source, target = source[by_graph], target[by_graph]
    weight = np.ones(len(source)) if weight is None else weight[by_graph]
    ends = np.searchsorted(source, np.cumsum(sizes))
    position = np.empty(num_nodes, dtype=np.int64)
    first, first_edge = 0, 0
    for n, last_edge in zip(sizes, ends):
        edges, nodes = slice(first_edge, last_edge), slice(first, first + n)
        adj, loop = encode(source[edges] - first, target[edges] - first, weight[edges], n)
        position[first + _sorted_nodes(adj, rank_pairs(color[nodes], loop), order)] = np.arange(n)
        first, first_edge = first + n, last_edge
    return torch.from_numpy(position).to(edge_index.device)


def _sorted_nodes(adj: csr_matrix, color: np.ndarray, order: str) -> np.ndarray:
    """The nodes of one graph, sorted."""
    if adj.shape[0] == 0:
        return np.empty(0, dtype=np.int64)
    label = canonical_labels(adj, color)
    skeleton = csr_matrix((np.ones(adj.nnz), adj.indices, adj.indptr), shape=adj.shape)
    component = csgraph.connected_components(skeleton, directed=False)[1]
    size = np.bincount(component)
    lowest = np.full(len(size), len(label))
    np.minimum.at(lowest, component, label)
    # Relabeled, so that whatever a method does with ties depends on structure only.
    relabeled = np.lexsort((label, lowest[component], -size[component]))
    skeleton = skeleton[relabeled][:, relabeled]
    skeleton.sort_indices()
    # Most graphs of many components have few distinct ones, isolated nodes for example.
    known: dict[tuple[bytes, bytes], np.ndarray] = {}
    parts, first = [], 0
    for n in -np.sort(-size):
        indptr = skeleton.indptr[first : first + n + 1]
        ones, indices = skeleton.data[indptr[0] : indptr[-1]], skeleton.indices
        indices, indptr = indices[indptr[0] : indptr[-1]] - first, indptr - indptr[0]
        key = (indptr.tobytes(), indices.tobytes())
        if key not in known:
            known[key] = _METHODS[order](csr_matrix((ones, indices, indptr), shape=(n, n)))
        parts.append(first + known[key])
        first += n
    return relabeled[np.concatenate(parts)]


def _rcm(adj: csr_matrix) -> np.ndarray:
    return csgraph.reverse_cuthill_mckee(adj, symmetric_mode=True)


def _bfs(adj: csr_matrix) -> np.ndarray:
    """Starts where a search from its last level gets no further (George and Liu, 1979)."""
    degree = np.diff(adj.indptr)
    start, eccentricity = int(degree.argmin()), -1.0
    while True:
        distance = csgraph.dijkstra(adj, indices=start, unweighted=True)
        if distance.max() <= eccentricity:
            break
        eccentricity = distance.max()
        last = np.flatnonzero(distance == eccentricity)
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
        vector = _sparse_fiedler_vector(laplacian)
    vector = (vector * np.sqrt(n)).round(_DIGITS)
    # The sign of an eigenvector is arbitrary: here its skewness is made positive.
    skew = (vector**3).sum().round(_DIGITS)
    if skew < 0 or (skew == 0 and vector[np.flatnonzero(vector)[0]] < 0):
        vector = -vector
    return np.argsort(vector, kind="stable")


def _sparse_fiedler_vector(laplacian: csr_matrix) -> np.ndarray:
    """The eigenvector of the second smallest eigenvalue, by the Lanczos method."""
    n = laplacian.shape[0]
    start = np.linspace(1, 2, n)
    if n > _FACTORED:
        # The factors of a random graph hold n^2 numbers, so the method is tried without.
        shifted = (laplacian + identity(n)).tocsr()  # accuracy is relative: no eigenvalue is 0
        try:
            values, vectors = eigsh(shifted, k=2, which="SA", v0=start, maxiter=_RESTARTS)
            return vectors[:, values.argsort()[1]]
        except ArpackNoConvergence:
            # The eigenvalue is small: few edges join large parts, as in a path, so that the
            # factors are small, too.
            pass
    values, vectors = eigsh(laplacian.tocsc(), k=2, sigma=-_SHIFT, which="LM", v0=start)
    return vectors[:, values.argsort()[1]]


#: From a connected graph, whose labels break ties, to its sorted nodes.
_METHODS: dict[str, Callable[[csr_matrix], np.ndarray]] = {
    "rcm": _rcm,
    "bfs": _bfs,
    "fiedler": _fiedler,
}

#: The values of `order` in :func:`node_order`.
ORDERS = ("random", *_METHODS)

#: The order that is recommended: by structure, and near-linear on every graph.
DEFAULT_ORDER = "bfs"


def row_ranks(values: Tensor) -> Tensor:
    """The rank of each row, `[N]` or `[N, F]`, among the distinct rows in sorted order.

    `[N]`, int64, on the CPU. Ranks do not depend on the type of the values, and ranks of some
    of these ranks are the ranks of those rows.
    """
    values = values.detach().cpu()
    # `torch.unique` does not take every type; these two hold all the values exactly.
    values = values.double() if values.is_floating_point() else values.long()
    if values.numel() == 0:  # no rows, or rows of no numbers
        return torch.zeros(values.size(0), dtype=torch.long)
    return torch.unique(values.view(values.size(0), -1), dim=0, return_inverse=True)[1]

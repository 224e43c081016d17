"""Node orders: ways to number the nodes of a graph by its structure.

Mapped features name nodes by number, so they change with the numbering of a graph. If nodes
are first numbered by structure, every numbering of a graph gives equal features, up to the
symmetries of the graph.
"""

from collections.abc import Callable
from typing import Optional

import numpy as np
import torch
from scipy.sparse import csgraph, csr_matrix
from torch import Tensor

from torch_geometric_simpool.topk.spec import EdgeList
from torch_geometric_simpool.transforms.fiedler import fiedler_vector
from torch_geometric_simpool.transforms.refinement import (
    canonical_labels,
    encode,
    hash_of,
    rank_pairs,
)
from torch_geometric_simpool.utils.checks import (
    check_batch,
    check_choice,
    check_edge_index,
    check_edge_weight,
    check_node_attr,
    check_within_graphs,
)

#: Searches for a pseudo-peripheral node; most graphs take two to six.
_SEARCHES = 50


def node_order(
    edge_index: Tensor,
    order: str,
    num_nodes: Optional[int] = None,
    batch: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
    edge_weight: Optional[Tensor] = None,
    node_attr: Optional[Tensor] = None,
) -> Tensor:
    r"""Returns the position of every node in an order of its graph, counted from 0.

    ===========  ==================================================================
    `order`      the nodes of a graph are sorted
    ===========  ==================================================================
    `'bfs'`      by a breadth-first search from a pseudo-peripheral node
    `'fiedler'`  by the eigenvector of the second smallest eigenvalue of the Laplacian
    `'rcm'`      by the reverse Cuthill-McKee algorithm, which keeps neighbors close
    `'random'`   at random, by PyTorch's generator, anew in every call
    ===========  ==================================================================

    Orders by structure (all but `'random'`) ignore directions, weights and self-loops, and take
    connected components one after the other, the largest first. Ties are broken by a canonical
    labeling: color refinement by directions, weights (parallel edges add up), self-loops and
    `node_attr`, then an arbitrary choice among nodes of one color, and refinement again.

    Args:
        edge_index (torch.Tensor): Edges of shape `[2, E]`; no edge joins two graphs.
        order (str): One of the above.
        num_nodes (int, optional): Number of nodes. (default: :obj:`None`, from `batch` or
            `edge_index`)
        batch (torch.Tensor, optional): Graph of each node, `[N]`, ascending. (default:
            :obj:`None`, one graph)
        batch_size (int, optional): Number of graphs. (default: :obj:`None`)
        edge_weight (torch.Tensor, optional): Edge weights `[E]` or `[E, 1]`, finite. An edge of
            weight 0 is an edge. (default: :obj:`None`, ones)
        node_attr (torch.Tensor, optional): Node attributes `[N]` or `[N, F]`, real and finite, as
            initial colors. Only the sorted order of the rows counts. (default: :obj:`None`)

    Returns:
        torch.Tensor: Positions `[N]`, int64; for a graph of `n` nodes a permutation of
        `0, ..., n - 1`.

    Raises:
        TypeError: If an argument has a wrong type.
        ValueError: If `order` is unknown, an edge joins two graphs, or an argument has a wrong
            shape or range.

    Computed on the CPU. `'bfs'` takes `O((n + E) \log n)` time and `O(n + E)` memory on any graph,
    with equal components, long paths and hubs. `'fiedler'` adds an eigenvector for each distinct
    component. A dense solver computes it for up to 400 nodes. Larger components use a bounded
    number of iterations, or a factorization if it is cheap. If both fail, as in a large dense part
    with long paths, the component is sorted by `'bfs'`. `'rcm'` is quadratic in the
    largest degree.

    .. note::
        Two numberings of a graph give the same order up to automorphism if nodes that color
        refinement cannot distinguish are automorphic. This holds for trees and for almost all
        graphs, but not for all regular graphs, such as the Frucht graph. `'fiedler'` also depends
        on LAPACK where the second smallest eigenvalue is not simple, as in a ring.

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
    sizes = size.tolist()
    device = edges.device
    if order == "random":
        positions = [torch.randperm(n) for n in sizes]
        return torch.cat(positions or [batch.cpu()]).to(device)
    num_nodes = edges.num_nodes
    color = np.zeros(num_nodes, dtype=np.int64)
    if node_attr is not None:
        color = _row_ranks(node_attr).numpy()
    source, target = edges.edge_index.cpu().numpy()
    weight = np.ones(len(source))
    if edges.edge_weight is not None:  # in double precision, as in the similarity
        weight = edges.edge_weight.detach().double().cpu().numpy()
    if len(sizes) > 1:
        by_graph = np.argsort(source, kind="stable")  # node numbers ascend with the graphs
        source, target, weight = source[by_graph], target[by_graph], weight[by_graph]
        ends = np.searchsorted(source, np.cumsum(sizes))
    else:
        ends = np.array([len(source)] * len(sizes))
    position = np.empty(num_nodes, dtype=np.int64)
    first, first_edge = 0, 0
    for n, last_edge in zip(sizes, ends):
        part, nodes = slice(first_edge, last_edge), slice(first, first + n)
        adj, loop = encode(source[part] - first, target[part] - first, weight[part], n)
        if n > 0:
            sorted_nodes = _sorted_nodes(adj, rank_pairs(color[nodes], loop), order)
            position[first + sorted_nodes] = np.arange(n)
        first, first_edge = first + n, last_edge
    return torch.from_numpy(position).to(device)


def _sorted_nodes(adj: csr_matrix, color: np.ndarray, order: str) -> np.ndarray:
    """Returns the nodes of one graph, sorted."""
    label = canonical_labels(adj, color)
    skeleton = csr_matrix((np.ones(adj.nnz), adj.indices, adj.indptr), shape=adj.shape)
    num_components, component = csgraph.connected_components(skeleton, directed=False)
    size = np.bincount(component)
    lowest = np.full(num_components, len(label))
    np.minimum.at(lowest, component, label)
    # Relabeled, so that whatever a method does with ties depends on structure only.
    relabeled = np.lexsort((label, lowest[component], -size[component]))
    skeleton = skeleton[relabeled][:, relabeled]
    skeleton.sort_indices()
    size = -np.sort(-size)
    if order == "bfs":
        return relabeled[_bfs(skeleton, size)]
    return relabeled[_by_component(skeleton, size, _METHODS[order])]


def _bfs(adj: csr_matrix, size: np.ndarray) -> np.ndarray:
    """Sorts all components by a breadth-first search each.

    A search starts where a search from its last level gets no further (George and Liu, 1979).

    Args:
        adj: The graph, one component after the other.
        size: The numbers of nodes of the components.
    """
    n, degree = adj.shape[0], np.diff(adj.indptr)
    first, component = np.cumsum(size) - size, np.repeat(np.arange(len(size)), size)

    def lowest_of_degree(candidates: np.ndarray) -> np.ndarray:
        """Returns the candidate of the lowest degree of each component, the first if several."""
        degrees = np.where(candidates, degree, n)
        lowest = np.minimum.reduceat(degrees, first)
        nodes = np.flatnonzero(degrees == lowest[component])
        return nodes[np.r_[True, np.diff(component[nodes]) != 0]]

    start, eccentricity = lowest_of_degree(np.ones(n, dtype=bool)), np.full(len(size), -1)
    for _ in range(_SEARCHES):
        visited, distance = _search(adj, start)
        farthest = np.maximum.reduceat(distance, first)
        further = farthest > eccentricity
        if not further.any():
            break
        eccentricity = np.maximum(farthest, eccentricity)
        last = lowest_of_degree(distance == farthest[component])
        start = np.where(further, last, start)
    return visited[np.argsort(component[visited], kind="stable")]


def _search(adj: csr_matrix, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the nodes as a breadth-first search visits them, and distances from the start.

    One search from an additional node, which is joined to all starting nodes, visits the nodes of
    each component as a search of this component does.
    """
    n = adj.shape[0]
    indices, indptr = np.r_[adj.indices, start], np.r_[adj.indptr, adj.nnz + len(start)]
    joined = csr_matrix((np.ones(len(indices)), indices, indptr), shape=(n + 1, n + 1))
    visited, parent = csgraph.breadth_first_order(joined, n)
    parent[n] = n
    distance = np.ones(n + 1, dtype=np.int64)
    distance[n] = 0
    while (parent != n).any():  # distances to ancestors that are twice as far in every step
        distance += distance[parent]
        parent = parent[parent]
    return visited[1:], distance[:n] - 1


def _by_component(
    adj: csr_matrix, size: np.ndarray, method: Callable[[csr_matrix], np.ndarray]
) -> np.ndarray:
    """Sorts the components by a method, equal components once."""
    first = np.cumsum(size) - size
    offset = np.repeat(first, size)
    row = np.repeat(np.arange(adj.shape[0]), np.diff(adj.indptr))
    local_row, local_column = row - offset[row], adj.indices - offset[row]
    code = hash_of(hash_of(local_row) + local_column.astype(np.uint64))
    total = np.r_[np.uint64(0), np.cumsum(code)]  # modulo 2^64
    component_code = hash_of(size) + total[adj.indptr[first + size]] - total[adj.indptr[first]]
    _, distinct, number = np.unique(component_code, return_index=True, return_inverse=True)
    parts = []
    for part in distinct:
        low, high = first[part], first[part] + size[part]
        edges = slice(adj.indptr[low], adj.indptr[high])
        indptr = adj.indptr[low : high + 1] - adj.indptr[low]
        graph = (adj.data[edges], adj.indices[edges] - low, indptr)
        parts.append(method(csr_matrix(graph, shape=(size[part], size[part]))))
    sizes = size[distinct]
    begin = np.repeat((np.cumsum(sizes) - sizes)[number], size)
    return offset + np.concatenate(parts)[begin + np.arange(len(offset)) - offset]


def _rcm(adj: csr_matrix) -> np.ndarray:
    return csgraph.reverse_cuthill_mckee(adj, symmetric_mode=True)


def _fiedler(adj: csr_matrix) -> np.ndarray:
    vector = fiedler_vector(adj)
    if vector is None:
        return _bfs(adj, np.array([adj.shape[0]]))
    return np.argsort(vector, kind="stable")


#: From a connected graph, whose labels break ties, to its sorted nodes.
_METHODS: dict[str, Callable[[csr_matrix], np.ndarray]] = {"rcm": _rcm, "fiedler": _fiedler}

#: The values of `order` in :func:`node_order`.
ORDERS = ("random", "rcm", "bfs", "fiedler")

#: The order that is recommended: by structure, and near-linear on every graph.
DEFAULT_ORDER = "bfs"


def _row_ranks(values: Tensor) -> Tensor:
    """Returns the rank of each row, `[N]` or `[N, F]`, among the distinct rows in sorted order."""
    values = values.detach().cpu()
    # `torch.unique` does not take every type; these two hold all the values exactly.
    values = values.double() if values.is_floating_point() else values.long()
    if values.numel() == 0:  # no rows, or rows of no numbers
        return torch.zeros(values.size(0), dtype=torch.long)
    return torch.unique(values.view(values.size(0), -1), dim=0, return_inverse=True)[1]

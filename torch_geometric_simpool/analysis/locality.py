"""Locality of a hard assignment: metrics that tell how far clusters are neighborhoods."""

import math
from typing import NamedTuple, Optional

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components, dijkstra
from torch import Tensor

from torch_geometric_simpool.utils.checks import (
    check_batch,
    check_bool,
    check_dense,
    check_device,
    check_edge_index,
    check_int,
    check_tensor,
    check_within_graphs,
    is_integral,
    shape,
)


class Locality(NamedTuple):
    """Metrics of every graph of a batch, each `[B]` float64; NaN where one is not defined."""

    #: The share of the edges with both ends in one cluster; NaN without edges.
    edges_inside: Tensor
    #: The expected value of that share for a random assignment with the same cluster sizes.
    edges_by_chance: Tensor
    #: The mean geodesic distance between nodes of one cluster, divided by that between nodes of
    #: the graph; NaN if no path joins two nodes of one cluster.
    distance_ratio: Tensor
    #: The share of the non-empty clusters that are connected as subgraphs.
    connected: Tensor
    #: The number of non-empty clusters.
    clusters: Tensor
    #: The entropy of the cluster sizes as shares of the nodes, divided by `log K`: 1 if all `K`
    #: clusters have the same size, 0 if one has all nodes.
    evenness: Tensor

    def mean(self) -> dict[str, float]:
        """The mean of every metric over the graphs for which it is defined, by name."""
        return {name: value.nanmean().item() for name, value in self._asdict().items()}


def locality(
    edge_index: Tensor,
    cluster: Tensor,
    num_clusters: int,
    batch: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
    distances: bool = True,
) -> Locality:
    r"""Locality of a hard assignment, graph by graph.

    With :math:`n_c` nodes in cluster :math:`c` of a graph of :math:`n` nodes, and
    :math:`d` the geodesic distance, over pairs of different nodes that a path joins:

    .. math::
        \text{edges inside} &= |\{\{i, j\} \in E : c_i = c_j\}| \, / \, |E| \\
        \text{by chance} &= \sum\nolimits_c n_c (n_c - 1) \, / \, (n (n - 1)) \\
        \text{distance ratio} &= \operatorname{mean}_{c_i = c_j} d(i, j) \, / \,
            \operatorname{mean}_{i, j} d(i, j) \\
        \text{evenness} &= H(n_1 / n, \dots, n_K / n) \, / \, \log K

    A distance ratio below one means that nodes of one cluster are closer to each other than
    nodes of the graph in general. Edges have no direction here; parallel edges count once, and
    self-loops do not count.

    Args:
        edge_index: The edges, integers, `[2, E]`; no edge joins two graphs.
        cluster: The cluster of each node, integers in `[0, num_clusters)`, `[N]`, for example
            `s.argmax(dim=-1)` of an assignment matrix.
        num_clusters: `K`, the number of clusters, empty ones included, `>= 1`.
        batch: The graph of each node, `[N]`, ascending; one graph if `None`.
        batch_size: The number of graphs, if the last ones have no nodes.
        distances: Whether to compute the distance ratio, which takes most of the time; NaN
            otherwise.

    Returns:
        A :class:`Locality`, on the CPU. If `n < 2`, `edges_by_chance` and `distance_ratio` are
        NaN; if `n = 0`, all but `clusters`; if `K = 1`, `evenness`.

    Raises:
        ValueError: `cluster` is not in `[0, num_clusters)`, an edge joins two graphs, or an
            argument has a wrong shape or range.
        TypeError: An argument has a wrong type.

    Time `O(n (n + E))` per graph (a search from every node), memory `O(n^2)` for one graph at a
    time; without `distances`, time `O(N \log N + E \log E)` for all. Computed by SciPy on the
    CPU. Deterministic; not differentiable.

    Source: what the plots in section 'Experimental results' of Shulman (2020) show.

    Example:
        >>> path = torch.tensor([[0, 1, 2], [1, 2, 3]])
        >>> halves = locality(path, torch.tensor([0, 0, 1, 1]), num_clusters=2)
        >>> halves.edges_inside, halves.edges_by_chance
        (tensor([0.6667], dtype=torch.float64), tensor([0.3333], dtype=torch.float64))
    """
    check_int("num_clusters", num_clusters, 1)
    check_bool("distances", distances)
    check_dense("cluster", cluster)
    if not is_integral(cluster.dtype):
        raise TypeError(f"`cluster` must hold integers, got {cluster.dtype}")
    if cluster.dim() != 1:
        raise ValueError(f"`cluster` must have shape [N], got {shape(cluster)}")
    if cluster.numel() > 0 and not 0 <= int(cluster.min()) <= int(cluster.max()) < num_clusters:
        raise ValueError(
            f"`cluster` must lie in [0, {num_clusters}), got values from {int(cluster.min())} "
            f"to {int(cluster.max())}"
        )
    num_nodes = cluster.numel()
    check_device("edge_index", check_tensor("edge_index", edge_index), cluster.device, "cluster")
    edge_index, _ = check_edge_index(edge_index, num_nodes)
    batch, batch_size = check_batch(batch, num_nodes, batch_size, cluster.device, of="cluster")
    if batch_size > 1:
        check_within_graphs(edge_index, batch)
    source, target = edge_index.cpu().numpy()
    # Every pair of adjacent nodes once: the upper triangle of the adjacency matrix.
    pairs = np.unique(np.sort(np.stack([source, target]), axis=0), axis=1)
    pairs = pairs[:, pairs[0] != pairs[1]]
    graph = batch.cpu().numpy()
    ends = np.cumsum(np.bincount(graph, minlength=batch_size)[:batch_size])
    edge_ends = np.cumsum(np.bincount(graph[pairs[0]], minlength=batch_size))
    label = cluster.cpu().numpy()
    rows, first, first_edge = [], 0, 0
    for last, last_edge in zip(ends, edge_ends):
        edges = pairs[:, first_edge:last_edge] - first
        rows.append(_measure(edges, label[first:last], num_clusters, distances))
        first, first_edge = last, last_edge
    table = torch.tensor(rows, dtype=torch.float64).view(batch_size, len(Locality._fields))
    return Locality(*table.unbind(dim=1))


def _measure(
    edges: np.ndarray, label: np.ndarray, num_clusters: int, distances: bool
) -> list[float]:
    """The metrics of one graph, in the order of :class:`Locality`; each edge is given once."""
    n = len(label)
    if n == 0:
        return [np.nan] * 4 + [0.0, np.nan]
    # Non-empty clusters only: `num_clusters` may be larger than any memory.
    label = np.unique(label, return_inverse=True)[1]
    size = np.bincount(label)
    used = len(size)
    within = edges[:, label[edges[0]] == label[edges[1]]]
    inside = within.shape[1] / edges.shape[1] if edges.shape[1] > 0 else np.nan
    chance = float((size * (size - 1.0)).sum()) / (n * (n - 1)) if n > 1 else np.nan
    # The components of the edges inside clusters are the connected parts of clusters.
    component = connected_components(_matrix(within, n), directed=False)[1]
    pieces = np.bincount(label[np.unique(component, return_index=True)[1]])
    connected = float((pieces == 1).sum()) / used
    share = size / n
    entropy = float(-(share * np.log(share)).sum())
    evenness = max(entropy, 0.0) / math.log(num_clusters) if num_clusters > 1 else np.nan
    ratio = _distance_ratio(edges, label) if distances else np.nan
    return [inside, chance, ratio, connected, used, evenness]


def _distance_ratio(edges: np.ndarray, label: np.ndarray) -> float:
    """Over pairs of nodes that a path joins."""
    if edges.shape[1] == 0:
        return np.nan
    distance = dijkstra(_matrix(edges, len(label)), directed=False, unweighted=True)
    reached = np.isfinite(distance) & (distance > 0)
    within = reached & (label[:, None] == label[None, :])
    if not within.any():
        return np.nan
    return float(distance[within].mean() / distance[reached].mean())


def _matrix(edges: np.ndarray, n: int) -> csr_matrix:
    return csr_matrix((np.ones(edges.shape[1]), (edges[0], edges[1])), shape=(n, n))

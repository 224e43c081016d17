"""The locality of a hard assignment."""

import math
from typing import NamedTuple, Optional

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components, dijkstra
from torch import Tensor

from torch_geometric_simpool.topk.parse import check_edge_index
from torch_geometric_simpool.utils.checks import check_batch, check_int, check_integral, check_range


class Locality(NamedTuple):
    """The metrics of every graph of a batch, each `[B]`, float64, NaN where undefined.

    Attributes:
        edges_inside (torch.Tensor): The share of the edges with both ends in one cluster.
        edges_by_chance (torch.Tensor): The expected share for random clusters of equal sizes.
        distance_ratio (torch.Tensor): The mean geodesic distance between nodes of one cluster,
            divided by the mean distance between nodes of the graph.
        connected (torch.Tensor): The share of the non-empty clusters that are connected subgraphs.
        clusters (torch.Tensor): The number of non-empty clusters.
        evenness (torch.Tensor): The entropy of the cluster sizes, divided by `log K`.
    """

    edges_inside: Tensor
    edges_by_chance: Tensor
    distance_ratio: Tensor
    connected: Tensor
    clusters: Tensor
    evenness: Tensor

    def mean(self) -> dict[str, float]:
        """Returns the mean of every metric over the graphs for which it is defined."""
        return {name: value.nanmean().item() for name, value in self._asdict().items()}


def locality(
    edge_index: Tensor,
    cluster: Tensor,
    num_clusters: int,
    batch: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
) -> Locality:
    r"""Measures how local the clusters of a hard assignment are.

    Let :math:`n_c` be the number of nodes in cluster :math:`c` of a graph of :math:`n` nodes. Let
    :math:`d` be the geodesic distance of two different nodes of a connected component.

    .. math::
        \text{edges inside} &= |\{\{i, j\} \in E : c_i = c_j\}| \, / \, |E| \\
        \text{by chance} &= \sum\nolimits_c n_c (n_c - 1) \, / \, (n (n - 1)) \\
        \text{distance ratio} &= \operatorname{mean}_{c_i = c_j} d(i, j) \, / \,
            \operatorname{mean}_{i, j} d(i, j) \\
        \text{evenness} &= H(n_1 / n, \dots, n_K / n) \, / \, \log K

    A distance ratio below one means that nodes of one cluster are closer to each other than
    nodes of the graph in general. Edges have no direction, parallel edges count once, and
    self-loops do not count.

    Args:
        edge_index (torch.Tensor): The edges, `[2, E]`. No edge may join two graphs.
        cluster (torch.Tensor): The cluster of each node, integers in `[0, num_clusters)`, `[N]`,
            for example `s.argmax(dim=-1)`.
        num_clusters (int): Number of clusters `K`, empty ones included.
        batch (torch.Tensor, optional): The graph of each node, `[N]`, in any order.
            (default: :obj:`None`, one graph)
        batch_size (int, optional): The number of graphs.
            (default: :obj:`None`, taken from `batch`)

    Returns:
        Locality: The named tuple `(edges_inside, edges_by_chance, distance_ratio, connected,
        clusters, evenness)`, on the CPU. A metric is NaN where it divides by zero:
        `edges_inside` without edges, `edges_by_chance` if `n < 2`, `distance_ratio` if no path
        joins two nodes of one cluster, `evenness` if `K = 1`. For a graph without nodes, all but
        `clusters` are NaN.

    Raises:
        TypeError, ValueError: If a tensor has a wrong type, shape or range, or an edge joins two
            graphs.

    Time is `O(n (n + E))` per graph and memory `O(n^2)` for one graph at a time.

    Source: Shulman (2020) plots the number of clusters. The other metrics are beyond the paper.

    Example:
        >>> path = torch.tensor([[0, 1, 2], [1, 2, 3]])
        >>> halves = locality(path, torch.tensor([0, 0, 1, 1]), num_clusters=2)
        >>> halves.edges_inside, halves.edges_by_chance
        (tensor([0.6667], dtype=torch.float64), tensor([0.3333], dtype=torch.float64))
    """
    check_int("num_clusters", num_clusters, 1)
    cluster = check_integral("cluster", cluster, ("N",))
    check_range("cluster", cluster, num_clusters, "clusters")
    edge_index, num_nodes = check_edge_index(edge_index, cluster.numel())
    batch, batch_size = check_batch(
        batch, num_nodes, batch_size, cluster.device, of="cluster", edge_index=edge_index
    )
    source, target = edge_index.cpu().numpy()
    # Each pair of adjacent nodes occurs once.
    pairs = np.unique(np.sort(np.stack([source, target]), axis=0), axis=1)
    pairs = pairs[:, pairs[0] != pairs[1]]
    graph, label = batch.cpu().numpy(), cluster.cpu().numpy()
    # The non-empty clusters of all graphs, numbered one after the other.
    clusters, part = np.unique(np.stack([graph, label]), axis=1, return_inverse=True)
    part, size = part.reshape(-1), np.bincount(part.reshape(-1))

    def total(graph: np.ndarray, values: Optional[np.ndarray] = None) -> np.ndarray:
        """Returns the sum of values, or their number, of every graph."""
        return np.bincount(graph, values, minlength=batch_size)

    n, used = total(graph), total(clusters[0])
    within = part[pairs[0]] == part[pairs[1]]
    # The components of the edges inside clusters are the connected parts of clusters.
    component = connected_components(_matrix(pairs[:, within], num_nodes), directed=False)[1]
    pieces = np.bincount(part[np.unique(component, return_index=True)[1]])
    ratio = np.full(batch_size, np.nan)
    for g in np.unique(graph[pairs[0]]):
        nodes = np.flatnonzero(graph == g)
        edges = np.searchsorted(nodes, pairs[:, graph[pairs[0]] == g])
        ratio[g] = _distance_ratio(edges, label[nodes])
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = np.log(n) - total(clusters[0], size * np.log(size)) / n
        columns = (
            total(graph[pairs[0]], within) / total(graph[pairs[0]]),
            total(clusters[0], size * (size - 1.0)) / (n * (n - 1.0)),
            ratio,
            total(clusters[0], pieces == 1) / used,
            used,
            entropy.clip(min=0) / (math.log(num_clusters) or np.nan),
        )
    return Locality(*(torch.from_numpy(column.astype(np.float64)) for column in columns))


def _distance_ratio(edges: np.ndarray, label: np.ndarray) -> float:
    """Returns the distance ratio of a graph. Pairs of nodes without a path do not count."""
    distance = dijkstra(_matrix(edges, len(label)), directed=False, unweighted=True)
    reached = np.isfinite(distance) & (distance > 0)
    within = reached & (label[:, None] == label[None, :])
    return float(distance[within].mean() / distance[reached].mean()) if within.any() else np.nan


def _matrix(edges: np.ndarray, n: int) -> csr_matrix:
    return csr_matrix((np.ones(edges.shape[1]), (edges[0], edges[1])), shape=(n, n))

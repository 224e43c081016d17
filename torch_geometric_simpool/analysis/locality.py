"""How local a hard assignment is: figures for the claim that clusters are neighbourhoods."""

import math
from typing import NamedTuple, Optional

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components, dijkstra
from torch import Tensor

from torch_geometric_simpool.utils.checks import (
    check_batch,
    check_edge_index,
    check_int,
    check_within_graphs,
    shape,
)


class Locality(NamedTuple):
    """Figures of every graph of a batch, each `[B]` float64; NaN where one is not defined."""

    #: The share of the edges whose two ends share a cluster; NaN without edges.
    edges_inside: Tensor
    #: What that share is on average if the same clusters' members are drawn at random.
    edges_by_chance: Tensor
    #: The mean geodesic distance of two nodes of one cluster, over that of two nodes of
    #: the graph; NaN where no two nodes of a cluster are joined by a path.
    distance_ratio: Tensor
    #: The share of the used clusters that are connected as subgraphs.
    connected: Tensor
    #: The number of clusters that have a node.
    clusters: Tensor
    #: The entropy of the clusters' shares of the nodes, over `log K`: 1 where all `K` are
    #: equally large, 0 where one holds all.
    evenness: Tensor

    def mean(self) -> dict[str, float]:
        """The mean of every figure over the graphs where it is defined, by name."""
        return {name: value.nanmean().item() for name, value in self._asdict().items()}


def locality(
    edge_index: Tensor,
    cluster: Tensor,
    num_clusters: int,
    batch: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
    distances: bool = True,
) -> Locality:
    r"""How local a hard assignment is, graph by graph.

    With :math:`n_c` nodes in cluster :math:`c` of a graph of :math:`n` nodes, and
    :math:`d` the geodesic distance, over pairs of different nodes that a path joins:

    .. math::
        \text{edges inside} &= |\{\{i, j\} \in E : c_i = c_j\}| \, / \, |E| \\
        \text{by chance} &= \sum\nolimits_c n_c (n_c - 1) \, / \, (n (n - 1)) \\
        \text{distance ratio} &= \operatorname{mean}_{c_i = c_j} d(i, j) \, / \,
            \operatorname{mean}_{i, j} d(i, j) \\
        \text{evenness} &= H(n_1 / n, \dots, n_K / n) \, / \, \log K

    A ratio below one says that a cluster is smaller than the graph around it. Edges count
    once, without direction; parallel ones count as one and self-loops not at all.

    Args:
        edge_index: The edges, integers, `[2, E]`; none joins two graphs.
        cluster: The cluster of each node, integers in `[0, num_clusters)`, `[N]`: of an
            assignment matrix, `s.argmax(dim=-1)`.
        num_clusters: `K`, the number of clusters there could be, `>= 1`.
        batch: The graph of each node, `[N]`, ascending; one graph if `None`.
        batch_size: The number of graphs, if that is more than `batch` tells.
        distances: Whether to compute the distance ratio, which is what takes time; NaN
            otherwise.

    Returns:
        A :class:`Locality`, on the CPU. Where `n < 2`, chance and ratio are NaN; where
        `n = 0`, all but `clusters` are; with `K = 1`, evenness is.

    Raises:
        TypeError, ValueError: The error names the argument, what came and what was
            expected.

    Time `O(n (n + E))` a graph (a search from every node), memory `O(n^2)` of one graph
    at a time; without `distances`, `O(N \log N + E \log E)` for all. Computed by SciPy on the
    CPU; deterministic. Not differentiable.

    Source: what section 'Experimental results' of Shulman (2020) shows in pictures.

    Example:
        >>> path = torch.tensor([[0, 1, 2], [1, 2, 3]])
        >>> halves = locality(path, torch.tensor([0, 0, 1, 1]), num_clusters=2)
        >>> halves.edges_inside, halves.edges_by_chance
        (tensor([0.6667], dtype=torch.float64), tensor([0.3333], dtype=torch.float64))
    """
    check_int("num_clusters", num_clusters, 1)
    if not isinstance(cluster, Tensor):
        raise TypeError(f"`cluster` must be a torch.Tensor, got {type(cluster).__name__}")
    if cluster.dim() != 1 or cluster.is_floating_point() or cluster.is_complex():
        raise ValueError(f"`cluster` must hold integers, [N], got {cluster.dtype} {shape(cluster)}")
    if cluster.numel() > 0 and not 0 <= int(cluster.min()) <= int(cluster.max()) < num_clusters:
        raise ValueError(
            f"`cluster` must lie in [0, {num_clusters}), got values from {int(cluster.min())} "
            f"to {int(cluster.max())}"
        )
    num_nodes = cluster.numel()
    edge_index, _ = check_edge_index(edge_index, num_nodes)
    batch, batch_size = check_batch(batch, num_nodes, batch_size, cluster.device)
    if batch_size > 1:
        check_within_graphs(edge_index, batch)
    source, target = edge_index.cpu().numpy()
    # One direction of every edge, once: what is left is the upper triangle.
    pairs = np.unique(np.sort(np.stack([source, target]), axis=0), axis=1)
    pairs = pairs[:, pairs[0] != pairs[1]]
    of_graph = batch.cpu().numpy()
    ends = np.cumsum(np.bincount(of_graph, minlength=batch_size)[:batch_size])
    edge_ends = np.cumsum(np.bincount(of_graph[pairs[0]], minlength=batch_size))
    label = cluster.cpu().numpy()
    rows, first, first_edge = [], 0, 0
    for last, last_edge in zip(ends, edge_ends):
        edges = pairs[:, first_edge:last_edge] - first
        rows.append(_of_graph(edges, label[first:last], num_clusters, distances))
        first, first_edge = last, last_edge
    table = torch.tensor(rows, dtype=torch.float64).view(batch_size, len(Locality._fields))
    return Locality(*table.unbind(dim=1))


def _of_graph(
    edges: np.ndarray, label: np.ndarray, num_clusters: int, distances: bool
) -> list[float]:
    """The figures of one graph, given each edge once."""
    n = len(label)
    if n == 0:
        return [np.nan] * 4 + [0.0, np.nan]
    # Of the used clusters alone: `num_clusters` may be far more than there is memory for.
    label = np.unique(label, return_inverse=True)[1]
    size = np.bincount(label)
    used = len(size)
    joined = edges[:, label[edges[0]] == label[edges[1]]]
    inside = joined.shape[1] / edges.shape[1] if edges.shape[1] > 0 else np.nan
    chance = float((size * (size - 1.0)).sum()) / (n * (n - 1)) if n > 1 else np.nan
    # Within clusters alone, a component is a connected part of one.
    component = connected_components(_matrix(joined, n), directed=False)[1]
    pieces = np.bincount(label[np.unique(component, return_index=True)[1]])
    connected = float((pieces == 1).sum()) / used
    share = size / n
    entropy = float(-(share * np.log(share)).sum())
    evenness = max(entropy, 0.0) / math.log(num_clusters) if num_clusters > 1 else np.nan
    ratio = _distance_ratio(edges, label) if distances else np.nan
    return [inside, chance, ratio, connected, used, evenness]


def _distance_ratio(edges: np.ndarray, label: np.ndarray) -> float:
    """Mean distance within clusters over that of all, over pairs that a path joins."""
    if edges.shape[1] == 0:
        return np.nan
    distance = dijkstra(_matrix(edges, len(label)), directed=False, unweighted=True)
    reached = np.isfinite(distance) & (distance > 0)
    within = reached & (label[:, None] == label[None, :])
    if not within.any():
        return np.nan
    return float(distance[within].mean() / distance[reached].mean())


def _matrix(edges: np.ndarray, n: int) -> coo_matrix:
    return coo_matrix((np.ones(edges.shape[1]), (edges[0], edges[1])), shape=(n, n)).tocsr()

"""The edges that the rows of a few nodes depend on: one pass over the others is enough.

A row is made of the features of its node, and of all nodes that have one of these. Of other edges
only the degrees of their ends count, for the norms.
"""

import functools
from typing import Any, NamedTuple, Optional

import numpy as np
import torch

from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.numba import threads
from torch_geometric_simpool.topk.numba.jit import allocation_free
from torch_geometric_simpool.topk.spec import EdgeList, SimilaritySpec

#: The largest share of the edges that is worth leaving the others out, by the mean degrees.
MOST = 0.5


class Degrees(NamedTuple):
    """The degrees of all nodes, in all edges."""

    out: np.ndarray  # [num_nodes]
    into: np.ndarray  # [num_cols]


def edges_nearby(
    graph: EdgeList, settings: SimilaritySpec, nodes: np.ndarray, budget: Budget
) -> tuple[EdgeList, Optional[Degrees], int]:
    """The edges to or from the features of `nodes`, the degrees of all, and the bytes it took.

    All edges, and no degrees, where that would not help or not be enough: of many nodes, of
    powers, of added self-loops, of weights, and of edges that are not sorted, among which some may
    be parallel.
    """
    num_edges = graph.edge_index.size(1)
    many = nodes.size * num_edges > MOST * graph.num_nodes * graph.num_cols
    if (
        num_edges == 0
        or many
        or graph.edge_weight is not None
        or settings.p > 1
        or settings.lam > 0
    ):
        return graph, None, 0
    row, col = (ids.contiguous().numpy() for ids in graph.edge_index)
    asked = np.zeros(graph.num_nodes, np.bool_)
    asked[nodes] = True
    # The features by the edges of `A`, and by those of its transpose.
    features = np.zeros(graph.num_cols, np.bool_)
    back_features = np.zeros(graph.num_nodes, np.bool_)
    counted: list[Degrees] = []
    is_sorted: list[bool] = []
    kept: dict[int, np.ndarray] = {}

    def new_degrees() -> Degrees:
        sizes = graph.num_nodes, graph.num_cols
        counted.append(Degrees(*(np.zeros(size, np.int32) for size in sizes)))
        return counted[-1]

    def count_range(start: int, end: int, mine: Degrees) -> None:
        arrays = asked, not graph.bipartite, features, back_features
        is_sorted.append(count_and_mark(row, col, start, end, *arrays, mine.out, mine.into))

    def select_range(start: int, end: int, _: Any) -> None:
        out = np.empty((2, end - start), np.int64)
        size = select(row, col, start, end, features, back_features, out)
        kept[start] = out[:, :size]

    num_threads = torch.get_num_threads()
    # For each node masks, and its degrees in each thread; edges are written at most twice.
    of_nodes = (graph.num_nodes + graph.num_cols) * (2 + 4 * (num_threads + 1))
    memory = of_nodes + int(2 * min(MOST, 1.0) * graph.edge_index.nbytes)
    budget.check_memory(memory)
    ranges = threads.equal_ranges(num_edges, num_threads)
    threads.run(count_range, ranges, num_threads, new_degrees)
    if not all(is_sorted):
        return graph, None, memory
    threads.run(select_range, ranges, num_threads)
    edges = np.concatenate([kept[start] for start, _ in ranges], axis=1)
    degrees = Degrees(*(functools.reduce(np.add, arrays) for arrays in zip(*counted)))
    return graph._replace(edge_index=torch.from_numpy(edges)), degrees, memory


@allocation_free
def count_and_mark(
    row, col, start, end, asked, both_ways, features, back_features, out_degree, in_degree
):
    """Counts degrees, marks the features of what is asked for; whether edges strictly ascend."""
    for e in range(start, end):
        i, j = row[e], col[e]
        if e > 0 and (i < row[e - 1] or (i == row[e - 1] and j <= col[e - 1])):
            return False
        out_degree[i] += 1
        in_degree[j] += 1
        if asked[i]:
            features[j] = True
        if both_ways and asked[j]:
            back_features[i] = True
    return True


@allocation_free
def select(row, col, start, end, features, back_features, out):
    """Writes the edges of a feature; returns how many there are."""
    size = 0
    for e in range(start, end):
        out[0, size] = row[e]
        out[1, size] = col[e]
        size += np.int64(features[col[e]] | back_features[row[e]])
    return size

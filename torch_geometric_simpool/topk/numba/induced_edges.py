"""The edges that the rows of a few nodes depend on.

A row is made of the features of its node, and of all nodes that have one of them. Other edges only
count in the norms.
"""

from typing import Any, Optional

import numpy as np
import torch

from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.numba import threads
from torch_geometric_simpool.topk.numba.describe import Degrees
from torch_geometric_simpool.topk.numba.jit import allocation_free
from torch_geometric_simpool.topk.spec import EdgeList, SimilaritySpec

#: The largest share of the edges that is worth leaving the others out, by the mean degrees.
MOST = 0.5


def induced_edges(
    edges: EdgeList, spec: SimilaritySpec, nodes: np.ndarray, budget: Budget
) -> tuple[EdgeList, Optional[Degrees], int]:
    """Returns the edges to or from the features of `nodes`, all degrees, and the bytes used.

    Returns all edges, and no degrees, for many nodes, powers, added self-loops, weights, and edges
    that are not sorted, some of which may be parallel.
    """
    num_edges = edges.edge_index.size(1)
    if (
        nodes.size * num_edges > MOST * edges.num_nodes * edges.num_cols
        or edges.edge_weight is not None
        or spec.p > 1
        or spec.lam > 0
    ):
        return edges, None, 0
    row, col = (ids.contiguous().numpy() for ids in edges.edge_index)
    sizes = edges.num_nodes, edges.num_cols
    num_threads = torch.get_num_threads()
    memory = sum(sizes) * (4 * num_threads + 18) + edges.edge_index.nbytes
    budget.check_memory(memory)
    asked = np.zeros(edges.num_nodes, np.bool_)
    asked[nodes] = True
    # The features by the edges of `A`, and by the edges of its transpose.
    features, back_features = np.zeros(edges.num_cols, np.bool_), np.zeros(sizes[0], np.bool_)
    counts: list[Degrees] = []
    is_sorted: list[bool] = []
    parts: dict[int, np.ndarray] = {}

    def new_counts() -> Degrees:
        counts.append(Degrees(*(np.zeros(size, np.int32) for size in sizes)))
        return counts[-1]

    def mark(start: int, end: int, degrees: Degrees) -> None:
        arguments = asked, not edges.bipartite, features, back_features, *degrees
        is_sorted.append(count_and_mark(row, col, start, end, *arguments))

    def copy(start: int, end: int, _: Any) -> None:
        out = np.empty((2, end - start), np.int64)
        size = copy_edges(row, col, start, end, features, back_features, out)
        parts[start] = out[:, :size]

    ranges = threads.equal_ranges(num_edges, num_threads)
    threads.run(mark, ranges, num_threads, new_counts)
    if not all(is_sorted) or num_edges == 0:
        return edges, None, memory
    threads.run(copy, ranges, num_threads)
    induced = np.concatenate([parts[start] for start, _ in ranges], axis=1)
    out, into = (np.stack(arrays).sum(axis=0, dtype=np.int64) for arrays in zip(*counts))
    degrees = Degrees(out, into)
    return edges._replace(edge_index=torch.from_numpy(induced)), degrees, memory


@allocation_free
def count_and_mark(
    row, col, start, end, asked, both_ways, features, back_features, out_degree, in_degree
):
    """Counts degrees, marks the features of `asked`; returns whether edges strictly ascend."""
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
def copy_edges(row, col, start, end, features, back_features, out):
    """Writes the edges of a feature; returns how many there are."""
    size = 0
    for e in range(start, end):
        out[0, size] = row[e]
        out[1, size] = col[e]
        size += np.int64(features[col[e]] | back_features[row[e]])
    return size

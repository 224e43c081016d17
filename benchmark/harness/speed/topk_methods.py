"""The ways to compute the top k that `benchmark/topk.py` compares.

Each takes a :class:`Problem` and `k`. It returns similarities and indices as arrays `[N, k]`, and
the seconds of its sparse product, or `None` if it has none that can be timed separately.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Union

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_simpool import (
    SimilarityIndex,
    StructuralSimilarity,
    structural_similarity,
    topk_similarity,
)

Result = tuple[np.ndarray, np.ndarray, Optional[float]]


@dataclass
class Problem:
    """One graph, or a data set: its graphs, and their block-diagonal graph.

    A bipartite graph has `num_dst`. With `nodes`, only their rows are asked for.
    """

    edge_index: Tensor
    num_nodes: int
    graphs: Optional[list[Data]] = None
    num_dst: Optional[int] = None
    nodes: Optional[Tensor] = None

    def save(self, path: Path) -> None:
        """Stores the problem as tensors and numbers."""
        graphs = None if self.graphs is None else [(g.num_nodes, g.edge_index) for g in self.graphs]
        torch.save({**vars(self), "graphs": graphs}, path)

    @classmethod
    def load(cls, path: Path) -> "Problem":
        """Reads what :meth:`save` stored; such a file cannot run code."""
        stored = torch.load(path, weights_only=True)
        if stored["graphs"] is not None:
            stored["graphs"] = [Data(edge_index=e, num_nodes=n) for n, e in stored["graphs"]]
        return cls(**stored)

    @property
    def sizes(self) -> Union[int, tuple[int, int]]:
        """What :func:`topk_similarity` takes as `num_nodes`."""
        return self.num_nodes if self.num_dst is None else (self.num_nodes, self.num_dst)

    @property
    def num_rows(self) -> int:
        """The number of rows of the result."""
        return self.num_nodes if self.nodes is None else self.nodes.numel()


def simpool(problem: Problem, k: int) -> Result:
    if problem.graphs is not None:
        graphs = StructuralSimilarity(k, order=None).precompute(problem.graphs, progress=False)
        # From data objects to data objects. Their contents are checked in tests.
        return np.empty(0), np.array([len(graphs)]), None
    values, index = topk_similarity(
        problem.edge_index, k, num_nodes=problem.sizes, nodes=problem.nodes
    )
    return values.numpy(), index.numpy(), None


def simpool_index(problem: Problem, k: int) -> Result:
    """With a prepared graph; the seconds of the product are those of the query."""
    prepared = SimilarityIndex(problem.edge_index, num_nodes=problem.sizes)
    start = time.perf_counter()
    values, index = prepared.query(problem.nodes, k)
    return values.numpy(), index.numpy(), time.perf_counter() - start


def simpool_edges(problem: Problem, k: int) -> Result:
    """On a data set: from the edges of the block-diagonal graph to arrays, like the others."""
    return simpool(Problem(problem.edge_index, problem.num_nodes), k)


def simpool_torch(problem: Problem, k: int) -> Result:
    values, index = topk_similarity(
        problem.edge_index, k, num_nodes=problem.num_nodes, backend="torch"
    )
    return values.numpy(), index.numpy(), None


def sparse_dot_topn(problem: Problem, k: int) -> Result:
    from sparse_dot_topn import sp_matmul_topn

    described, transposed = _descriptions(problem)
    if problem.nodes is not None:
        described = described[problem.nodes.numpy()]
    start = time.perf_counter()
    product = sp_matmul_topn(
        described, transposed, top_n=k, sort=True, n_threads=torch.get_num_threads()
    )
    seconds = time.perf_counter() - start
    return *_rows(product.data, product.indices, product.indptr, k), seconds


def scipy_sort(problem: Problem, k: int) -> Result:
    described, transposed = _descriptions(problem)
    start = time.perf_counter()
    product = (described @ transposed).tocsr()
    seconds = time.perf_counter() - start
    values = np.zeros((problem.num_nodes, k), np.float32)
    index = np.full((problem.num_nodes, k), -1)
    for i in range(problem.num_nodes):
        row = slice(product.indptr[i], product.indptr[i + 1])
        data = product.data[row]
        best = np.argpartition(data, -k)[-k:] if data.size > k else np.arange(data.size)
        best = best[np.argsort(-data[best], kind="stable")]
        values[i, : best.size] = data[best]
        index[i, : best.size] = product.indices[row][best]
    return values, index, seconds


def dense(problem: Problem, k: int) -> Result:
    """The dense formula, graph by graph."""
    assert problem.graphs is not None
    values, index = [], []
    for data in problem.graphs:
        adj = torch.zeros(data.num_nodes, data.num_nodes)
        adj[data.edge_index[0], data.edge_index[1]] = 1
        best = structural_similarity(adj).topk(min(k, data.num_nodes))
        missing = k - best.values.size(1)
        values.append(torch.nn.functional.pad(best.values, (0, missing)))
        index.append(torch.nn.functional.pad(best.indices, (0, missing), value=-1))
    return torch.cat(values).numpy(), torch.cat(index).numpy(), None


METHODS = {
    "simpool": simpool,
    "simpool_index": simpool_index,
    "simpool_edges": simpool_edges,
    "simpool_torch": simpool_torch,
    "sparse_dot_topn": sparse_dot_topn,
    "scipy": scipy_sort,
    "dense": dense,
}


def check(problem: Problem, k: int, methods: list[str], sample: int = 300) -> None:
    """Raises if the methods do not agree.

    On random rows, the indices of the package are compared with those by exact arithmetic. On all
    rows, the similarities of the others are compared with those of the package, up to rounding.
    Their indices are not, as only the package defines the order of ties.
    """
    values, index = topk_similarity(
        problem.edge_index, k, num_nodes=problem.sizes, nodes=problem.nodes
    )
    row, col = problem.edge_index.numpy()
    ones = np.ones(row.size)
    adj = scipy.sparse.csr_matrix((ones, (row, col)), shape=_shape(problem))
    degree = np.diff(adj.indptr)
    asked = np.arange(problem.num_nodes) if problem.nodes is None else problem.nodes.numpy()
    chosen = np.random.default_rng(0).choice(asked.size, min(sample, asked.size), False)
    dots = (adj[asked[chosen]] @ adj.T).tocsr()
    for place, i in enumerate(chosen):
        entries = slice(dots.indptr[place], dots.indptr[place + 1])
        other, dot = dots.indices[entries], dots.data[entries]
        key = dot**2 / degree[other]  # integers below 2^53: equal fractions, equal doubles
        best = other[np.lexsort((other, -key))][:k]
        found = index[i].numpy()
        if not np.array_equal(found[found >= 0], best):
            raise ValueError(f"row {i} of simpool: {found.tolist()}, exactly {best.tolist()}")
    for name in methods:
        if name in ("simpool", "simpool_edges"):
            continue
        other_values, other_index, _ = METHODS[name](problem, k)
        if name.startswith("simpool_") and not np.array_equal(other_index, index.numpy()):
            raise ValueError(f"{name} and simpool differ")
        difference = np.abs(other_values - values.numpy()).max(initial=0)
        # Sums in float32, with as many terms as a node has neighbors.
        if not difference < 1e-6 + 2**-23 * degree.max():
            raise ValueError(f"similarities of {name} differ from simpool by {difference}")


def _shape(problem: Problem) -> tuple[int, int]:
    return problem.num_nodes, problem.num_dst or problem.num_nodes


def _descriptions(problem: Problem) -> tuple[scipy.sparse.csr_matrix, scipy.sparse.csr_matrix]:
    """The rows of the adjacency matrix in float32, each divided by its norm; and the transpose.

    As fast as can be: sorted edges are a matrix already, and all graphs but the bipartite ones are
    undirected, so that the transpose has the same entries.
    """
    row, col = problem.edge_index.numpy()
    ones, shape = np.ones(row.size, np.float32), _shape(problem)
    if (row[1:] >= row[:-1]).all():
        degree = np.bincount(row, minlength=shape[0])
        ptr = np.zeros(shape[0] + 1, np.int32)
        np.cumsum(degree, out=ptr[1:])
        adj = scipy.sparse.csr_matrix((ones, col.astype(np.int32), ptr), shape=shape)
    else:
        adj = scipy.sparse.csr_matrix((ones, (row, col)), shape=shape)
        degree = np.diff(adj.indptr)
    scale = (1 / np.sqrt(np.maximum(degree, 1))).astype(np.float32)
    described = scipy.sparse.csr_matrix(
        (np.repeat(scale, degree), adj.indices, adj.indptr), shape=shape
    )
    if problem.num_dst is not None:
        return described, described.T.tocsr()
    return described, scipy.sparse.csr_matrix(
        (scale[adj.indices], adj.indices, adj.indptr), shape=shape
    )


def _rows(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """A sparse result as arrays `[N, k]`."""
    count = np.diff(indptr)
    place = np.arange(k) < count[:, None]
    values = np.zeros(place.shape, np.float32)
    index = np.full(place.shape, -1, np.int64)
    values[place] = data
    index[place] = indices
    return values, index

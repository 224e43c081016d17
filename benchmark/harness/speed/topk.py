"""Measures the top k beside other packages, on random graphs, and checks that results agree."""

import importlib.util
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Optional

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from sklearn.preprocessing import normalize
from torch import Tensor
from torch_geometric.utils import remove_self_loops, to_undirected

from harness.speed.measure import in_turns
from torch_geometric_simpool import SimilarityIndex, topk_similarity


@dataclass
class Problem:
    """A top k of the rows of a matrix, and the matrix in the forms that other packages read."""

    edge_index: Tensor
    shape: tuple[int, int]
    edge_weight: Optional[Tensor] = None
    k: int = 16
    measure: str = "cosine"
    #: The requested rows. (default: all)
    nodes: Optional[np.ndarray] = None

    def __post_init__(self) -> None:
        row, col = self.edge_index.numpy()
        weight = np.ones(row.size) if self.edge_weight is None else self.edge_weight.numpy()
        self.matrix = scipy.sparse.csr_matrix((weight.astype(np.float32), (row, col)), self.shape)
        self.unit = normalize(self.matrix)
        self.transposed = self.unit.T.tocsr()

    @cached_property
    def double(self) -> scipy.sparse.csr_matrix:
        """The transpose in float64."""
        return self.transposed.astype(np.float64)


def uniform(num_nodes: int, degree: int, seed: int = 0) -> Tensor:
    """Returns a graph whose edges have uniform ends, with `degree` neighbors on average."""
    return _undirected(
        np.random.default_rng(seed).integers(0, num_nodes, (2, num_nodes * degree // 2))
    )


def power_law(num_nodes: int, degree: int, seed: int = 0) -> Tensor:
    """Returns a graph of preferential attachment (Batagelj and Brandes 2005)."""
    number = np.arange(num_nodes * (degree // 2))
    # Ends of edges are numbered one after the other. End `2 i + 1` copies a random earlier end. The
    # legacy generator gives the graphs of the stored results.
    copied = np.random.RandomState(seed).randint(0, 2 * number + 1)
    # An odd end is a copy as well. Follow copies up to an even end, which is a node.
    while (odd := np.flatnonzero(copied % 2)).size > 0:
        copied[odd] = copied[copied[odd] // 2]
    return _undirected(np.stack([number, copied // 2]) // (degree // 2))


def interactions(num_users: int, num_items: int, num_edges: int, seed: int = 0) -> Tensor:
    """Returns sorted pairs of users and items. The popularity of items is a power law."""
    generator = np.random.default_rng(seed)
    popularity = np.arange(1, num_items + 1) ** -0.8
    key = np.empty(0, np.int64)
    while key.size < num_edges:
        item = generator.choice(num_items, num_edges, p=popularity / popularity.sum())
        user = generator.integers(0, num_users, num_edges)
        key = np.unique(np.concatenate([key, user * num_items + item]))
    key = np.sort(generator.choice(key, num_edges, replace=False))
    return torch.from_numpy(np.stack([key // num_items, key % num_items]))


def _undirected(ends: np.ndarray) -> Tensor:
    """Returns both directions of the edges, sorted, without self-loops and repeated edges."""
    return to_undirected(remove_self_loops(torch.from_numpy(ends))[0])


def _graph(
    edges_of: Callable[[int, int], Tensor],
    num_nodes: int,
    degree: int,
    real: bool = False,
    num_rows: Optional[int] = None,
    measure: str = "cosine",
) -> Problem:
    """Returns the top k of a graph, with symmetric random weights in (0, 1] if `real`."""
    edges, weight, nodes = edges_of(num_nodes, degree), None, None
    if real:
        upper = edges[:, edges[0] < edges[1]]
        drawn = 1 - np.random.default_rng(7).random(upper.size(1), dtype=np.float32)
        edges, weight = to_undirected(upper, torch.from_numpy(drawn))
    if num_rows is not None:
        nodes = np.random.default_rng(1).choice(num_nodes, num_rows, replace=False)
    return Problem(edges, (num_nodes, num_nodes), weight, measure=measure, nodes=nodes)


def _items(num_items: int, num_users: int, num_edges: int, ratings: bool = False) -> Problem:
    """Returns the top k of items described by their users, with ratings from 1 to 5 if asked."""
    edges = interactions(num_users, num_items, num_edges).flip(0)
    edges = edges[:, edges[0].argsort(stable=True)]
    values = np.random.default_rng(7).integers(1, 6, edges.size(1)).astype(np.float32)
    weight = torch.from_numpy(values) if ratings else None
    return Problem(edges, (num_items, num_users), weight, k=50)


#: Titles and problems by the names that `speed.py topk --cases` takes.
CASES: dict[str, tuple[str, Callable[[], Problem]]] = {
    "uniform-1m-10": (
        "uniform, 1,000,000 nodes, 10 neighbors", partial(_graph, uniform, 10**6, 10)
    ),
    "power-1m-10": (
        "power law, 1,000,000 nodes, 10 neighbors", partial(_graph, power_law, 10**6, 10)
    ),
    "uniform-100k-100": (
        "uniform, 100,000 nodes, 100 neighbors", partial(_graph, uniform, 10**5, 100)
    ),
    "power-100k-60": (
        "power law, 100,000 nodes, 60 neighbors", partial(_graph, power_law, 10**5, 60)
    ),
    "uniform-20k-40": (
        "uniform, 20,000 nodes, 40 neighbors", partial(_graph, uniform, 20_000, 40)
    ),
    "uniform-5k-100": (
        "uniform, 5,000 nodes, 100 neighbors", partial(_graph, uniform, 5_000, 100)
    ),
    "items-6k": (
        "6,000 items of 60,000 users", partial(_items, 6_000, 60_000, 8_000_000)
    ),
    "power-300k-20-real": (
        "power law, 300,000 nodes, 20 neighbors, real weights",
        partial(_graph, power_law, 300_000, 20, real=True),
    ),
    "uniform-100k-30-real": (
        "uniform, 100,000 nodes, 30 neighbors, real weights",
        partial(_graph, uniform, 10**5, 30, real=True),
    ),
    "items-20k-ratings": (
        "20,000 items of 200,000 users, ratings",
        partial(_items, 20_000, 200_000, 2_000_000, ratings=True),
    ),
    "power-300k-20-jaccard": (
        "power law, 300,000 nodes, 20 neighbors, Jaccard",
        partial(_graph, power_law, 300_000, 20, measure="jaccard"),
    ),
    "rows-1m-10": (
        "uniform, 1,000,000 nodes, 10 neighbors, 10,000 rows",
        partial(_graph, uniform, 10**6, 10, num_rows=10_000),
    ),
    "small": ("uniform, 2,000 nodes, 10 neighbors", partial(_graph, uniform, 2_000, 10)),
}  # fmt: skip
DEFAULT = [name for name in CASES if name != "small"]


def simpool(
    problem: Problem, backend: str = "auto", device: str = "cpu"
) -> Callable[[], tuple[Tensor, Tensor]]:
    """Returns a function that calls this package on the edges, which are on the device."""
    num_rows, num_columns = problem.shape
    return partial(
        topk_similarity,
        problem.edge_index.to(device),
        problem.k,
        None if problem.edge_weight is None else problem.edge_weight.to(device),
        num_rows if num_rows == num_columns else problem.shape,
        measure=problem.measure,
        nodes=None if problem.nodes is None else torch.from_numpy(problem.nodes).to(device),
        backend=backend,
    )


def sparse_dot_topn(problem: Problem) -> Any:
    """Calls sparse_dot_topn on unit rows and their transpose."""
    from sparse_dot_topn import sp_matmul_topn

    rows = problem.unit if problem.nodes is None else problem.unit[problem.nodes]
    settings = {"sort": True, "n_threads": torch.get_num_threads()}
    return sp_matmul_topn(rows, problem.transposed, top_n=problem.k, **settings)


def similaripy(problem: Problem) -> Any:
    """Calls similaripy's measure on the matrix, with its default blocks."""
    import similaripy as package

    settings = {
        "k": problem.k,
        "target_rows": problem.nodes,
        "verbose": False,
        "num_threads": torch.get_num_threads(),
    }
    if problem.measure == "jaccard":
        return package.jaccard(problem.matrix, binary=True, **settings)
    return package.dot_product(problem.unit, problem.transposed, **settings)


def implicit(problem: Problem) -> Any:
    """Calls implicit's search for the nearest neighbors of all columns, in float64."""
    from implicit.nearest_neighbours import all_pairs_knn

    settings = {"show_progress": False, "num_threads": torch.get_num_threads()}
    return all_pairs_knn(problem.double, problem.k, **settings)


def from_edges(peer: Callable[[Problem], Any], problem: Problem) -> Any:
    """Calls another package on matrices that are built from the edges again."""
    return peer(replace(problem))


def sparse_mm(problem: Problem, device: str) -> Callable[[], Any]:
    """Returns a function that calls `torch.sparse.mm` and a dense `topk` on blocks of rows."""

    def on_device(matrix: Any) -> Tensor:
        return torch.sparse_csr_tensor(
            matrix.indptr, matrix.indices, matrix.data, matrix.shape, device=device
        )

    num_rows = problem.shape[0]
    size = 2**29 // num_rows + 1
    blocks = [on_device(problem.unit[start : start + size]) for start in range(0, num_rows, size)]
    transposed = on_device(problem.transposed)

    def call() -> None:
        for block in blocks:
            torch.sparse.mm(block, transposed).to_dense().topk(problem.k)

    return call


def peers_of(problem: Problem) -> dict[str, Callable[[Problem], Any]]:
    """Returns the installed packages that can compute a problem."""
    able = {
        sparse_dot_topn: problem.measure == "cosine",
        similaripy: True,
        implicit: problem.measure == "cosine" and problem.nodes is None,
    }
    return {
        peer.__name__: peer
        for peer, is_able in able.items()
        if is_able and importlib.util.find_spec(peer.__name__)
    }


def check_agreement(problem: Problem, peers: dict[str, Callable[[Problem], Any]]) -> None:
    """Raises if the similarities of a package differ by more than the rounding of float32 sums.

    The `k` largest similarities of up to 1,000 rows are compared in descending order. Indices are
    not compared, because other packages break ties arbitrarily.
    """
    values = simpool(problem)()[0].numpy()
    chosen = np.random.default_rng(0).permutation(len(values))[:1000]
    for name, peer in peers.items():
        similar = scipy.sparse.csr_matrix(peer(problem))
        rows = similar[chosen]
        if problem.nodes is not None and name != "sparse_dot_topn":
            rows = similar[problem.nodes[chosen]]  # the package returns the rows of all nodes
        for row, ours in zip(rows, values[chosen]):
            best = np.sort(row.data)[::-1][: ours.size]
            theirs = np.pad(best, (0, ours.size - best.size))
            np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-3, err_msg=name)


def measure(options: Namespace) -> Iterator[tuple[str, pd.DataFrame]]:
    """Checks that all packages, or all backends on a GPU, agree, then times them in turns."""
    for name in options.cases:
        title, make = CASES[name]
        problem = make()
        calls: dict[str, Callable[[], Any]] = {"simpool": simpool(problem)}
        if problem.nodes is not None:  # other packages read a prepared matrix too
            index = SimilarityIndex(problem.edge_index, num_nodes=problem.shape[0])
            calls["index"] = partial(index.query, torch.from_numpy(problem.nodes), problem.k)
        if options.device == "cpu":
            peers = peers_of(problem)
            check_agreement(problem, peers)
            calls |= {name: partial(peer, problem) for name, peer in peers.items()}
            if problem.nodes is not None:
                calls |= {
                    f"{name}, from edges": partial(from_edges, peer, problem)
                    for name, peer in peers.items()
                }
        else:
            expected = calls["simpool"]()[1]
            for backend in ("torch", "triton"):
                calls[backend] = simpool(problem, backend, options.device)
                torch.testing.assert_close(
                    calls[backend]()[1].cpu(), expected, msg=f"{backend} differs from numba"
                )
            # `sparse_mm` computes all pairs of nodes, which are 10^12 pairs for 10^6 nodes.
            if problem.shape[0] <= 10**5 and problem.nodes is None and problem.measure == "cosine":
                calls["torch.sparse.mm, topk"] = sparse_mm(problem, options.device)
        yield title, in_turns(calls, options.seconds, options.device)

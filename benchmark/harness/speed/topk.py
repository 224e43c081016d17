"""The top k beside other packages: graphs, methods, and the check that they agree."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Optional

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from harness.speed.graphs import interactions, power_law, uniform
from harness.speed.measure import Measurement, in_turns
from torch_geometric_simpool import topk_similarity

Edges = tuple[Tensor, Optional[Tensor]]


@dataclass(frozen=True)
class Case:
    """A graph whose top k is timed."""

    title: str
    #: Returns `edge_index` and, if there are any, edge weights.
    make: Callable[[], Edges]
    num_nodes: int
    #: The number of columns of a bipartite graph.
    num_dst: Optional[int] = None
    k: int = 16
    measure: str = "cosine"
    #: The number of rows that are asked for, all by default.
    num_rows: Optional[int] = None


def _real(edges: Tensor, num_nodes: int) -> Edges:
    """Returns symmetric random weights in (0, 1]."""
    generator = np.random.default_rng(7)
    low, high = edges.min(dim=0).values.numpy(), edges.max(dim=0).values.numpy()
    _, pair = np.unique(low * num_nodes + high, return_inverse=True)
    weight = 1 - generator.random(pair.max() + 1, dtype=np.float32)
    return edges, torch.from_numpy(weight[pair])


def _items(num_items: int, num_users: int, num_edges: int, ratings: bool = False) -> Edges:
    """Returns items described by their users, with ratings from 1 to 5 if asked for."""
    edges = interactions(num_users, num_items, num_edges).flip(0)
    edges = edges[:, edges[0].argsort(stable=True)]
    if not ratings:
        return edges, None
    values = np.random.default_rng(7).integers(1, 6, edges.size(1)).astype(np.float32)
    return edges, torch.from_numpy(values)


def _graph(
    kind: str, n: int, degree: int, title: str = "", real: bool = False, **more: Any
) -> Case:
    def make() -> Edges:
        edges = {"uniform": uniform, "power law": power_law}[kind](n, degree)
        return _real(edges, n) if real else (edges, None)

    return Case(f"{kind}, {n:,} nodes, {degree} neighbors{title}", make, n, **more)


_MANY = partial(_items, 6_000, 60_000, 8_000_000)
_RATED = partial(_items, 20_000, 200_000, 2_000_000, ratings=True)
#: By the names that `speed.py topk --cases` takes.
CASES: dict[str, Case] = {
    "uniform-1m-10": _graph("uniform", 10**6, 10),
    "power-1m-10": _graph("power law", 10**6, 10),
    "uniform-100k-100": _graph("uniform", 10**5, 100),
    "power-100k-60": _graph("power law", 10**5, 60),
    "uniform-20k-40": _graph("uniform", 20_000, 40),
    "uniform-5k-100": _graph("uniform", 5_000, 100),
    "items-6k": Case("6,000 items of 60,000 users", _MANY, 6_000, 60_000, 50),
    "power-300k-20-real": _graph("power law", 300_000, 20, ", real weights", True),
    "uniform-100k-30-real": _graph("uniform", 10**5, 30, ", real weights", True),
    "items-20k-ratings": Case(
        "20,000 items of 200,000 users, ratings", _RATED, 20_000, 200_000, 50
    ),
    "power-300k-20-jaccard": _graph("power law", 300_000, 20, ", Jaccard", measure="jaccard"),
    "rows-1m-10": _graph("uniform", 10**6, 10, ", 10,000 rows", num_rows=10_000),
    "small": _graph("uniform", 2_000, 10),
}
DEFAULT = tuple(name for name in CASES if name != "small")


class Problem:
    """A case with its matrix: rows are nodes, in float32 and as other packages want it."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.edge_index, self.edge_weight = case.make()
        row, col = self.edge_index.numpy()
        weight = np.ones(row.size) if self.edge_weight is None else self.edge_weight.numpy()
        shape = (case.num_nodes, case.num_dst or case.num_nodes)
        matrix = scipy.sparse.csr_matrix((weight.astype(np.float32), (row, col)), shape=shape)
        norm = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1))).ravel()
        scale = scipy.sparse.diags_array((1 / np.maximum(norm, 1e-30)).astype(np.float32))
        self.matrix = matrix
        #: Rows divided by their norms.
        self.unit = scipy.sparse.csr_matrix(scale @ matrix)
        self.transposed = self.unit.T.tocsr()
        self.double = self.transposed.astype(np.float64)
        self.nodes: Optional[np.ndarray] = None
        if case.num_rows is not None:
            chosen = np.random.default_rng(1).choice(case.num_nodes, case.num_rows, replace=False)
            self.nodes = chosen

    def rows(self, matrix: Any) -> Any:
        """Returns the rows that are asked for."""
        return matrix if self.nodes is None else matrix[self.nodes]


def simpool(problem: Problem, threads: int, backend: str = "auto", device: str = "cpu") -> Any:
    """Calls this package, from the edges."""
    case = problem.case
    torch.set_num_threads(threads)
    return topk_similarity(
        problem.edge_index.to(device),
        case.k,
        None if problem.edge_weight is None else problem.edge_weight.to(device),
        case.num_nodes if case.num_dst is None else (case.num_nodes, case.num_dst),
        measure=case.measure,
        nodes=None if problem.nodes is None else torch.from_numpy(problem.nodes),
        backend=backend,
    )


def sparse_dot_topn(problem: Problem, threads: int) -> Any:
    """Calls sparse_dot_topn on unit rows and their transpose."""
    from sparse_dot_topn import sp_matmul_topn

    rows = problem.rows(problem.unit)
    k = problem.case.k
    return sp_matmul_topn(rows, problem.transposed, top_n=k, sort=True, n_threads=threads)


def similaripy(problem: Problem, threads: int) -> Any:
    """Calls similaripy's measure on the matrix, with blocks of its own choice."""
    import similaripy as package

    case = problem.case
    settings: dict[str, Any] = {"k": case.k, "verbose": False, "num_threads": threads}
    rows = None if problem.nodes is None else problem.nodes
    if case.measure == "jaccard":
        similar = package.jaccard(problem.matrix, binary=True, target_rows=rows, **settings)
    else:
        similar = package.dot_product(
            problem.unit, problem.transposed, target_rows=rows, **settings
        )  # fmt: skip
    return similar


def implicit(problem: Problem, threads: int) -> Any:
    """Calls implicit's search for the nearest neighbors of all columns, in float64."""
    from implicit.nearest_neighbours import all_pairs_knn

    return all_pairs_knn(problem.double, problem.case.k, show_progress=False, num_threads=threads)


PEERS: dict[str, Callable[[Problem, int], Any]] = {
    "sparse_dot_topn": sparse_dot_topn,
    "similaripy": similaripy,
    "implicit": implicit,
}


def peers_of(case: Case) -> list[str]:
    """Returns the installed packages that can compute a case."""
    names = [name for name in PEERS if importlib.util.find_spec(name) is not None]
    if case.measure != "cosine":
        names = [name for name in names if name == "similaripy"]
    if case.num_rows is not None:
        names = [name for name in names if name != "implicit"]
    return names


def check_agreement(problem: Problem, peers: list[str], threads: int, sample: int = 1000) -> None:
    """Raises if a package gives other similarities, beyond the rounding of sums in float32.

    Indices are not compared: the others break ties arbitrarily. The `k` largest similarities of
    some rows are compared in descending order.
    """
    values, _ = simpool(problem, threads)
    count = values.size(0)
    chosen = np.random.default_rng(0).choice(count, min(sample, count), replace=False)
    expected = values.numpy()[chosen]
    nodes = chosen if problem.nodes is None else problem.nodes[chosen]
    for name in peers:
        similar = scipy.sparse.csr_matrix(PEERS[name](problem, threads))
        rows = similar[chosen if name == "sparse_dot_topn" else nodes]
        for row, ours in enumerate(expected):
            theirs = -np.sort(-rows.data[rows.indptr[row] : rows.indptr[row + 1]])
            theirs = np.pad(theirs[: ours.size], (0, max(ours.size - theirs.size, 0)))
            difference = float(np.abs(theirs - ours).max())
            if not difference < 1e-3:
                raise ValueError(f"{name} differs from simpool in row {row} by {difference}")


def measure_case(name: str, threads: int, seconds: float) -> dict[str, Measurement]:
    """Checks that all packages agree on a case, then times them in turns."""
    problem = Problem(CASES[name])
    peers = peers_of(problem.case)
    check_agreement(problem, peers, threads)
    calls = {"simpool": partial(simpool, problem, threads)}
    calls |= {peer: partial(PEERS[peer], problem, threads) for peer in peers}
    return in_turns(calls, seconds)


def measure_backends(name: str, device: str, seconds: float) -> dict[str, Measurement]:
    """Times the backends of this package on a device; their indices must be equal."""
    problem = Problem(CASES[name])
    threads = torch.get_num_threads()
    _, expected = simpool(problem, threads)
    calls = {"numba": partial(simpool, problem, threads)}
    for backend in ("torch", "triton"):
        call = partial(simpool, problem, threads, backend, device)
        if not torch.equal(call()[1].cpu(), expected):
            raise ValueError(f"backend {backend!r} gives other indices than 'numba'")
        calls[backend] = call
    return in_turns(calls, seconds, device)

"""The graphs and data sets on which the top k is timed, and the methods for each."""

from dataclasses import replace
from typing import Optional

import numpy as np
import torch

from harness.data.load import load
from harness.errors import BenchmarkError
from harness.speed import topk_graphs
from harness.speed.topk_methods import Problem

GRAPHS = (
    "uniform-100000-10",
    "uniform-1000000-10",
    "power_law-100000-10",
    "power_law-1000000-10",
    "uniform-200000-50",
)
#: Too large for an ordinary sparse product: only the package is measured on them.
HARD = ("star-1000000", "complete-3000", "power_law_hub-1000000-10")
DATASETS = ("ENZYMES", "DD", "PROTEINS")
#: Rows of some nodes, and rows of items that are described by their users.
ROWS = (
    "uniform-1000000-10-queries-10000",
    "power_law-1000000-10-queries-10000",
    "uniform-1000000-10-queries-1000",
    "items-20000-200000-2000000",
)
#: The most nodes for the torch backend.
LARGEST_FOR_TORCH = 100_000


def make_problem(name: str, root: Optional[str]) -> Problem:
    """The graph, or the graphs of the data set, of that name."""
    if name in DATASETS:
        if root is None:
            raise BenchmarkError(f"--root must name the folder that holds {name}, got none")
        # PROTEINS without isomorphic graphs.
        graphs = load(name, root, name == "PROTEINS", None, 0).graphs
        sizes = torch.tensor([data.num_nodes for data in graphs])
        first = (sizes.cumsum(0) - sizes).tolist()
        edges = torch.cat([data.edge_index + f for data, f in zip(graphs, first)], dim=1)
        return Problem(edges, int(sizes.sum()), graphs)
    graph, _, queries = name.partition("-queries-")
    kind, *sizes_of = graph.split("-")
    try:
        numbers = [int(size) for size in sizes_of]
        if queries:
            problem = make_problem(graph, root)
            nodes = np.random.default_rng(1).choice(problem.num_nodes, int(queries), replace=False)
            return replace(problem, nodes=torch.from_numpy(nodes))
        if kind in ("items", "users"):
            (rows, cols), flip = numbers[:2], kind == "items"
            edges = topk_graphs.interactions(
                cols if flip else rows, rows if flip else cols, numbers[2]
            )
            return Problem(edges.flip(0) if flip else edges, rows, num_dst=cols)
        if kind == "star":
            return Problem(topk_graphs.star(numbers[0]), numbers[0] + 1)
        if kind == "complete":
            return Problem(topk_graphs.complete(numbers[0]), numbers[0])
        if kind == "uniform":
            return Problem(topk_graphs.uniform(*numbers), numbers[0])
        if kind == "power_law":
            return Problem(topk_graphs.power_law(*numbers), numbers[0])
        if kind == "power_law_hub":
            plain = topk_graphs.power_law(*numbers)
            return Problem(topk_graphs.with_hub(plain, numbers[0]), numbers[0] + 1)
    except (ValueError, IndexError, TypeError):
        pass
    raise BenchmarkError(
        f"--graphs must name a data set ({', '.join(DATASETS)}) or a graph such as "
        f"{', '.join((*GRAPHS[:1], *HARD))}, got {name!r}"
    )


def methods_of(name: str) -> list[str]:
    """The methods that are compared on a graph."""
    if name in DATASETS:
        return ["simpool", "simpool_edges", "simpool_torch", "sparse_dot_topn", "scipy", "dense"]
    if "-queries-" in name:
        return ["simpool", "simpool_index", "sparse_dot_topn"]
    if name.startswith(("items-", "users-")):
        return ["simpool", "sparse_dot_topn"]
    if name.startswith(("star-", "complete-", "power_law_hub-")):
        return ["simpool"]
    methods = ["simpool", "sparse_dot_topn", "scipy"]
    if int(name.split("-")[1]) <= LARGEST_FOR_TORCH:
        methods.append("simpool_torch")
    return methods

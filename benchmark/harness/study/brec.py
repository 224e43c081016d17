"""Pairs of graphs of BREC that color refinement tells apart, on A and on pairs `(A, C)`.

Wang and Zhang (2023), 'Towards Better Evaluation of GNN Expressiveness with BREC Dataset': 400
pairs of graphs that are not isomorphic. The files `basic.npy`, ... are in the folder
`customize/Data/raw` of https://github.com/GraphPKU/BREC (MIT). Put them into the folder `brec` of
`--root`. They hold strings and no pickled objects.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch

from harness.command import BenchmarkError, first_line
from torch_geometric_simpool import structural_similarity

CATEGORIES = ("basic", "regular", "str", "extension", "cfi", "4vtx", "dr")
#: Rows of the table by the label of the second entry of a pair of nodes: settings of C, or none.
ROWS: dict[str, dict[str, Any]] = {
    "A": {},
    "A, C with p = 1": {"p": 1},
    "A, C with p = 2, lam = 1": {"p": 2, "lam": 1},
    "A, C with p = 3, lam = 1": {"p": 3, "lam": 1},
    "A, counts of common neighbors": {},
}


def count_pairs(root: Path) -> dict[str, dict[str, int]]:
    """Returns the number of pairs that each row tells apart, by category, and their number."""
    counts: dict[str, dict[str, int]] = {row: {} for row in ("pairs", *ROWS)}
    for category in CATEGORIES:
        pairs = list(read_pairs(root / "brec" / f"{category}.npy"))
        counts["pairs"][category] = len(pairs)
        for row in ROWS:
            counts[row][category] = sum(differ(row, one, other) for one, other in pairs)
    return counts


def read_pairs(path: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Reads adjacency matrices; a flat list has the two graphs of a pair one after the other."""
    try:
        codes = np.load(path).reshape(-1, 2)
    except (OSError, ValueError) as error:
        raise BenchmarkError(
            f"{path} cannot be read ({first_line(error)}). Copy it from customize/Data/raw of "
            "https://github.com/GraphPKU/BREC"
        ) from error
    for pair in codes:
        one, other = (code if isinstance(code, bytes) else code.encode() for code in pair)
        yield _adjacency(one), _adjacency(other)


def _adjacency(code: bytes) -> np.ndarray:
    read = nx.from_sparse6_bytes if code.startswith(b":") else nx.from_graph6_bytes
    return nx.to_numpy_array(read(code.strip()))


def differ(row: str, one: np.ndarray, other: np.ndarray) -> bool:
    """Returns whether color refinement tells two graphs apart."""
    if one.shape != other.shape:
        return True
    labels = []
    for adj in (one, other):
        second = np.zeros_like(adj)
        if ROWS[row]:
            # Equal similarities of different graphs may differ in their last digits.
            second = structural_similarity(torch.from_numpy(adj), **ROWS[row]).numpy().round(9)
        elif "counts" in row:
            second = adj @ adj
        labels.append(np.stack([adj, second], axis=-1))
    return refined(np.stack(labels))


def refined(labels: np.ndarray) -> bool:
    """Returns whether colors of two graphs differ; `labels` of pairs of nodes, `[2, N, N, D]`.

    The next color of a node is its color and the multiset of the labels and the colors of all
    nodes, until no color is split.
    """
    size = labels.shape[1]
    pair = np.unique(labels.reshape(-1, labels.shape[-1]), axis=0, return_inverse=True)[1]
    pair = pair.reshape(2, size, size)
    color, count = np.zeros((2, size), dtype=np.int64), 0
    while color.max() + 1 > count:
        count = color.max() + 1
        seen = np.sort(pair * count + color[:, None, :], axis=2)
        own = np.concatenate([color[:, :, None], seen], axis=2).reshape(2 * size, -1)
        color = np.unique(own, axis=0, return_inverse=True)[1].reshape(2, size)
        if not np.array_equal(np.sort(color[0]), np.sort(color[1])):
            return True
    return False

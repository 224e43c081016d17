"""Checks the raw files of a TU data set before PyG reads them.

PyG parses damaged files without an error, or with one that does not name the file.
"""

from pathlib import Path

import numpy as np

from harness.errors import BenchmarkError, first_line

REQUIRED = ("A", "graph_indicator", "graph_labels")
OPTIONAL = ("node_labels", "node_attributes", "edge_labels", "edge_attributes")
#: Labels become one-hot vectors. A larger range cannot be one of labels.
MOST_LABELS = 100_000


def check_raw(raw: Path, name: str) -> int:
    """Checks each raw file, and that they fit together. Returns the number of graphs."""
    for part in REQUIRED:
        if not (raw / f"{name}_{part}.txt").exists():
            raise BenchmarkError(
                f"{raw / f'{name}_{part}.txt'} is missing: {name} needs "
                f"{', '.join(f'{name}_{p}.txt' for p in REQUIRED)}"
            )
    if (raw / f"{name}_graph_attributes.txt").exists():
        raise BenchmarkError(
            f"--dataset {name}: it has {name}_graph_attributes.txt, so it is for "
            "regression; this benchmark classifies"
        )
    graph = read_part(raw, name, "graph_indicator")[:, 0]
    if graph[0] != 1 or np.any((np.diff(graph) < 0) | (np.diff(graph) > 1)):
        raise _damaged(
            raw / f"{name}_graph_indicator.txt",
            "it must count the graphs from 1, in ascending order",
        )
    _check_count(
        raw, name, "graph_labels", len(read_part(raw, name, "graph_labels")), int(graph[-1])
    )
    edges = read_part(raw, name, "A")
    _check_edges(raw / f"{name}_A.txt", edges, graph)
    for part in OPTIONAL:
        if (raw / f"{name}_{part}.txt").exists():
            expected = len(graph) if part.startswith("node") else len(edges)
            _check_count(raw, name, part, len(read_part(raw, name, part)), expected)
    return int(graph[-1])


def _check_edges(path: Path, edges: np.ndarray, graph: np.ndarray) -> None:
    """Every edge joins nodes of one graph, has its reverse, and the last graphs have edges."""
    num_nodes = len(graph)
    outside = edges[(edges < 1) | (edges > num_nodes)]
    if outside.size > 0:
        raise _damaged(
            path,
            f"node numbers must lie between 1 and {num_nodes}, the lines of "
            f"{path.name.replace('_A.', '_graph_indicator.')}, got {outside[0]}",
        )
    between = np.flatnonzero(graph[edges[:, 0] - 1] != graph[edges[:, 1] - 1])
    if between.size > 0:
        raise _damaged(path, f"line {between[0] + 1} joins nodes of two graphs")
    key = np.unique(edges[:, 0] * (num_nodes + 1) + edges[:, 1])
    back = np.unique(edges[:, 1] * (num_nodes + 1) + edges[:, 0])
    missing = np.setdiff1d(back, key, assume_unique=True).size
    if missing > 0:
        raise _damaged(path, f"{missing} edges are there in one direction only")
    # PyG removes self-loops, and would drop these graphs silently.
    joined = edges[edges[:, 0] != edges[:, 1]]
    bare = int(graph[-1] - (graph[joined.max() - 1] if joined.size > 0 else 0))
    if bare > 0:
        raise _damaged(
            path, f"it ends before the last {bare} graphs, which have no edge, or self-loops alone"
        )


def read_part(raw: Path, name: str, part: str) -> np.ndarray:
    """Reads one raw file as numbers, one row a line."""
    path = raw / f"{name}_{part}.txt"
    dtype = np.float64 if part.endswith("attributes") else np.int64
    try:
        text = path.read_bytes()
        if not text.strip():
            raise _damaged(path, "it is empty")
        if not text.endswith(b"\n"):
            raise _damaged(path, "it ends in the middle of a line")
        rows = np.loadtxt(path, dtype=dtype, delimiter=",", ndmin=2, comments=None)
    except ValueError as error:
        raise _damaged(path, first_line(error)) from error
    except OSError as error:
        raise BenchmarkError(f"{path} cannot be read: {error}") from error
    if len(rows) != text.count(b"\n"):
        raise _damaged(path, f"{text.count(bytes([10])) - len(rows)} of its lines are blank")
    columns = {"A": 2, "graph_indicator": 1, "graph_labels": 1}.get(part, rows.shape[1])
    if rows.shape[1] != columns:
        raise _damaged(path, f"a line must hold {columns} numbers, got {rows.shape[1]}")
    with np.errstate(over="ignore"):
        if not np.isfinite(rows.astype(np.float32)).all():
            raise _damaged(path, "it holds NaN, infinite, or too large numbers")
    if part.endswith("labels") and rows.max() - rows.min() > MOST_LABELS:
        raise _damaged(path, f"labels must span at most {MOST_LABELS}, got {rows.max()}")
    return rows


def _check_count(raw: Path, name: str, part: str, came: int, expected: int) -> None:
    path = raw / f"{name}_{part}.txt"
    if came != expected:
        other = "A" if part.startswith("edge") else "graph_indicator"
        raise _damaged(
            path, f"it must have {expected} lines to go with {name}_{other}.txt, got {came}"
        )


def _damaged(path: Path, why: str) -> BenchmarkError:
    return BenchmarkError(
        f"{path} is damaged or was downloaded in part: {why}. Delete it and unpack, or "
        "download, the data set again."
    )

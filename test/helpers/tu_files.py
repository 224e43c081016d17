"""Small data sets in the format of the TU collection, written for tests."""

from pathlib import Path
from random import Random

import torch

NUM_GRAPHS = 12
NUM_NODES = 5


def write_tu(root: Path, name: str = "TINY", folder: str = "raw", attributes: bool = True) -> Path:
    """Writes rings (one class) and paths (the other) of five nodes; returns the raw folder."""
    raw = root / name / folder
    raw.mkdir(parents=True)
    edges, indicator, labels, node_labels, node_attributes = [], [], [], [], []
    generator = torch.Generator().manual_seed(0)
    for graph in range(NUM_GRAPHS):
        first = graph * NUM_NODES + 1
        pairs = [(first + i, first + i + 1) for i in range(NUM_NODES - 1)]
        if graph % 2:
            pairs.append((first, first + NUM_NODES - 1))
        edges += [f"{a}, {b}" for a, b in pairs] + [f"{b}, {a}" for a, b in pairs]
        indicator += [str(graph + 1)] * NUM_NODES
        labels.append(str(graph % 2))
        node_labels += [str(i % 2) for i in range(NUM_NODES)]
        values = 100 + 10 * torch.randn(NUM_NODES, 2, generator=generator)
        node_attributes += [f"{a:.4f}, {b:.4f}" for a, b in values.tolist()]
    files = {
        "A": edges,
        "graph_indicator": indicator,
        "graph_labels": labels,
        "node_labels": node_labels,
    }
    if attributes:
        files["node_attributes"] = node_attributes
    _write(raw, name, files)
    return raw


def write_shapes(root: Path, name: str = "SHAPES") -> Path:
    """Writes 60 paths, rings and stars of 6 to 11 nodes; returns the raw folder.

    The class of a graph is its shape. Node labels are random, so the classes cannot be predicted
    from them. `test/fixtures` holds a copy.
    """
    raw = root / name / "raw"
    raw.mkdir(parents=True)
    edges, indicator, labels, node_labels = [], [], [], []
    random, first = Random(0), 1
    for graph in range(60):
        size, shape = random.randint(6, 11), graph % 3
        if shape == 2:
            pairs = [(0, i) for i in range(1, size)]
        else:
            pairs = [(i, i + 1) for i in range(size - 1)] + [(0, size - 1)] * shape
        edges += [f"{first + a}, {first + b}" for pair in pairs for a, b in (pair, pair[::-1])]
        indicator += [str(graph + 1)] * size
        labels.append(str(shape))
        node_labels += [str(random.randint(0, 1)) for _ in range(size)]
        first += size
    files = {
        "A": edges,
        "graph_indicator": indicator,
        "graph_labels": labels,
        "node_labels": node_labels,
    }
    _write(raw, name, files)
    return raw


def _write(raw: Path, name: str, files: dict[str, list[str]]) -> None:
    for part, lines in files.items():
        (raw / f"{name}_{part}.txt").write_text("".join(f"{line}\n" for line in lines))

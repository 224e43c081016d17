"""A tiny data set in the format of the TU collection."""

from pathlib import Path

import torch

NUM_GRAPHS = 12
NUM_NODES = 5


def write_tu(root: Path, name: str = "TINY", folder: str = "raw", attributes: bool = True) -> Path:
    """Writes rings and paths of five nodes, to be told apart; returns the raw folder."""
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
    for part, lines in files.items():
        (raw / f"{name}_{part}.txt").write_text("".join(f"{line}\n" for line in lines))
    return raw

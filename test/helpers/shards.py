"""Writes edges to files."""

from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

from helpers.graphs import Graph, draw_all, union

#: A block-diagonal graph of many graphs, for stores with many blocks.
GRAPH, _ = union([graph for seed in range(3) for graph in draw_all(seed) if graph.num_nodes > 0])


def write_parquet(path: Path, **columns: object) -> None:
    """Writes a Parquet file, or skips the test without PyArrow."""
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(columns), path)


def write_shards(
    folder: Path, edge_index: Tensor, weight: Tensor | None = None, count: int = 3
) -> list[Path]:
    """Writes edges to files: `.npy` in both shapes, or Parquet if there are weights."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, part in enumerate(np.array_split(np.arange(edge_index.size(1)), count)):
        ends = edge_index[:, part].numpy()
        path = folder / f"part-{number}.{'npy' if weight is None else 'parquet'}"
        if weight is not None:
            write_parquet(path, source=ends[0], target=ends[1], weight=weight[part].numpy())
        else:
            # An array of two edges is always read as [2, E].
            np.save(path, ends.T if number % 2 == 0 and ends.shape[1] != 2 else ends)
        paths.append(path)
    return paths


def write_graph(folder: Path, graph: Graph) -> list[Path]:
    """Writes the edges of a graph to three files."""
    return write_shards(folder, graph.edge_index, graph.edge_weight())

"""Shards of small graphs."""

from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

from helpers.graphs import Graph
from torch_geometric_simpool.distributed import DiskGraph


def write_parquet(path: Path, **columns: object) -> None:
    """A Parquet file; skips the test without PyArrow."""
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(columns), path)


def write_shards(
    folder: Path, edge_index: Tensor, weight: Tensor | None = None, count: int = 3
) -> list[Path]:
    """Edges in files: `.npy` in both shapes, or Parquet if there are weights."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, part in enumerate(np.array_split(np.arange(edge_index.size(1)), count)):
        ends = edge_index[:, part].numpy()
        path = folder / f"part-{number}.{'npy' if weight is None else 'parquet'}"
        if weight is not None:
            write_parquet(path, source=ends[0], target=ends[1], weight=weight[part].numpy())
        else:
            # An array of two edges is taken for [2, E].
            np.save(path, ends.T if number % 2 == 0 and ends.shape[1] != 2 else ends)
        paths.append(path)
    return paths


def on_disk(folder: Path, graph: Graph, **settings: object) -> DiskGraph:
    """A graph on disk, in three shards that are deleted."""
    shards = write_shards(folder / "shards", graph.edge_index, graph.edge_weight())
    arguments = {"num_nodes": graph.num_nodes, "progress": False, **settings}
    built = DiskGraph.build(shards, folder / "graph", **arguments)  # type: ignore[arg-type]
    for path in shards:
        path.unlink()
    return built

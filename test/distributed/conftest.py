"""Small parts for the tests of graphs on disk."""

from typing import Any

import pytest
from torch import Tensor

from helpers.shards import GRAPH, write_graph
from torch_geometric_simpool import topk_similarity


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Splits a graph of a few nodes into many chunks and blocks."""
    monkeypatch.setattr("torch_geometric_simpool.distributed.edges.CHUNK", 7)
    monkeypatch.setattr("torch_geometric_simpool.topk.numba.mapped.CHUNK", 5)
    monkeypatch.setattr("torch_geometric_simpool.distributed.run.BLOCK_BYTES", 600)


@pytest.fixture(scope="session")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from torch_geometric_simpool.distributed import DiskGraph

    folder = tmp_path_factory.mktemp("graph")
    shards = write_graph(folder / "shards", GRAPH)
    return DiskGraph.build(shards, folder / "graph", GRAPH.num_nodes, progress=False)


@pytest.fixture(scope="session")
def expected() -> tuple[Tensor, Tensor]:
    return topk_similarity(
        GRAPH.edge_index, 3, GRAPH.edge_weight(), GRAPH.num_nodes, backend="numba"
    )

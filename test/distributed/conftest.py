"""A graph on disk with many blocks."""

import pytest
from torch import Tensor

from helpers.blocks import GRAPH
from helpers.shards import on_disk
from torch_geometric_simpool import topk_similarity
from torch_geometric_simpool.distributed import DiskGraph, run


@pytest.fixture(autouse=True)
def many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "BLOCK_BYTES", 600)


@pytest.fixture(scope="session")
def graph(tmp_path_factory: pytest.TempPathFactory) -> DiskGraph:
    pytest.importorskip("pyarrow")
    return on_disk(tmp_path_factory.mktemp("graph"), GRAPH)


@pytest.fixture(scope="session")
def expected() -> tuple[Tensor, Tensor]:
    return topk_similarity(
        GRAPH.edge_index, 3, GRAPH.edge_weight(), GRAPH.num_nodes, backend="numba"
    )

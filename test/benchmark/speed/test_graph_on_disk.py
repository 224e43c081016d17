"""The benchmark of graphs on disk: its graphs, and that it notices results that differ."""

import json
from pathlib import Path

import numpy as np
import pytest

import graph_on_disk
from harness.errors import BenchmarkError
from harness.speed import disk_graphs, disk_run, disk_steps
from harness.speed.disk_steps import STEPS

RESULTS = Path(graph_on_disk.__file__).parent / "results" / "graph_on_disk"


@pytest.mark.parametrize("kind", disk_steps.EXPONENTS)
def test_graphs_in_shards_are_undirected_and_simple(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_graphs, "EDGES_OF_SHARD", 100)
    found = STEPS["draw"](kind, "300", "1500", str(tmp_path / "shards"))
    parts = [np.load(path) for path in sorted((tmp_path / "shards").iterdir())]
    assert len(parts) > 5
    edges = list(map(tuple, np.concatenate(parts, axis=1).T.tolist()))
    assert len(edges) == len(set(edges)) == found["entries"] == 2 * found["edges"]
    assert {(j, i) for i, j in edges} == set(edges)
    assert all(i != j for i, j in edges)
    assert 1400 <= found["edges"] <= 1500
    degree = np.bincount([i for i, _ in edges], minlength=300)
    assert (degree.max() > 60) == (kind == "power_law")


def test_steps_agree(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    edges, shards, path = (str(tmp_path / name) for name in ("edges.npy", "shards", "graph"))
    STEPS["graph"]("power_law", "200", "6", edges, shards)
    found = [STEPS["full"](edges, "4"), STEPS["pieces"](edges, "4", "7")]
    STEPS["build"](shards, path)
    for executor in ("none", "threads"):
        STEPS["topk"](path, "4", str(tmp_path / executor), executor)
        found.append(STEPS["hash_store"](str(tmp_path / executor)))
    assert len({(row["values"], row["index"]) for row in found}) == 1


def test_results_that_differ() -> None:
    row = {"values": "a", "index": "b"}
    disk_run._agree({"one": row, "two": dict(row)})
    with pytest.raises(BenchmarkError, match="the results differ"):
        disk_run._agree({"one": row, "two": {**row, "index": "c"}})


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.name)
def test_stored_results(path: Path) -> None:
    """All hashes of a graph are equal, and no process had 2 GiB of its own."""
    for graph in json.loads(path.read_text())["graphs"]:
        if "rows" in graph:
            assert len({(row["values"], row["index"]) for row in graph["rows"].values()}) == 1
            assert len(graph["rows"]) == 9
        else:
            killed, whole = graph["steps"]["killed"], graph["steps"]["hash"]
            assert (killed["values"], killed["index"]) == (whole["values"], whole["index"])
            assert all(peak["anonymous"] < 2**31 for peak in graph["peaks"].values())

"""The benchmark of data sets larger than memory."""

import json
from pathlib import Path

import pytest
import torch

import precompute
from harness.speed.precompute_measure import generated, measure

ROOT = Path(__file__).parents[3]


def test_graphs_are_drawn_anew_and_do_not_change() -> None:
    a, b = (list(generated(3)) for _ in range(2))
    assert all(torch.equal(x.edge_index, y.edge_index) for x, y in zip(a, b))
    assert not torch.equal(a[0].edge_index, a[1].edge_index)
    assert all(data.num_nodes == 32 for data in a)


@pytest.mark.parametrize("way", ["list", "out", "stream"])
def test_one_measurement(way: str) -> None:
    found = measure(way, "20")
    assert found["seconds"] > 0
    assert (found["stored"] > 0) == (way == "out")


def test_the_file(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "new" / "precompute.json"
    assert precompute.main(["--graphs", "5", "--ways", "stream", "--out", str(out)]) == 0
    stored = json.loads(out.read_text())
    assert [(row["way"], row["graphs"]) for row in stored["rows"]] == [("stream", 5)]
    assert stored["problem"]["k"] == 16
    assert capsys.readouterr().out.startswith("| 5 | stream | ")


def test_the_table_is_that_of_the_stored_results() -> None:
    """Of ten times the graphs, only the list takes several times the memory."""
    rows = json.loads((ROOT / "benchmark" / "results" / "precompute.json").read_text())["rows"]
    page = (ROOT / "docs" / "speed.md").read_text().splitlines()
    assert {precompute.line_of(row) for row in rows} <= set(page)
    peak = {(row["way"], row["graphs"]): row["peak"] for row in rows}
    assert peak["out", 200_000] < 1.5 * peak["out", 20_000]
    assert peak["stream", 200_000] < 1.5 * peak["stream", 20_000]
    assert peak["list", 200_000] > 5 * peak["list", 20_000]

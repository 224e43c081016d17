"""The benchmark of data sets larger than memory."""

import json
from pathlib import Path

import pytest
import torch

import precompute
from harness.speed.precompute_measure import generated, measure


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

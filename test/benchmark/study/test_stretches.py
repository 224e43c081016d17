"""Stretches are equal parts of an order of the nodes."""

import json
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import stretches
from harness.study.declarations import Experiment, Row
from harness.study.stretches import of_graphs
from helpers.tiny_study import TINY
from helpers.tu_files import write_tu
from stretches import main


def path(n: int) -> Data:
    there = torch.arange(n - 1)
    one_way = torch.stack([there, there + 1])
    return Data(edge_index=torch.cat([one_way, one_way.flip(0)], dim=1), num_nodes=n)


@pytest.mark.parametrize("order", ["given", "fiedler"])
def test_of_paths(order: str) -> None:
    measures = of_graphs([path(8), path(8)], order, num_clusters=4)
    assert measures["clusters"] == 4
    assert measures["evenness"] == pytest.approx(1)
    assert measures["connected"] == 1
    assert measures["edges_inside"] == pytest.approx(4 / 7)
    # The mean distance in a path of 8 nodes is 3.
    assert measures["distance_ratio"] == pytest.approx(1 / 3)


def test_the_given_order_depends_on_the_numbers_and_the_other_does_not() -> None:
    shuffled = path(8)
    shuffled.edge_index = torch.tensor([3, 6, 0, 5, 1, 7, 2, 4])[shuffled.edge_index]
    plain, other = (of_graphs([g], "given", 4)["edges_inside"] for g in (path(8), shuffled))
    assert plain > other
    plain, other = (of_graphs([g], "fiedler", 4)["edges_inside"] for g in (path(8), shuffled))
    assert plain == other


def test_writes_a_file_that_the_report_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tu(tmp_path / "data")
    table = Experiment("TINY-locality", "Tiny", (Row("one", (TINY,)),))
    monkeypatch.setattr(stretches, "LOCALITY", {"TINY-locality": table})
    out = tmp_path / "stretches.json"
    words = ["--root", str(tmp_path / "data"), "--out", str(out), "--only", "TINY-locality"]
    assert main(words) == 0
    found = json.loads(out.read_text())
    assert found["tables"]["TINY-locality"]["given"]["locality"]["clusters"] == 5
    assert "commit" in found
    out.write_text('{"tables": {"another": {}}}')
    assert main(words) == 0
    assert set(json.loads(out.read_text())["tables"]) == {"another", "TINY-locality"}
    out.write_text("{")
    assert main(words) == 2
    assert "is damaged" in capsys.readouterr().err
    assert out.read_text() == "{"
    assert main(["--root", str(tmp_path / "none"), *words[2:]]) == 2
    assert "stretches.py: error:" in capsys.readouterr().err

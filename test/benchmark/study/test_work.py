"""A study continues after interruptions, and reports the runs that fail."""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import graph_classification
from harness.data.batches import GraphBatch
from harness.data.encodings import SIZE, FlippedBatches
from harness.data.structural import ENCODINGS
from harness.study import work
from harness.study.declarations import Experiment, Row
from harness.study.run import Run
from harness.study.store import Store
from helpers.tiny_study import BASELINE, TINY, declare, start, stored, table
from helpers.tu_files import NUM_NODES, write_tu


def metrics_of(result: dict) -> dict:
    passing = ("seconds", "cpu_seconds", "seconds_per_epoch", "command", "hardware")
    return {name: value for name, value in result.items() if name not in passing}


def test_a_study(tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert start(tiny, out) == 0
    found = stored(out)
    assert set(found) == {TINY.key, BASELINE.key}
    ours = found[TINY.key]
    assert ours["settings"] == TINY.settings
    assert ours["best_val_accuracy"] == max(ours["history"]["val_accuracy"])
    assert ours["sizes"] == {"train": 8, "validation": 4}
    assert {"versions", "hardware", "commit", "num_parameters", "seconds"} <= set(ours)
    assert len(ours["data"]["checksum"]) == 16
    for level in (0, 1):
        for name in ("entropy_loss", "cluster_loss", "clusters"):
            assert len(ours["history"][f"{name}_{level}"]) == 2
    assert 1 <= ours["locality"]["clusters"] <= 8
    assert all(len(graph["clusters"]) == 5 for graph in ours["drawn"])
    assert "locality" not in found[BASELINE.key]


def test_what_is_there_is_not_run_again(tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert start(tiny, out, "--method", "simpool") == 0
    before = {path: path.stat().st_mtime_ns for path in out.glob("*.json")}
    assert start(tiny, out) == 0
    assert len(stored(out)) == 2
    for path, changed in before.items():
        assert path.stat().st_mtime_ns == changed


def test_the_outcome_does_not_depend_on_when(tiny: Path, tmp_path: Path) -> None:
    assert start(tiny, tmp_path / "one") == 0
    assert start(tiny, tmp_path / "two", "--method", "baseline") == 0
    assert start(tiny, tmp_path / "two") == 0
    one, two = stored(tmp_path / "one"), stored(tmp_path / "two")
    assert {k: metrics_of(v) for k, v in one.items()} == {k: metrics_of(v) for k, v in two.items()}


@pytest.mark.parametrize("order", ["random", "random-epoch", "rcm"])
def test_orders(tiny: Path, tmp_path: Path, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = replace(TINY, order=order)
    declare(monkeypatch, table(TINY, run))
    assert start(tiny, tmp_path / "out") == 0
    found = stored(tmp_path / "out")
    assert found[run.key]["history"] != found[TINY.key]["history"]


def test_diverging_is_a_result(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(monkeypatch, table(replace(TINY, method="nopool", lr=1e30).filled()))
    assert start(tiny, tmp_path / "out") == 0
    (result,) = stored(tmp_path / "out").values()
    assert "training diverged in epoch" in result["error"]


def test_damaged_and_foreign_files_are_named_and_left(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    path = out / f"{TINY.key}.json"
    path.write_text("{")
    assert start(tiny, out) == 2
    error = capsys.readouterr().err
    assert error.count(f"skipped: {path} is damaged") == 1
    assert error.endswith("study.py: error: 1 runs cannot be read, see above\n")
    assert path.read_text() == "{"
    assert len(list(out.glob("*.json"))) == 2


def test_the_second_study_waits_for_the_first(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It makes the other runs, and ends when the first process has finished its own."""
    store = Store(tmp_path / "out")
    naps: list[float] = []
    with store.claimed(TINY):
        assert start(tiny, tmp_path / "first", "--method", "simpool") == 0

        def nap(seconds: float) -> None:
            naps.append(seconds)
            name = f"{TINY.key}.json"
            os.replace(tmp_path / "first" / name, tmp_path / "out" / name)

        monkeypatch.setattr(time, "sleep", nap)
        assert start(tiny, tmp_path / "out") == 0
    assert "waiting for 1 runs of another process" in capsys.readouterr().out
    assert naps == [work.PAUSE]
    assert len(stored(tmp_path / "out")) == 2


def test_a_run_that_fails_leaves_the_others(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    perform = work.perform

    def fail(run: Run, *more: Any) -> dict[str, Any]:
        if run.method == "simpool":
            raise RuntimeError("CUDA out of memory")
        return perform(run, *more)

    monkeypatch.setattr(work, "perform", fail)
    assert start(tiny, tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert f"failed: {TINY.key}: Traceback" in error
    assert error.count("RuntimeError: CUDA out of memory\n") == 1
    assert error.endswith("study.py: error: 1 runs failed, see above\n")
    assert set(stored(tmp_path / "out")) == {BASELINE.key}


def test_data_that_are_not_there_leave_those_that_are(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = write_tu(tiny, "BAD")
    (raw / "BAD_A.txt").unlink()
    bad = [replace(TINY, dataset="BAD", fold=fold) for fold in (0, 1)]
    declare(monkeypatch, Experiment("TINY-one", "Tiny", (Row("a", (*bad, TINY)),)))
    assert start(tiny, tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert error.count("failed: ") == 1  # not once more for the other fold
    assert "2 runs failed" in error
    assert error.count("BAD_A.txt is missing") == 1
    assert set(stored(tmp_path / "out")) == {TINY.key}


def test_other_data_of_the_same_name(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    declare(monkeypatch, Experiment("TINY-one", "T", (Row("a", (TINY, replace(TINY, fold=1))),)))
    assert start(tiny, out, "--fold", "0") == 0
    (there,) = stored(out).values()
    there["data"]["checksum"] = "0123456789abcdef"
    (out / f"{TINY.key}.json").write_text(json.dumps(there))
    assert start(tiny, out) == 2
    error = capsys.readouterr().err
    assert f"--out {out}: {TINY.key}.json is of other data than TINY in --root" in error
    assert "checksum 0123456789abcdef there" in error
    assert len(stored(out)) == 1


@pytest.fixture
def flipped(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many graphs were read with new signs, by where the encodings are."""
    read = dict.fromkeys(("x", "sim"), 0)
    batch = FlippedBatches.batch

    def counted(batches: FlippedBatches, chosen: Sequence[int]) -> GraphBatch:
        made = batch(batches, chosen)
        values = getattr(made, batches.column)
        assert values[:, : NUM_NODES - 1].ne(0).any()
        read[batches.column] += len(chosen)
        return made

    monkeypatch.setattr(FlippedBatches, "batch", counted)
    return read


def test_encodings_have_new_signs_whenever_a_training_graph_is_read(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flipped: dict[str, int]
) -> None:
    beside = replace(BASELINE, node_features="labels+laplacian")
    alone = replace(TINY, features=ENCODINGS, k=SIZE)
    declare(monkeypatch, table(beside, alone))
    assert start(tiny, tmp_path / "out") == 0
    training = TINY.epochs * 8  # graphs
    assert flipped == {"x": training, "sim": training}
    words = ["--dataset", "TINY", "--root", str(tiny), "--out", str(tmp_path / "one")]
    words += ["--method", "baseline", "--node-features", "labels+laplacian", "--width", "0.02"]
    assert graph_classification.main([*words, "--folds", "3", "--fold", "0", "--epochs", "2"]) == 0
    assert flipped == {"x": 2 * training, "sim": training}

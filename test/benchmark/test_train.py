"""The training of one run, and the worker processes."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from harness import train as training
from harness.command import BenchmarkError
from harness.run import Result, Run
from harness.store import Store
from harness.train import Place, train
from harness.workers import train_all
from helpers.tu_files import write_tu

ROOT = Path(__file__).parents[2]
TINY = Run(
    "TINY", "motifs", cleaned=False, node_features="labels", width=0.1, k=3, epochs=4,
    batch_size=3, folds=3, order="bfs",
).filled()  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Place:
    write_tu(tmp_path)
    training._load.cache_clear()
    return Place(str(tmp_path))


def outcome(result: Result) -> Result:
    """Returns the result without its times and the provenance of the run."""
    return replace(result, seconds=0, cpu_seconds=0, seconds_per_epoch=0, commit=None, command="")


def test_a_run_depends_on_its_settings_alone(place: Place) -> None:
    result = train(TINY, place)
    torch.rand(5)
    assert outcome(train(TINY, place)) == outcome(result)
    assert outcome(train(replace(TINY, fold=1), place)).history != result.history
    assert len(result.history["clusters_1"]) == 4
    assert result.best_val_accuracy == max(result.history["val_accuracy"]) != -1
    assert result.sizes == {"train": 8, "validation": 4}
    assert result.drawn is not None
    assert result.drawn[0].labels == [0, 1, 0, 1, 0]


def test_a_killed_run_goes_on(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "EVERY", 0.0)
    path = tmp_path / "folder" / "checkpoint.pt"
    expected = train(TINY, place)

    def stop(epoch: int, _: dict[str, float]) -> None:
        if epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(TINY, place, path, stop)
    epochs: list[int] = []
    result = train(TINY, place, path, lambda epoch, _: epochs.append(epoch))
    assert epochs == [3, 4]
    assert outcome(result) == outcome(expected)


def test_a_run_that_diverges_is_stored(place: Place) -> None:
    result = train(replace(TINY, lr=1e30), place)
    assert result.error is not None
    assert "epoch" in result.error or "finite" in result.error


def test_final_runs_are_tested(place: Place) -> None:
    write_tu(Path(place.root), "BIG")
    run = replace(TINY, protocol="nested", folds=2, probabilities=True, repetition=1)
    with pytest.raises(BenchmarkError, match="--folds"):
        train(replace(run, folds=7), place)
    result = train(run, place)
    assert result.test_probabilities is not None
    assert len(result.test_probabilities) == result.sizes["test"] == len(result.test_labels or [])


@pytest.mark.slow
def test_workers(place: Place, tmp_path: Path) -> None:
    runs = [replace(TINY, fold=fold) for fold in range(2)]
    runs.append(replace(TINY, dataset="MISSING:DATA"))
    with Store(tmp_path / "runs.parquet") as store, pytest.raises(BenchmarkError, match="1 runs"):
        train_all(lambda: runs, place, store, 2)
    assert set(store.results) == set(runs[:2])
    assert store.results[TINY].hardware["threads"] == 1
    assert store.results[TINY].history == train(TINY, place).history
    assert not multiprocessing.active_children()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_command(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, str(ROOT / "benchmark" / "graph_classification.py")]
    command += ["--epochs", "100000", "--workers", "2", "--out", str(tmp_path / "out")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Background jobs of a shell ignore SIGINT, and their children inherit this.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stderr is not None
    while "epoch 1 of" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(number)
    status = process.wait(timeout=60)
    expected = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}
    assert status == expected[number]
    end = time.monotonic() + 60
    while _members(process.pid):
        assert time.monotonic() < end
        time.sleep(0.2)


def _members(session: int) -> list[str]:
    """Returns the running processes of a session."""
    stats = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, number, *_ = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(number) == session and state != "Z":
            stats.append(path.parent.name)
    return stats

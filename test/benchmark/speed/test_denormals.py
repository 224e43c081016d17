"""The price of denormal numbers: how it is measured, and the table of the documentation."""

import json
from pathlib import Path

import pytest
import torch

import harness.speed.denormals as measured
from harness.speed.denormals import denormal_metrics, table
from harness.store.denormals import denormals_are_flushed, flushed_denormals

ROOT = Path(__file__).parents[3]


def test_trainings_take_turns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    flushed: list[bool] = []
    threads: set[int] = set()

    def epoch() -> None:
        flushed.append(denormals_are_flushed())
        threads.add(torch.get_num_threads())

    monkeypatch.setattr(measured, "_training", lambda root: epoch)
    monkeypatch.setattr(measured, "EPOCHS", 3)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = denormal_metrics(str(tmp_path))
    finally:
        torch.set_num_threads(before)
    with flushed_denormals():
        possible = denormals_are_flushed()
    assert flushed == [False, possible] * 3
    assert threads == {1}
    assert [len(seconds) for seconds in found["cpu_seconds"].values()] == [3, 3]


def test_trainings_begin_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They train the same weights on the same batches."""
    losses: list[float] = []
    with_loss = measured.epoch_of

    def recorded(loss_of, batches, optimizer):  # type: ignore[no-untyped-def]
        def noted(batch):  # type: ignore[no-untyped-def]
            losses.append(float(loss_of(batch).detach()))
            raise StopIteration

        return with_loss(noted, batches, optimizer)

    monkeypatch.setattr(measured, "epoch_of", recorded)
    for _ in range(2):
        with pytest.raises(StopIteration):
            measured._training(str(tmp_path))()
    assert losses[0] == losses[1]


def test_the_table_is_that_of_the_stored_results() -> None:
    found = json.loads((ROOT / "benchmark/results/pooling/denormals.json").read_text())
    rows = table(found)
    assert len(rows) == 6
    assert "\n".join(rows) in (ROOT / "docs/speed.md").read_text()
    kept, flushed = (found["cpu_seconds"][name][-10:] for name in ("kept", "flushed"))
    assert min(kept) > max(flushed)

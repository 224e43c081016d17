"""A fold that is interrupted goes on from its checkpoint, bit for bit as if it had not been."""

import json
import os
import random
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graph_classification
from harness.errors import BenchmarkError
from harness.methods.registry import METHODS
from harness.store.surroundings import code, sources
from harness.study import perform
from harness.training import checkpoint
from harness.training.checkpoint import Checkpoint, random_state, set_random_state
from harness.training.progress import Progress
from helpers.tiny_study import TINY, declare, start, stored, table
from helpers.traps import Trap, trap

NAME = "checkpoint_fold1.pt"


def arguments(root: Path, out: Path, *more: str) -> list[str]:
    options = {
        "--dataset": "TINY",
        "--root": root,
        "--out": out,
        "--width": 0.02,
        "--folds": 3,
        "--fold": 1,
        "--epochs": 7,
        "--batch-size": 3,
        "--lr": 1e-2,
        "--device": "cpu",
        "--checkpoint-every": 2,
    }
    return [str(word) for pair in options.items() for word in pair] + list(more)


def outcome(out: Path) -> dict[str, Any]:
    """What must not depend on interruptions."""
    (fold,) = json.loads((out / "results.json").read_text())["folds"]
    return {k: v for k, v in fold.items() if k not in ("seconds", "seconds_per_epoch")}


def interrupt(monkeypatch: pytest.MonkeyPatch, last: int) -> None:
    """Interrupts the next fold after an epoch."""
    show = Progress.show

    def shown(self: Progress, epoch: int, metrics: dict[str, str]) -> None:
        show(self, epoch, metrics)
        if epoch == last:
            monkeypatch.setattr(Progress, "show", show)
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "show", shown)


@pytest.mark.parametrize("method", [*METHODS, "tgp:nmf"])
def test_an_interrupted_fold_goes_on(
    root: Path,
    tmp_path: Path,
    method: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if method == "tgp:nmf":  # its graphs are pooled again, from random numbers
        pytest.importorskip("tgp.poolers", reason="needs torch-geometric-pool")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert graph_classification.main(arguments(root, whole, "--method", method)) == 0
    # Twice, so that what is stored of a fold that went on is complete, too.
    for last in (3, 5):
        interrupt(monkeypatch, last)
        assert graph_classification.main(arguments(root, parts, "--method", method)) == 130
        assert {path.name for path in parts.iterdir()} == {NAME}
    capsys.readouterr()
    assert graph_classification.main(arguments(root, parts, "--method", method)) == 0
    shown = capsys.readouterr().err
    assert "fold 1: goes on after epoch 4\n" in shown
    assert "epoch 4 of 7" not in shown
    assert "epoch 5 of 7" in shown
    assert outcome(parts) == outcome(whole)
    assert {path.name for path in parts.iterdir()} == {path.name for path in whole.iterdir()}
    assert not (whole / NAME).exists()


KILLED = """
import io, os, signal, sys
from pathlib import Path
import torch
save, calls = torch.save, []
def killed(state, path):
    calls.append(path)
    if len(calls) == 2:
        whole = io.BytesIO()
        save(state, whole)
        Path(path).write_bytes(whole.getvalue()[: int(sys.argv[1]) * len(whole.getvalue()) // 100])
        os.kill(os.getpid(), signal.SIGKILL)
    save(state, path)
torch.save = killed
import graph_classification
graph_classification.main(sys.argv[2:])
"""


@pytest.mark.parametrize("percent", [0, 50, 100])
def test_a_kill_in_the_middle_of_writing(
    root: Path, tmp_path: Path, percent: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The checkpoint before is kept, and what was half written is removed later."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert graph_classification.main(arguments(root, whole)) == 0
    process = subprocess.run(
        [sys.executable, "-c", KILLED, str(percent), *arguments(root, killed)],
        env={
            **os.environ,
            "OMP_NUM_THREADS": str(torch.get_num_threads()),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        check=False,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    (half,) = (path for path in killed.iterdir() if path.name != NAME)
    assert half.name.startswith(f".{NAME}.tmp")
    capsys.readouterr()
    assert graph_classification.main(arguments(root, killed)) == 0
    shown = capsys.readouterr().err
    assert "epoch 2 of 7" not in shown
    assert "epoch 3 of 7" in shown
    assert outcome(killed) == outcome(whole)
    assert {path.name for path in killed.iterdir()} == {path.name for path in whole.iterdir()}


@pytest.mark.parametrize("order", ["given", "random-epoch"])
def test_a_run_of_the_study(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    declare(monkeypatch, table(replace(TINY, order=order, epochs=4)))
    monkeypatch.setattr(perform, "CHECKPOINT_EVERY", 1)
    assert start(tiny, tmp_path / "whole") == 0
    interrupt(monkeypatch, 3)
    assert start(tiny, tmp_path / "parts") == 130
    assert start(tiny, tmp_path / "parts") == 0
    (whole,), (parts,) = (stored(tmp_path / name).values() for name in ("whole", "parts"))
    same = ("history", "best_val_accuracy", "best_epoch", "locality", "drawn")
    assert {name: whole[name] for name in same} == {name: parts[name] for name in same}
    assert not list((tmp_path / "parts").rglob("*.pt"))


@pytest.fixture
def stopped(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run that was stopped in epoch 3."""
    interrupt(monkeypatch, 3)
    assert graph_classification.main(arguments(root, tmp_path / "out")) == 130
    return tmp_path / "out"


def test_other_settings_are_named(
    root: Path, stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, before = stopped, (stopped / NAME).read_bytes()
    assert graph_classification.main(arguments(root, out, "--lr", "0.5", "--epochs", "9")) == 2
    error = capsys.readouterr().err
    assert f"{out / NAME} is of a fold with other settings, or code" in error
    assert "epochs: 7 there, 9 now; lr: 0.01 there, 0.5 now" in error
    assert (out / NAME).read_bytes() == before
    # How plots are written, and how often the fold is stored, are none.
    assert graph_classification.main(arguments(root, out, "--checkpoint-every", "5")) == 0


def test_other_code_is_named(
    root: Path, stopped: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One fold is not trained by two versions of the network."""
    out, before = stopped, (stopped / NAME).read_bytes()
    monkeypatch.setattr(checkpoint, "CODE", {**checkpoint.CODE, "code.sources": "other"})
    assert graph_classification.main(arguments(root, out)) == 2
    now = code()["sources"]
    assert f"or code (code.sources: '{now}' there, 'other' now)" in capsys.readouterr().err
    assert (out / NAME).read_bytes() == before


def test_sources_tell_code_apart(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "one.py").write_text("x = 1\n")
    seen = [sources(tmp_path)]
    (tmp_path / "part" / "one.py").write_text("x = 2\n")
    seen.append(sources(tmp_path))
    (tmp_path / "part" / "one.py").rename(tmp_path / "one.py")
    seen.append(sources(tmp_path))
    assert len(set(seen)) == 3
    (tmp_path / "one.txt").write_text("no code")
    assert sources(tmp_path) == seen[-1]


@pytest.mark.parametrize(
    "kind", ["cut", "empty", "text", "dot", "another", "code", "other network"]
)
def test_damaged_checkpoints_are_named(
    root: Path,
    tmp_path: Path,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    interrupt(monkeypatch, 3)
    assert graph_classification.main(arguments(root, out)) == 130
    path = out / NAME
    state = torch.load(path, weights_only=True)
    if kind == "cut":
        path.write_bytes(path.read_bytes()[:1000])
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("mine")
    elif kind == "dot":
        path.write_text(".")
    elif kind == "another":
        torch.save({"model": 1}, path)
    elif kind == "code":
        torch.save({**state, "model": Trap(tmp_path / "executed")}, path)
    else:
        torch.save({**state, "model": {}}, path)
    before = path.read_bytes()
    assert graph_classification.main(arguments(root, out)) == 2
    assert f"{path} is damaged, or not the checkpoint of a fold" in capsys.readouterr().err
    assert path.read_bytes() == before
    assert not (tmp_path / "executed").exists()


def test_the_trap_works(tmp_path: Path) -> None:
    """Unpickling it writes a file, so a test that finds none has found that nothing is run."""
    trap(tmp_path / "data.pt", tmp_path / "executed")
    torch.load(tmp_path / "data.pt", weights_only=False)
    assert (tmp_path / "executed").exists()


def test_what_a_kill_after_the_last_fold_leaves(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert graph_classification.main(arguments(root, out)) == 0
    there = {path.name for path in out.iterdir()}
    for name in (NAME, ".clusters.png.tmp1.png", ".results.json.tmp1.json"):
        (out / name).write_text("left")
    (out / "curves_level1.png").unlink()
    assert graph_classification.main(arguments(root, out)) == 0
    assert {path.name for path in out.iterdir()} == there
    # Files of others are none of ours.
    (out / ".clusters.png").write_text("mine")
    assert graph_classification.main(arguments(root, out, "--format", "svg")) == 0
    curves = {"curves_level0.svg", "curves_level1.svg"}
    assert {path.name for path in out.iterdir()} == {*there, *curves, ".clusters.png"}


def test_no_checkpoints(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(monkeypatch, 3)
    given = arguments(root, tmp_path / "out", "--checkpoint-every", "0")
    assert graph_classification.main(given) == 130
    assert not list((tmp_path / "out").iterdir())


def test_a_fold_that_diverges_leaves_none(root: Path, tmp_path: Path) -> None:
    given = arguments(root, tmp_path / "out", "--lr", "1e30", "--checkpoint-every", "1")
    assert graph_classification.main(given) == 2
    assert not list((tmp_path / "out").iterdir())


def test_a_checkpoint_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(BenchmarkError, match=r"fold\.pt cannot be written"):
        Checkpoint(tmp_path / "file" / "fold.pt", {}, 1).save({})


def test_random_numbers() -> None:
    """Those of PyTorch, NumPy and Python, and of generators, go on."""
    generator, cpu = torch.Generator().manual_seed(3), torch.device("cpu")

    def draw() -> tuple:
        normal = np.random.standard_normal()
        own = torch.rand(1, generator=generator).item()
        return torch.rand(1).item(), normal, random.random(), own

    draw()
    state = random_state(cpu, [generator])
    following = [draw() for _ in range(3)]
    set_random_state(state, cpu, [generator])
    assert [draw() for _ in range(3)] == following

"""A study of tiny runs, declared in place of the experiments."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import study
from harness.study import experiments
from harness.study.declarations import Experiment, Nested, Row
from harness.study.run import Run

TINY = Run(
    "TINY",
    "enzymes-10fold",
    cleaned=False,
    node_features="labels+attributes",
    width=0.02,
    k=4,
    epochs=2,
    batch_size=3,
    folds=3,
).filled()
BASELINE = replace(TINY, method="baseline").filled()


def table(*runs: Run) -> Experiment:
    """A table with a row for each method."""
    of_method: dict[str, list[Run]] = {}
    for run in runs:
        of_method.setdefault(run.method, []).append(run)
    rows = tuple(Row(method, tuple(own)) for method, own in of_method.items())
    return Experiment("TINY-one", "Tiny", rows)


def declare(
    monkeypatch: pytest.MonkeyPatch, *tables: Experiment, nested: tuple[Nested, ...] = ()
) -> None:
    """Declares these tables, and no others."""
    names = {t.name: t for t in tables}
    monkeypatch.setattr(experiments, "EXPERIMENTS", names)
    monkeypatch.setattr(experiments, "NESTED", {n.name: n for n in nested})
    for all_names in ("NAMES", "DEFAULT_NAMES"):
        monkeypatch.setattr(study, all_names, (*names, *(n.name for n in nested)))


def start(root: Path, out: Path, *more: str) -> int:
    """Runs the command; returns its exit status."""
    return study.main(["--root", str(root), "--out", str(out), *more])


def stored(out: Path) -> dict[str, dict[str, Any]]:
    """The stored runs by their keys."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(out.glob("*.json"))}

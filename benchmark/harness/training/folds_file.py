"""The file `results.json` of the folds of protocol 'paper'."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import BenchmarkError
from harness.store.files import write_json
from harness.training.curves import curves_of

NAME = "results.json"


def save(out: Path, results: dict[str, Any]) -> None:
    """Writes `OUT/results.json`, with mean and standard deviation over its folds."""
    accuracy = [fold["best_val_accuracy"] for fold in results["folds"]]
    results = {**results, "mean": float(np.mean(accuracy)), "std": float(np.std(accuracy))}
    write_json(out / NAME, results)


def read(out: Path, settings: dict[str, Any], data: dict[str, Any]) -> list[dict[str, Any]]:
    """Reads the finished folds in `out`; raises if they have other settings or data."""
    path = out / NAME
    if not path.exists():
        return []
    try:
        there = json.loads(path.read_text(encoding="utf-8"))
        folds = there["folds"]
        known = _names(there["settings"], there["data"])
        _check_folds(folds, there["settings"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BenchmarkError(
            f"{path} is damaged, or not a file of this benchmark: move it away, or choose "
            "another --out"
        ) from error
    except OSError as error:
        raise BenchmarkError(f"--out {out}: {error}") from error
    wanted = _names(settings, data)
    differing = [
        f"{name}: {known.get(name)!r} there, {wanted.get(name)!r} now"
        for name in dict.fromkeys([*known, *wanted])
        if known.get(name) != wanted.get(name)
    ]
    if differing:
        raise BenchmarkError(
            f"--out {out} holds {len(folds)} finished folds with other settings "
            f"({'; '.join(differing)}): choose another --out, or delete {path}"
        )
    return folds


def _names(settings: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """Settings and data by name. The first that were stored lack the method, and the order."""
    named = {"method": "simpool", **settings}
    named.setdefault("order", "given" if named["method"] == "simpool" else None)
    return {**named, **{f"data.{name}": value for name, value in data.items()}}


def _check_folds(folds: Any, settings: dict[str, Any]) -> None:
    """Raises if a stored fold lacks what is read later."""
    numbers = [fold["fold"] for fold in folds]
    if not isinstance(folds, list) or not set(numbers) <= set(range(settings["folds"])):
        raise ValueError("folds")
    if len(set(numbers)) != len(numbers):
        raise ValueError("a fold is there twice")
    for fold in folds:
        for name in ("best_val_accuracy", "seconds_per_epoch"):
            if not isinstance(fold[name], float):
                raise TypeError(name)
        if not isinstance(fold["best_epoch"], int):
            raise TypeError("best_epoch")
        curves = fold["history"]
        for name in curves_of(settings.get("method", "simpool")):
            if len(curves[name]) != settings["epochs"]:
                raise ValueError(name)

"""The file `results.json` of the folds of protocol 'paper'."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import BenchmarkError, first_line
from harness.store.files import read_json, write_json
from harness.store.schema import Count, Index, Seconds, Share, check
from harness.training.curves import curves_of

NAME = "results.json"
#: Settings that the first stored results lack, with the values that these had.
FIRST = {"dropout": 0.0, "weight_decay": 0.0, "entropy_warmup": 0.0, "readout": "last"}


@dataclass
class StoredFold:
    """What is read of a finished fold."""

    fold: Index
    best_val_accuracy: Share
    best_epoch: Count
    seconds_per_epoch: Seconds
    history: dict[str, list[float]]


@dataclass
class StoredSettings:
    """What is read of the settings, beside whether they are the same."""

    folds: Count
    epochs: Count
    method: str = "simpool"  # the first results that were stored do not name it


@dataclass
class StoredFolds:
    """What is read of the file."""

    settings: StoredSettings
    data: dict[str, Any]
    folds: list[StoredFold]


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
        there = read_json(path)
        check(StoredFolds, there)
        folds = there["folds"]
        _check_folds(folds, there["settings"])
    except ValueError as error:
        raise BenchmarkError(
            f"{path} is damaged, or not a file of this benchmark ({first_line(error)}): move it "
            "away, or choose another --out"
        ) from error
    except OSError as error:
        raise BenchmarkError(f"--out {out}: {error}") from error
    known, wanted = _names(there["settings"], there["data"]), _names(settings, data)
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
    """Settings and data by name. The first that were stored lack some of them."""
    named = {**FIRST, "method": StoredSettings.method, **settings}
    named.setdefault("order", "given" if named["method"] == "simpool" else None)
    return {**named, **{f"data.{name}": value for name, value in data.items()}}


def _check_folds(folds: list[dict[str, Any]], settings: dict[str, Any]) -> None:
    """Raises if folds do not go with the settings."""
    numbers = [fold["fold"] for fold in folds]
    if len(set(numbers)) != len(numbers):
        raise ValueError("a fold is there twice")
    for fold in folds:
        if fold["fold"] >= settings["folds"] or fold["best_epoch"] > settings["epochs"]:
            raise ValueError(f"fold {fold['fold']} or its best epoch is none of the settings")
        for name in curves_of(settings.get("method", StoredSettings.method)):
            curve = fold["history"].get(name, [])
            if len(curve) != settings["epochs"]:
                raise ValueError(f"{name} has {len(curve)} epochs, not {settings['epochs']}")
            if name.endswith("accuracy"):
                check(list[Share], curve, name)

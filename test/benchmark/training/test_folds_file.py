"""The file of the folds is read back as it was saved, or an error names it."""

import json
from pathlib import Path

import pytest

from harness import training
from harness.errors import BenchmarkError
from harness.training.curves import CURVES, CURVES_OF_LEVELS
from harness.training.folds_file import read, save

STORED = sorted((Path(training.__file__).parents[2] / "results").glob("*/results.json"))
SETTINGS = {"k": 3, "lam": 0.5, "gru": False, "epochs": 2, "folds": 3}
DATA = {"name": "TINY", "checksum": "abc"}


def _curves() -> dict[str, list[float]]:
    return {name: [0.0, 1.0] for name in (*CURVES, *CURVES_OF_LEVELS)}


def folds() -> list[dict]:
    return [
        {
            "fold": i,
            "best_val_accuracy": i / 2,
            "best_epoch": 1,
            "seconds_per_epoch": 0.1,
            "history": _curves(),
        }
        for i in range(3)
    ]


def test_what_is_saved_is_read_back(tmp_path: Path) -> None:
    assert read(tmp_path, SETTINGS, DATA) == []
    save(tmp_path, {"settings": SETTINGS, "data": DATA, "folds": folds()})
    assert read(tmp_path, SETTINGS, DATA) == folds()


def test_other_data_of_the_same_name_stop(tmp_path: Path) -> None:
    save(tmp_path, {"settings": SETTINGS, "data": DATA, "folds": folds()})
    with pytest.raises(BenchmarkError, match=r"data\.checksum: 'abc' there, 'abd' now"):
        read(tmp_path, SETTINGS, {**DATA, "checksum": "abd"})


def damages() -> dict[str, dict]:
    there = {"settings": SETTINGS, "data": DATA, "folds": folds(), "mean": 0.0}
    out = {
        "settings are a list": {**there, "settings": []},
        "folds are a dictionary": {**there, "folds": {}},
        "no data": {k: v for k, v in there.items() if k != "data"},
        "a fold twice": {**there, "folds": folds()[:1] * 2},
        "epochs are true": {**there, "settings": {**SETTINGS, "epochs": True}},
        "no number of folds": {**there, "settings": {"epochs": 2}},
    }
    for name, value in (
        ("fold", "0"),
        ("fold", 3),
        ("best_val_accuracy", None),
        ("fold", True),
        ("fold", 1.0),
        ("best_val_accuracy", 7.0),
        ("best_val_accuracy", float("nan")),
        ("best_val_accuracy", True),
        ("best_epoch", "1"),
        ("best_epoch", 0),
        ("best_epoch", 3),
        ("seconds_per_epoch", -1.0),
        ("seconds_per_epoch", float("inf")),
        ("history", {**_curves(), "loss": ["0.5", "0.5"]}),
        ("history", {**_curves(), "loss": "ab"}),
        ("history", {**_curves(), "loss": [0.5, float("nan")]}),
        ("history", {**_curves(), "val_accuracy": [0.5, 1.5]}),
        ("seconds_per_epoch", None),
        ("history", {}),
        ("history", {name: [0.0] for name in (*CURVES, *CURVES_OF_LEVELS)}),
    ):
        changed = folds()
        changed[1][name] = value
        out[f"{name} is {value}"] = {**there, "folds": changed}
    for name in folds()[0]:
        changed = folds()
        del changed[1][name]
        out[f"no {name}"] = {**there, "folds": changed}
    return out


@pytest.mark.parametrize("kind", damages())
def test_damaged_files_are_named(tmp_path: Path, kind: str) -> None:
    text = json.dumps(damages()[kind])
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(BenchmarkError, match=r"results\.json is damaged"):
        read(tmp_path, SETTINGS, DATA)
    assert (tmp_path / "results.json").read_text() == text


def test_the_reason_is_said(tmp_path: Path) -> None:
    wrong = [{**fold, "best_val_accuracy": 7.0} for fold in folds()]
    there = {"settings": SETTINGS, "data": DATA, "folds": wrong}
    (tmp_path / "results.json").write_text(json.dumps(there))
    with pytest.raises(BenchmarkError, match=r"\(folds\[0\]\.best_val_accuracy is 7\.0\)"):
        read(tmp_path, SETTINGS, DATA)


def test_deep_nesting(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("[" * 100_000)
    with pytest.raises(BenchmarkError, match=r"results\.json is damaged.*nested too deeply"):
        read(tmp_path, SETTINGS, DATA)


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.parent.name)
def test_stored_results_are_read(path: Path) -> None:
    there = json.loads(path.read_text())
    assert read(path.parent, there["settings"], there["data"]) == there["folds"]

"""The file of a run is checked for what is read of it later."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.study.run_files import FORMAT, UnreadableRunError, read_run
from harness.training.curves import CURVES, CURVES_OF_LEVELS
from helpers.tiny_study import TINY
from torch_geometric_simpool.analysis.locality import Locality

GOOD: dict[str, Any] = {
    "format": FORMAT,
    "settings": TINY.settings,
    "history": {name: [0.5, 0.5] for name in (*CURVES, *CURVES_OF_LEVELS)},
    "best_val_accuracy": 0.5,
    "data": {},
    "sizes": {"train": 8, "validation": 4},
    "versions": {},
    "hardware": {"device": "cpu", "cpus": None, "threads": 1},
    "commit": None,
    "num_parameters": 7,
    "seconds": 1.0,
    "num_clusters": 8,
    "locality": {**dict.fromkeys(Locality._fields, 0.5), "distance_ratio": None},
    "drawn": [{"class": 0, "edges": [[0, 1]], "clusters": [3, 3]}],
}


def without(name: str, *inner: str) -> dict:
    """A change of `GOOD`: an entry is missing, or `inner` entries of it."""
    if not inner:
        return {name: KeyError}
    return {name: {k: v for k, v in GOOD[name].items() if k not in inner}}


def assert_damaged(path: Path, good: dict, change: dict) -> None:
    """The file of a run is refused after a change; `KeyError` leaves an entry out."""
    changed = {name: value for name, value in {**good, **change}.items() if value is not KeyError}
    path.write_text(json.dumps(changed))
    with pytest.raises(UnreadableRunError, match="is damaged, or not a file of this study"):
        read_run(path)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "another"},
        {"settings": {**TINY.settings, "k": 5}},
        {"settings": {**TINY.settings, "unknown": 5}},
        {"settings": None},
        {"history": {}},
        without("history", "clusters_1"),
        {"history": {**GOOD["history"], "loss": [1.0]}},
        {"history": {**GOOD["history"], "loss": [1.0, None]}},
        {"history": {**GOOD["history"], "loss": [1.0, float("nan")]}},
        {"history": {**GOOD["history"], "val_accuracy": ["0.5", "0.5"]}},
        {"best_val_accuracy": 7.0},
        {"best_val_accuracy": None},
        {"sizes": 7},
        without("sizes", "validation"),
        {"sizes": {"train": 8, "validation": 0}},
        {"sizes": {"train": True, "validation": 4}},
        {"data": {"checksum": ["a"]}},
        {"seconds": -1.0},
        {"history": {**GOOD["history"], "loss": "ab"}},
        {"history": {**GOOD["history"], "loss": [1.0, 10**400]}},
        {"best_val_accuracy": True},
        {"best_val_accuracy": float("nan")},
        {"num_clusters": True},
        {"drawn": [{"class": "x", "edges": [[0, 1]], "clusters": [3, 3]}]},
        {"drawn": [{"class": 0, "edges": [[0]], "clusters": [3, 3]}]},
        {"num_parameters": "many"},
        {"cpu_seconds": None},
        {"cpu_seconds": "x"},
        {"hardware": {}},
        without("hardware", "threads"),
        {"commit": 7},
        without("commit"),
        without("locality"),
        {"locality": {}},
        without("locality", "connected"),
        {"locality": {**GOOD["locality"], "clusters": "x"}},
        without("num_clusters"),
        without("drawn"),
        {"drawn": [1]},
        {"drawn": [{"class": 0, "edges": [[0, 1]], "clusters": []}]},
        {"drawn": [{"class": 0, "edges": [[0, 2]], "clusters": [3, 3]}]},
    ],
    ids=str,
)
def test_files_that_are_not_runs(tmp_path: Path, change: dict) -> None:
    path = tmp_path / f"{TINY.key}.json"
    path.write_text(json.dumps(GOOD))
    assert read_run(path, TINY) == GOOD
    assert_damaged(path, GOOD, change)


@pytest.mark.parametrize("change", [{"locality": {}}, without("num_clusters")], ids=str)
def test_poolers_of_tgp_may_have_a_locality(tmp_path: Path, change: dict) -> None:
    """The report shows it, so it is checked where it is there."""
    run = replace(TINY, method="tgp:sep").filled()
    path = tmp_path / f"{run.key}.json"
    good = {**GOOD, "settings": run.settings}
    fields = ("locality", "num_clusters", "drawn")
    for there in (good, {name: good[name] for name in good if name not in fields}):
        path.write_text(json.dumps(there))
        assert read_run(path, run) == there
    assert_damaged(path, good, change)


@pytest.mark.parametrize(
    "change",
    [
        {"test_labels": KeyError},
        {"test_labels": [0, 1]},
        {"test_labels": [0, 1, 2]},
        {"test_labels": [0, 1, -1]},
        {"test_labels": [0, 1, 0.5]},
        {"test_probabilities": KeyError},
        {"test_probabilities": []},
        {"test_probabilities": [[1.0, 0.0], [0.5, 0.5]]},
        {"test_probabilities": [[1.0, 0.0], [0.5, 0.5], [1.0]]},
        {"test_probabilities": [[1.0, 0.0], [0.5, 0.5], [1.0, 1.5]]},
        {"test_probabilities": [[1.0, 0.0], [0.5, 0.5], [1.0, None]]},
        {"sizes": {"train": 8, "validation": 4, "test": 4}},
        {"test_accuracy": KeyError},
    ],
    ids=str,
)
def test_predictions_that_cannot_vote(tmp_path: Path, change: dict) -> None:
    """They are of all test graphs, and of every class."""
    run = replace(TINY, protocol="nested", repetition=1, probabilities=True)
    good = {
        **GOOD,
        "settings": run.settings,
        "sizes": {"train": 6, "validation": 3, "test": 3},
        "test_accuracy": 1.0,
        "test_labels": [0, 1, 0],
        "test_probabilities": [[1.0, 0.0], [0.25, 0.75], [1, 0]],
    }
    path = tmp_path / f"{run.key}.json"
    path.write_text(json.dumps(good))
    assert read_run(path, run) == good
    assert_damaged(path, good, change)


def test_a_missing_curve_is_named(tmp_path: Path) -> None:
    """It also is of a method that is declared to have levels, but returns none."""
    path = tmp_path / f"{TINY.key}.json"
    path.write_text(json.dumps({**GOOD, **without("history", "entropy_loss_0")}))
    with pytest.raises(UnreadableRunError, match=r"\(history\.entropy_loss_0 is missing\)"):
        read_run(path)


def test_a_file_of_brackets_is_no_run(tmp_path: Path) -> None:
    path = tmp_path / f"{TINY.key}.json"
    path.write_text("[" * 100_000)
    with pytest.raises(UnreadableRunError, match="is damaged, or not a file of this study"):
        read_run(path)

"""Splits fit the data set, or an error says why they do not."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.data.splits import PARTS, read_splits, seeded_splits, splits_name
from harness.errors import BenchmarkError

LABELS = np.array([i % 3 for i in range(60)])


def published(folds: int = 5, num_graphs: int = 60) -> list[dict[str, Any]]:
    order = np.random.default_rng(0).permutation(num_graphs)
    made = []
    for test in np.array_split(order, folds):
        rest = np.setdiff1d(order, test)
        inner = {"train": rest[4:].tolist(), "validation": rest[:4].tolist()}
        made.append({"test": test.tolist(), "model_selection": [inner]})
    return made


def write(path: Path, splits: Any) -> Path:
    path.write_text(json.dumps(splits))
    return path


def test_reads_what_is_there(tmp_path: Path) -> None:
    there = published()
    file = write(tmp_path / "NAME_splits.json", there)
    for path in (file, tmp_path):
        splits = read_splits(path, "NAME", 60, 5)
        assert len(splits) == 5
        for fold, expected in zip(splits, there):
            assert fold["test"].tolist() == expected["test"]
            assert fold["train"].tolist() == expected["model_selection"][0]["train"]
            assert fold["validation"].tolist() == expected["model_selection"][0]["validation"]
    assert splits_name(file, "NAME") == splits_name(tmp_path, "NAME")
    other = write(tmp_path / "other.json", published(6))
    assert splits_name(other, "NAME") != splits_name(file, "NAME")


def test_another_data_set(tmp_path: Path) -> None:
    file = write(tmp_path / "splits.json", published())
    for num_graphs in (59, 61):
        message = rf"splits 60 graphs, the largest of them number 59, .* has {num_graphs}"
        with pytest.raises(BenchmarkError, match=message):
            read_splits(file, "NAME", num_graphs, 5)


def edited(**changes: Any) -> list[dict[str, Any]]:
    splits = published()
    splits[2].update(changes)
    return splits


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({}, "must hold 5 folds, got 0"),
        (published(6), "must hold 5 folds, got 6"),
        ("no splits", "is damaged, or not a file of splits"),
        ([{"test": [1]}] * 5, "is damaged, or not a file of splits"),
        (edited(model_selection=[]), "is damaged"),
        (edited(test=[0.5, 1.5]), "is damaged"),
        (edited(test=[[1]]), "is damaged"),
        (edited(test=[]), "is damaged"),
        (edited(test=published()[0]["test"]), "names a graph twice"),
        (published()[:4] + published()[:1], "every one of 60 graphs must be tested on once"),
    ],
)
def test_damaged_files(tmp_path: Path, splits: Any, message: str) -> None:
    with pytest.raises(BenchmarkError, match=message):
        read_splits(write(tmp_path / "splits.json", splits), "NAME", 60, 5)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "splits.json").write_text("[{")
    with pytest.raises(BenchmarkError, match="is damaged"):
        read_splits(tmp_path / "splits.json", "NAME", 60, 5)
    with pytest.raises(BenchmarkError, match="cannot be read"):
        read_splits(tmp_path / "none.json", "NAME", 60, 5)
    with pytest.raises(BenchmarkError, match="cannot be read"):
        splits_name(tmp_path, "NAME")


def test_seeded_splits_are_stratified() -> None:
    splits = seeded_splits(LABELS, 5, seed=0)
    tested = np.concatenate([fold["test"] for fold in splits])
    assert sorted(tested) == list(range(60))
    for fold in splits:
        graphs = np.concatenate([fold[part] for part in PARTS])
        assert sorted(graphs) == list(range(60))
        assert np.bincount(LABELS[fold["test"]]).tolist() == [4, 4, 4]
        assert len(fold["validation"]) == 5
    again, other = seeded_splits(LABELS, 5, seed=0), seeded_splits(LABELS, 5, seed=1)
    assert all(np.array_equal(a["train"], b["train"]) for a, b in zip(splits, again))
    assert not all(np.array_equal(a["train"], b["train"]) for a, b in zip(splits, other))


def test_seeded_splits_of_too_few_graphs() -> None:
    with pytest.raises(BenchmarkError, match="needs 5 graphs of every class, got 4"):
        seeded_splits(np.array([0] * 20 + [1] * 4), 5, seed=0)
    smallest = seeded_splits(np.array([0, 1] * 4), 2, seed=0)
    assert [len(fold["validation"]) for fold in smallest] == [2, 2]

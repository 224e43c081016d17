"""Splits of both protocols.

Protocol 'paper' has stratified folds. Protocol 'nested' has ten outer folds to test on, and
for each one holdout of the other graphs to select settings by: published splits from a file, or
stratified ones from a seed.
"""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, train_test_split

from harness.command import BenchmarkError
from harness.data.load import GraphData

#: The share of an outer fold's other graphs that is held out.
HOLDOUT = 0.1
Splits = list[dict[str, np.ndarray]]


def make_splits(data: GraphData, folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Protocol 'paper': of each stratified fold, the training and the validation graphs."""
    rarest = int(np.bincount(data.labels).min())
    if folds > rarest:
        raise BenchmarkError(
            f"--folds must be at most {rarest}, the number of graphs in the smallest class of "
            f"{data.name}, got {folds}"
        )
    splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(len(data.graphs)), data.labels))


def splits_file(path: Path, dataset: str) -> Path:
    """The file of `--splits`: the path itself, or `DATASET_splits.json` in that folder."""
    return path / f"{dataset}_splits.json" if path.is_dir() else path


def splits_name(path: Path, dataset: str) -> str:
    """A name made from the content of a file of splits."""
    file = splits_file(path, dataset)
    try:
        return f"file-{hashlib.sha256(file.read_bytes()).hexdigest()[:10]}"
    except OSError as error:
        raise BenchmarkError(f"--splits: {file} cannot be read: {error}") from error


def read_splits(path: Path, dataset: str, num_graphs: int, folds: int) -> Splits:
    """Reads published splits, and checks that they split the graphs of the data set.

    The file holds a list with an entry for each fold, `{"test": [...], "model_selection":
    [{"train": [...], "validation": [...]}]}`, of numbers of graphs counted from 0.
    """
    file = splits_file(path, dataset)
    try:
        splits = [_parts(fold) for fold in json.loads(file.read_text(encoding="utf-8"))]
        tested = np.concatenate([fold["test"] for fold in splits])
        several = [tested, *(np.concatenate(list(fold.values())) for fold in splits)]
        if len(splits) != folds:
            raise ValueError(f"it has {len(splits)} folds, not {folds}")
        if not all(np.array_equal(np.sort(part), np.arange(num_graphs)) for part in several):
            raise ValueError(f"its folds do not split {num_graphs} graphs, numbered from 0")
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise BenchmarkError(
            f"--splits: {file} is no file of splits of {dataset}: {error}. It must hold a list of "
            '{"test": [...], "model_selection": [{"train": [...], "validation": [...]}]}'
        ) from error
    return splits


def _parts(fold: dict[str, Any]) -> dict[str, np.ndarray]:
    inner = fold["model_selection"][0]
    numbers = {"train": inner["train"], "validation": inner["validation"], "test": fold["test"]}
    return {part: np.array(values, dtype=np.int64) for part, values in numbers.items()}


def seeded_splits(labels: np.ndarray, folds: int, seed: int) -> Splits:
    """Stratified splits from a seed: the outer folds, then the holdout of each."""
    rarest, least = int(np.bincount(labels).min()), max(folds, 4)
    if rarest < least:
        raise BenchmarkError(
            f"protocol 'nested' with {folds} folds needs {least} graphs of every class, "
            f"got {rarest} of the smallest"
        )
    outer = StratifiedKFold(folds, shuffle=True, random_state=seed)
    splits = []
    for rest, test in outer.split(np.zeros(len(labels)), labels):
        # At least one graph of every class.
        size = max(math.ceil(HOLDOUT * len(rest)), len(np.unique(labels)))
        train, validation = train_test_split(
            rest, test_size=size, stratify=labels[rest], random_state=seed
        )
        splits.append({"train": np.sort(train), "validation": np.sort(validation), "test": test})
    return splits

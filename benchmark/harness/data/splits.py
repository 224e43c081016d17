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
PARTS = ("train", "validation", "test")
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
    """Reads published splits, and checks them against the data set.

    The file holds a list with an entry for each fold, `{"test": [...], "model_selection":
    [{"train": [...], "validation": [...]}]}`, of numbers of graphs counted from 0.
    """
    file = splits_file(path, dataset)
    try:
        splits = [_parts(fold) for fold in json.loads(file.read_text(encoding="utf-8"))]
    except OSError as error:
        raise BenchmarkError(f"--splits: {file} cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise BenchmarkError(
            f"--splits: {file} is damaged, or not a file of splits: it must hold a list of "
            '{"test": [...], "model_selection": [{"train": [...], "validation": [...]}]}'
        ) from error
    if len(splits) != folds:
        raise BenchmarkError(f"--splits: {file} must hold {folds} folds, got {len(splits)}")
    for number, fold in enumerate(splits):
        graphs = np.concatenate([fold[part] for part in PARTS])
        if len(graphs) != num_graphs or graphs.max() >= num_graphs:
            raise BenchmarkError(
                f"--splits: {file} does not fit {dataset}: fold {number} splits {len(graphs)} "
                f"graphs, the largest of them number {graphs.max()}, but the data set has "
                f"{num_graphs}, numbered from 0"
            )
        if graphs.min() < 0 or len(np.unique(graphs)) != len(graphs):
            raise BenchmarkError(
                f"--splits: {file}: fold {number} names a graph twice, or one below 0"
            )
    tested = np.concatenate([fold["test"] for fold in splits])
    if len(tested) != num_graphs or len(np.unique(tested)) != num_graphs:
        raise BenchmarkError(
            f"--splits: {file}: every one of {num_graphs} graphs must be tested on once, got "
            f"{len(tested)} tests of {len(np.unique(tested))} graphs"
        )
    return splits


def _parts(fold: dict[str, Any]) -> dict[str, np.ndarray]:
    inner = fold["model_selection"][0]
    numbers = {**{part: inner[part] for part in ("train", "validation")}, "test": fold["test"]}
    parts = {}
    for part, value in numbers.items():
        parts[part] = np.array(value)
        if parts[part].ndim != 1 or parts[part].size == 0 or parts[part].dtype.kind != "i":
            raise ValueError(part)
    return parts


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

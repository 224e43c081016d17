"""The splits of protocol 'nested': published ones from a file, or seeded, stratified ones.

Ten outer folds to test on; of each, one holdout of the other graphs to choose by.
"""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, train_test_split

from errors import BenchmarkError

#: The share of an outer fold's other graphs that is held out.
HOLDOUT = 0.1
PARTS = ("train", "validation", "test")
Splits = list[dict[str, np.ndarray]]


def splits_file(path: Path, dataset: str) -> Path:
    """The file that `--splits` means: itself, or `DATASET_splits.json` in a folder."""
    return path / f"{dataset}_splits.json" if path.is_dir() else path


def splits_name(path: Path, dataset: str) -> str:
    """What tells the splits of a file apart from others, wherever the file lies."""
    file = splits_file(path, dataset)
    try:
        return f"file-{hashlib.sha256(file.read_bytes()).hexdigest()[:10]}"
    except OSError as error:
        raise BenchmarkError(f"--splits: {file} cannot be read: {error}") from error


def read_splits(path: Path, dataset: str, num_graphs: int, folds: int) -> Splits:
    """Reads published splits, and checks them against the data set.

    The file holds a list of `{"test": [...], "model_selection": [{"train": [...],
    "validation": [...]}]}`, numbers of graphs counted from 0.
    """
    file = splits_file(path, dataset)
    try:
        there = json.loads(file.read_text(encoding="utf-8"))
        splits = [_parts(fold) for fold in there]
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
    """Stratified splits of our own: the outer folds, then the holdout of each."""
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

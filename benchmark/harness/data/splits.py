"""Splits of both protocols.

Protocol 'paper' has stratified folds. Protocol 'nested' tests on ten outer folds. It selects
settings on one holdout of the other graphs of each fold. Its splits are published ones from a
file, or stratified ones from a seed.
"""

import hashlib
import json
import math
from pathlib import Path
from typing import Any, Optional

import numpy as np
from sklearn.model_selection import StratifiedKFold, train_test_split

from harness.command import BenchmarkError

#: The share of an outer fold's other graphs that is held out.
HOLDOUT = 0.1
Splits = list[dict[str, np.ndarray]]


def make_splits(labels: np.ndarray, folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns the training and the validation graphs of each stratified fold (protocol 'paper')."""
    rarest = int(np.bincount(labels).min())
    if rarest < max(folds, 4):
        raise BenchmarkError(
            f"--folds {folds} needs {max(folds, 4)} graphs of every class, got {rarest} of the "
            "smallest"
        )
    return list(StratifiedKFold(folds, shuffle=True, random_state=seed).split(labels, labels))


def _read(path: Optional[Path], dataset: str) -> bytes:
    """Reads the file `--splits`, or `DATASET_splits.json` if `--splits` is a folder."""
    if path is None:
        raise BenchmarkError(f"--splits: name the published splits of the stored runs on {dataset}")
    file = path / f"{dataset}_splits.json" if path.is_dir() else path
    return file.read_bytes()


def splits_name(path: Path, dataset: str) -> str:
    """Returns a name from the content of a file of splits."""
    return f"file-{hashlib.sha256(_read(path, dataset)).hexdigest()[:10]}"


def read_splits(path: Optional[Path], dataset: str, num_graphs: int, folds: int) -> Splits:
    """Reads published splits, and checks that they split the graphs of the data set.

    The file holds a list with an entry for each fold, `{"test": [...], "model_selection":
    [{"train": [...], "validation": [...]}]}`, of numbers of graphs counted from 0.
    """
    try:
        splits = [_parts(fold) for fold in json.loads(_read(path, dataset))]
        tested = np.concatenate([fold["test"] for fold in splits])
        several = [tested, *(np.concatenate(list(fold.values())) for fold in splits)]
        whole = all(np.array_equal(np.sort(part), np.arange(num_graphs)) for part in several)
        if len(splits) != folds or not whole:
            raise ValueError(f"it does not split {num_graphs} graphs from 0 into {folds} folds")
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise BenchmarkError(
            f"--splits: {path} has no splits of {dataset}: {error}. It must hold a list of "
            '{"test": [...], "model_selection": [{"train": [...], "validation": [...]}]}'
        ) from error
    return splits


def _parts(fold: dict[str, Any]) -> dict[str, np.ndarray]:
    inner = fold["model_selection"][0]
    numbers = {"train": inner["train"], "validation": inner["validation"], "test": fold["test"]}
    return {part: np.array(values, dtype=np.int64) for part, values in numbers.items()}


def seeded_splits(labels: np.ndarray, folds: int, seed: int) -> Splits:
    """Returns stratified outer folds from a seed, and the holdout of each."""
    splits = []
    for rest, test in make_splits(labels, folds, seed):
        # A holdout has at least one graph of every class.
        size = max(math.ceil(HOLDOUT * len(rest)), len(np.unique(labels)))
        train, validation = train_test_split(
            rest, test_size=size, stratify=labels[rest], random_state=seed
        )
        splits.append({"train": np.sort(train), "validation": np.sort(validation), "test": test})
    return splits

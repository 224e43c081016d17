"""Which runs the options of `study.py` ask for."""

import argparse
from pathlib import Path
from typing import Optional

from harness.data.splits import read_splits, splits_name
from harness.errors import BenchmarkError
from harness.store.locks import locked_data
from harness.study import experiments
from harness.study.declarations import Nested
from harness.study.nested import Results, final_runs, known_splits
from harness.study.perform import load_data
from harness.study.queue import queue
from harness.study.run import Run
from harness.study.run_files import read_runs
from harness.study.store import Store


def check_splits(options: argparse.Namespace) -> None:
    """Checks `--splits` before any run: a file is of one data set, a folder has one for each."""
    nested = [experiments.NESTED[name].base for name in options.only if name in experiments.NESTED]
    if options.splits is None:
        return
    names = sorted({base.dataset for base in nested})
    if len(names) > 1 and not options.splits.is_dir():
        raise BenchmarkError(
            f"--splits {options.splits}: a file is of one data set, and tables of "
            f"{' and '.join(names)} are asked for: give a folder of DATASET_splits.json, or --only"
        )
    for base in nested:
        splits_name(options.splits, base.dataset)  # raises where the file cannot be read
        if options.list:
            continue
        try:
            with locked_data(Path(options.root)):
                count = len(load_data(base, options.root).graphs)
        except BenchmarkError:
            continue  # reported with the run: other tables may have their data
        read_splits(options.splits, base.dataset, count, base.folds)


def wanted(options: argparse.Namespace, store: Store) -> list[Run]:
    """The runs that the options ask for, each once, in the order in which they are made.

    The final runs of protocol 'nested' are among them once their settings are selected.
    """
    early, late = queue(options.only)
    tables = [experiments.NESTED[name] for name in options.only if name in experiments.NESTED]
    stored = read_runs(store.folder)[0] if tables and options.list else {}
    nested = [
        run
        for table in tables
        for run in nested_runs(table, _splits(table, options.splits, stored), store)
    ]
    return [
        run
        for run in dict.fromkeys(early + nested + late)
        if run.method in options.method and (options.fold is None or run.fold in options.fold)
    ]


def _splits(nested: Nested, path: Optional[Path], stored: Results) -> str:
    """The name of the splits of a table: of a path, or of stored runs, or of those from a seed."""
    if path is not None:
        return splits_name(path, nested.base.dataset)
    return next(iter(known_splits(nested, stored)), "seeded")


def nested_runs(nested: Nested, splits: str, store: Store) -> list[Run]:
    """Fold by fold: the runs to select from, and the final ones if the selection is made."""
    runs: list[Run] = []
    for fold in range(nested.base.folds):
        for method in nested.methods:
            selection = list(nested.selection(method, fold, splits).values())
            for run in selection:
                store.missing(run)  # reads it, so that `store.known` has it
            runs += selection
            runs += final_runs(nested, method, fold, splits, store.known)
    return runs

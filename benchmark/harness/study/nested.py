"""Protocol 'nested': the selection of settings from finished runs, and the test accuracies."""

from collections.abc import Mapping
from typing import Any, Optional

import numpy as np

from harness.study.declarations import Nested
from harness.study.run import Run

Results = Mapping[Run, dict[str, Any]]


def choose(selection: list[Run], results: Results) -> Optional[Run]:
    """The run with the highest validation accuracy, the first of equals.

    `None` if one of them is missing or cannot be read: a selection from a part of the grid would
    be another protocol. Runs that diverged are never chosen.
    """
    if any(run not in results for run in selection):
        return None
    finished = [run for run in selection if "error" not in results[run]]
    return max(finished, key=lambda run: results[run]["best_val_accuracy"], default=None)


def final_runs(nested: Nested, method: str, fold: int, splits: str, results: Results) -> list[Run]:
    """The runs of a fold that are tested; none if no choice has been made."""
    chosen = choose(list(nested.selection(method, fold, splits).values()), results)
    return [] if chosen is None else nested.final(chosen)


def known_splits(nested: Nested, results: Results) -> list[str]:
    """The splits of the finished runs of a table, published ones first."""
    return sorted({run.splits for run in declared(nested, results) if run.splits is not None})


def declared(nested: Nested, results: Results) -> set[Run]:
    """The finished runs that the table asks for, on any splits."""
    splits = {run.splits for run in results if run.splits is not None}
    asked: set[Run] = set()
    for name in splits:
        for fold in range(nested.base.folds):
            for method in nested.methods:
                asked.update(nested.selection(method, fold, name).values())
                asked.update(final_runs(nested, method, fold, name, results))
    return asked & set(results)


def tested(nested: Nested, method: str, results: Results) -> dict[str, dict[int, float]]:
    """The mean test accuracy over the repetitions, by splits (published ones first) and fold.

    Only runs of the selected settings count, and only folds with all of their repetitions.
    """
    found: dict[str, dict[int, float]] = {}
    for splits in known_splits(nested, results):
        for fold in range(nested.base.folds):
            final = final_runs(nested, method, fold, splits, results)
            there = [results[run] for run in final if run in results]
            values = [result["test_accuracy"] for result in there if "error" not in result]
            if len(values) == nested.repetitions:
                found.setdefault(splits, {})[fold] = float(np.mean(values))
    return found


def missing(nested: Nested, results: Results) -> int:
    """The number of missing runs of a table, on the splits with the fewest missing."""
    left = [_count_missing(nested, splits, results) for splits in known_splits(nested, results)]
    return min(left or [_count_missing(nested, "", {})])


def _count_missing(nested: Nested, splits: str, results: Results) -> int:
    """The number of missing runs. If all choices of a fold diverged, none is left to test."""
    count = 0
    for fold in range(nested.base.folds):
        for method in nested.methods:
            selection = nested.selection(method, fold, splits).values()
            to_choose_by = sum(run not in results for run in selection)
            final = final_runs(nested, method, fold, splits, results)
            if final:
                count += sum(run not in results for run in final)
            elif to_choose_by > 0:
                count += to_choose_by + nested.repetitions
    return count

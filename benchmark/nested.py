"""Protocol 'nested', from the runs that are there: what was chosen, what it comes to on test."""

from collections.abc import Mapping
from typing import Any, Optional

import numpy as np

from declarations import Nested, Run

Results = Mapping[Run, dict[str, Any]]


def choose(selection: list[Run], results: Results) -> Optional[Run]:
    """The run of the highest validation accuracy, the first of equals.

    `None` as long as one of them is not there, or cannot be read: a choice from a part of the
    grid is another protocol. One that diverged is never chosen.
    """
    if any(run not in results for run in selection):
        return None
    finished = [run for run in selection if "error" not in results[run]]
    return max(finished, key=lambda run: results[run]["best_val_accuracy"], default=None)


def final_runs(nested: Nested, method: str, fold: int, splits: str, results: Results) -> list[Run]:
    """The runs of a fold that are tested; none where no choice has been made."""
    chosen = choose(list(nested.selection(method, fold, splits).values()), results)
    return [] if chosen is None else nested.final(chosen)


def splits_there(nested: Nested, results: Results) -> list[str]:
    """The splits that runs of a table are of, published ones first."""
    return sorted({run.splits for run in declared(nested, results) if run.splits is not None})


def declared(nested: Nested, results: Results) -> set[Run]:
    """The runs there that the table asks for, whatever their splits."""
    splits = {run.splits for run in results if run.splits is not None}
    asked: set[Run] = set()
    for name in splits:
        for fold in range(nested.base.folds):
            for method in nested.methods:
                asked.update(nested.selection(method, fold, name).values())
                asked.update(final_runs(nested, method, fold, name, results))
    return asked & set(results)


def tested(nested: Nested, method: str, results: Results) -> dict[str, dict[int, float]]:
    """By the splits, published ones first: each fold's mean test accuracy of all repetitions.

    Of the declared runs alone, those of the choice that the selection makes; a fold counts
    when all of its repetitions are there.
    """
    found: dict[str, dict[int, float]] = {}
    for splits in splits_there(nested, results):
        for fold in range(nested.base.folds):
            final = final_runs(nested, method, fold, splits, results)
            there = [results[run] for run in final if run in results]
            values = [result["test_accuracy"] for result in there if "error" not in result]
            if len(values) == nested.repetitions:
                found.setdefault(splits, {})[fold] = float(np.mean(values))
    return found


def missing(nested: Nested, results: Results) -> int:
    """How many runs a table lacks, on the splits that it lacks fewest of."""
    left = [_left(nested, splits, results) for splits in splits_there(nested, results)]
    return min(left or [_left(nested, "", {})])


def _left(nested: Nested, splits: str, results: Results) -> int:
    """How many runs are not there; where every choice has diverged, there is none to test."""
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

"""Protocol 'nested': the selection of settings from finished runs, and the test accuracies."""

from collections.abc import Callable, Hashable, Mapping
from typing import Optional

import numpy as np

from harness.run import Result, Run
from harness.study.declarations import Nested

Results = Mapping[Run, Result]


def choose(selection: list[Run], results: Results) -> Optional[Run]:
    """The run with the highest validation accuracy, the first of equals.

    `None` if one of them is missing or cannot be read: a selection from a part of the grid would
    be another protocol. Runs that diverged are never chosen.
    """
    if any(run not in results for run in selection):
        return None
    finished = [run for run in selection if results[run].error is None]
    return max(finished, key=lambda run: results[run].best_val_accuracy, default=None)


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
    return _by_fold(nested, method, results, _mean)


def voted(nested: Nested, method: str, results: Results) -> dict[str, dict[int, float]]:
    """Returns :func:`tested` for a vote of the repetitions."""
    return _by_fold(nested, method, results, vote)


def vote(repetitions: list[Result]) -> float:
    """The test accuracy of soft voting.

    The class of a graph is the one with the highest mean probability, the first of equals.
    """
    mean = np.mean([result.test_probabilities or [] for result in repetitions], axis=0)
    return float(np.mean(mean.argmax(axis=1) == np.array(repetitions[0].test_labels)))


def _mean(repetitions: list[Result]) -> float:
    return float(np.mean([result.test_accuracy for result in repetitions]))


def _by_fold(
    nested: Nested,
    method: str,
    results: Results,
    accuracy: Callable[[list[Result]], float],
) -> dict[str, dict[int, float]]:
    by_splits: dict[str, dict[int, float]] = {}
    for splits in known_splits(nested, results):
        for fold in range(nested.base.folds):
            final = final_runs(nested, method, fold, splits, results)
            repetitions = [results[run] for run in final if run in results]
            repetitions = [result for result in repetitions if result.error is None]
            if len(repetitions) == nested.repetitions:
                by_splits.setdefault(splits, {})[fold] = accuracy(repetitions)
    return by_splits


def missing(nested: Nested, results: Results) -> set[Hashable]:
    """The missing runs of a table, on the splits with the fewest missing.

    Final runs whose settings are not selected yet are in it by their table and number.
    """
    left = [_missing(nested, splits, results) for splits in known_splits(nested, results)]
    return min(left or [_missing(nested, "", {})], key=len)


def _missing(nested: Nested, splits: str, results: Results) -> set[Hashable]:
    """The missing runs. If all choices of a fold diverged, none is left to test."""
    missing_runs: set[Hashable] = set()
    for fold in range(nested.base.folds):
        for method in nested.methods:
            selection = nested.selection(method, fold, splits).values()
            to_choose_by = [run for run in selection if run not in results]
            final = final_runs(nested, method, fold, splits, results)
            missing_runs.update(to_choose_by)
            missing_runs.update(run for run in final if run not in results)
            if to_choose_by:
                repetitions = range(nested.repetitions)
                missing_runs.update((nested.name, method, fold, number) for number in repetitions)
    return missing_runs

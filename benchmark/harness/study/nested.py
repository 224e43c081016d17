"""Protocol 'nested': the selection of settings from finished runs, and the test accuracies."""

from collections.abc import Hashable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from harness.run import Result, Run
from harness.study.declarations import Nested

Results = Mapping[Run, Result]


class Trial(NamedTuple):
    """A method on an outer fold: the runs to select settings from, by the name of the choice, and
    the runs of the selected settings that are tested. There are none before all of the former."""

    method: str
    fold: int
    selection: dict[str, Run]
    final: list[Run]

    @property
    def runs(self) -> list[Run]:
        """All runs of the trial."""
        return [*self.selection.values(), *self.final]


def trials(nested: Nested, splits: str, results: Results) -> Iterator[Trial]:
    """Yields the trials of a table fold by fold.

    The run with the highest validation accuracy is chosen, the first of equals. Runs that diverged
    are never chosen, and nothing is chosen from a part of the grid.
    """
    for fold in range(nested.base.folds):
        for method in nested.methods:
            selection = nested.selection(method, fold, splits)
            final: list[Run] = []
            if results.keys() >= set(selection.values()):
                finished = [run for run in selection.values() if results[run].error is None]
                best = sorted(finished, key=lambda run: -results[run].best_val_accuracy)[:1]
                final = [run for chosen in best for run in nested.final(chosen)]
            yield Trial(method, fold, selection, final)


def splits_of(nested: Nested, results: Results) -> str:
    """The splits of a table: published ones if there are runs on them, else those of a seed."""
    names = {run.splits for run in results if run.dataset == nested.base.dataset and run.splits}
    return min(names, default="seeded")


def declared(nested: Nested, results: Results) -> set[Run]:
    """The finished runs that the table asks for."""
    asked = trials(nested, splits_of(nested, results), results)
    return {run for trial in asked for run in trial.runs} & results.keys()


def complete(nested: Nested, method: str, results: Results) -> list[Trial]:
    """The trials of a method whose final runs are all there and did not diverge."""
    return [
        trial
        for trial in trials(nested, splits_of(nested, results), results)
        if trial.method == method and trial.final
        if all(run in results and results[run].error is None for run in trial.final)
    ]


def tested(nested: Nested, method: str, results: Results) -> dict[int, float]:
    """The mean test accuracy over the repetitions, by fold."""
    return {
        trial.fold: float(np.mean([results[run].test_accuracy for run in trial.final]))
        for trial in complete(nested, method, results)
    }


def voted(nested: Nested, method: str, results: Results) -> dict[int, float]:
    """The test accuracy of a vote of the repetitions, by fold."""
    return {
        trial.fold: vote([results[run] for run in trial.final])
        for trial in complete(nested, method, results)
    }


def vote(repetitions: list[Result]) -> float:
    """The test accuracy of soft voting.

    The class of a graph is the one with the highest mean probability, the first of equals.
    """
    mean = np.mean([result.test_probabilities or [] for result in repetitions], axis=0)
    return float(np.mean(mean.argmax(axis=1) == np.array(repetitions[0].test_labels)))


def missing(nested: Nested, results: Results) -> set[Hashable]:
    """The missing runs of a table.

    Final runs whose settings are not selected yet are in it by their table and number.
    """
    names: set[Hashable] = set()
    for trial in trials(nested, splits_of(nested, results), results):
        names.update(run for run in trial.runs if run not in results)
        if not trial.final and not names.isdisjoint(trial.selection.values()):
            numbers = range(nested.repetitions)
            names.update((nested.name, trial.method, trial.fold, number) for number in numbers)
    return names

"""Protocol 'nested': its tables, the selection of settings, and the test accuracies."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from harness.run import Result, Run
from harness.study.declarations import DD, ENZYMES, Nested

Results = Mapping[Run, Result]
#: The learning rates to choose from.
_GRID = {
    "lr 1e-3": {"lr": 1e-3},
    "lr 3e-4": {"lr": 3e-4},
}
#: The further choices of a larger grid, each with one change.
_CHANGES: dict[str, dict[str, Any]] = {
    "dropout": {"dropout": 0.5, "weight_decay": 1e-4},
    "L_E annealed": {"entropy_warmup": 1 / 3},
    "both levels": {"readout": "all"},
    "order bfs": {"order": "bfs"},
    "width 0.25": {"width": 0.25},
}
_ENZYMES_NESTED = Nested(
    "ENZYMES-nested",
    "ENZYMES, 600 graphs",
    replace(ENZYMES, cleaned=False, width=0.25, epochs=100),
    ("simpool", "diffpool", "baseline"),
    _GRID,
    3,
    {"diffpool": "0.595", "baseline": "0.652", "best": "0.694"},
)
_DD_NESTED = Nested(
    "DD-nested",
    "D&D, 1178 graphs",
    replace(DD, cleaned=False, epochs=30),
    ("simpool", "diffpool", "baseline"),
    _GRID,
    3,
    {"diffpool": "0.750", "baseline": "0.784"},
)


def _larger_grid(table: Nested, changes: dict[str, Iterable[str]]) -> Nested:
    """Returns the table with more choices and a vote; `changes` has the learning rates of each."""
    more = {
        f"{rate}, {change}": {**_GRID[rate], **_CHANGES[change]}
        for change, rates in changes.items()
        for rate in rates
    }
    return replace(
        table,
        name=f"{table.name}-larger-grid",
        title=f"{table.title}, larger grid",
        grid={**table.grid, **more},
        note="A method has the choices that change what it reads: the baseline has no L_E, no"
        " levels and no order, DiffPool no order. 'dropout' is 0.5 before the last layer, with a"
        " weight decay of 1e-4; 'L_E annealed': its scaler grows from 0 over the first third of"
        " the epochs (DiffPool's own entropy loss); 'both levels': the last layer reads the sums"
        " of both.",
        votes=True,
        smaller_grid=table.name,
    )


NESTED: dict[str, Nested] = {
    n.name: n
    for n in (
        _ENZYMES_NESTED,
        _DD_NESTED,
        _larger_grid(
            _ENZYMES_NESTED, {change: _GRID for change in _CHANGES if change != "width 0.25"}
        ),
        # A run takes minutes, so the changes are tried at one learning rate.
        _larger_grid(_DD_NESTED, dict.fromkeys(_CHANGES, ("lr 1e-3",))),
    )
}


class Trial(NamedTuple):
    """A method on an outer fold, with the runs to select settings from, by the name of the choice.

    `final` holds the tested runs of the selected settings. It is empty until the selection is
    complete.
    """

    method: str
    fold: int
    selection: dict[str, Run]
    final: list[Run]


def trials(nested: Nested, splits: str, results: Results) -> Iterator[Trial]:
    """Yields the trials of a table fold by fold.

    The first run with the highest validation accuracy is selected. Runs that diverged are never
    selected. Nothing is selected before all runs of the grid are finished.
    """
    for fold in range(nested.base.folds):
        for method in nested.methods:
            selection = nested.selection(method, fold, splits)
            runs = [run for run in selection.values() if run in results]
            finished = [run for run in runs if results[run].error is None]
            best = max(finished, key=lambda run: results[run].best_val_accuracy, default=None)
            is_complete = len(runs) == len(selection)
            final = nested.final(best) if best is not None and is_complete else []
            yield Trial(method, fold, selection, final)


def splits_of(nested: Nested, results: Results) -> str:
    """Returns the name of a table's splits: published ones if there are runs on them, or seeded."""
    names = {run.splits for run in results if run.dataset == nested.base.dataset and run.splits}
    return min(names, default="seeded")


def asked(nested: Nested, splits: str, results: Results) -> list[Run]:
    """Returns the runs of a table, with the final runs of folds whose settings are selected."""
    return [
        run
        for trial in trials(nested, splits, results)
        for run in (*trial.selection.values(), *trial.final)
    ]


def complete(nested: Nested, method: str, results: Results) -> list[Trial]:
    """Returns the trials of a method whose final runs are all finished and did not diverge."""
    return [
        trial
        for trial in trials(nested, splits_of(nested, results), results)
        if trial.method == method and trial.final
        if all(run in results and results[run].error is None for run in trial.final)
    ]


def tested(nested: Nested, method: str, results: Results) -> dict[int, float]:
    """Returns the mean test accuracy over the repetitions, by fold."""
    return {
        trial.fold: float(np.mean([results[run].test_accuracy for run in trial.final]))
        for trial in complete(nested, method, results)
    }


def vote(repetitions: list[Result]) -> float:
    """Returns the test accuracy of soft voting.

    The class of a graph is the first class with the highest mean probability.
    """
    mean = np.mean([result.test_probabilities or [] for result in repetitions], axis=0)
    return float(np.mean(mean.argmax(axis=1) == np.array(repetitions[0].test_labels)))

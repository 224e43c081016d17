"""The tables of protocol 'nested': test accuracies, and what the choices give."""

import numpy as np

from harness.report.statistics import (
    Differences,
    markdown,
    mean_std,
    mean_std_of,
    paired,
    shown,
    significant,
)
from harness.report.tables import conditions, named
from harness.study.declarations import Nested, Row
from harness.study.experiments import NESTED
from harness.study.nested import Results, Trial, complete, splits_of, tested, voted

#: The last rows of a table by choice.
SELECTED, AGAIN = "*selected*", "*selected, trained again*"


def nested_section(nested: Nested, results: Results) -> str:
    """A table of protocol 'nested', with the settings that were selected."""
    trials = {method: complete(nested, method, results) for method in nested.methods}
    single = {method: tested(nested, method, results) for method in nested.methods}
    votes = {method: voted(nested, method, results) for method in nested.methods if nested.votes}
    apart = _differences(nested, single, votes, results)
    rows = []
    for method, of_method in trials.items():
        cells = {"": method, "published": nested.published.get(method, "-")}
        cells["test accuracy"] = mean_std(list(single[method].values()))
        if nested.votes:
            cells[f"vote of {nested.repetitions}"] = mean_std(list(votes[method].values()))
        cells["folds"] = f"{len(of_method)} of {nested.base.folds}"
        for name, column in apart.items():
            difference = shown(column[method]) if method in column else ""
            cells[name] = difference if of_method else "-"
        cells["splits"] = splits_of(nested, results) if of_method else "-"
        chosen = "; ".join(f"{trial.fold}: {trial.final[0].config}" for trial in of_method)
        rows.append(cells | {"selected, fold by fold": chosen or "-"})
    settings = conditions([Row("", (nested.base.filled(),))], "chosen")
    settings = f"Protocol **nested**; {settings}; the choices: {'; '.join(nested.grid)}."
    parts = [f"## {nested.title}: protocol nested", named(nested, settings), markdown(rows)]
    parts.append(significant(apart, {}))
    if "best" in nested.published:
        best = f"{nested.published['best']} (source not found)"
        parts.append(f"The highest nested accuracy that is said to be published is {best}.")
    return "\n\n".join(filter(None, parts))


def _differences(
    nested: Nested,
    single: dict[str, dict[int, float]],
    votes: dict[str, dict[int, float]],
    results: Results,
) -> Differences:
    """The columns of differences, by method."""
    first, *others = nested.methods
    pairs = {"difference": {method: (single[method], single[first]) for method in others}}
    if nested.votes:
        pairs["difference of votes"] = {method: (votes[method], votes[first]) for method in others}
        pairs["vote to single runs"] = {m: (votes[m], single[m]) for m in nested.methods}
    if nested.smaller_grid is not None:
        pairs[f"difference to {nested.smaller_grid}"] = {
            method: (single[method], tested(NESTED[nested.smaller_grid], method, results))
            for method in nested.methods
        }
    columns: Differences = {name: {} for name in pairs}
    for method in nested.methods:
        for trial in complete(nested, method, results)[:1]:
            sizes = results[trial.final[0]].sizes
            for name in pairs:
                if method in pairs[name]:
                    ratio = sizes["test"] / sizes["train"]
                    columns[name][method] = paired(*pairs[name][method], ratio)
    return columns


def choices_table(nested: Nested, results: Results) -> str:
    """The best validation accuracy of every choice, of those selected, and of their final runs.

    Empty before a method has a fold with all of its runs.
    """
    columns = {}
    for method in nested.methods:
        columns[method] = _by_choice(nested, method, complete(nested, method, results), results)
    if not any(any(column.values()) for column in columns.values()):
        return ""
    rows = [
        {
            "": name,
            **{
                method: mean_std_of(column[name], nested.base.folds) if name in column else "-"
                for method, column in columns.items()
            },
        }
        for name in (*nested.grid, SELECTED, AGAIN)
    ]
    return f"Best validation accuracies by choice:\n\n{markdown(rows)}"


def _by_choice(
    nested: Nested, method: str, trials: list[Trial], results: Results
) -> dict[str, list[float]]:
    """The accuracies of a method fold by fold, by the names of the choices that it has."""
    names = (*nested.selection(method, 0, ""), SELECTED, AGAIN)
    by_choice: dict[str, list[float]] = {name: [] for name in names}
    for trial in trials:
        accuracies = {
            name: results[run].best_val_accuracy
            for name, run in trial.selection.items()
            if results[run].error is None
        }
        accuracies[SELECTED] = accuracies[str(trial.final[0].config)]
        again = [results[run].best_val_accuracy for run in trial.final]
        for name, value in (accuracies | {AGAIN: float(np.mean(again))}).items():
            by_choice[name].append(value)
    return by_choice

"""The tables of protocol 'nested': test accuracies, and validation accuracies by choice."""

import numpy as np

from harness.report.statistics import (
    Differences,
    markdown,
    mean_std,
    paired,
    significant,
)
from harness.report.tables import conditions, named
from harness.study.declarations import Nested, Row
from harness.study.experiments import NESTED
from harness.study.nested import Results, Trial, complete, splits_of, tested, vote

#: The last rows of a table by choice.
SELECTED, AGAIN = "*selected*", "*selected, trained again*"


def nested_section(nested: Nested, results: Results) -> str:
    """Returns a table of protocol 'nested', with the selected settings."""
    trials = {method: complete(nested, method, results) for method in nested.methods}
    single = {method: tested(nested, method, results) for method in nested.methods}
    votes = {
        method: {trial.fold: vote([results[run] for run in trial.final]) for trial in of_method}
        for method, of_method in trials.items()
        if nested.votes
    }
    apart = _differences(nested, single, votes, results)
    rows = []
    for method, of_method in trials.items():
        cells = {
            "": method,
            "published": nested.published.get(method, "-"),
            "test accuracy": mean_std(list(single[method].values())),
        }
        if nested.votes:
            cells[f"vote of {nested.repetitions}"] = mean_std(list(votes[method].values()))
        cells["folds"] = f"{len(of_method)} of {nested.base.folds}"
        cells |= {name: str(column.get(method, "")) for name, column in apart.items()}
        cells["splits"] = splits_of(nested, results) if of_method else "-"
        chosen = "; ".join(f"{trial.fold}: {trial.final[0].config}" for trial in of_method)
        rows.append(cells | {"selected, fold by fold": chosen or "-"})
    settings = conditions([Row("", (nested.base.filled(),))], "chosen")
    parts = [
        f"## {nested.title}: protocol nested",
        named(nested, f"Protocol **nested**; {settings}; the choices: {'; '.join(nested.grid)}."),
        markdown(rows),
        significant(apart),
        f"The highest nested accuracy that is said to be published is {nested.published['best']} "
        "(source not found)."
        if "best" in nested.published
        else "",
    ]
    return "\n\n".join(filter(None, parts))


def _differences(
    nested: Nested,
    single: dict[str, dict[int, float]],
    votes: dict[str, dict[int, float]],
    results: Results,
) -> Differences:
    """Returns the columns of differences, by method."""
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
    sizes = {
        method: results[trial.final[0]].sizes
        for method in nested.methods
        for trial in complete(nested, method, results)[:1]
    }
    return {
        name: {
            method: paired(*pair, sizes[method]["test"] / sizes[method]["train"])
            for method, pair in column.items()
            if method in sizes
        }
        for name, column in pairs.items()
    }


def choices_table(nested: Nested, results: Results) -> str:
    """Returns a table of the best validation accuracies of choices.

    Its last rows are the selected choices and their final runs. The result is empty before a method
    has a fold with all of its runs.
    """
    trials = {method: complete(nested, method, results) for method in nested.methods}
    rows = {name: {"": name} for name in (*nested.grid, SELECTED, AGAIN)}
    for method, of_method in trials.items():
        by_trial = [_by_choice(trial, results) for trial in of_method]
        names = {*nested.selection(method, 0, ""), SELECTED, AGAIN}
        for name, cells in rows.items():
            values = [by_choice[name] for by_choice in by_trial if name in by_choice]
            cells[method] = mean_std(values, nested.base.folds) if name in names else "-"
    table = f"Best validation accuracies by choice:\n\n{markdown(list(rows.values()))}"
    return table if any(trials.values()) else ""


def _by_choice(trial: Trial, results: Results) -> dict[str, float]:
    """Returns the accuracies of choices that did not diverge, the selected one, and its runs."""
    accuracies = {
        name: results[run].best_val_accuracy
        for name, run in trial.selection.items()
        if results[run].error is None
    }
    again = float(np.mean([results[run].best_val_accuracy for run in trial.final]))
    return accuracies | {SELECTED: accuracies[str(trial.final[0].config)], AGAIN: again}

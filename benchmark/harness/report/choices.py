"""What the choices of protocol 'nested' give before one of them is selected."""

from collections.abc import Iterable

import numpy as np

from harness.report.statistics import accuracy, mean_std_of
from harness.study.declarations import Nested
from harness.study.nested import Results, final_runs, known_splits
from harness.study.run import Run

SELECTED, AGAIN = "*the selected ones*", "*the same settings again*"
TEXT = "Best validation accuracy by choice, before one is selected:"


def choices_table(nested: Nested, results: Results) -> str:
    """The best validation accuracy of every choice, of those selected, and of their final runs.

    Empty before a method has a fold with all of its runs. If there are runs on several splits,
    the folds are those of the first, which are published ones if there are any.
    """
    columns = {method: _by_choice(nested, method, results) for method in nested.methods}
    if not any(columns.values()):
        return ""
    lines = [
        TEXT,
        "",
        f"| | {' | '.join(nested.methods)} |",
        "| --- " * (len(nested.methods) + 1) + "|",
    ]
    for name in (*nested.grid, SELECTED, AGAIN):
        cells = [
            mean_std_of(column[name], nested.base.folds) if name in column else "-"
            for column in columns.values()
        ]
        lines.append(f"| {' | '.join([name, *cells])} |")
    return "\n".join(lines)


def _by_choice(nested: Nested, method: str, results: Results) -> dict[str, list[float]]:
    """The accuracies of a method fold by fold, by the name of the choice."""
    found: dict[str, list[float]] = {}
    for splits in known_splits(nested, results)[:1]:
        for fold in range(nested.base.folds):
            final = final_runs(nested, method, fold, splits, results)
            again = _accuracies(final, results)
            if len(again) < nested.repetitions:
                continue
            selection = nested.selection(method, fold, splits)
            rows = {name: _accuracies([run], results) for name, run in selection.items()}
            rows[SELECTED] = rows[str(final[0].config)]
            rows[AGAIN] = [float(np.mean(again))]
            for name, values in rows.items():
                found.setdefault(name, []).extend(values)
    return found


def _accuracies(runs: Iterable[Run], results: Results) -> list[float]:
    """The best validation accuracies of the runs that are there and did not diverge."""
    there = [results[run] for run in runs if run in results]
    return [accuracy(result) for result in there if "error" not in result]

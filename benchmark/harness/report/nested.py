"""The tables of protocol 'nested': test accuracies, and what the choices give."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from harness.report.differences import Differences, shown, significant
from harness.report.statistics import accuracy, mean_std, mean_std_of, paired
from harness.report.tables import conditions, named
from harness.run import Run
from harness.study.declarations import Nested, Row
from harness.study.experiments import NESTED
from harness.study.nested import Results, final_runs, known_splits, tested, voted

#: The last rows of a table by choice.
SELECTED, AGAIN = "*selected*", "*selected, trained again*"
BY_CHOICE = "Best validation accuracies by choice:"


@dataclass
class _MethodRow:
    """The accuracies by fold and the selected settings of a method on some splits."""

    label: str
    method: str
    splits: str = ""
    tested: dict[int, float] = field(default_factory=dict)
    voted: dict[int, float] = field(default_factory=dict)
    smaller_grid: dict[int, float] = field(default_factory=dict)
    selected: dict[int, Run] = field(default_factory=dict)


def nested_section(nested: Nested, results: Results) -> str:
    """A table of protocol 'nested', with the settings that were selected."""
    rows = [row for method in nested.methods for row in _rows_of(nested, method, results)]
    apart = _differences(nested, rows, results)
    cells = [_cells(nested, row, apart) for row in rows]
    run = nested.base.filled()
    lines = [
        f"## {nested.title}: protocol nested",
        "",
        named(
            nested,
            f"Protocol **nested**; {conditions([Row('', (run,))], 'chosen')}; the choices: "
            f"{'; '.join(nested.grid)}.",
        ),
        "",
        f"| {' | '.join(cells[0])} |".replace("|  |", "| |"),
        "| --- " * len(cells[0]) + "|",
        *(f"| {' | '.join(row.values())} |" for row in cells),
    ]
    corrected = significant(apart, {})
    lines += ["", corrected] if corrected else []
    if "best" in nested.published:
        best = f"{nested.published['best']} (source not found)"
        lines += ["", f"The highest nested accuracy that is said to be published is {best}."]
    return "\n".join(lines)


def _rows_of(nested: Nested, method: str, results: Results) -> list[_MethodRow]:
    """The rows of a method, one for each of the splits with complete folds; at least one."""
    accuracies = tested(nested, method, results)
    votes = voted(nested, method, results) if nested.votes else {}
    smaller = {}
    if nested.smaller_grid is not None:
        smaller = tested(NESTED[nested.smaller_grid], method, results)
    rows = []
    for splits, by_fold in accuracies.items():
        selected = {f: final_runs(nested, method, f, splits, results)[0] for f in by_fold}
        rows.append(
            _MethodRow(
                f"{method}, {splits}" if len(accuracies) > 1 else method,
                method,
                splits,
                by_fold,
                votes.get(splits, {}),
                smaller.get(splits, {}),
                selected,
            )
        )
    return rows or [_MethodRow(method, method)]


def _differences(nested: Nested, rows: list[_MethodRow], results: Results) -> Differences:
    """The columns of differences, by the labels of the rows."""
    first = {row.splits: row for row in rows if row.method == nested.methods[0]}
    columns: Differences = {"difference": {}}
    if nested.votes:
        columns |= {"difference of votes": {}, "vote to single runs": {}}
    if nested.smaller_grid is not None:
        columns[f"difference to {nested.smaller_grid}"] = {}
    for row in rows:
        if not row.tested:
            continue
        sizes = results[next(iter(row.selected.values()))].sizes
        ratio = sizes["test"] / sizes["train"]
        pairs: dict[str, tuple[dict[int, float], dict[int, float]]] = {}
        if row.method != nested.methods[0]:
            beside = first.get(row.splits)
            pairs["difference"] = (row.tested, beside.tested if beside else {})
            pairs["difference of votes"] = (row.voted, beside.voted if beside else {})
        pairs["vote to single runs"] = (row.voted, row.tested)
        pairs[f"difference to {nested.smaller_grid}"] = (row.tested, row.smaller_grid)
        for name in columns.keys() & pairs.keys():
            columns[name][row.label] = paired(*pairs[name], ratio)
    return columns


def _cells(nested: Nested, row: _MethodRow, apart: Differences) -> dict[str, str]:
    """A row of the table, by the names of the columns."""
    cells = {"": row.method, "published": nested.published.get(row.method, "-")}
    cells["test accuracy"] = mean_std(list(row.tested.values()))
    if nested.votes:
        cells[f"vote of {nested.repetitions}"] = mean_std(list(row.voted.values()))
    cells["folds"] = f"{len(row.tested)} of {nested.base.folds}"
    for name, column in apart.items():
        difference = shown(column[row.label]) if row.label in column else ""
        cells[name] = difference if row.tested else "-"
    cells["splits"] = row.splits or "-"
    chosen = "; ".join(f"{fold}: {run.config}" for fold, run in row.selected.items())
    return cells | {"selected, fold by fold": chosen or "-"}


def choices_table(nested: Nested, results: Results) -> str:
    """The best validation accuracy of every choice, of those selected, and of their final runs.

    Empty before a method has a fold with all of its runs. The folds are those of the first splits
    that have some, and published ones come before others.
    """
    for splits in known_splits(nested, results):
        columns = {m: _by_choice(nested, m, splits, results) for m in nested.methods}
        if any(any(column.values()) for column in columns.values()):
            break
    else:
        return ""
    lines = [
        BY_CHOICE,
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


def _by_choice(
    nested: Nested, method: str, splits: str, results: Results
) -> dict[str, list[float]]:
    """The accuracies of a method fold by fold, by the names of the choices that it has."""
    by_choice: dict[str, list[float]] = {name: [] for name in nested.selection(method, 0, splits)}
    by_choice |= {SELECTED: [], AGAIN: []}
    for fold in range(nested.base.folds):
        final = final_runs(nested, method, fold, splits, results)
        again = _accuracies(final, results)
        if len(again) < nested.repetitions:
            continue
        for name, run in nested.selection(method, fold, splits).items():
            accuracies = _accuracies([run], results)
            by_choice[name] += accuracies
            if name == final[0].config:
                by_choice[SELECTED] += accuracies
        by_choice[AGAIN].append(float(np.mean(again)))
    return by_choice


def _accuracies(runs: Iterable[Run], results: Results) -> list[float]:
    """The best validation accuracies of the runs that are there and did not diverge."""
    finished = [results[run] for run in runs if run in results]
    return [accuracy(result) for result in finished if result.error is None]

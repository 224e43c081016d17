"""Means, differences and their p values over folds, and the text of them in a table."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Optional

import numpy as np
from scipy import stats

from harness.run import TESTED, Result, Run
from harness.study.declarations import Experiment
from harness.study.nested import Results

#: Accuracies that are closer differ by rounding only.
SAME = 1e-9
#: The number of epochs whose accuracies are averaged, to show what is left of the best one.
LAST = 20


def finished(runs: Iterable[Run], results: Results) -> dict[int, Result]:
    """The results of finished runs by fold, without those that diverged."""
    by_fold = {run.fold: results[run] for run in runs if run in results}
    return {fold: result for fold, result in by_fold.items() if result.error is None}


def accuracy(result: Result) -> float:
    """The accuracy of the run's protocol: on test graphs, if it has any."""
    if result.run.protocol in TESTED:
        return float(result.test_accuracy or 0.0)
    return result.best_val_accuracy


def last(result: Result) -> float:
    """The mean validation accuracy of the last epochs, of which none is selected."""
    return float(np.mean(result.history["val_accuracy"][-LAST:]))


def mean_std(values: Sequence[float]) -> str:
    """Mean and standard deviation; a single value; or 'not run'."""
    if len(values) < 2:
        return f"{values[0]:.4f}" if values else "not run"
    return f"{np.mean(values):.4f} ± {np.std(values):.4f}"


def mean_std_of(values: Sequence[float], count: int) -> str:
    """Returns :func:`mean_std` of the values, with their number if folds are missing."""
    part = f" ({len(values)} of {count} folds)" if 0 < len(values) < count else ""
    return mean_std(values) + part


class Comparison(NamedTuple):
    """The mean difference over folds. `p` is NaN where there is no test."""

    mean: float
    folds: int
    p: float

    def __str__(self) -> str:
        # Adding zero makes a negative zero, which rounding leaves, a positive one.
        shown = f"{round(self.mean, 4) + 0.0:+.4f}"
        if self.folds < 3:
            return shown
        if np.isnan(self.p):
            return f"{shown} ({self.folds} folds)"
        value = "p < 0.001" if self.p < 0.0005 else f"p = {self.p:.3f}"
        return f"{shown} ({value}, {self.folds} folds)"


def paired(one: dict[int, float], other: dict[int, float], ratio: float) -> Optional[Comparison]:
    """The mean difference over the folds that both have, and from three folds on its p value.

    `ratio` is the number of classified graphs over that of the training graphs.
    """
    folds = sorted(set(one) & set(other))
    if not folds:
        return None
    apart = np.array([one[f] - other[f] for f in folds])
    p = corrected_t_test(apart, ratio) if len(folds) > 2 else np.nan
    return Comparison(float(apart.mean()), len(folds), p)


def holm(values: Sequence[float]) -> np.ndarray:
    """The p values, none of them NaN, corrected for their number by the method of Holm (1979).

    The smallest of n is multiplied by n, the next by `n - 1`, and so on. A larger p value gets no
    smaller result than one before it, and none is above 1.
    """
    p = np.array(values)
    order = p.argsort()
    corrected = np.empty(len(p))
    corrected[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return corrected.clip(max=1.0)


def corrected_t_test(apart: np.ndarray, ratio: float) -> float:
    """The two-sided p value of paired differences over folds that share training graphs.

    Nadeau and Bengio (2003): the variance of the mean is `(1 / n + ratio)` times that of the
    differences. `ratio` is the number of classified graphs over that of the training graphs. If
    all differences are the same there is no t, and the value is NaN, or 1 if they are zero: three
    folds often differ by one graph each.
    """
    if np.ptp(apart) < SAME:
        return 1.0 if abs(apart.mean()) < SAME else np.nan
    variance = float(apart.var(ddof=1))
    t = apart.mean() / np.sqrt((1 / len(apart) + ratio) * variance)
    return float(2 * stats.t.sf(abs(t), len(apart) - 1))


#: Columns by name, and in each the comparisons by the label of the row; `None` if it is not run.
Differences = dict[str, dict[str, Optional[Comparison]]]
#: The column of differences to rows that are not the same for all.
ANOTHER = "difference to another row"


def differences(table: Experiment, by_label: dict[str, dict[int, Result]]) -> Differences:
    """The columns of differences: of each row to the first, and of some to the row they name."""
    named = {row.label: row.beside for row in table.rows if row.beside is not None}
    others = set(named.values())
    column = ANOTHER if len(others) > 1 else f"difference to {''.join(others)}"
    first = table.rows[0].label
    columns = {"difference": {row.label: first for row in table.rows[1:]}}
    columns |= {column: named} if named else {}

    def compare(label: str, other: str) -> Optional[Comparison]:
        ours, theirs = (
            {f: accuracy(r) for f, r in by_label[row].items()} for row in (label, other)
        )
        sizes = [result.sizes for result in by_label[label].values()]
        # The graphs whose accuracy it is, over those that it was trained on.
        ratios = [size.get("test", size["validation"]) / size["train"] for size in sizes]
        return paired(ours, theirs, ratios[0]) if ratios else None

    return {
        name: {label: compare(label, other) for label, other in pairs.items()}
        for name, pairs in columns.items()
    }


def shown(apart: Optional[Comparison], to: str = "") -> str:
    """A difference as it stands in a cell, after the row `to` that it is to."""
    return "-" if apart is None else f"{to}{apart}"


def significant(columns: Differences, beside: dict[str, Optional[str]]) -> str:
    """Names the p values of each column that are below 0.05 after a correction for their number.

    `beside` has the row that each row names. Empty if no column has several p values.
    """
    sentences = []
    for name, column in columns.items():
        enough = {label: c for label, c in column.items() if c is not None and c.folds > 2}
        with_p = {label: c for label, c in enough.items() if not np.isnan(c.p)}
        if len(with_p) < 2:
            continue
        corrected = holm([c.p for c in with_p.values()])
        low = {label: c.mean for (label, c), p in zip(with_p.items(), corrected) if p < 0.05}
        kinds = {
            "ahead": [label for label, mean in low.items() if mean > 0],
            "behind": [label for label, mean in low.items() if mean < 0],
            "no p value": [label for label in enough if label not in with_p],
        }
        to = {label: f" (to `{beside[label]}`)" if name == ANOTHER else "" for label in column}
        parts = [
            f"{kind} {', '.join(f'`{label}`{to[label]}' for label in labels)}"
            for kind, labels in kinds.items()
            if labels
        ]
        parts = parts if low else ["none", *parts]
        few = len(column) - len(enough)
        left = f"; rows with fewer than three folds: {few}" if few else ""
        sentences.append(f"*{name}* ({len(with_p)} p values{left}): {'; '.join(parts)}.")
    start = "Below 0.05 after Holm's correction, each column by itself."
    return f"{start} {' '.join(sentences)}" if sentences else ""


def markdown(rows: Sequence[dict[str, str]]) -> str:
    """Returns a table whose columns are the keys of the first row."""
    header = f"| {' | '.join(rows[0])} |".replace("|  |", "| |")
    lines = [header, "| --- " * len(rows[0]) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row.values())} |" for row in rows)])

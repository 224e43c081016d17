"""Means, differences and p values over folds, and their text in a table."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from harness.run import TESTED, Result, Run
from harness.study.declarations import Experiment
from harness.study.nested import Results

#: Closer accuracies differ only by rounding.
SAME = 1e-9
#: The number of last epochs whose mean accuracy stands beside the best accuracy.
LAST = 20


def finished(runs: Iterable[Run], results: Results) -> dict[int, Result]:
    """Returns the results of finished runs by fold, without runs that diverged."""
    by_fold = {run.fold: results[run] for run in runs if run in results}
    return {fold: result for fold, result in by_fold.items() if result.error is None}


def accuracy(result: Result) -> float:
    """Returns the test accuracy if the protocol has test graphs, else the validation accuracy."""
    if result.run.protocol in TESTED:
        return float(result.test_accuracy or 0.0)
    return result.best_val_accuracy


def mean_std(values: Sequence[float], count: int = 0) -> str:
    """Returns the text of mean and standard deviation, a single value, or 'not run'.

    The text ends with the number of values if it is below `count`.
    """
    if not values:
        return "not run"
    spread = f" ± {np.std(values):.4f}" if len(values) > 1 else ""
    part = f" ({len(values)} of {count} folds)" if len(values) < count else ""
    return f"{np.mean(values):.4f}{spread}{part}"


class Comparison(NamedTuple):
    """The mean difference over any number of folds. Without a test, `p` is NaN."""

    mean: float
    folds: int
    p: float
    #: The label of the other row, if a column compares with more than one row.
    other: str = ""

    def __str__(self) -> str:
        if self.folds == 0:
            return "-"
        p = "p < 0.001, " if self.p < 0.0005 else "" if np.isnan(self.p) else f"p = {self.p:.3f}, "
        test = f" ({p}{self.folds} folds)" if self.folds > 2 else ""
        # Rounding can return a negative zero. Adding zero makes it positive.
        return f"{self.other}{': ' * bool(self.other)}{round(self.mean, 4) + 0.0:+.4f}{test}"


def paired(
    one: dict[int, float], other: dict[int, float], ratio: float, label: str = ""
) -> Comparison:
    """Returns the mean difference over common folds, with a p value from three folds on.

    `ratio` is the number of classified graphs over the number of training graphs.
    """
    apart = (pd.Series(one, dtype=float) - pd.Series(other, dtype=float)).dropna()
    p = corrected_t_test(apart.to_numpy(), ratio) if len(apart) > 2 else np.nan
    return Comparison(float(apart.mean()), len(apart), p, label)


def holm(values: Sequence[float]) -> np.ndarray:
    """Corrects p values for their number by the method of Holm (1979). None may be NaN.

    The smallest of n p values is multiplied by n, the next by `n - 1`, and so on. Results are at
    most 1, and keep the order of the p values.
    """
    p = pd.Series(np.asarray(values)).sort_values()
    return (p * np.arange(len(p), 0, -1)).cummax().clip(upper=1.0).sort_index().to_numpy()


def corrected_t_test(apart: np.ndarray, ratio: float) -> float:
    """Returns the two-sided p value of paired differences over folds that share training graphs.

    The variance of the mean is `(1 / n + ratio)` times the variance of the differences (Nadeau and
    Bengio, 2003). `ratio` is the number of classified graphs over the number of training graphs.
    Equal differences, which are common on three folds, have no t statistic. Their p value is 1 if
    they are zero, and NaN otherwise.
    """
    if np.ptp(apart) < SAME:
        return 1.0 if abs(apart.mean()) < SAME else np.nan
    variance = float(apart.var(ddof=1))
    t = apart.mean() / np.sqrt((1 / len(apart) + ratio) * variance)
    return float(2 * stats.t.sf(abs(t), len(apart) - 1))


#: Comparisons by the name of the column and the label of the row.
Differences = dict[str, dict[str, Comparison]]
#: The column in which rows are compared with different rows.
ANOTHER = "difference to another row"


def differences(table: Experiment, by_label: dict[str, dict[int, Result]]) -> Differences:
    """Returns the differences to the first row, and for some rows to the row that they name."""
    accuracies = {
        label: {fold: accuracy(result) for fold, result in by_fold.items()}
        for label, by_fold in by_label.items()
    }
    named = {row.label: row.beside for row in table.rows if row.beside is not None}
    others = set(named.values())
    column = ANOTHER if len(others) > 1 else f"difference to {''.join(others)}"
    columns = {"difference": {row.label: table.rows[0].label for row in table.rows[1:]}}
    columns |= {column: named} if named else {}
    return {
        name: {
            label: paired(
                accuracies[label],
                accuracies[other],
                _ratio(by_label[label]),
                other if name == ANOTHER else "",
            )
            for label, other in pairs.items()
        }
        for name, pairs in columns.items()
    }


def _ratio(by_fold: dict[int, Result]) -> float:
    """Returns the number of classified graphs over the number of training graphs."""
    sizes = [result.sizes for result in by_fold.values()]
    return sizes[0].get("test", sizes[0]["validation"]) / sizes[0]["train"] if sizes else 0.0


def significant(columns: Differences) -> str:
    """Names the rows of each column whose corrected p values are below 0.05.

    The result is empty if no column has several p values.
    """
    sentences = []
    for name, column in columns.items():
        frame = pd.DataFrame(column.values(), index=list(column), columns=Comparison._fields)
        enough = frame[frame.folds > 2]
        with_p = enough.dropna(subset="p")
        if len(with_p) < 2:
            continue
        low = with_p[holm(with_p.p) < 0.05]
        kinds = {
            "ahead": low[low["mean"] > 0],
            "behind": low[low["mean"] < 0],
            "no p value": enough[enough.p.isna()],
        }
        parts = [
            f"{kind} {', '.join(f'`{i}` (to `{to}`)' if to else f'`{i}`' for i, to in labels)}"
            for kind, rows in kinds.items()
            if (labels := list(rows.other.items()))
        ]
        few = len(frame) - len(enough)
        left = f"; rows with fewer than three folds: {few}" if few else ""
        parts = parts if len(low) else ["none", *parts]
        sentences.append(f"*{name}* ({len(with_p)} p values{left}): {'; '.join(parts)}.")
    start = "Below 0.05 after Holm's correction, each column by itself."
    return f"{start} {' '.join(sentences)}" if sentences else ""


def markdown(rows: Sequence[dict[str, str]]) -> str:
    """Returns a table whose columns are the keys of the first row."""
    header = f"| {' | '.join(rows[0])} |".replace("|  |", "| |")
    lines = [header, "| --- " * len(rows[0]) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row.values())} |" for row in rows)])

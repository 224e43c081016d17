"""Means, differences and their p values over folds."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Optional

import numpy as np
from scipy import stats

from harness.run import TESTED, Result, Run
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


def difference(one: dict[int, Result], other: dict[int, Result]) -> Optional[Comparison]:
    """The mean difference of best validation accuracies over the common folds, and its p value."""
    if not one:
        return None
    first = next(iter(one.values()))
    ours, theirs = ({f: accuracy(r) for f, r in side.items()} for side in (one, other))
    classified = "test" if first.run.protocol in TESTED else "validation"
    return paired(ours, theirs, first.sizes[classified] / first.sizes["train"])


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

"""Means, differences and their p values over folds."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import stats

from harness.study.nested import Results
from harness.study.run import Run

#: Accuracies that are closer differ by rounding only.
SAME = 1e-9


def finished(runs: Iterable[Run], results: Results) -> dict[int, dict[str, Any]]:
    """The results of finished runs by fold, without those that diverged."""
    there = {run.fold: results[run] for run in runs if run in results}
    return {fold: result for fold, result in there.items() if "error" not in result}


def accuracy(result: dict[str, Any]) -> float:
    """The accuracy of protocol 'paper'."""
    return result["best_val_accuracy"]


def mean_std(values: Sequence[float]) -> str:
    """Mean and standard deviation; a single value; or 'not run'."""
    if len(values) < 2:
        return f"{values[0]:.4f}" if values else "not run"
    return f"{np.mean(values):.4f} ± {np.std(values):.4f}"


def difference(one: dict[int, dict[str, Any]], other: dict[int, dict[str, Any]]) -> str:
    """The mean difference over the common folds, and its p value."""
    if not one:
        return "-"
    sizes = next(iter(one.values()))["sizes"]
    ours, theirs = ({f: accuracy(r) for f, r in side.items()} for side in (one, other))
    return paired(ours, theirs, sizes["validation"] / sizes["train"])


def paired(one: dict[int, float], other: dict[int, float], ratio: float) -> str:
    """As :func:`difference`, of accuracies by fold.

    `ratio` is the number of classified graphs over that of the training graphs.
    """
    folds = sorted(set(one) & set(other))
    if not folds:
        return "-"
    apart = np.array([one[f] - other[f] for f in folds])
    # Adding zero makes a negative zero, which rounding leaves, a positive one.
    shown = f"{apart.mean().round(4) + 0.0:+.4f}"
    if len(folds) < 3:
        return shown
    p = corrected_t_test(apart, ratio)
    if np.isnan(p):
        return f"{shown} ({len(folds)} folds)"
    value = "p < 0.001" if p < 0.0005 else f"p = {p:.3f}"
    return f"{shown} ({value}, {len(folds)} folds)"


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

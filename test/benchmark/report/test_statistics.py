"""Means, paired tests, and their correction."""

import numpy as np
import pytest
from scipy import stats

from harness.report.statistics import corrected_t_test, holm, last, paired


def test_corrected_t_test() -> None:
    apart = np.array([0.05, -0.01, 0.02, 0.04, 0.03])
    # Without overlap it is the paired t-test. With overlap, p is larger.
    plain = stats.ttest_1samp(apart, 0).pvalue
    assert corrected_t_test(apart, 0.0) == pytest.approx(plain)
    assert corrected_t_test(apart, 1 / 9) > plain
    assert corrected_t_test(np.zeros(3), 1 / 9) == 1


def test_no_p_where_all_folds_differ_by_the_same() -> None:
    """Each is one graph of sixty apart; in floating point, not by quite the same."""
    ours, theirs = ({f: (of + f) / 60 for f in range(3)} for of in (44, 45))
    assert len({ours[f] - theirs[f] for f in range(3)}) > 1
    assert str(paired(ours, theirs, 1 / 9)) == "-0.0167 (3 folds)"
    assert str(paired(ours, dict(ours), 1 / 9)) == "+0.0000 (p = 1.000, 3 folds)"


def test_no_negative_zero() -> None:
    """Of differences whose sum is zero but for rounding."""
    apart = (-0.3, 0.1, 0.2 - 1e-12)
    shown = paired(dict(enumerate(apart)), dict.fromkeys(range(3), 0.0), 1 / 9)
    assert sum(apart) < 0
    assert str(shown) == "+0.0000 (p = 1.000, 3 folds)"


def test_the_last_epochs_are_averaged() -> None:
    result = {"history": {"val_accuracy": [0.9] * 40 + [0.4] * 10 + [0.6] * 10}}
    assert last(result) == pytest.approx(0.5)


def test_small_p() -> None:
    ours = {0: 0.9, 1: 0.9, 2: 0.9, 3: 0.91}
    shown = paired(ours, dict.fromkeys(ours, 0.1), 1 / 9)
    assert str(shown) == "+0.8025 (p < 0.001, 4 folds)"


def test_holm() -> None:
    """The last is 0.02 times one, but not below 0.015 times two, which comes before it."""
    assert holm([0.02, 0.001, 0.015]) == pytest.approx([0.03, 0.003, 0.03])
    assert holm([0.6, 0.7]) == pytest.approx([1.0, 1.0])
    assert holm([0.04]) == pytest.approx([0.04])

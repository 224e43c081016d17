"""Protocol 'nested': the selection, and the folds that count."""

from dataclasses import replace
from typing import Any

import pytest

from harness.study.declarations import Nested
from harness.study.nested import choose, declared, final_runs, missing
from harness.study.nested import tested as accuracies_of
from harness.study.run import Run

GRID = {"a": {"lr": 1e-2}, "b": {"lr": 1e-3}, "c": {"lr": 1e-4}}
BASE = Run("TINY", "enzymes-10fold", folds=3)
NESTED = Nested("TINY-nested", "Tiny", BASE, ("simpool", "baseline"), GRID, 2, {})


def found(**more: Any) -> dict[str, Any]:
    return {"best_val_accuracy": 0.5, **more}


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [
        ((0.5, 0.6, 0.7), "c"),
        ((0.5, 0.7, 0.6), "b"),
        ((0.7, 0.7, 0.7), "a"),
        ((0.0, 0.0, 0.0), "a"),
        ((None, 0.2, 0.3), "c"),
        ((0.1, None, None), "a"),
        ((None, None, None), None),
    ],
)
def test_the_best_is_chosen(accuracies: tuple, expected: str) -> None:
    """The first of equals, and never one that diverged."""
    selection = NESTED.selection("simpool", 0, "seeded")
    results = {
        run: {"error": "diverged"} if accuracy is None else found(best_val_accuracy=accuracy)
        for run, accuracy in zip(selection.values(), accuracies)
    }
    chosen = choose(list(selection.values()), results)
    assert chosen == (None if expected is None else selection[expected])


def test_nothing_is_chosen_before_all_are_there() -> None:
    selection = list(NESTED.selection("simpool", 0, "seeded").values())
    results = {run: found() for run in selection}
    for run in selection:
        assert choose(selection, {r: v for r, v in results.items() if r != run}) is None


def fold(number: int, chosen: str, accuracy: float, splits: str = "seeded") -> dict:
    """All runs of SimPool in a fold."""
    selection = NESTED.selection("simpool", number, splits)
    results = {run: found(best_val_accuracy=0.9 * (n == chosen)) for n, run in selection.items()}
    final = NESTED.final(selection[chosen])
    for run, off in zip(final, (-0.1, 0.1)):
        results[run] = found(test_accuracy=accuracy + off)
    return results


def test_folds_that_are_complete_are_tested() -> None:
    results = {**fold(0, "b", 0.5), **fold(2, "c", 0.7)}
    assert accuracies_of(NESTED, "simpool", results) == {"seeded": pytest.approx({0: 0.5, 2: 0.7})}
    final = [final_runs(NESTED, "simpool", fold, "seeded", results) for fold in range(3)]
    assert [{run.config for run in runs} for runs in final] == [{"b"}, set(), {"c"}]
    assert accuracies_of(NESTED, "baseline", results) == {}
    assert missing(NESTED, results) == 2 * 3 * 5 - 2 * 5
    last = next(run for run in results if run.protocol == "nested" and run.fold == 2)
    del results[last]
    assert accuracies_of(NESTED, "simpool", results) == {"seeded": pytest.approx({0: 0.5})}
    assert missing(NESTED, results) == 2 * 3 * 5 - 2 * 5 + 1


def test_published_splits_come_first_and_apart() -> None:
    results = {**fold(0, "b", 0.5), **fold(0, "a", 0.7, "file-x"), **fold(1, "a", 0.9, "file-x")}
    by_splits = accuracies_of(NESTED, "simpool", results)
    assert list(by_splits) == ["file-x", "seeded"]
    assert by_splits["file-x"] == pytest.approx({0: 0.7, 1: 0.9})
    # Missing runs are counted on the splits with most runs.
    assert missing(NESTED, results) == 2 * 3 * 5 - 2 * 5


def test_what_cannot_be_tested_is_not_missing() -> None:
    """If all choices of a fold diverged."""
    results = fold(0, "b", 0.5)
    for run in NESTED.selection("simpool", 1, "seeded").values():
        results[run] = {"error": "diverged"}
    assert missing(NESTED, results) == 2 * 3 * 5 - 5 - 5
    results.popitem()
    assert missing(NESTED, results) == 2 * 3 * 5 - 5 - 2


@pytest.mark.parametrize(
    "change", [{"width": 0.5}, {"epochs": 7}, {"k": 3}, {"cleaned": False}, {"lr": 5.0}]
)
def test_runs_with_other_settings_are_none_of_the_table(change: dict) -> None:
    ours = fold(0, "b", 0.5)
    others = {replace(run, **change): {**v, "test_accuracy": 0.99} for run, v in ours.items()}
    assert accuracies_of(NESTED, "simpool", others) == {}
    assert declared(NESTED, others) == set()
    assert missing(NESTED, others) == 2 * 3 * 5
    assert accuracies_of(NESTED, "simpool", {**others, **ours}) == accuracies_of(
        NESTED, "simpool", ours
    )


def test_final_runs_of_another_choice_do_not_count() -> None:
    results = fold(0, "b", 0.5)
    for run in NESTED.final(NESTED.selection("simpool", 0, "seeded")["a"]):
        results[run] = found(test_accuracy=1.0)
    assert accuracies_of(NESTED, "simpool", results) == {"seeded": pytest.approx({0: 0.5})}

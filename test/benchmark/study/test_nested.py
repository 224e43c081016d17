"""Protocol 'nested': the selection, and the folds that count."""

from dataclasses import replace
from typing import Any

import pytest

from harness.study.declarations import Nested
from harness.study.nested import choose, declared, final_runs, missing, vote, voted
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
    assert len(missing(NESTED, results)) == 2 * 3 * 5 - 2 * 5
    last = next(run for run in results if run.protocol == "nested" and run.fold == 2)
    del results[last]
    assert accuracies_of(NESTED, "simpool", results) == {"seeded": pytest.approx({0: 0.5})}
    assert len(missing(NESTED, results)) == 2 * 3 * 5 - 2 * 5 + 1


def test_published_splits_come_first_and_apart() -> None:
    results = {**fold(0, "b", 0.5), **fold(0, "a", 0.7, "file-x"), **fold(1, "a", 0.9, "file-x")}
    by_splits = accuracies_of(NESTED, "simpool", results)
    assert list(by_splits) == ["file-x", "seeded"]
    assert by_splits["file-x"] == pytest.approx({0: 0.7, 1: 0.9})
    # Missing runs are counted on the splits with most runs.
    assert len(missing(NESTED, results)) == 2 * 3 * 5 - 2 * 5


def test_what_cannot_be_tested_is_not_missing() -> None:
    """If all choices of a fold diverged."""
    results = fold(0, "b", 0.5)
    for run in NESTED.selection("simpool", 1, "seeded").values():
        results[run] = {"error": "diverged"}
    assert len(missing(NESTED, results)) == 2 * 3 * 5 - 5 - 5
    results.popitem()
    assert len(missing(NESTED, results)) == 2 * 3 * 5 - 5 - 2


@pytest.mark.parametrize(
    "change", [{"width": 0.5}, {"epochs": 7}, {"k": 3}, {"cleaned": False}, {"lr": 5.0}]
)
def test_runs_with_other_settings_are_none_of_the_table(change: dict) -> None:
    ours = fold(0, "b", 0.5)
    others = {replace(run, **change): {**v, "test_accuracy": 0.99} for run, v in ours.items()}
    assert accuracies_of(NESTED, "simpool", others) == {}
    assert declared(NESTED, others) == set()
    assert len(missing(NESTED, others)) == 2 * 3 * 5
    assert accuracies_of(NESTED, "simpool", {**others, **ours}) == accuracies_of(
        NESTED, "simpool", ours
    )


def test_final_runs_of_another_choice_do_not_count() -> None:
    results = fold(0, "b", 0.5)
    for run in NESTED.final(NESTED.selection("simpool", 0, "seeded")["a"]):
        results[run] = found(test_accuracy=1.0)
    assert accuracies_of(NESTED, "simpool", results) == {"seeded": pytest.approx({0: 0.5})}


def test_a_method_has_the_choices_that_it_reads() -> None:
    grid: dict[str, dict[str, Any]] = {
        "plain": {},
        "dropout": {"dropout": 0.5},
        "annealed": {"entropy_warmup": 0.5},
        "both levels": {"readout": "all"},
        "order": {"order": "bfs"},
        "order and dropout": {"order": "bfs", "dropout": 0.5},
        "decay": {"weight_decay": 0.1},
    }
    nested = replace(NESTED, grid=grid)
    choices = {m: list(nested.selection(m, 0, "seeded")) for m in ("simpool", "diffpool")}
    assert choices["simpool"] == list(grid)
    assert choices["diffpool"] == ["plain", "dropout", "annealed", "both levels", "decay"]
    selection = nested.selection("baseline", 0, "seeded")
    assert {name: run.config for name, run in selection.items()} == {
        name: name for name in ("plain", "dropout", "decay")
    }
    assert {(run.entropy_warmup, run.readout, run.order) for run in selection.values()} == {
        (0.0, "last", "given")
    }


LABELS = [0, 1, 1, 0]
#: Alone they classify two, three and two graphs. The vote on the last is a tie.
VOTERS = [
    [[0.9, 0.1], [0.6, 0.4], [0.1, 0.9], [0.25, 0.75]],
    [[0.4, 0.6], [0.45, 0.55], [0.3, 0.7], [0.5, 0.5]],
    [[0.6, 0.4], [0.0, 1.0], [0.55, 0.45], [0.75, 0.25]],
]


def test_a_vote() -> None:
    """By mean probability, not by majority; the first of equals."""
    runs = [{"test_labels": LABELS, "test_probabilities": rows} for rows in VOTERS]
    assert vote(runs) == 1.0
    # Two of three are for class 1, the third is more certain.
    certain = [[[0.45, 0.55]], [[0.4, 0.6]], [[0.99, 0.01]]]
    runs = [{"test_labels": [1], "test_probabilities": rows} for rows in certain]
    assert vote(runs) == 0.0
    assert vote(runs[:2]) == 1.0


def test_final_runs_vote() -> None:
    nested = replace(NESTED, votes=True, repetitions=3)
    selection = nested.selection("simpool", 1, "seeded")
    # The runs to select from are those of the table without a vote.
    assert selection == NESTED.selection("simpool", 1, "seeded")
    results = {run: found(best_val_accuracy=0.9 * (n == "b")) for n, run in selection.items()}
    final = nested.final(selection["b"])
    assert not set(final) & set(NESTED.final(selection["b"]))
    for run, rows, accuracy in zip(final, VOTERS, (0.5, 0.75, 0.25)):
        assert run.probabilities
        assert voted(nested, "simpool", results) == {}
        results[run] = found(test_accuracy=accuracy, test_labels=LABELS, test_probabilities=rows)
    assert voted(nested, "simpool", results) == {"seeded": {1: 1.0}}
    assert accuracies_of(nested, "simpool", results) == {"seeded": {1: 0.5}}


def test_what_two_tables_lack_is_one_run() -> None:
    """They share the runs to select from, but not the final ones."""
    other = replace(NESTED, name="TINY-other", votes=True)
    both = missing(NESTED, {}) | missing(other, {})
    assert len(both) == 2 * 3 * (3 + 2 + 2)

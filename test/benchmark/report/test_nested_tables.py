"""The tables of protocol 'nested': folds, choices and votes."""

from pathlib import Path

import numpy as np

from harness.report.nested import AGAIN, BY_CHOICE, SELECTED, choices_table
from harness.report.statistics import corrected_t_test
from harness.study.experiments import NESTED
from helpers.reports import fake, made, section, write


def test_both_protocols_are_never_mixed(tmp_path: Path) -> None:
    nested = NESTED["ENZYMES-nested"]
    for fold, name in enumerate(("lr 1e-3", "lr 3e-4")):
        for run in nested.selection("simpool", fold, "file-x").values():
            write(tmp_path / "runs", run, 0.95 if run.config == name else 0.93)
        chosen = nested.selection("simpool", fold, "file-x")[name]
        for run, tested in zip(nested.final(chosen), (0.5, 0.6, 0.7)):
            write(tmp_path / "runs", run, 0.95, test_accuracy=tested + fold / 10)
    # A fold with missing repetitions does not count.
    for run in nested.selection("simpool", 2, "file-x").values():
        write(tmp_path / "runs", run, 0.95)
    chosen = nested.selection("simpool", 2, "file-x")["lr 1e-3"]
    write(tmp_path / "runs", nested.final(chosen)[0], 0.95, test_accuracy=1.0)
    text = made(tmp_path)
    rows = section(text, "ENZYMES, 600 graphs: protocol nested")
    assert "| simpool | - | 0.6500 ± 0.0500 | 2 of 10 |  | file-x |" in rows
    assert "0: lr 1e-3; 1: lr 3e-4" in rows
    assert "| diffpool | 0.595 | not run | 0 of 10 |" in rows
    assert "| simpool | not run | 0.6500 ± 0.0500 (2 of 10 folds) | not run | not run |" in text
    # Best validation accuracies are by choice only.
    by_choice = text.split(BY_CHOICE)[1].split("\n## ")[0]
    assert "0.95" not in text.replace(by_choice, "")


def test_choices(tmp_path: Path) -> None:
    """A fold counts if its final runs are there; in it, a choice that diverged does not."""
    nested = NESTED["ENZYMES-nested-larger-grid"]
    tested = {"test_labels": [0] * 9, "test_probabilities": [[1, 0]] * 9, "test_accuracy": 1.0}
    # Splits without a complete fold come before others, and complete ones after them.
    stray = nested.selection("baseline", 0, "file-a")["lr 1e-3"]
    write(tmp_path / "runs", stray, 0.9375)
    for fold, splits in ((0, "file-x"), (1, "file-x"), (2, "file-x"), (3, "seeded")):
        selection = nested.selection("baseline", fold, splits)
        chosen = "lr 3e-4, dropout" if fold else "lr 1e-3"
        for name, run in selection.items():
            lost = {"error": "diverged"} if (fold, name) == (1, "lr 3e-4") else {}
            write(tmp_path / "runs", run, 0.75 if name == chosen else 0.5, **lost)
        for number, run in enumerate(nested.final(selection[chosen])):
            if (fold, number) != (2, 2):
                write(tmp_path / "runs", run, (0.5, 0.625, 0.9)[number], **tested)
    shown = section(made(tmp_path), "ENZYMES, 600 graphs, larger grid: protocol nested")
    before, table = shown.split(BY_CHOICE)
    assert before.endswith("\n\n")
    assert table.split("\n\n")[1].splitlines() == [
        "| | simpool | diffpool | baseline |",
        "| --- | --- | --- | --- |",
        "| lr 1e-3 | not run | not run | 0.6250 ± 0.1250 (2 of 10 folds) |",
        "| lr 3e-4 | not run | not run | 0.5000 (1 of 10 folds) |",
        "| lr 1e-3, dropout | not run | not run | 0.5000 ± 0.0000 (2 of 10 folds) |",
        "| lr 3e-4, dropout | not run | not run | 0.6250 ± 0.1250 (2 of 10 folds) |",
        "| lr 1e-3, L_E annealed | not run | not run | - |",
        "| lr 3e-4, L_E annealed | not run | not run | - |",
        "| lr 1e-3, both levels | not run | not run | - |",
        "| lr 3e-4, both levels | not run | not run | - |",
        "| lr 1e-3, order bfs | not run | - | - |",
        "| lr 3e-4, order bfs | not run | - | - |",
        f"| {SELECTED} | not run | not run | 0.7500 ± 0.0000 (2 of 10 folds) |",
        f"| {AGAIN} | not run | not run | 0.6750 ± 0.0000 (2 of 10 folds) |",
    ]
    # Without final runs there is no such table.
    assert choices_table(nested, {stray: fake(stray, 0.9375)}) == ""


def write_fold(folder: Path, method: str, fold: int, splits: str, accuracy: float) -> None:
    nested = NESTED["ENZYMES-nested"]
    selection = nested.selection(method, fold, splits)
    for run in selection.values():
        write(folder, run, 0.95)
    for run in nested.final(selection["lr 1e-3"]):
        write(folder, run, 0.95, test_accuracy=accuracy)


def test_nested_methods_are_paired_on_the_folds_and_splits_they_share(tmp_path: Path) -> None:
    tested = {"simpool": (0.7, 0.5, 0.8, 0.9), "baseline": (0.6, 0.5, 0.6)}
    for method, accuracies in tested.items():
        for fold, accuracy in enumerate(accuracies):
            write_fold(tmp_path / "runs", method, fold, "file-x", accuracy)
    write_fold(tmp_path / "runs", "diffpool", 0, "seeded", 0.4)
    rows = section(made(tmp_path), "ENZYMES, 600 graphs: protocol nested")
    p = corrected_t_test(np.array([-0.1, 0.0, -0.2]), 9 / 90)
    apart = f"-0.1000 (p = {p:.3f}, 3 folds)"
    assert f"| baseline | 0.652 | 0.5667 ± 0.0471 | 3 of 10 | {apart} |" in rows
    assert "| diffpool | 0.595 | 0.4000 | 1 of 10 | - | seeded |" in rows


def test_votes(tmp_path: Path) -> None:
    """The runs of SimPool are wrong one after the other, those of the baseline always."""
    nested = NESTED["ENZYMES-nested-larger-grid"]
    labels = [0] * 9
    certain, unsure = [[0.9, 0.1]] * 3, [[0.4, 0.6]] * 3
    rows = [
        unsure + certain + certain,
        certain + unsure + certain,
        certain + certain + unsure,
    ]
    for method, chosen in (("simpool", "lr 3e-4, order bfs"), ("baseline", "lr 1e-3, dropout")):
        for fold in range(3):
            selection = nested.selection(method, fold, "file-x")
            for name, run in selection.items():
                write(tmp_path / "runs", run, 0.95 if name == chosen else 0.93)
            for run, right in zip(nested.final(selection[chosen]), rows):
                given = right if method == "simpool" else [[0.2, 0.8]] * 9
                tested = 2 / 3 if method == "simpool" else 0.0
                more = {"test_labels": labels, "test_probabilities": given}
                write(tmp_path / "runs", run, 0.95, test_accuracy=tested, **more)
    # From the smaller grid, whose choices are equal, the first is selected.
    smaller = NESTED["ENZYMES-nested"]
    for fold in range(3):
        for run in smaller.final(smaller.selection("simpool", fold, "file-x")["lr 1e-3"]):
            write(tmp_path / "runs", run, 0.95, test_accuracy=0.5 + fold / 10)
    p = corrected_t_test(2 / 3 - np.array([0.5, 0.6, 0.7]), 9 / 90)
    text = made(tmp_path)
    shown = section(text, "ENZYMES, 600 graphs, larger grid: protocol nested")
    columns = (
        "difference | difference of votes | vote to single runs | difference to ENZYMES-nested"
    )
    assert f"| test accuracy | vote of 3 | folds | {columns} | splits |" in shown
    gains = f"+0.3333 (3 folds) | +0.0667 (p = {p:.3f}, 3 folds)"
    accuracies = "0.6667 ± 0.0000 | 1.0000 ± 0.0000"
    assert f"| simpool | - | {accuracies} | 3 of 10 |  |  | {gains} | file-x |" in shown
    apart = "-0.6667 (3 folds) | -1.0000 (3 folds) | +0.0000 (p = 1.000, 3 folds) | -"
    assert f"| baseline | 0.652 | 0.0000 ± 0.0000 | 0.0000 ± 0.0000 | 3 of 10 | {apart} |" in shown
    assert "0: lr 3e-4, order bfs; 1: lr 3e-4, order bfs" in shown
    assert "| diffpool | 0.595 | not run | not run | 0 of 10 | - | - | - | - | - | - |" in shown
    # Runs of the smaller grid are selected from there as well, but their final runs are others.
    assert "vote" not in section(text, "ENZYMES, 600 graphs: protocol nested")
    assert "0.6667" not in section(text, "ENZYMES, 600 graphs: protocol nested")

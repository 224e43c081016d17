"""The report shows what is stored, and what is missing."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import report
from harness.methods.presets import BENCHMARK_PRESETS
from harness.report import plots, tables
from harness.report.document import read_all
from harness.report.nested import AGAIN, BY_CHOICE, SELECTED, choices_table
from harness.report.statistics import corrected_t_test, holm, last, paired
from harness.report.tables import heading, seconds
from harness.study.declarations import Experiment, Row, compared_with
from harness.study.experiments import EXPERIMENTS, NESTED
from harness.study.run import Run
from harness.study.run_files import FORMAT
from harness.training.curves import CURVES, CURVES_OF_LEVELS


def fake(run: Run, accuracy: float, **more: Any) -> dict[str, Any]:
    """What is stored of a run, without what is `None` in `more`."""
    curves = {name: [0.5] * run.epochs for name in (*CURVES, *CURVES_OF_LEVELS)}
    there = {
        "format": FORMAT,
        "settings": run.settings,
        "data": {},
        "sizes": {"train": 90, "validation": 10, "test": 9},
        "versions": {"torch": "1"},
        "hardware": {"device": "cpu", "cpus": 2, "threads": 1},
        "commit": "abcdef0123456789",
        "num_parameters": 1234567,
        "history": curves,
        "best_val_accuracy": accuracy,
        "best_epoch": 1,
        "seconds": 9.0,
        "cpu_seconds": 8.0,
        "num_clusters": 8,
        "locality": {
            "edges_inside": 0.25,
            "edges_by_chance": 0.125,
            "distance_ratio": 0.75,
            "connected": 0.5,
            "clusters": 6.5,
            "evenness": 0.875,
        },
        "drawn": [
            {"class": 1, "edges": [[0, 1], [1, 2], [3, 4]], "clusters": [0, 1, 1, 2, 2]}
            for _ in range(3)
        ],
        **more,
    }
    return {name: value for name, value in there.items() if value is not None}


def write(folder: Path, run: Run, accuracy: float, **more: Any) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{run.key}.json").write_text(json.dumps(fake(run, accuracy, **more)))


def made(tmp_path: Path, *more: str) -> str:
    options = {
        "--runs": "runs",
        "--out": "RESULTS.md",
        "--notes": "NOTES.md",
        "--figures": "figures",
        "--stretches": "stretches.json",
    }
    arguments = [word for k, v in options.items() for word in (k, str(tmp_path / v))]
    assert report.main([*arguments, *more]) == 0
    return (tmp_path / "RESULTS.md").read_text()


def section(text: str, heading: str) -> str:
    return text.split(f"## {heading}\n")[1].split("\n## ")[0]


def test_the_text_does_not_depend_on_where_it_is_made(tmp_path: Path) -> None:
    texts = []
    for name in ("here", "there"):
        folder = tmp_path / name
        (folder / "runs").mkdir(parents=True)
        (folder / "out").mkdir()
        given = ["--runs", folder / "runs", "--out", folder / "out" / "R.md"]
        assert report.main([*map(str, given), "--figures", str(folder / "figures")]) == 0
        texts.append((folder / "out" / "R.md").read_text())
    assert texts[0] == texts[1]
    assert "the runs in `../runs`" in texts[0].replace("\n", " ")


def test_nothing_has_been_run(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    text = made(tmp_path)
    shown = [table for table in EXPERIMENTS.values() if not table.optional]
    for table in shown:
        rows = section(text, heading(table))
        assert rows.count("not run") >= len(table.rows)
        for row in table.rows:
            paper = f" {row.paper or '-'} |" if any(r.paper for r in table.rows) else ""
            assert f"| {row.label} |{paper} not run |" in rows
    assert "0.7244 ± 0.0485" in text
    assert "png" not in text
    assert "full width" not in text
    count = len({run for table in shown for run in table.runs})
    # Of each data set 10 folds, 3 methods: 2 runs to select from and 3 to test, and in the larger
    # grid 8, 6 and 2 (on D&D 5, 4 and 2) others to select from, and again 3 to test.
    nested = 10 * (2 * 3 * (2 + 3) + (8 + 6 + 2) + (5 + 4 + 2) + 2 * 3 * 3)
    assert f"{count} of protocol 'paper', {nested} of protocol 'nested'" in " ".join(text.split())
    rows = section(text, "D&D, 1178 graphs, larger grid: protocol nested")
    assert "| simpool | - | not run | not run | 0 of 10 | - | - | - | - |" in rows


def test_ten_folds(tmp_path: Path) -> None:
    table = EXPERIMENTS["ENZYMES-10fold"]
    ours = [0.7, 0.8, 0.75, 0.7]
    theirs = [0.6, 0.65, 0.7]
    for run, accuracy in zip(table.rows[0].runs, ours):
        write(tmp_path / "runs", run, accuracy)
    diffpool = next(row for row in table.rows if row.label == "diffpool")
    for run, accuracy in zip(diffpool.runs, theirs):
        write(tmp_path / "runs", run, accuracy)
    nopool = next(row for row in table.rows if row.label == "nopool")
    for run, accuracy in zip(nopool.runs, (0.5, 0.65, 0.65)):
        write(tmp_path / "runs", run, accuracy)
    text = made(tmp_path)
    rows = section(text, "ENZYMES: all methods, ten folds")
    mean, std = np.mean(ours), np.std(ours)
    assert f"| simpool | 0.7244 ± 0.0485 | {mean:.4f} ± {std:.4f} | 4 of 10 |" in rows
    # The difference is over the common folds.
    p = corrected_t_test(np.array(theirs) - np.array(ours[:3]), 10 / 90)
    apart = f"{np.mean(theirs) - np.mean(ours[:3]):+.4f} (p = {p:.3f}, 3 folds)"
    p = corrected_t_test(np.array([0.1, 0.0, 0.05]), 10 / 90)
    # Every row but its own is compared with the network without pooling as well.
    unpooled = f"+0.0500 (p = {p:.3f}, 3 folds)"
    assert "| folds | difference | difference to nopool | last 20 epochs | parameters | s |" in rows
    assert f"| 3 of 10 | {apart} | {unpooled} | 0.5000 ± 0.0000 | 1,234,567 |" in rows
    p = corrected_t_test(np.array([-0.2, -0.15, -0.1]), 10 / 90)
    apart = f"-0.1500 (p = {p:.3f}, 3 folds)"
    assert f"| nopool | - | 0.6000 ± 0.0707 | 3 of 10 | {apart} |  | 0.5000 ± 0.0000 |" in rows
    assert "| sagpool | - | not run | 0 of 10 | - | - | - | - | - |" in rows
    assert f"| simpool | {mean:.4f} ± {std:.4f} (4 of 10 folds) | not run |" in text


def test_milestones(tmp_path: Path) -> None:
    """When folds first reach an accuracy: in epoch 7, never, and in epoch 3, exactly."""
    row = EXPERIMENTS["motifs-order"].rows[1]
    for run, best, first in zip(row.runs, (0.95, 0.89, 0.9), (7, None, 3)):
        history = fake(run, best)["history"]
        if first is not None:
            history["val_accuracy"][first - 1] = history["val_accuracy"][-1] = best
        write(tmp_path / "runs", run, best, history=history)
    rows = section(
        made(tmp_path), "motifs: by how nodes are numbered, and what the assignment networks read"
    )
    assert "| folds | lowest fold | folds that reach 0.9 | in epochs |" in rows
    assert f"| {row.label} | 0.9133 ± 0.0262 | 3 of 10 | 0.8900 | 2 | 3, 7 |" in rows
    assert "| structural, nodes by rcm | not run | 0 of 10 | - | - | - |" in rows


def test_locality_beside_accuracy(tmp_path: Path) -> None:
    """Methods that leave nodes out have none."""
    table = EXPERIMENTS["ENZYMES-tgp"]
    first, *_, last = table.rows
    write(tmp_path / "runs", first.runs[0], 0.7)
    write(tmp_path / "runs", last.runs[0], 0.6, locality=None, num_clusters=None, drawn=None)
    rows = section(made(tmp_path), "ENZYMES: the poolers of torch-geometric-pool")
    assert "| difference to tgp:nopool | last 20 epochs | edges inside | by chance |" in rows
    assert (
        f"| {first.label} | 0.7000 | 1 of 10 |  | - | 0.5000 | 0.250 | 0.125 | 0.750 | 1,234,567 |"
        in rows
    )
    assert (
        f"| {last.label} | 0.6000 | 1 of 10 | -0.1000 | - | 0.5000 | - | - | - | 1,234,567 |"
        in rows
    )


def test_single_splits_and_plots(tmp_path: Path) -> None:
    for name in ("ENZYMES-features", "ENZYMES-p", "ENZYMES-scaler"):
        for row in EXPERIMENTS[name].rows:
            write(tmp_path / "runs", row.runs[0], 0.7)
    write(tmp_path / "runs", EXPERIMENTS["ENZYMES-features"].rows[0].runs[1], 0.9)
    text = made(tmp_path)
    rows = section(text, "ENZYMES: by what the assignment networks read")
    assert "| structural | 0.7667 | 0.7000 | 0.8000 ± 0.1000 | 2 of 3 |" in rows
    local = section(text, "ENZYMES: how local the assignments are")
    expected = "0.250 | 0.125 | 0.750 | 0.500 | 6.500 of 8 | 0.875"
    assert f"| SimPool, node | 1 of 3 | {expected} |" in local
    assert "| DiffPool | 0 of 3 | not run |" in local
    names = ("features", "p", "scaler", "locality")
    for name in names:
        shown = f"figures/ENZYMES-{name}.png"
        assert f"({shown})" in text
        assert (tmp_path / shown).read_bytes().startswith(b"\x89PNG")


def test_plots_are_beside_a_report_in_another_folder(tmp_path: Path) -> None:
    """Those of the repository are not written over."""
    write(tmp_path / "runs", EXPERIMENTS["ENZYMES-p"].rows[0].runs[0], 0.7)
    out = tmp_path / "mine" / "R.md"
    assert report.main(["--runs", str(tmp_path / "runs"), "--out", str(out)]) == 0
    assert "](results/figures/ENZYMES-p.png)" in out.read_text()
    assert (out.parent / "results" / "figures" / "ENZYMES-p.png").exists()


@pytest.mark.parametrize(("kind", "mark"), [("svg", "!"), ("pdf", "")])
def test_plots_in_other_formats(tmp_path: Path, kind: str, mark: str) -> None:
    """A page cannot show a PDF, so it is linked."""
    write(tmp_path / "runs", EXPERIMENTS["ENZYMES-p"].rows[0].runs[0], 0.7)
    lines = made(tmp_path, "--format", kind).splitlines()
    caption = "best validation accuracy, here and in the paper"
    assert f"{mark}[{caption}](figures/ENZYMES-p.{kind})" in lines
    assert {path.suffix for path in (tmp_path / "figures").iterdir()} == {f".{kind}"}


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


def test_damaged_and_foreign_files_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = EXPERIMENTS["ENZYMES-10fold"].rows[0].runs[0]
    write(tmp_path / "runs", run, 0.7)
    (tmp_path / "runs" / "damaged.json").write_text("{")
    (tmp_path / "runs" / "foreign.json").write_text('{"a": 1}')
    text = made(tmp_path)
    assert "1 runs are there" in text
    error = capsys.readouterr().err
    for name in ("damaged.json", "foreign.json"):
        assert f"{tmp_path / 'runs' / name} is damaged, or not a file of this study" in error
        assert (tmp_path / "runs" / name).exists()


def test_diverged_runs_are_counted_and_left_out(tmp_path: Path) -> None:
    runs = EXPERIMENTS["ENZYMES-10fold"].rows[0].runs
    write(tmp_path / "runs", runs[0], 0.7)
    diverged = fake(runs[1], 0.0)
    for name in ("history", "best_val_accuracy"):
        del diverged[name]
    diverged["error"] = "training diverged in epoch 1"
    (tmp_path / "runs" / f"{runs[1].key}.json").write_text(json.dumps(diverged))
    text = made(tmp_path)
    assert "2 runs are there, 1 of them diverged" in text
    assert "| simpool | 0.7244 ± 0.0485 | 0.7000 | 1 of 10 |" in text


def test_notes_go_to_their_tables(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "NOTES.md").write_text("## ENZYMES-p\n\nWhy p matters.\n\n## summary\n\nIn all.\n")
    text = made(tmp_path)
    assert "Why p matters." in section(text, heading(EXPERIMENTS["ENZYMES-p"]))
    assert text.index("In all.") < text.index("## Both protocols")


def test_what_the_runs_were_made_with(tmp_path: Path) -> None:
    first, second, third = EXPERIMENTS["DD-10fold"].rows[0].runs[:3]
    kept = {"device": "cpu", "cpus": 2, "threads": 1, "memory": "kept"}
    write(tmp_path / "runs", first, 0.5)
    write(tmp_path / "runs", second, 0.5, hardware=kept)
    write(tmp_path / "runs", third, 0.5, hardware=kept)
    lines = section(made(tmp_path), "Made with").splitlines()
    assert "| 1 | torch 1 | cpu, 2 CPUs (1 thread) | abcdef0123 |" in lines
    assert "| 2 | torch 1 | cpu, 2 CPUs (1 thread), memory kept | abcdef0123 |" in lines


def test_runs_of_no_table_and_of_other_data(tmp_path: Path) -> None:
    first, second = EXPERIMENTS["DD-10fold"].rows[0].runs[:2]
    write(tmp_path / "runs", first, 0.5, data={"checksum": "a"})
    assert "not to be compared" not in made(tmp_path)
    write(tmp_path / "runs", second, 0.5, data={"checksum": "b"})
    write(tmp_path / "runs", replace(first, width=0.3), 0.99, data={"checksum": "a"})
    text = made(tmp_path)
    assert "3 runs are there, 1 of them in no table here" in text
    assert "Not the same graphs in all runs, so not to be compared: DD, cleaned, labels (2)" in text
    assert "0.99" not in text


def test_optional_tables_show_what_there_is(tmp_path: Path) -> None:
    table = EXPERIMENTS["DD-full-10fold"]
    write(tmp_path / "runs", table.rows[0].runs[0], 0.5)
    text = made(tmp_path)
    rows = section(text, "D&D: all methods, ten folds, full width")
    assert "| simpool | TBD | 0.5000 | 1 of 10 |" in rows
    assert "**width 1**" in rows
    # The table by order has this run too, the others have none.
    assert text.count("full width") == 2


def test_half_written_files_are_no_runs(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / ".DD-paper.json.tmp7.json").write_text("{")
    results, skipped = read_all(tmp_path / "runs")
    assert (results, skipped) == ({}, [])


def test_titles_are_plain_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They fit into the plot, and have no Markdown."""
    titles = []
    monkeypatch.setattr(plots, "draw_curves", lambda rows, title: titles.append(title))
    write(tmp_path / "runs", EXPERIMENTS["DD-features"].rows[0].runs[0], 0.5)
    write(tmp_path / "runs", EXPERIMENTS["ENZYMES-scaler"].rows[0].runs[0], 0.5)
    made(tmp_path)
    assert len(titles) == 2
    for title in titles:
        assert "*" not in title
        assert max(map(len, title.splitlines())) <= 140
        assert title.splitlines()[0].endswith(", first split")


def test_curves_of_methods_without_levels_are_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[plots.ByLabel] = []
    monkeypatch.setattr(plots, "draw_curves", lambda rows, title: drawn.append(rows))
    run = EXPERIMENTS["ENZYMES-scaler"].rows[0].runs[0]
    other = replace(run, method="nopool").filled()
    table = Experiment("mine", "Mine", (Row("with", (run,)), Row("without", (other,))))
    without = {**fake(other, 0.5), "history": {name: [0.5] for name in CURVES}}
    plots.PLOTS["curves"].draw(table, {run: fake(run, 0.5), other: without})
    plots.PLOTS["curves"].draw(table, {other: without})
    assert [list(rows) for rows in drawn] == [["with"]]


def test_a_row_is_compared_with_the_one_that_it_names() -> None:
    runs = list(EXPERIMENTS["ENZYMES-10fold"].rows[0].runs[:3])
    labels = {"first": 0.9, "plain": 0.5, "encoded": 0.6}
    results: dict[Run, dict[str, Any]] = {}
    rows = []
    for size, (label, accuracy) in enumerate(labels.items(), 30):
        of = tuple(replace(run, batch_size=size).filled() for run in runs)
        # The differences to 'plain' are 0.10, 0.09 and 0.08.
        more = [0.01 * (label == "plain") * run.fold for run in of]
        results |= {run: fake(run, accuracy + a) for run, a in zip(of, more)}
        rows.append(Row(label, of, beside="plain" if label == "encoded" else None))
    lines = tables.section(Experiment("mine", "Mine", tuple(rows)), results).splitlines()
    header, _, *shown = [line.split(" | ") for line in lines if line.startswith("|")]
    column = header.index("difference to plain")
    assert [cells[column] for cells in shown] == ["", "", "+0.0900 (p = 0.005, 3 folds)"]
    assert [len(cells) for cells in shown] == [len(header)] * 3
    # If rows name several, each says which.
    several = (*rows, replace(rows[2], label="again", beside="encoded"))
    lines = tables.section(Experiment("mine", "Mine", several), results).splitlines()
    header, _, *shown = [line.split(" | ") for line in lines if line.startswith("|")]
    column = header.index("difference to another row")
    assert [cells[column] for cells in shown[2:]] == [
        "plain: +0.0900 (p = 0.005, 3 folds)",
        "encoded: +0.0000 (p = 1.000, 3 folds)",
    ]
    without = tuple(replace(row, beside=None) for row in rows)
    assert "difference to" not in tables.section(Experiment("mine", "Mine", without), results)


def test_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report.main(["--runs", str(tmp_path / "none"), "--out", str(tmp_path / "R.md")]) == 2
    assert "there is no such folder" in capsys.readouterr().err


def test_the_folder_of_out_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "file").write_text("mine")
    given = ["--runs", str(tmp_path / "runs"), "--figures", str(tmp_path / "figures"), "--out"]
    assert report.main([*given, str(tmp_path / "a" / "b" / "R.md")]) == 0
    assert (tmp_path / "a" / "b" / "R.md").exists()
    capsys.readouterr()
    assert report.main([*given, str(tmp_path / "file" / "R.md")]) == 2
    assert capsys.readouterr().err.count("File exists") == 1


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


START = "Below 0.05 after Holm's correction, each column by itself."


def of_rows(apart: Mapping[str, tuple[float, ...]]) -> tuple[list[Row], dict[Run, dict[str, Any]]]:
    """Rows whose accuracies are these above 0.5."""
    base = EXPERIMENTS["ENZYMES-10fold"].rows[0].runs
    results: dict[Run, dict[str, Any]] = {}
    rows = []
    for size, (label, more) in enumerate(apart.items(), 30):
        runs = tuple(replace(run, batch_size=size).filled() for run in base[:3])
        results |= {run: fake(run, 0.5 + m) for run, m in zip(runs, more)}
        rows.append(Row(label, runs))
    return rows, results


def test_what_is_significant_after_a_correction() -> None:
    """p is 0.046 and 0.014 without one; rows without a p value are named, and not counted."""
    apart: dict[str, tuple[float, ...]] = {"first": (0.0,) * 3}
    apart |= {"a": (0.2, 0.15, 0.1), "b": (-0.2, -0.17, -0.14)}
    apart |= {"shift": (0.1, 0.1, 0.1), "two": (0.2, 0.1), "none": ()}
    rows, results = of_rows(apart)
    text = tables.section(Experiment("mine", "Mine", tuple(rows)), results)
    few = "; rows with fewer than three folds: 2"
    column = f"*difference* (2 p values{few}): ahead `a`; behind `b`; no p value `shift`."
    assert text.splitlines()[-2:] == ["", f"{START} {column}"]
    # With a third p value, three times 0.014 is below 0.05, and two times 0.046 is not.
    rows.append(replace(rows[1], label="c"))
    text = tables.section(Experiment("mine", "Mine", tuple(rows)), results)
    column = f"*difference* (3 p values{few}): behind `b`; no p value `shift`."
    assert text.splitlines()[-1] == f"{START} {column}"
    text = tables.section(Experiment("mine", "Mine", tuple(rows[:2])), results)
    assert "Holm" not in text


def test_each_column_is_corrected_by_itself() -> None:
    """'a' and 'b' are ahead of the first row; of 'c', which varies less, 'a' alone is."""
    apart = {"first": (0.0, 0.0, 0.0), "a": (0.2, 0.17, 0.14), "b": (0.2, 0.15, 0.11)}
    apart |= {"c": (0.1, 0.1, 0.11)}
    rows, results = of_rows(apart)
    table = Experiment("mine", "Mine", compared_with("c", rows))
    assert [row.beside for row in table.rows] == ["c", "c", "c", None]
    first = "*difference* (3 p values): ahead `a`, `b`, `c`."
    other = "*difference to c* (3 p values): behind `first`."
    assert tables.section(table, results).splitlines()[-1] == f"{START} {first} {other}"


def test_settings_that_differ_are_not_those_of_the_first_row() -> None:
    """The first row may be of a method without mapped features, which has no alpha."""
    run = EXPERIMENTS["ENZYMES-10fold"].rows[0].runs[0]
    other = replace(run, method="nopool", width=0.5, epochs=60).filled()
    text = tables.conditions([Row("nopool", (replace(run, method="nopool").filled(),))])
    assert "**width 1**, 100 epochs, batches of 20, learning rate 0.0001" in text
    text = tables.conditions([Row("nopool", (other,)), Row("simpool", (run,))])
    assert "width as each row says, k = 15, alpha = 0.8, epochs as each row says, " in text


def test_tables_whose_rows_cannot_be_told_apart() -> None:
    row = Row("a", EXPERIMENTS["ENZYMES-10fold"].rows[0].runs)
    with pytest.raises(ValueError, match=r"'mine' are not distinct: \['a', 'a'\]"):
        Experiment("mine", "Mine", (row, row))
    with pytest.raises(ValueError, match="'c' is beside 'b', which is no row"):
        Experiment("mine", "Mine", (row, replace(row, label="c", beside="b")))
    with pytest.raises(ValueError, match="'c' is beside itself"):
        Experiment("mine", "Mine", (row, replace(row, label="c", beside="c")))
    for label in ("a", "b"):
        with pytest.raises(ValueError, match=f"label: '{label}' is not one of \\['c'\\]"):
            compared_with(label, [row, replace(row, label="c")])


def test_committed_results_are_those_of_the_committed_runs(tmp_path: Path) -> None:
    """RESULTS.md is generated: after new runs, call `python benchmark/report.py`."""
    here = Path(report.__file__).parent
    out, figures = tmp_path / "RESULTS.md", tmp_path / "results" / "figures"
    runs = here / "results" / "study"
    assert report.main(["--runs", str(runs), "--out", str(out), "--figures", str(figures)]) == 0
    text = out.read_text().replace(os.path.relpath(runs, tmp_path), "results/study")
    assert text == (here / "RESULTS.md").read_text(), "run `python benchmark/report.py`"
    assert {p.name for p in figures.glob("*")} == {
        p.name for p in (here / "results" / "figures").glob("*")
    }


def test_tables_of_generated_data_say_what_width_1_is() -> None:
    """Their preset is narrower than the networks of the paper, which other tables call width 1."""
    wide, narrow = (BENCHMARK_PRESETS[name].architecture for name in ("enzymes-10fold", "motifs"))
    assert narrow == wide.scaled(0.25)
    said = "Width 1 is a quarter of the paper's networks here."
    for table in EXPERIMENTS.values():
        on_generated_data = table.rows[0].runs[0].preset == "motifs"
        assert (said in table.note) == on_generated_data


NEW = {"device": "cpu", "cpus": 2, "threads": 1, "memory": "kept", "denormals": "flushed"}


@pytest.mark.parametrize(
    ("kinds", "shown"),
    [
        ([{}, {}, {}], "7 *"),
        ([{"memory": "kept"}, {"denormals": "flushed"}, {}], "7 *"),
        ([{}, {}, NEW], "9"),
        ([NEW, NEW, NEW], "7"),
    ],
)
def test_seconds_of_old_runs_are_marked(kinds: list[dict[str, Any]], shown: str) -> None:
    there = {f: {"cpu_seconds": 5.0 + 2 * f, "hardware": kind} for f, kind in enumerate(kinds)}
    assert seconds(there) == shown


def test_seconds_may_not_be_known() -> None:
    assert seconds({0: {"hardware": NEW}}) == "-"

"""The report shows what is stored, and what is missing."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import report
from harness.report import plots
from harness.report.statistics import corrected_t_test
from harness.report.tables import heading
from harness.study.declarations import Experiment, Row
from harness.study.experiments import EXPERIMENTS
from harness.study.run_files import read_runs
from harness.training.curves import CURVES
from helpers.reports import fake, made, section, write


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
    assert ", full width" not in text
    names = "`DD-full-10fold`, `DD-full-features`, `DD-full-order`, `DD-full-p`"
    assert f"those of D&D at full width:\n{names} (90 runs)." in text
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
    assert text.count(", full width") == 2
    assert "at full width:\n`DD-full-features`, `DD-full-p` (" in text


def test_half_written_files_are_no_runs(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / ".DD-paper.json.tmp7.json").write_text("{")
    results, skipped = read_runs(tmp_path / "runs")
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

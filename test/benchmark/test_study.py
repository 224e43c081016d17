"""The tables, the study that makes their runs, and the report."""

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.text import Text
from scipy import stats
from torch_geometric.utils import to_dense_adj

import graph_classification
import speed
import study
from harness.report import plots
from harness.report.document import make_report
from harness.report.statistics import corrected_t_test, holm, paired
from harness.run import Drawing, Result, Run
from harness.store import Store
from harness.study import brec, experiments
from harness.study.declarations import Experiment, Nested, Row, on_folds
from harness.study.nested import trials, vote
from helpers.tu_files import write_tu

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "benchmark" / "results" / "runs.parquet"
TINY = Run(
    "TINY", "motifs", cleaned=False, node_features="labels", width=0.1, k=3, epochs=2,
    batch_size=3, folds=2,
)  # fmt: skip


def test_every_run_of_the_tables_is_stored(capsys: pytest.CaptureFixture[str]) -> None:
    assert study.main(["--list"]) == 0
    assert capsys.readouterr().out == "3458 runs, 3458 of them there\n"


@pytest.mark.slow
def test_the_report_of_the_stored_runs_is_the_committed_page(tmp_path: Path) -> None:
    made, committed = tmp_path / "RESULTS.md", ROOT / "benchmark" / "RESULTS.md"
    make_report(RUNS, made)
    runs = os.path.relpath(RUNS, tmp_path)
    text = made.read_text(encoding="utf-8").replace(runs, "results/runs.parquet")
    assert text == committed.read_text(encoding="utf-8")
    drawn, figures = tmp_path / "results" / "figures", RUNS.parent / "figures"
    assert {path.name for path in drawn.iterdir()} == {path.name for path in figures.iterdir()}


@pytest.mark.parametrize("row", brec.ROWS)
def test_pairs_of_graphs_are_told_apart(row: str) -> None:
    """A cycle of six nodes differs from two triangles, and a graph not from its renumbered copy."""
    cycle = np.roll(np.eye(6), 1, axis=0)
    cycle = cycle + cycle.T
    triangles = np.kron(np.eye(2), 1 - np.eye(3))
    order = np.array([3, 1, 0, 5, 2, 4])
    adjs = (cycle, triangles, cycle[order][:, order])
    one, other, same = (brec.labels(row, adj) for adj in adjs)
    for differ in (brec.differ, brec.separated) if row in brec.NETWORKS else (brec.differ,):
        assert differ(one, other) == (row != "A")
        assert not differ(one, same)


def test_constant_similarities_are_ones() -> None:
    path = np.diag(np.ones(3), 1)
    adj, similar = brec.labels("A, C constant", path + path.T).transpose(2, 0, 1)
    assert np.array_equal(adj, path + path.T)
    assert np.array_equal(similar, np.array([[1, 0, 1, 0], [0, 1, 0, 1]] * 2))


def test_relabeled_graphs_have_the_same_labels() -> None:
    path = np.diag(np.ones(4), 1)
    label = brec.labels("A, C with p = 1", path + path.T)
    for data in brec.relabeled(label, label)[0].to_data_list():
        dense = to_dense_adj(data.edge_index, edge_attr=data.edge_attr, max_num_nodes=5)[0]
        assert torch.equal(dense, dense.transpose(0, 1))
        assert np.allclose(np.sort(dense, axis=None), np.sort(label, axis=None))


@pytest.mark.slow
def test_a_tiny_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The study trains all runs once, and the report shows them."""
    write_tu(tmp_path)
    rows = tuple(Row(m, on_folds(replace(TINY, method=m), range(2))) for m in ("simpool", "nopool"))
    table = Experiment("TINY-table", "Tiny", rows, local=True, plot="clusters")
    nested = Nested("TINY-nested", "Tiny", TINY, ("baseline",), {"a": {}, "b": {"lr": 0.1}}, 2, {})
    monkeypatch.setattr(experiments, "EXPERIMENTS", {table.name: table})
    monkeypatch.setattr(experiments, "NESTED", {nested.name: nested})
    out = tmp_path / "runs.parquet"
    arguments = ["--root", str(tmp_path), "--out", str(out)]
    assert study.main([*arguments, "--workers", "2"]) == 0
    results = Store(out).results
    assert len(results) == 4 + 2 * (2 + 2)
    assert study.main(arguments) == 0
    assert list(Store(out).results) == list(results)
    assert not list((tmp_path / ".checkpoints").glob("*"))


@pytest.mark.slow
def test_graph_classification(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tu(tmp_path)
    command = ["--dataset", "TINY", "--root", str(tmp_path), "--folds", "2", "--epochs", "2"]
    command += ["--width", "0.1", "--node-features", "labels", "--out", str(tmp_path / "out")]
    assert graph_classification.main(command) == 0
    shown = capsys.readouterr().out
    assert "mean" in shown
    runs = Store(tmp_path / "out" / "runs.parquet").results  # in the order in which they finished
    assert {(run.fold, run.order) for run in runs} == {(0, "given"), (1, "given")}
    for name in ("accuracy.png", "clusters.png"):
        assert (tmp_path / "out" / name).stat().st_size > 5_000
    assert graph_classification.main(command) == 0  # nothing is left to train
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize(
    "options",
    [
        ["--method", "nothing"],
        ["--method", "tgp:nothing"],
        ["--fold", "3"],
        ["--alpha", "2"],
        ["--lr", "0"],
        ["--lr", "nan"],
        ["--epochs", "1.5"],
        ["--method", "nopool", "--k", "3"],
        ["--device", "no"],
    ],
    ids=" ".join,
)
def test_wrong_options(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        graph_classification.parse(options)
    assert options[-2] in capsys.readouterr().err


def test_the_highest_validation_accuracy_is_chosen() -> None:
    grid = {str(lr): {"lr": lr} for lr in (0.1, 0.2, 0.3)}
    table = Nested("TINY-nested", "Tiny", replace(TINY, folds=1), ("simpool",), grid, 2, {})
    runs = list(table.selection("simpool", 0, "seeded").values())
    results = {run: Result(run, best_val_accuracy=a) for run, a in zip(runs, (0.5, 0.75, 0.75))}

    def chosen() -> list[float]:
        (trial,) = trials(table, "seeded", results)
        return [run.lr for run in trial.final]

    assert chosen() == [0.2, 0.2]
    results[runs[1]].error = "diverged"
    assert chosen() == [0.3, 0.3]
    del results[runs[0]]
    assert chosen() == []


def test_votes_are_of_mean_probabilities() -> None:
    rows = ([[0.6, 0.4], [0.9, 0.1]], [[0.1, 0.9], [0.6, 0.4]])
    assert vote([Result(TINY, test_labels=[1, 1], test_probabilities=r) for r in rows]) == 0.5


def test_p_values() -> None:
    apart = np.array([0.1, 0.3, 0.2, 0.4])
    t = apart.mean() / np.sqrt((1 / 4 + 1 / 9) * apart.var(ddof=1))
    assert corrected_t_test(apart, 1 / 9) == pytest.approx(2 * stats.t.sf(t, 3))
    # Without shared training graphs, the test is the paired t test.
    assert corrected_t_test(apart, 0.0) == pytest.approx(stats.ttest_1samp(apart, 0).pvalue)
    assert corrected_t_test(np.zeros(3), 0.1) == 1
    assert np.isnan(corrected_t_test(np.ones(3), 0.1))
    assert holm([0.01, 0.04, 0.03, 0.5]).tolist() == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert str(paired({0: 1.0}, {1: 1.0}, 0.1)) == "-"
    difference = paired({0: 1.0, 1: 0.5}, {0: 0.5, 1: 0.5, 2: 0.1}, 0.1)
    assert str(difference) == "+0.2500"


@pytest.mark.slow
@pytest.mark.parametrize(
    "part",
    [["topk", "--cases", "small"], ["pooling"], ["training"], ["recommend"]],
    ids=lambda part: part[0],
)
def test_speed(part: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--seconds", "0", "--threads", "1", "--graphs", "4"]
    assert speed.main([*part, *arguments, "--out", str(tmp_path / "out.json")]) == 0
    assert "ratio" in capsys.readouterr().out
    assert (tmp_path / "out.json").exists()


def test_a_picture_of_clusters_names_the_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every node has the letter of its label, and a legend explains the letters once."""
    texts: list[str] = []

    def capture(figure: plt.Figure, path: Path) -> Path:
        texts.append(" ".join(text.get_text() for text in figure.findobj(Text)))
        return path

    monkeypatch.setattr(plots, "save", capture)
    history = {"train_accuracy": [0.5, 0.6], "val_accuracy": [0.5, 0.7]}
    drawn = [Drawing(0, [[0, 1]], [0, 1], [0, 2]), Drawing(1, [], [1], [2])]
    result = SimpleNamespace(error=None, run=TINY, history=history, drawn=drawn)
    plots.draw_run(tmp_path, {"simpool": [result]}, 0.5)  # type: ignore[list-item]
    assert "chance" in texts[0]
    assert "a = 0, c = 2" in texts[1]
    assert {"a", "c"} <= set(texts[1].split())

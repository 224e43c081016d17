import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Optional

import pytest

from graph_classification import main, parse
from harness.data import structural
from harness.methods.registry import ASSIGNING, METHODS
from torch_geometric_simpool import StructuralSimilarity

SCRIPT = Path(__file__).parents[2] / "benchmark" / "graph_classification.py"
PLOTS = ("clusters.png", "curves_level0.png", "curves_level1.png")


def arguments(root: Path, out: Path, *more: str) -> list[str]:
    options = {
        "--dataset": "TINY",
        "--root": root,
        "--out": out,
        "--preset": "enzymes-10fold",
        "--width": 0.02,
        "--k": 4,
        "--folds": 3,
        "--epochs": 2,
        "--batch-size": 3,
        "--device": "cpu",
    }
    return [str(word) for pair in options.items() for word in pair] + list(more)


def without_k(given: list[str]) -> list[str]:
    """For networks that do not read it, by which it is refused."""
    return [word for word in given if word not in ("--k", "4")]


def results_in(out: Path) -> dict:
    return json.loads((out / "results.json").read_text())


def metrics_of(results: dict) -> list[tuple]:
    """What must not depend on interruptions of a run."""
    return [
        (fold["fold"], fold["best_val_accuracy"], fold["best_epoch"], fold["history"])
        for fold in results["folds"]
    ]


@pytest.mark.parametrize("features", ["structural", "node", "both"])
def test_a_run(root: Path, tmp_path: Path, features: str) -> None:
    out = tmp_path / "out"
    given = arguments(root, out, "--features", features)
    assert main(without_k(given) if features == "node" else given) == 0
    results = results_in(out)
    accuracy = [fold["best_val_accuracy"] for fold in results["folds"]]
    assert [fold["fold"] for fold in results["folds"]] == [0, 1, 2]
    assert results["protocol"] == "paper"
    assert results["mean"] == pytest.approx(sum(accuracy) / 3)
    assert results["std"] == pytest.approx(
        (sum((a - results["mean"]) ** 2 for a in accuracy) / 3) ** 0.5
    )
    for fold in results["folds"]:
        history = fold["history"]
        assert fold["best_val_accuracy"] == max(history["val_accuracy"])
        assert history["val_accuracy"][fold["best_epoch"] - 1] == fold["best_val_accuracy"]
        assert fold["seconds_per_epoch"] > 0
        assert fold["num_train"] + fold["num_val"] == 12
        assert all(len(curve) == 2 for curve in history.values())
        for level, clusters in enumerate((8, 4)):
            assert all(1 <= used <= clusters for used in history[f"clusters_{level}"])
    k = 15 if features == "node" else 4  # that of the preset
    expected = {"features": features, "k": k, "alpha": 0.8, "node_features": "labels+attributes"}
    assert expected.items() <= results["settings"].items()
    assert results["num_parameters"] > 0
    assert {"python", "torch", "torch_geometric"} <= set(results["versions"])
    assert {path.name for path in out.iterdir()} == {"results.json", *PLOTS}
    for plot in PLOTS:
        assert (out / plot).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("method", METHODS[1:])
def test_a_peer(root: Path, tmp_path: Path, method: str) -> None:
    """A second start continues; methods with assignments have curves and plots of them."""
    out = tmp_path / "out"
    given = without_k(arguments(root, out, "--method", method))
    assert main([*given, "--fold", "1"]) == 0
    assert main(given) == 0
    results = results_in(out)
    assert results["settings"]["method"] == method
    assert results["settings"]["k"] is None
    assert [fold["fold"] for fold in results["folds"]] == [0, 1, 2]
    assert results["num_parameters"] > 0
    assigns = method in ASSIGNING
    for fold in results["folds"]:
        assert fold["best_val_accuracy"] == max(fold["history"]["val_accuracy"])
        assert ("clusters_0" in fold["history"]) == assigns
    plots = PLOTS if assigns else ()
    assert {path.name for path in out.iterdir()} == {"results.json", *plots}


@pytest.mark.parametrize(
    "option", [["--k", "4"], ["--gru"], ["--features", "node"], ["--order", "bfs"]]
)
def test_options_of_simpool_are_refused_by_peers(
    root: Path, tmp_path: Path, option: list[str], capsys: pytest.CaptureFixture
) -> None:
    given = ["--root", str(root), "--out", str(tmp_path / "out"), "--method", "sagpool"]
    with pytest.raises(SystemExit) as exit_info:
        main([*given, *option])
    assert exit_info.value.code == 2
    assert f"{option[0]}: only --method simpool reads it, got sagpool" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "value", "readers"),
    [
        ("--dropout", "0.5", "simpool or diffpool or diffpool-unnormalized or baseline"),
        ("--readout", "all", "simpool or diffpool or diffpool-unnormalized"),
        ("--entropy-warmup", "0.5", "simpool or diffpool or diffpool-unnormalized"),
    ],
)
def test_options_of_some_methods(
    option: str, value: str, readers: str, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse(["--method", "sagpool", option, value])
    expected = f"argument {option}: only --method {readers} reads it, got sagpool"
    assert expected in capsys.readouterr().err
    for method in readers.split(" or "):
        parse(["--method", method, option, value])


@pytest.mark.parametrize(
    ("option", "value"),
    [("dropout", 0.5), ("weight_decay", 0.1), ("entropy_warmup", 1.0), ("readout", "all")],
)
@pytest.mark.parametrize("method", ["simpool", "diffpool"])
def test_settings_of_the_training(
    root: Path, tmp_path: Path, method: str, option: str, value: Any
) -> None:
    """Each changes what is trained, and is stored; a folder holds one value of it."""
    given = arguments(root, tmp_path / "with", "--method", method, "--fold", "0", "--lr", "0.01")
    given = [word for word in given if method == "simpool" or word not in ("--k", "4")]
    changed = [*given, f"--{option.replace('_', '-')}", str(value)]
    without = [word.replace("with", "without") for word in given]
    assert main(without) == main(changed) == 0
    results = results_in(tmp_path / "with")
    assert results["settings"][option] == value
    assert metrics_of(results) != metrics_of(results_in(tmp_path / "without"))
    assert main(given) == 2


@pytest.mark.parametrize(
    ("unread", "given"),
    [
        *((name, "--gru") for name in ("--order=bfs", "--k=3", "--alpha=0.1", "--alpha=0")),
        *(
            (name, "--features=node")
            for name in (
                "--order=bfs",
                "--k=3",
                "--alpha=0",
                "--p=3",
                "--lam=5",
                "--lam=0",
                "--gru",
            )
        ),
    ],
)
def test_options_that_nothing_reads(
    root: Path, tmp_path: Path, unread: str, given: str, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([*without_k(arguments(root, tmp_path / "out")), unread, given])
    name = unread.split("=")[0]
    shown = given.replace("=", " ")
    assert f"{name}: must not be given with {shown}, which does not" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_folder_of_a_pooler_of_tgp() -> None:
    """A colon is no letter of a file name everywhere."""
    options = parse(["--method", "tgp:topk"])
    assert options.out == Path("out/motifs-motifs-tgp-topk")


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        ("motifs", ("motifs", "fiedler", 3)),
        ("motifs-by-ring", ("motifs", "given", 10)),
        ("communities", ("motifs", "fiedler", 10)),
        ("islands", ("motifs", "fiedler", 10)),
        ("DD", ("dd-10fold", "given", 10)),
        ("ENZYMES", ("enzymes-10fold", "given", 10)),
    ],
)
def test_what_depends_on_the_data_set(dataset: str, expected: tuple[str, str, int]) -> None:
    options = parse(["--dataset", dataset])
    assert (options.preset, options.order, options.folds) == expected


def test_results_from_before_there_were_peers(root: Path, tmp_path: Path) -> None:
    """They do not name their method, which is SimPool. The run continues after them."""
    out = tmp_path / "out"
    assert main(arguments(root, out, "--fold", "0")) == 0
    results = results_in(out)
    for name in ("method", "order", "dropout", "weight_decay", "entropy_warmup", "readout"):
        del results["settings"][name]
    (out / "results.json").write_text(json.dumps(results))
    assert main(arguments(root, out)) == 0
    assert metrics_of(results_in(out))[0] == metrics_of(results)[0]


@pytest.mark.parametrize("order", [None, "bfs"])
def test_order(
    root: Path, tmp_path: Path, order: Optional[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def transform(*args: Any, **settings: Any) -> StructuralSimilarity:
        made.append(StructuralSimilarity(*args, **settings))
        return made[-1]

    monkeypatch.setattr(structural, "StructuralSimilarity", transform)
    out = tmp_path / "out"
    given = [] if order is None else ["--order", order]
    assert main(arguments(root, out, "--fold", "0", "--epochs", "1", *given)) == 0
    assert [one.order for one in made] == [order]
    assert results_in(out)["settings"]["order"] == (order or "given")


def test_gru(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(without_k(arguments(root, out, "--gru", "--fold", "1"))) == 0
    assert [fold["fold"] for fold in results_in(out)["folds"]] == [1]


def test_single_folds_add_up_to_a_whole_run(root: Path, tmp_path: Path) -> None:
    whole, single = tmp_path / "whole", tmp_path / "single"
    assert main(arguments(root, whole)) == 0
    for fold in (2, 0):
        assert main(arguments(root, single, "--fold", str(fold))) == 0
    assert [fold["fold"] for fold in results_in(single)["folds"]] == [0, 2]
    assert main(arguments(root, single)) == 0
    assert metrics_of(results_in(single)) == metrics_of(results_in(whole))


def test_finished_folds_are_not_run_again(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    out = tmp_path / "out"
    assert main(arguments(root, out)) == 0
    before = (out / "results.json").read_bytes()
    capsys.readouterr()
    assert main(arguments(root, out)) == 0
    assert (out / "results.json").read_bytes() == before
    printed = capsys.readouterr().out
    assert "over 3 folds" in printed
    for fold in range(3):
        assert f"fold {fold} is stored in {out / 'results.json'}, and is not trained" in printed


def test_a_killed_run_goes_on(root: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    # Long enough that the second fold is running when the first is noticed to be finished.
    more = ("--epochs", "60")
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), *arguments(root, killed, *more)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    deadline = time.monotonic() + 120
    while not (killed / "results.json").exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    there = metrics_of(results_in(killed))
    assert 1 <= len(there) < 3
    assert main(arguments(root, killed, *more)) == 0
    assert main(arguments(root, whole, *more)) == 0
    again = metrics_of(results_in(killed))
    assert again[: len(there)] == there
    assert [fold[0] for fold in again] == [0, 1, 2]


def test_other_settings_stop(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "out"
    assert main(arguments(root, out, "--fold", "0")) == 0
    before = (out / "results.json").read_bytes()
    assert main(arguments(root, out, "--k", "5", "--lr", "0.1")) == 2
    message = capsys.readouterr().err
    assert "k: 4 there, 5 now" in message
    assert "lr: 0.0001 there, 0.1 now" in message
    assert str(out) in message
    assert (out / "results.json").read_bytes() == before


@pytest.mark.parametrize("content", ["", "{", "[]", '{"settings": {}}', '{"folds": 3}'])
def test_damaged_results_are_named(
    root: Path, tmp_path: Path, content: str, capsys: pytest.CaptureFixture
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "results.json").write_text(content)
    assert main(arguments(root, out)) == 2
    assert "results.json is damaged" in capsys.readouterr().err
    assert (out / "results.json").read_text() == content


@pytest.mark.parametrize(
    ("option", "value", "match"),
    [
        ("--fold", "3", "--fold: must be below --folds, 3, got 3"),
        ("--fold", "-1", "--fold: must be an integer >= 0, got '-1'"),
        ("--folds", "1", "--folds: must be an integer >= 2"),
        ("--folds", "7", "--folds must be at most 6"),
        ("--k", "0", "--k: must be an integer >= 1 and <= 100000, got '0'"),
        ("--k", "x", "--k: must be an integer >= 1 and <= 100000, got 'x'"),
        ("--p", "0", "--p: must be an integer >= 1"),
        ("--lam", "-1", "--lam: must be a finite number >= 0 and <= 1e+06, got '-1'"),
        ("--alpha", "1.5", "--alpha: must be a finite number >= 0 and <= 1, got '1.5'"),
        ("--lr", "nan", "--lr: must be a finite number > 0, got 'nan'"),
        ("--width", "0", "--width: must be a finite number > 0 and <= 64, got '0'"),
        ("--epochs", "0", "--epochs: must be an integer >= 1"),
        ("--preset", "cora", "--preset: invalid choice: 'cora'"),
        ("--features", "edges", "--features: invalid choice"),
        ("--seed", "5000000000", "--seed: must be an integer >= 0 and <= 4294967295"),
        ("--width", "1e308", "--width: must be a finite number > 0 and <= 64"),
        ("--device", "meta", "--device: 'meta' is not available"),
        ("--device", "quantum", "--device: 'quantum' is not available"),
        ("--dataset", "../TINY", "--dataset must be the name of a TU data set"),
    ],
)
def test_bad_options_are_named_and_nothing_is_written(
    root: Path,
    tmp_path: Path,
    option: str,
    value: str,
    match: str,
    capsys: pytest.CaptureFixture,
) -> None:
    out = tmp_path / "out"
    status: object
    try:
        status = main(arguments(root, out, option, value))
    except SystemExit as error:
        status = error.code
    assert status == 2
    assert match in capsys.readouterr().err
    assert not out.exists()


def test_out_that_is_a_file(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "out").write_text("mine")
    assert main(arguments(root, tmp_path / "out")) == 2
    assert "--out" in capsys.readouterr().err
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.parametrize("method", METHODS)
def test_training_that_diverges_says_so(
    root: Path, tmp_path: Path, method: str, capsys: pytest.CaptureFixture
) -> None:
    out = tmp_path / "out"
    given = arguments(root, out, "--lr", "1e30", "--epochs", "9", "--method", method)
    assert main(given if method == "simpool" else without_k(given)) == 2
    assert "training diverged in epoch" in capsys.readouterr().err
    assert not (out / "results.json").exists()


def test_a_plot_that_cannot_be_written_costs_no_fold(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    out = tmp_path / "out"
    (out / "clusters.png").mkdir(parents=True)
    assert main(arguments(root, out, "--fold", "0")) == 2
    assert "--out" in capsys.readouterr().err
    assert [fold["fold"] for fold in results_in(out)["folds"]] == [0]


def test_the_default_data_set(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["--out", str(out), "--epochs", "1", "--fold", "0", "--width", "0.1"]) == 0
    results = results_in(out)
    assert results["data"]["name"] == "motifs"
    assert results["settings"]["preset"] == "motifs"
    assert results["settings"]["order"] == "fiedler"
    assert results["settings"]["folds"] == 3

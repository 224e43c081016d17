"""Protocol 'nested' from its runs to its test accuracies."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.study.declarations import Nested
from harness.study.nested import vote, voted
from harness.study.perform import load_data, perform, split
from harness.study.run_files import read_runs
from helpers.tiny_study import TINY, declare, start, stored, table


def test_nested(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = {"fast": {"lr": 1e-2}, "slow": {"lr": 1e-4}}
    nested = Nested("TINY-nested", "Tiny", replace(TINY, folds=2), ("baseline",), grid, 2, {})
    declare(monkeypatch, nested=(nested,))
    assert start(tiny, tmp_path / "out") == 0
    # A fold is finished before the next one begins.
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("TINY")]
    assert [("fold1" in line, "selection" in line) for line in lines] == [
        (fold, selects) for fold in (False, True) for selects in (True, True, False, False)
    ]
    by_protocol: dict[str, list[dict]] = {}
    for result in stored(tmp_path / "out").values():
        by_protocol.setdefault(result["settings"]["protocol"], []).append(result)
    selection, final = by_protocol["nested-selection"], by_protocol["nested"]
    assert len(selection) == len(final) == 4
    # The test graphs have no part in the selection.
    assert all("test_accuracy" not in r and "test" not in r["sizes"] for r in selection)
    for result in final:
        settings = result["settings"]
        assert result["sizes"]["test"] == 6
        assert 0 <= result["test_accuracy"] <= 1
        of_fold = [r for r in selection if r["settings"]["fold"] == settings["fold"]]
        best = max(r["best_val_accuracy"] for r in of_fold)
        chosen = next(r for r in of_fold if r["settings"]["config"] == settings["config"])
        assert chosen["best_val_accuracy"] == best
        assert chosen["settings"]["lr"] == settings["lr"]


@pytest.mark.parametrize("method", ["simpool", "diffpool", "baseline"])
def test_final_runs_store_what_they_vote_by(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    grid = {"all": {"dropout": 0.5, "weight_decay": 0.1, "entropy_warmup": 1.0, "readout": "all"}}
    base = replace(TINY, folds=2)
    nested = Nested("TINY-nested", "Tiny", base, (method,), grid, 3, {}, votes=True)
    declare(monkeypatch, nested=(nested,))
    out = tmp_path / "out"
    assert start(tiny, out, "--fold", "1") == 0
    results, skipped = read_runs(out)
    assert (len(results), skipped) == (1 + 3, [])
    final = [there for run, there in results.items() if run.protocol == "nested"]
    labels = [int(load_data(TINY, str(tiny)).labels[i]) for i in graphs_to_test(tiny)]
    for there in final:
        assert there["test_labels"] == labels
        chances = np.array(there["test_probabilities"])
        assert np.allclose(chances.sum(axis=1), 1, atol=1e-4)
        right = chances.argmax(axis=1) == labels
        assert there["test_accuracy"] == pytest.approx(right.mean())
    assert voted(nested, method, results) == {"seeded": {1: vote(final)}}


def graphs_to_test(root: Path) -> list[int]:
    """The test graphs of the second of two folds."""
    run = replace(TINY, protocol="nested", folds=2, fold=1)
    return split(run, load_data(TINY, str(root)))["test"].tolist()


def test_runs_of_two_tables_are_listed_once(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A larger grid shares the runs to select from with the smaller one."""
    grid: dict[str, dict[str, Any]] = {"a": {}, "b": {"lr": 0.5}}
    small = Nested("TINY-nested", "Tiny", TINY, ("simpool",), grid, 1, {})
    large = replace(small, name="TINY-larger", grid={**grid, "c": {"lr": 0.25}})
    declare(monkeypatch, nested=(small, large))
    assert start(tiny, tmp_path, "--fold", "1", "--list") == 0
    counted, *listed = capsys.readouterr().out.splitlines()
    assert counted == "3 runs, 0 of them there"
    assert sorted(line[-3:] for line in listed) == ["(a)", "(b)", "(c)"]


def test_the_list_is_of_the_splits_that_are_stored(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Published splits are needed to make runs, and not to see which are missing."""
    nested = Nested("TINY-nested", "Tiny", replace(TINY, folds=2), ("baseline",), {"a": {}}, 1, {})
    declare(monkeypatch, nested=(nested,))
    parts = [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
    folds = [
        {"test": test, "model_selection": [{"train": rest[:4], "validation": rest[4:]}]}
        for test, rest in (parts, parts[::-1])
    ]
    (tmp_path / "TINY_splits.json").write_text(json.dumps(folds))
    out = tmp_path / "out"
    assert start(tiny, out, "--list") == 0
    assert capsys.readouterr().out.splitlines()[0] == "2 runs, 0 of them there"
    assert start(tiny, out, "--fold", "1", "--splits", str(tmp_path)) == 0
    capsys.readouterr()
    assert start(tiny, out, "--list") == 0
    counted, missing = capsys.readouterr().out.splitlines()
    assert counted == "3 runs, 2 of them there"
    assert "fold0" in missing


def test_nothing_is_chosen_from_a_part_of_the_grid(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = {"fast": {"lr": 1e-2}, "slow": {"lr": 1e-4}}
    nested = Nested("TINY-nested", "Tiny", replace(TINY, folds=2), ("baseline",), grid, 2, {})
    declare(monkeypatch, nested=(nested,))
    out = tmp_path / "out"
    out.mkdir()
    damaged = out / f"{nested.selection('baseline', 0, 'seeded')['fast'].key}.json"
    damaged.write_text("{")
    assert start(tiny, out) == 2
    assert f"skipped: {damaged} is damaged" in capsys.readouterr().err
    finals = [p.stem for p in out.glob("TINY-nested-baseline-*.json")]
    assert len(finals) == 2
    assert all("fold1" in name for name in finals)
    # Without the damaged file, the fold is completed.
    damaged.unlink()
    assert start(tiny, out) == 0
    assert len(list(out.glob("TINY-nested-baseline-*.json"))) == 4


def test_repetitions_are_other_trainings(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = replace(TINY, folds=2, epochs=4)
    nested = Nested("TINY-nested", "Tiny", base, ("baseline",), {"a": {"lr": 1e-2}}, 3, {})
    declare(monkeypatch, nested=(nested,))
    assert start(tiny, tmp_path / "out", "--fold", "0") == 0
    final = [r for r in stored(tmp_path / "out").values() if "test_accuracy" in r]
    losses = [tuple(r["history"]["loss"]) for r in final]
    assert len(set(losses)) == len(losses) == 3


def test_a_run_does_not_see_what_it_is_validated_and_tested_on(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The training does not depend on the features of these graphs."""
    run = replace(TINY, protocol="nested", method="baseline", repetition=1, splits="seeded")
    curves = []
    for factor in (1, 50):
        data = load_data(TINY, str(tiny))
        parts = split(run, data)
        assert {name: len(part) for name, part in parts.items()} == {
            "train": 6,
            "validation": 2,
            "test": 4,
        }
        graphs = [graph.clone() for graph in data.graphs]
        for name in ("validation", "test"):
            for i in parts[name]:
                graphs[i].x[:, :2] *= factor
        changed = replace(data, graphs=graphs)
        monkeypatch.setattr("harness.study.perform.load_data", lambda *_, changed=changed: changed)
        history = perform(run, str(tiny), "cpu")["history"]
        curves.append((history["loss"], history["train_accuracy"]))
    assert curves[0] == curves[1]


def test_splits_that_do_not_fit(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nested = Nested("TINY-nested", "Tiny", replace(TINY, folds=2), ("baseline",), {"a": {}}, 1, {})
    declare(monkeypatch, table(TINY), nested=(nested,))
    fold = {"test": [0, 1], "model_selection": [{"train": [2], "validation": [3]}]}
    (tmp_path / "TINY_splits.json").write_text(json.dumps([fold, fold]))
    assert start(tiny, tmp_path / "out", "--splits", str(tmp_path)) == 2
    error = capsys.readouterr().err
    assert "splits 4 graphs" in error
    assert "the data set has 12" in error
    # The error comes before any run.
    assert not (tmp_path / "out").exists()


def test_a_file_of_splits_is_of_one_data_set(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = Nested("TINY-nested", "Tiny", TINY, ("baseline",), {"a": {}}, 1, {})
    two = Nested("OTHER-nested", "Other", replace(TINY, dataset="OTHER"), ("baseline",), {}, 1, {})
    declare(monkeypatch, nested=(one, two))
    file = tmp_path / "TINY_splits.json"
    file.write_text("[]")
    for words in ([], ["--list"]):
        assert start(tiny, tmp_path / "out", "--splits", str(file), *words) == 2
        assert "tables of OTHER and TINY are asked for: give a folder" in capsys.readouterr().err

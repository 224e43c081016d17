"""The study: it resumes, shares a folder, and leaves alone what is not its own."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tu_files import write_tu

import experiments
import study
from allocator import KEEP_MEMORY
from declarations import Experiment, Nested, Row, Run
from store import FORMAT, LOCKS, Store, UnreadableRunError, read_run

TINY = Run(
    "TINY",
    "enzymes-10fold",
    cleaned=False,
    node_features="labels+attributes",
    width=0.02,
    k=4,
    epochs=2,
    batch_size=3,
    folds=3,
).filled()


def table(*runs: Run) -> Experiment:
    return Experiment("TINY-one", "Tiny", tuple(Row(run.method, (run,)) for run in runs))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_tu(tmp_path / "data")
    monkeypatch.setattr(experiments, "EXPERIMENTS", {})
    declare(monkeypatch, table(TINY, replace(TINY, method="baseline").filled()))
    return tmp_path / "data"


def declare(
    monkeypatch: pytest.MonkeyPatch, *tables: Experiment, nested: tuple[Nested, ...] = ()
) -> None:
    names = {t.name: t for t in tables}
    monkeypatch.setattr(experiments, "EXPERIMENTS", names)
    monkeypatch.setattr(study, "NESTED", {n.name: n for n in nested})
    monkeypatch.setattr(study, "NAMES", (*names, *(n.name for n in nested)))


def start(root: Path, out: Path, *more: str) -> int:
    return study.main(["--root", str(root), "--out", str(out), *more])


def stored(out: Path) -> dict[str, dict]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(out.glob("*.json"))}


def figures(result: dict) -> dict:
    passing = ("seconds", "cpu_seconds", "seconds_per_epoch", "command", "hardware")
    return {name: value for name, value in result.items() if name not in passing}


def test_a_study(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert start(root, out) == 0
    found = stored(out)
    assert set(found) == {TINY.key, replace(TINY, method="baseline").filled().key}
    ours = found[TINY.key]
    assert ours["settings"] == TINY.settings
    assert ours["best_val_accuracy"] == max(ours["history"]["val_accuracy"])
    assert ours["sizes"] == {"train": 8, "validation": 4}
    assert {"versions", "hardware", "commit", "num_parameters", "seconds"} <= set(ours)
    assert len(ours["data"]["checksum"]) == 16
    for level in (0, 1):
        for name in ("entropy_loss", "cluster_loss", "clusters"):
            assert len(ours["history"][f"{name}_{level}"]) == 2
    assert 1 <= ours["locality"]["clusters"] <= 8
    assert all(len(graph["clusters"]) == 5 for graph in ours["drawn"])
    assert "locality" not in found[replace(TINY, method="baseline").filled().key]


def test_what_is_there_is_not_run_again(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert start(root, out, "--method", "simpool") == 0
    before = {path: path.stat().st_mtime_ns for path in out.glob("*.json")}
    assert start(root, out) == 0
    assert len(stored(out)) == 2
    for path, changed in before.items():
        assert path.stat().st_mtime_ns == changed


def test_the_outcome_does_not_depend_on_when(root: Path, tmp_path: Path) -> None:
    assert start(root, tmp_path / "one") == 0
    assert start(root, tmp_path / "two", "--method", "baseline") == 0
    assert start(root, tmp_path / "two") == 0
    one, two = stored(tmp_path / "one"), stored(tmp_path / "two")
    assert {k: figures(v) for k, v in one.items()} == {k: figures(v) for k, v in two.items()}


@pytest.mark.parametrize("order", ["random", "random-epoch", "rcm"])
def test_orders(root: Path, tmp_path: Path, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = replace(TINY, order=order)
    declare(monkeypatch, table(TINY, run))
    assert start(root, tmp_path / "out") == 0
    found = stored(tmp_path / "out")
    assert found[run.key]["history"] != found[TINY.key]["history"]


def test_nested(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    grid = {"fast": {"lr": 1e-2}, "slow": {"lr": 1e-4}}
    nested = Nested("TINY-nested", "Tiny", replace(TINY, folds=2), ("baseline",), grid, 2, {})
    declare(monkeypatch, nested=(nested,))
    assert start(root, tmp_path / "out") == 0
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
    # The test graphs are not looked at to choose.
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


def test_splits_that_do_not_fit(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nested = Nested("TINY-nested", "Tiny", replace(TINY, folds=2), ("baseline",), {"a": {}}, 1, {})
    declare(monkeypatch, nested=(nested,))
    fold = {"test": [0, 1], "model_selection": [{"train": [2], "validation": [3]}]}
    (tmp_path / "TINY_splits.json").write_text(json.dumps([fold, fold]))
    assert start(root, tmp_path / "out", "--splits", str(tmp_path)) == 2
    error = capsys.readouterr().err
    assert "splits 4 graphs" in error
    assert "the data set has 12" in error


def test_damaged_and_foreign_files_are_named_and_left(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    path = out / f"{TINY.key}.json"
    path.write_text("{")
    assert start(root, out) == 0
    assert f"skipped: {path} is damaged" in capsys.readouterr().err
    assert path.read_text() == "{"
    assert len(list(out.glob("*.json"))) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"format": "another"},
        {"settings": {**TINY.settings, "k": 5}},
        {"settings": {**TINY.settings, "unknown": 5}},
        {"settings": None},
        {"history": {}},
        {"history": {"loss": [1.0], "train_accuracy": [1.0], "val_accuracy": [1.0]}},
        {"best_val_accuracy": 7.0},
        {"best_val_accuracy": None},
        {"sizes": 7},
        {"num_parameters": "many"},
        {"locality": {}, "drawn": []},
    ],
    ids=str,
)
def test_files_that_are_not_runs(tmp_path: Path, change: dict) -> None:
    curves = {name: [0.5, 0.5] for name in ("loss", "train_accuracy", "val_accuracy")}
    good = {
        "format": FORMAT,
        "settings": TINY.settings,
        "history": curves,
        "best_val_accuracy": 0.5,
        "data": {},
        "sizes": {"train": 8, "validation": 4},
        "versions": {},
        "hardware": {},
        "num_parameters": 7,
        "seconds": 1.0,
    }
    path = tmp_path / f"{TINY.key}.json"
    path.write_text(json.dumps(good))
    assert read_run(path, TINY) == good
    path.write_text(json.dumps({**good, **change}))
    with pytest.raises(UnreadableRunError, match="is damaged, or not a file of this study"):
        read_run(path)


def test_diverging_is_a_result(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(monkeypatch, table(replace(TINY, method="nopool", lr=1e30).filled()))
    assert start(root, tmp_path / "out") == 0
    (result,) = stored(tmp_path / "out").values()
    assert "training diverged in epoch" in result["error"]


def test_a_run_of_another_process_is_left_to_it(tmp_path: Path) -> None:
    """A lock ends with its process, however that ends."""
    store = Store(tmp_path)
    program = """
import fcntl, os, sys, time
fcntl.flock(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(60)
"""
    lock = tmp_path / LOCKS / TINY.key
    other = subprocess.Popen(
        [sys.executable, "-S", "-c", program, str(lock)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with store.claimed(TINY) as ours:
            assert not ours
        with store.claimed(replace(TINY, fold=1)) as ours:
            assert ours
    finally:
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert other.stdout is not None
        other.stdout.close()
    with store.claimed(TINY) as ours:
        assert ours


def test_the_second_study_waits_for_the_first(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs what the first has not begun, and ends when the first has finished the rest."""
    store = Store(tmp_path / "out")
    naps: list[float] = []
    with store.claimed(TINY):
        assert start(root, tmp_path / "first", "--method", "simpool") == 0

        def nap(seconds: float) -> None:
            naps.append(seconds)
            name = f"{TINY.key}.json"
            os.replace(tmp_path / "first" / name, tmp_path / "out" / name)

        monkeypatch.setattr(time, "sleep", nap)
        assert start(root, tmp_path / "out") == 0
    assert naps == [study.PAUSE]
    assert len(stored(tmp_path / "out")) == 2


def test_lists_what_is_missing(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start(root, tmp_path / "out", "--list") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("2 runs, 0 of them there\n")
    assert TINY.key in shown
    assert not stored(tmp_path / "out")


def test_workers(tmp_path: Path) -> None:
    """In processes of their own; nothing to do, so no data set is looked for."""
    command = [sys.executable, study.__file__, "--root", str(tmp_path), "--out", str(tmp_path)]
    missing = subprocess.run(
        [*command, "--workers", "2", "--only", "DD-p", "--fold", "0"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"},
    )
    assert missing.returncode == 2
    assert "there are no raw files" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_workers_keep_their_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What someone has set counts, and the process that starts them is left as it was."""
    seen = []

    class Process:
        exitcode = 0

        def __init__(self, target: object, args: tuple[object, ...]) -> None:
            pass

        def start(self) -> None:
            seen.append({name: os.environ[name] for name in KEEP_MEMORY})

        def join(self) -> None:
            pass

        def terminate(self) -> None:
            pass

    set_here, *others = KEEP_MEMORY
    monkeypatch.setenv(set_here, "7")
    for name in others:
        monkeypatch.delenv(name, raising=False)
    before = dict(os.environ)
    monkeypatch.setattr(
        study.multiprocessing, "get_context", lambda _: SimpleNamespace(Process=Process)
    )
    monkeypatch.setattr(study.signal, "signal", lambda *_: None)
    assert study.main(["--out", str(tmp_path), "--workers", "3"]) == 0
    assert seen == [{**KEEP_MEMORY, set_here: "7"}] * 3
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--workers", "0"], "must be an integer >= 1"),
        (["--fold", "10"], "must be an integer >= 0 and <= 9"),
        (["--device", "nowhere"], "'nowhere' is not available"),
        (["--only", "ENZYMES"], "invalid choice"),
        (["--method", "best"], "invalid choice"),
    ],
)
def test_options(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        study.main(words)
    assert message in capsys.readouterr().err

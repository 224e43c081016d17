"""The study: it resumes, shares a folder, and leaves alone what is not its own."""

import errno
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.tu_files import write_tu

import experiments
import runs
import study
from harness.store.allocator import KEEP_MEMORY
from declarations import Experiment, Nested, Row, Run
from harness.errors import BenchmarkError
from results import CURVES, CURVES_OF_LEVELS, fcntl
from runs import load_data, split
from store import FORMAT, LOCKS, Store, UnreadableRunError, alone, read_run
from torch_geometric_simpool.analysis.locality import Locality

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
    for all_names in ("NAMES", "DEFAULT_NAMES"):
        monkeypatch.setattr(study, all_names, (*names, *(n.name for n in nested)))


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


def test_nothing_is_chosen_from_a_part_of_the_grid(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = {"fast": {"lr": 1e-2}, "slow": {"lr": 1e-4}}
    nested = Nested("TINY-nested", "Tiny", replace(TINY, folds=2), ("baseline",), grid, 2, {})
    declare(monkeypatch, nested=(nested,))
    out = tmp_path / "out"
    out.mkdir()
    damaged = out / f"{nested.selection('baseline', 0, 'seeded')['fast'].key}.json"
    damaged.write_text("{")
    assert start(root, out) == 0
    assert f"skipped: {damaged} is damaged" in capsys.readouterr().err
    finals = [p.stem for p in out.glob("TINY-nested-baseline-*.json")]
    assert len(finals) == 2
    assert all("fold1" in name for name in finals)
    # Moved away, as was said, the fold is made good.
    damaged.unlink()
    assert start(root, out) == 0
    assert len(list(out.glob("TINY-nested-baseline-*.json"))) == 4


def test_repetitions_are_other_trainings(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = replace(TINY, folds=2, epochs=4)
    nested = Nested("TINY-nested", "Tiny", base, ("baseline",), {"a": {"lr": 1e-2}}, 3, {})
    declare(monkeypatch, nested=(nested,))
    assert start(root, tmp_path / "out", "--fold", "0") == 0
    final = [r for r in stored(tmp_path / "out").values() if "test_accuracy" in r]
    losses = [tuple(r["history"]["loss"]) for r in final]
    assert len(set(losses)) == len(losses) == 3


def test_a_run_does_not_see_what_it_is_validated_and_tested_on(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other features of these graphs change nothing of the training."""
    run = replace(TINY, protocol="nested", method="baseline", repetition=1, splits="seeded")
    curves = []
    for factor in (1, 50):
        data = load_data(TINY, str(root))
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
        monkeypatch.setattr(runs, "load_data", lambda *_, changed=changed: changed)
        history = runs.perform(run, str(root), "cpu")["history"]
        curves.append((history["loss"], history["train_accuracy"]))
    assert curves[0] == curves[1]


def test_splits_that_do_not_fit(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nested = Nested("TINY-nested", "Tiny", replace(TINY, folds=2), ("baseline",), {"a": {}}, 1, {})
    declare(monkeypatch, table(TINY), nested=(nested,))
    fold = {"test": [0, 1], "model_selection": [{"train": [2], "validation": [3]}]}
    (tmp_path / "TINY_splits.json").write_text(json.dumps([fold, fold]))
    assert start(root, tmp_path / "out", "--splits", str(tmp_path)) == 2
    error = capsys.readouterr().err
    assert "splits 4 graphs" in error
    assert "the data set has 12" in error
    # Before anything is run, of whatever table.
    assert not (tmp_path / "out").exists()


def test_a_file_of_splits_is_of_one_data_set(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = Nested("TINY-nested", "Tiny", TINY, ("baseline",), {"a": {}}, 1, {})
    two = Nested("OTHER-nested", "Other", replace(TINY, dataset="OTHER"), ("baseline",), {}, 1, {})
    declare(monkeypatch, nested=(one, two))
    file = tmp_path / "TINY_splits.json"
    file.write_text("[]")
    for words in ([], ["--list"]):
        assert start(root, tmp_path / "out", "--splits", str(file), *words) == 2
        assert "tables of OTHER and TINY are asked for: give a folder" in capsys.readouterr().err


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


GOOD = {
    "format": FORMAT,
    "settings": TINY.settings,
    "history": {name: [0.5, 0.5] for name in (*CURVES, *CURVES_OF_LEVELS)},
    "best_val_accuracy": 0.5,
    "data": {},
    "sizes": {"train": 8, "validation": 4},
    "versions": {},
    "hardware": {"device": "cpu", "cpus": None, "threads": 1},
    "commit": None,
    "num_parameters": 7,
    "seconds": 1.0,
    "num_clusters": 8,
    "locality": {**dict.fromkeys(Locality._fields, 0.5), "distance_ratio": None},
    "drawn": [{"class": 0, "edges": [[0, 1]], "clusters": [3, 3]}],
}


def without(name: str, *inner: str) -> dict:
    """A change of `GOOD`: an entry, or an entry of an entry, is not there."""
    if not inner:
        return {name: KeyError}
    return {name: {k: v for k, v in GOOD[name].items() if k not in inner}}


@pytest.mark.parametrize(
    "change",
    [
        {"format": "another"},
        {"settings": {**TINY.settings, "k": 5}},
        {"settings": {**TINY.settings, "unknown": 5}},
        {"settings": None},
        {"history": {}},
        without("history", "clusters_1"),
        {"history": {**GOOD["history"], "loss": [1.0]}},
        {"history": {**GOOD["history"], "loss": [1.0, None]}},
        {"history": {**GOOD["history"], "loss": [1.0, float("nan")]}},
        {"history": {**GOOD["history"], "val_accuracy": ["0.5", "0.5"]}},
        {"best_val_accuracy": 7.0},
        {"best_val_accuracy": None},
        {"sizes": 7},
        without("sizes", "validation"),
        {"sizes": {"train": 8, "validation": 0}},
        {"num_parameters": "many"},
        {"cpu_seconds": None},
        {"cpu_seconds": "x"},
        {"hardware": {}},
        without("hardware", "threads"),
        {"commit": 7},
        without("commit"),
        without("locality"),
        {"locality": {}},
        without("locality", "connected"),
        {"locality": {**GOOD["locality"], "clusters": "x"}},
        without("num_clusters"),
        without("drawn"),
        {"drawn": [1]},
        {"drawn": [{"class": 0, "edges": [[0, 1]], "clusters": []}]},
        {"drawn": [{"class": 0, "edges": [[0, 2]], "clusters": [3, 3]}]},
    ],
    ids=str,
)
def test_files_that_are_not_runs(tmp_path: Path, change: dict) -> None:
    path = tmp_path / f"{TINY.key}.json"
    path.write_text(json.dumps(GOOD))
    assert read_run(path, TINY) == GOOD
    changed = {name: value for name, value in {**GOOD, **change}.items() if value is not KeyError}
    path.write_text(json.dumps(changed))
    with pytest.raises(UnreadableRunError, match="is damaged, or not a file of this study"):
        read_run(path)


def test_a_file_of_brackets_is_no_run(tmp_path: Path) -> None:
    path = tmp_path / f"{TINY.key}.json"
    path.write_text("[" * 100_000)
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
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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
    assert "waiting for 1 runs of another process" in capsys.readouterr().out
    assert naps == [study.PAUSE]
    assert len(stored(tmp_path / "out")) == 2


@pytest.mark.skipif(fcntl is None, reason="no locks on this system")
def test_a_folder_that_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)

    def none_left(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none_left)
    with (
        pytest.raises(BenchmarkError, match=r"cannot be locked .*No locks available"),
        store.claimed(TINY),
    ):
        pass
    (tmp_path / LOCKS).rename(tmp_path / "elsewhere")
    with pytest.raises(BenchmarkError, match=f"--out {tmp_path}"), store.claimed(TINY):
        pass
    # Data can be read without a lock.
    with alone(tmp_path / "data"):
        pass
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "none"))
    with pytest.raises(BenchmarkError, match=r"the lock of --root .*No such"), alone(tmp_path):
        pass


@pytest.mark.skipif(fcntl is None, reason="no locks on this system")
def test_alone_with_the_data(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from store import alone
print("ready", flush=True)
with alone(Path(sys.argv[2])):
    print("in", flush=True)
"""
    root = tmp_path / "not" / "there"
    command = [sys.executable, "-c", program, str(Path(study.__file__).parent), str(root)]
    with alone(root):
        other = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0)
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        assert select.select([other.stdout], [], [], 1)[0] == []
        with alone(tmp_path / "another"):
            pass
    assert other.communicate()[0] == b"in\n"
    assert not root.exists()


def test_a_run_that_fails_leaves_the_others(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    perform = study.perform

    def fail(run: Run, *more: object) -> dict:
        if run.method == "simpool":
            raise RuntimeError("CUDA out of memory")
        return perform(run, *more)

    monkeypatch.setattr(study, "perform", fail)
    assert start(root, tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert f"failed: {TINY.key}: RuntimeError: CUDA out of memory" in error
    assert error.endswith(f"1 runs failed, {TINY.key} first: RuntimeError: CUDA out of memory\n")
    assert set(stored(tmp_path / "out")) == {replace(TINY, method="baseline").filled().key}


def test_data_that_are_not_there_leave_those_that_are(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = write_tu(root, "BAD")
    (raw / "BAD_A.txt").unlink()
    bad = [replace(TINY, dataset="BAD", fold=fold) for fold in (0, 1)]
    declare(monkeypatch, Experiment("TINY-one", "Tiny", (Row("a", (*bad, TINY)),)))
    assert start(root, tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert error.count("failed: ") == 1  # not once more for the other fold
    assert "2 runs failed" in error
    assert "BAD_A.txt is missing" in error
    assert set(stored(tmp_path / "out")) == {TINY.key}


def test_other_data_of_the_same_name(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    declare(monkeypatch, Experiment("TINY-one", "T", (Row("a", (TINY, replace(TINY, fold=1))),)))
    assert start(root, out, "--fold", "0") == 0
    (there,) = stored(out).values()
    there["data"]["checksum"] = "0123456789abcdef"
    (out / f"{TINY.key}.json").write_text(json.dumps(there))
    assert start(root, out) == 2
    error = capsys.readouterr().err
    assert f"--out {out}: {TINY.key}.json is of other data than TINY in --root" in error
    assert "checksum 0123456789abcdef there" in error
    assert len(stored(out)) == 1


def test_lists_what_is_missing(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert start(root, out, "--list") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("2 runs, 0 of them there\n")
    assert f"{TINY.key}  (TINY-one: simpool)" in shown
    assert not stored(out)
    (out / f"{TINY.key}.json").write_text("{")
    assert start(root, out, "--list") == 0
    assert capsys.readouterr().out.startswith("2 runs, 0 of them there, 1 cannot be read\n")


def test_nothing_to_run_is_an_error(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start(root, tmp_path / "out", "--fold", "9") == 2
    assert "--only, --method and --fold leave no run" in capsys.readouterr().err


def test_a_list_that_nobody_reads_on(tmp_path: Path) -> None:
    command = [sys.executable, study.__file__, "--root", str(tmp_path), "--out", str(tmp_path)]
    reader = subprocess.Popen(
        [*command, "--list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert reader.stdout is not None
    reader.stdout.close()
    assert "Traceback" not in reader.communicate()[1]
    assert reader.returncode == 141


@pytest.mark.parametrize(
    ("code", "done", "status"), [(-9, True, 0), (-9, False, 1), (2, True, 0), (2, False, 2)]
)
def test_a_worker_that_was_killed_or_failed(
    code: int,
    done: bool,
    status: int,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What counts is whether its work is done, by whomever."""

    class Ended:
        exitcode = code

        def __init__(self, target: object, args: tuple) -> None:
            self.options = args[0]

        def start(self) -> None:
            if done:
                study.work(self.options)

        def join(self) -> None:
            pass

        def terminate(self) -> None:
            pass

    monkeypatch.setattr(
        study.multiprocessing, "get_context", lambda _: SimpleNamespace(Process=Ended)
    )
    monkeypatch.setattr(study.signal, "signal", lambda *_: None)
    assert start(root, tmp_path / "out", "--workers", "2") == status
    assert ("a worker was killed by signal 9" in capsys.readouterr().err) == (code < 0)


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
    # By either worker once, though there are three runs.
    assert missing.stderr.count("failed: DD-paper") == 2
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
    assert study.main(["--out", str(tmp_path), "--workers", "3"]) == 1  # they do nothing
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

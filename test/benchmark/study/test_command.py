"""The command `study.py`: its options, and its worker processes."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import study
from harness.store.allocator import KEEP_MEMORY
from harness.study import workers
from harness.study.store import Store
from harness.study.work import work
from helpers.tiny_study import TINY, start, stored


def test_lists_what_is_missing(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert start(tiny, out, "--list") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("2 runs, 0 of them there\n")
    assert f"{TINY.key}  (TINY-one: simpool)" in shown
    assert not stored(out)
    (out / f"{TINY.key}.json").write_text("{")
    assert start(tiny, out, "--list") == 0
    assert capsys.readouterr().out.startswith("2 runs, 0 of them there, 1 cannot be read\n")


def test_nothing_to_run_is_an_error(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start(tiny, tmp_path / "out", "--fold", "9") == 2
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
    tiny: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The status depends on whether all runs have been made, by any process."""

    class Ended:
        exitcode = code

        def __init__(self, target: object, args: tuple) -> None:
            self.options = args[0]

        def start(self) -> None:
            if done:
                work(self.options, Store(self.options.out))

        def join(self) -> None:
            pass

        def terminate(self) -> None:
            pass

    monkeypatch.setattr(
        workers.multiprocessing, "get_context", lambda _: SimpleNamespace(Process=Ended)
    )
    monkeypatch.setattr(workers.signal, "signal", lambda *_: None)
    assert start(tiny, tmp_path / "out", "--workers", "2") == status
    assert ("a worker was killed by signal 9" in capsys.readouterr().err) == (code < 0)


def test_workers(tmp_path: Path) -> None:
    """They fail without data, and report each data set once."""
    command = [sys.executable, study.__file__, "--root", str(tmp_path), "--out", str(tmp_path)]
    missing = subprocess.run(
        [*command, "--workers", "2", "--only", "DD-p", "--fold", "0"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"},
    )
    assert missing.returncode == 2
    # Once by each worker, although there are three runs.
    assert missing.stderr.count("failed: DD-paper") == 2
    assert "there are no raw files" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_workers_keep_their_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that are set already are kept, and the parent's environment is restored."""
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
        workers.multiprocessing, "get_context", lambda _: SimpleNamespace(Process=Process)
    )
    monkeypatch.setattr(workers.signal, "signal", lambda *_: None)
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

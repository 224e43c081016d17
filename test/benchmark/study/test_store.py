"""Processes share the folder of a study by locks."""

import errno
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import BenchmarkError
from harness.store.locks import fcntl, locked_data
from harness.study.store import LOCKS, Store
from helpers.tiny_study import TINY


def test_a_run_of_another_process_is_left_to_it(tmp_path: Path) -> None:
    """A lock is released when its process ends, even if it is killed."""
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
    with locked_data(tmp_path / "data"):
        pass
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "none"))
    with (
        pytest.raises(BenchmarkError, match=r"the lock of --root .*No such"),
        locked_data(tmp_path),
    ):
        pass

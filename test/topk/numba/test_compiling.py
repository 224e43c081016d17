"""One kernel at a time: the notice, the lock among processes, and forks."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numba
import pytest

import torch_geometric_simpool
from torch_geometric_simpool.topk.numba import compile as compiled
from torch_geometric_simpool.topk.numba import compiling

ROOT = Path(torch_geometric_simpool.__file__).parents[1]
fcntl = pytest.importorskip("fcntl", reason="there are no locks of files on this system")


class Slow:
    """Like a kernel that compiles for a while, with a cache in a folder."""

    def __init__(self, seconds: float, folder: Path | None = None) -> None:
        self.seconds = seconds
        self._cache = SimpleNamespace(cache_path=None if folder is None else str(folder))

    def compile(self, types_of_args: tuple) -> None:
        time.sleep(self.seconds)

    def __call__(self, *args: object) -> tuple:
        return args


@pytest.fixture(autouse=True)
def notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has been said, and no folder been used."""
    monkeypatch.setattr(compiling, "_notice", compiling.Notice())
    monkeypatch.setattr(compiling, "folders", set())
    monkeypatch.setattr(compiling, "PATIENCE", 0.05)


def test_says_once_where_the_cache_is(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    for _ in range(3):
        compiled.call(Slow(0.3, tmp_path), 1)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("torch_geometric_simpool: ")
    assert said.err.endswith(f"cached in {tmp_path}\n")
    assert compiling.folders == {tmp_path}


def test_says_how_to_get_a_cache(capsys: pytest.CaptureFixture) -> None:
    compiled.call(Slow(0.3), 1)
    said = capsys.readouterr().err
    assert "cannot be cached" in said
    assert "NUMBA_CACHE_DIR" in said
    assert compiling.folders == set()


def test_many_short_ones_take_long_as_well(capsys: pytest.CaptureFixture) -> None:
    for _ in range(20):
        compiled.call(Slow(0.02), 1)
    assert capsys.readouterr().err.count("\n") == 1


def test_says_nothing_otherwise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(compiling, "PATIENCE", 30.0)
    for _ in range(3):
        compiled.call(Slow(0.0), 1)
    time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_an_error_stops_the_notice_and_the_lock(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    class Broken(Slow):
        def compile(self, types_of_args: tuple) -> None:
            raise TypeError("no such type")

    broken = Broken(0.0, tmp_path)
    for _ in range(2):  # and it is tried again
        with pytest.raises(TypeError, match="no such type"):
            compiled.call(broken, 1)
    time.sleep(0.2)
    assert capsys.readouterr().err == ""
    assert is_free(tmp_path)


def is_free(folder: Path) -> bool:
    with open(folder / compiling.LOCK, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_others_wait_and_not_for_ever(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with compiling.locked(tmp_path):
        assert not is_free(tmp_path)
        monkeypatch.setattr(compiling, "LIMIT", 0.05)
        with compiling.locked(tmp_path):  # like another process
            pass
    assert is_free(tmp_path)
    with compiling.locked(tmp_path / "gone"):  # where no lock can be had
        pass


def test_a_process_that_dies_releases_its_lock(tmp_path: Path) -> None:
    program = f"""
import pathlib
from torch_geometric_simpool.topk.numba import compiling
with compiling.locked(pathlib.Path({str(tmp_path)!r})):
    print("locked", flush=True)
    input()
"""
    with started(program) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        assert not is_free(tmp_path)
        process.kill()
    assert is_free(tmp_path)


def started(program: str, **environment: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    )


def test_processes_that_start_at_once_compile_once(tmp_path: Path) -> None:
    # Slow, so that without a lock all would find that nothing is cached.
    program = """
import time
import numpy as np
from torch_geometric_simpool.topk.numba import csr
compiler = csr.add_count._compiler
at_once = compiler.compile
compiler.compile = lambda *args: (time.sleep(1), at_once(*args))[1]
print("ready", flush=True)
input()
csr.count(np.zeros(3, np.int64), 1)
print(sum(csr.add_count.stats.cache_misses.values()), flush=True)
"""
    processes = [started(program, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(3)]
    assert [p.stdout.readline() for p in processes if p.stdout] == 3 * ["ready\n"]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    found = [process.communicate(timeout=120)[0] for process in processes]
    assert sorted(found) == ["0\n", "0\n", "1\n"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_while_another_thread_compiles() -> None:
    """The child finds no lock that nobody releases, of this package or of Numba."""
    program = """
import os, signal, threading, time
from numba import njit
from torch_geometric_simpool.topk.numba.compile import call
from torch_geometric_simpool.topk.numba.compiling import _lock
compiling = threading.Event()
class Slow:
    def compile(self, types):
        compiling.set()
        time.sleep(1)
    def __call__(self): pass
thread = threading.Thread(target=call, args=(Slow(),))
thread.start()
compiling.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)  # it would wait for ever
    os._exit(call(njit(lambda: 7)))
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), call(njit(lambda: 8)))
"""
    with started(program) as process:
        assert process.communicate(timeout=120)[0] == "7 8\n"


def test_threads_compile_once() -> None:
    class Counted(Slow):
        times = 0

        def compile(self, types_of_args: tuple) -> None:
            super().compile(types_of_args)
            self.times += 1

    counted = Counted(0.1)
    pool = [threading.Thread(target=compiled.call, args=(counted, 1)) for _ in range(4)]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    assert counted.times == 1


def test_a_kernel_tells_where_its_cache_is() -> None:
    kept = compiled.kernel(test_threads_compile_once)
    folder = compiling.cache_folder(kept)
    assert folder is not None
    assert folder == Path(kept._cache.cache_path)
    assert compiling.cache_folder(numba.njit(lambda: 1)) is None

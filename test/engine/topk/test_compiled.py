"""How kernels are compiled: the notice, the cache, and a machine without a place for one."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numba
import numpy as np
import pytest

import torch_geometric_simpool
from torch_geometric_simpool.engine.topk import compiled


@compiled.kernel
def plus_one(value):
    return value + 1


class Slow:
    """Like a kernel that compiles for a while."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.compiled: list[tuple] = []

    def compile(self, types_of_args: tuple) -> None:
        self.compiled.append(types_of_args)
        time.sleep(self.seconds)

    def __call__(self, *args: object) -> tuple:
        return args


def test_a_call_compiles_once_for_each_type() -> None:
    function = Slow(0.0)
    array = np.zeros(3)
    assert compiled.call(function, array, 1) == (array, 1)
    compiled.call(function, np.ones(9), 7)
    assert function.compiled == [(numba.typeof(array), numba.typeof(1))]
    compiled.call(function, np.zeros(3, np.int32), 1)
    compiled.call(function, array[::2], 1)
    compiled.call(function, array, 1.0)
    compiled.call(function, array, True)
    assert len(function.compiled) == len(set(function.compiled)) == 5


def test_a_kernel_computes() -> None:
    assert compiled.call(plus_one, 2) == 3
    assert compiled.call(plus_one, 2.5) == 3.5


def test_a_kernel_lets_other_threads_run() -> None:
    assert plus_one.targetoptions["nogil"]


def test_says_that_it_compiles_if_that_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(compiled, "PATIENCE", 0.01)
    compiled.call(Slow(0.5), 1)
    said = capsys.readouterr()
    assert said.out == ""
    assert "compiling" in said.err
    assert "torch_geometric_simpool" in said.err
    assert said.err.count("\n") == 1


def test_says_nothing_otherwise(capsys: pytest.CaptureFixture) -> None:
    function = Slow(0.0)
    for _ in range(3):
        compiled.call(function, 1)
    time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_an_error_in_compiling_stops_the_notice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    class Broken(Slow):
        def compile(self, types_of_args: tuple) -> None:
            raise TypeError("no such type")

    monkeypatch.setattr(compiled, "PATIENCE", 0.05)
    broken = Broken(0.0)
    for _ in range(2):  # and it is tried again
        with pytest.raises(TypeError, match="no such type"):
            compiled.call(broken, 1)
    time.sleep(0.2)
    assert capsys.readouterr().err == ""


def test_without_a_place_for_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba raises; then there is no cache."""
    asked = []

    def njit(cache: bool = False, **options: object):
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(compiled.numba, "njit", njit)
    assert compiled.kernel(len) is len
    assert asked == [True, False]


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)
def test_in_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    source = Path(torch_geometric_simpool.__file__).parent
    copy = tmp_path / "torch_geometric_simpool"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    program = """
from torch_geometric_simpool.engine.topk.csr import offsets
import numpy as np
print(offsets(np.array([1, 2]), 0).tolist())
"""
    for folder in (copy / "engine", copy):
        folder.chmod(0o500)
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(tmp_path), "HOME": "/nonexistent"},
        )
    finally:
        for folder in (copy, copy / "engine" / "topk"):
            folder.chmod(0o700)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[0, 1, 3]"


def test_prefetching_changes_nothing() -> None:
    """Wherever it points to, also beyond the array."""

    @numba.njit
    def look(array):
        for place in (0, 2, 10**6, -5):
            compiled.prefetch(array, place)
        return array.sum()

    assert look(np.array([1.0, 2.0, 3.0])) == 6

"""How kernels are compiled: the notice, the cache, and a machine without a place for one."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import torch_geometric_simpool
from torch_geometric_simpool.engine import compile as compiled


@compiled.kernel
def plus_one(value: Any) -> Any:
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
    asked: list[bool] = []

    def njit(cache: bool = False, **options: object) -> Callable[[Callable], Callable]:
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(compiled.numba, "njit", njit)
    assert compiled.kernel(len) is len
    assert asked == [True, False]


def copy_of_the_package(folder: Path) -> Path:
    copy = folder / "torch_geometric_simpool"
    source = Path(torch_geometric_simpool.__file__).parent
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def run(program: str, folder: Path, **environment: str) -> str:
    """What a program prints that imports the package from a folder."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=folder,  # the first place where modules are looked for
        env={**os.environ, "PYTHONPATH": str(folder), **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_change_of_a_helper_in_another_file_is_noticed(tmp_path: Path) -> None:
    """Numba itself looks at the file of the kernel alone."""
    helper = copy_of_the_package(tmp_path) / "engine" / "topk" / "order.py"
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    program = """
from torch_geometric_simpool.engine.topk.heap import insert, new_candidates
best = new_candidates(2)
size = insert(best, 0, 2, 1.0, 5)
insert(best, size, 2, 1.0, 3)
print(best.ids.tolist(), sum(insert.stats.cache_hits.values()))
"""
    assert run(program, tmp_path, **cache) == "[3, 5] 0"
    assert run(program, tmp_path, **cache) == "[3, 5] 1"
    source = helper.read_text()
    assert source.count("j > other_j") == 1
    helper.write_text(source.replace("j > other_j", "j < other_j"))
    assert run(program, tmp_path, **cache) == "[5, 3] 0"
    assert run(program, tmp_path, **cache) == "[5, 3] 1"


def test_a_named_tuple_that_is_gone_does_not_break_the_cache(tmp_path: Path) -> None:
    """It is part of what the cache files hold: they must not be read if the sources differ."""
    module = copy_of_the_package(tmp_path) / "engine" / "topk" / "heap.py"
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    program = """
from torch_geometric_simpool.engine.topk.heap import new_candidates, sort_heap
sort_heap(new_candidates(2), 0)
print(sum(sort_heap.stats.cache_hits.values()))
"""
    assert [run(program, tmp_path, **cache) for _ in range(2)] == ["0", "1"]
    module.write_text(module.read_text().replace("Candidates", "Best"))
    assert run(program, tmp_path, **cache) == "0"


def test_without_the_private_attributes_numbas_own_rule_applies() -> None:
    @compiled.kernel
    def kept(value: Any) -> Any:
        return value

    assert kept._cache._cache_file._version.endswith(compiled._hash_of_sources())
    for other in (object(), None):
        compiled._invalidate_with_sources(other)


def test_without_the_private_option_functions_are_compiled_as_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    njit = numba.njit

    def strict(**options: Any) -> Callable[[Callable], Callable]:
        if "_nrt" in options:
            raise KeyError("unrecognized options")
        return njit(**options)

    monkeypatch.setattr(compiled.numba, "njit", strict)

    @compiled.allocation_free
    def twice(value: int) -> int:
        return 2 * value

    assert twice(21) == 42


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)
def test_in_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    copy = copy_of_the_package(tmp_path)
    program = """
from torch_geometric_simpool.engine.topk.csr import offsets
import numpy as np
print(offsets(np.array([1, 2]), 0).tolist())
"""
    folders = [copy / "engine" / "topk", copy]
    for folder in folders:
        folder.chmod(0o500)
    try:
        assert run(program, tmp_path, HOME="/nonexistent") == "[0, 1, 3]"
    finally:
        for folder in folders:
            folder.chmod(0o700)

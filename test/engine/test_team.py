"""Loops on the threads of PyTorch: every block once, on no thread that was not there before."""

import ctypes
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch

from torch_geometric_simpool.engine import team
from torch_geometric_simpool.engine.team import ids, numbers, rows, take

needs_openmp = pytest.mark.skipif(
    team.parallel() is None, reason="PyTorch has no OpenMP here that could be shared"
)


@pytest.fixture(autouse=True)
def compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba's cache would not notice that what the loop calls has changed."""
    team._compiled.cache_clear()
    monkeypatch.setattr(team, "cached", lambda compile_: compile_())


def _mark(data: Any) -> None:
    """Adds one to the rows of its blocks."""
    marks = ids(data, 0)
    start, end = take(data)
    while start >= 0:
        for row in range(start, end):
            marks[row] += 1
        start, end = take(data)


def _mark_twice(data: Any) -> None:
    """Adds two to the rows of its blocks."""
    marks = ids(data, 0)
    start, end = take(data)
    while start >= 0:
        for row in range(start, end):
            marks[row] += 2
        start, end = take(data)


def _copy(data: Any) -> None:
    """Copies an array to another by its shape, and its numbers to a third without it."""
    given, whole = rows(data, 0, np.float32), rows(data, 1, np.float32)
    flat, width, apart = numbers(data, 2, np.float32)
    start, end = take(data)
    while start >= 0:
        for row in range(start, end):
            for f in range(width):
                whole[row, f] = flat[row * apart + f] = given[row, f]
        start, end = take(data)


def marked(bounds: list[int], num_rows: int, dtype: torch.dtype = torch.float32) -> list[int]:
    marks = torch.zeros(num_rows, dtype=torch.long)
    loops = {torch.float32: _mark, torch.float64: _mark_twice}
    team.run(loops, (marks, torch.empty(1, 1, dtype=dtype)), np.array(bounds), work=5)
    return marks.tolist()


@pytest.fixture
def num_threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(torch, "get_num_threads", lambda: request.param)
    return request.param


@pytest.mark.parametrize("num_threads", [1, 3], indirect=True)
def test_arrays(num_threads: int) -> None:
    """Of rows next to each other, and apart."""
    given, whole, apart = torch.rand(10, 3), torch.zeros(10, 3), torch.zeros(10, 7)
    loops = {torch.float32: _copy}
    team.run(loops, (given, whole, apart[:, 2:5]), np.arange(11), work=1)
    assert torch.equal(whole, given)
    assert torch.equal(apart, torch.nn.functional.pad(given, (2, 2)))


@pytest.mark.parametrize("num_threads", [1, 2, 5], indirect=True)
@pytest.mark.parametrize(
    "bounds", [[0, 7], [0, 0, 3, 3, 7], list(range(101)), [0, *range(0, 2001, 4)]], ids=len
)
def test_every_block_once(bounds: list[int], num_threads: int) -> None:
    assert marked(bounds, bounds[-1]) == [1] * bounds[-1]


@pytest.mark.parametrize("num_threads", [1, 2, 5], indirect=True)
@pytest.mark.parametrize("work", ["some", "little"])
def test_on_threads_of_its_own(
    work: str, num_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where PyTorch has none to share; one is enough for little work."""
    used = []

    def pool(number: int, **settings: Any) -> ThreadPoolExecutor:
        used.append(number)
        return ThreadPoolExecutor(number, **settings)

    monkeypatch.setattr(team, "parallel", lambda: None)
    monkeypatch.setattr(team, "PER_THREAD", 10 if work == "little" else 1)
    monkeypatch.setattr(team, "ThreadPoolExecutor", pool)
    assert marked(list(range(101)), 100, torch.float64) == [2] * 100
    assert used == ([num_threads] if num_threads > 1 and work == "some" else [])


def test_no_block_is_taken_twice() -> None:
    """By threads at the same moment, which hardly ever comes: so it is read off the code."""
    marked([0, 1], 1)
    assert "atomicrmw add" in team._compiled(_mark).inspect_llvm()


@pytest.mark.parametrize("num_threads", [2], indirect=True)
def test_nothing_to_do(num_threads: int) -> None:
    assert marked([0], 3) == [0, 0, 0]


@needs_openmp
def test_a_call_ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that Ctrl-C is heard: it has a few blocks for each thread."""
    ends = []

    def parallel(function: int, data: int, num_threads: int, flags: int) -> None:
        assert num_threads == 2
        ends.append(tuple(ctypes.cast(data, ctypes.POINTER(ctypes.c_int64))[:2]))

    monkeypatch.setattr(team, "parallel", lambda: parallel)
    monkeypatch.setattr(team, "BLOCKS", 2)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    marked(list(range(12)), 11)
    assert ends == [(0, 4), (4, 8), (8, 11)]


@needs_openmp
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="no /proc to count threads in")
def test_no_threads_but_those_of_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    # The thread that would say that compiling takes long has gone before others are counted.
    monkeypatch.setattr(team, "noticed", nullcontext)
    try:
        torch.set_num_threads(4)
        torch.ones(1 << 20).exp()  # has them started
        there = set(os.listdir("/proc/self/task"))
        assert marked(list(range(1001)), 1000) == [1] * 1000
        assert set(os.listdir("/proc/self/task")) <= there
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("lack", ["platform", "backend", "symbol", "library"])
def test_where_there_is_none(lack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if lack == "platform":
        monkeypatch.setattr(sys, "platform", "darwin")
    elif lack == "backend":
        monkeypatch.setattr(torch.__config__, "parallel_info", lambda: "parallel backend: native")
    elif lack == "symbol":
        monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    else:
        monkeypatch.setattr(ctypes, "CDLL", lambda name: (_ for _ in ()).throw(OSError(name)))
    assert team.parallel.__wrapped__() is None

"""Loops on the threads of PyTorch: every block once, on no thread that was not there before."""

import ctypes
import os
import sys
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from numba import carray

from graphs import draw
from torch_geometric_simpool.cpu import edges, team
from torch_geometric_simpool.cpu.team import pointer, take

needs_openmp = pytest.mark.skipif(
    team.parallel() is None, reason="PyTorch has no OpenMP here that could be shared"
)


@pytest.fixture(autouse=True)
def compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba's cache would not notice that `take` has changed."""
    team._compiled.cache_clear()
    monkeypatch.setattr(team, "cached", lambda compile_: compile_())


def _mark(data: Any) -> None:
    """Adds one to the rows of its blocks."""
    head = carray(data, 5)
    marks = carray(pointer(head[3]), head[2], np.int64)
    bounds = carray(pointer(head[4]), head[1] + 1, np.int64)
    block = take(data)
    while block < head[1]:
        for row in range(bounds[block], bounds[block + 1]):
            marks[row] += 1
        block = take(data)


def marked(bounds: list[int], num_rows: int, num_threads: int) -> list[int]:
    marks = np.zeros(num_rows, np.int64)
    team.run(_mark, (num_rows,), (marks,), np.array(bounds), num_threads)
    return marks.tolist()


@needs_openmp
@pytest.mark.parametrize("num_threads", [1, 2, 5])
@pytest.mark.parametrize(
    "bounds", [[0, 7], [0, 0, 3, 3, 7], list(range(101)), [0, *range(0, 2001, 4)]], ids=len
)
def test_every_block_once(bounds: list[int], num_threads: int) -> None:
    assert marked(bounds, bounds[-1], num_threads) == [1] * bounds[-1]


@needs_openmp
def test_nothing_to_do() -> None:
    assert marked([0], 3, 2) == [0, 0, 0]


@needs_openmp
def test_a_call_ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that Ctrl-C is heard: it has a few blocks for each thread."""
    ends = []

    def parallel(function: int, data: int, num_threads: int, flags: int) -> None:
        ends.append(tuple(ctypes.cast(data, ctypes.POINTER(ctypes.c_int64))[:2]))

    monkeypatch.setattr(team, "parallel", lambda: parallel)
    monkeypatch.setattr(team, "BLOCKS", 2)
    marked(list(range(12)), 11, 2)
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
        assert marked(list(range(1001)), 1000, 4) == [1] * 1000
        assert set(os.listdir("/proc/self/task")) <= there
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("lack", ["platform", "backend", "symbol", "library"])
def test_where_there_is_none(lack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The edge step then takes threads of its own, or one, with the same result."""
    if lack == "platform":
        monkeypatch.setattr(sys, "platform", "darwin")
    elif lack == "backend":
        monkeypatch.setattr(torch.__config__, "parallel_info", lambda: "parallel backend: native")
    elif lack == "symbol":
        monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    else:
        monkeypatch.setattr(ctypes, "CDLL", lambda name: (_ for _ in ()).throw(OSError(name)))
    missing = team.parallel.__wrapped__()
    assert missing is None

    graph = draw("directed", 0)
    source, target = graph.edge_index
    rows = torch.randn(graph.num_nodes, 5), torch.randn(graph.num_nodes, 5)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    lists = edges.lists(target, graph.num_nodes)
    expected = edges.add_relu(*rows, source, lists)
    monkeypatch.setattr(team, "parallel", lambda: None)
    assert torch.equal(edges.add_relu(*rows, source, lists), expected)

"""Blocks of rows on threads: equal results for all numbers of threads, and errors."""

import _thread
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch

from helpers.graphs import draw_all, union
from torch_geometric_simpool import topk_similarity
from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.numba import backend as numba_backend
from torch_geometric_simpool.topk.numba import threads
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings


@pytest.fixture(autouse=True)
def _threads_of_torch() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "SMALLEST", 40)
    monkeypatch.setattr(threads, "BLOCK", 2_000)


# ------------------------------------------------------------------ blocks


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize("num_threads", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "work", [[], [0], [10**9], [0] * 1000, [1, 5000, 0, 0, 70, 10**12], list(range(300))]
)
def test_blocks_hold_every_row_once(work: list[int], num_threads: int) -> None:
    torch.set_num_threads(num_threads)
    ranges = threads.blocks(np.array(work, np.int64))
    assert [i for start, end in ranges for i in range(start, end)] == list(range(len(work)))
    for start, end in ranges:
        cost = sum(work[start:end]) + threads.ROW * (end - start)
        assert cost <= threads.BLOCK or end == start + 1


@pytest.mark.usefixtures("_small_blocks")
def test_blocks_balance_work_and_not_rows() -> None:
    work = np.array([1000] * 10 + [0] * 300, np.int64)
    torch.set_num_threads(2)
    ranges = threads.blocks(work)
    sizes = [int(work[start:end].sum()) + threads.ROW * (end - start) for start, end in ranges]
    assert len(ranges) >= 8
    assert max(sizes) <= 2 * min(sizes[:-1]) + 1000 + threads.ROW


def test_little_work_is_one_block() -> None:
    torch.set_num_threads(8)
    assert threads.blocks(np.ones(50, np.int64)) == [(0, 50)]


def test_blocks_of_more_work_than_32_bits_count() -> None:
    work = np.full(50, 2**40, np.int64)
    torch.set_num_threads(2)
    assert threads.blocks(work) == [(i, i + 1) for i in range(50)]


# ------------------------------------------------------------------ running


@pytest.mark.parametrize("num_threads", [1, 2, 3, 50])
def test_every_range_runs_once(num_threads: int) -> None:
    """Every range runs once, and each thread has its own scratch memory."""
    ranges = [(i, i + 2) for i in range(0, 40, 2)]
    seen: list[tuple[int, int, int, int]] = []

    def work(start: int, end: int, own: list) -> None:
        seen.append((start, end, id(own), threading.get_ident()))

    alive: list[list] = []

    def scratch() -> tuple[list]:
        alive.append([])
        return (alive[-1],)

    torch.set_num_threads(num_threads)
    threads.run(work, ranges, new_scratch=scratch)
    assert sorted(entry[:2] for entry in seen) == ranges
    assert 1 <= len(alive) <= min(num_threads, len(ranges))
    owners = {own: {thread for *_, other, thread in seen if other == own} for *_, own, _ in seen}
    assert all(len(owner) == 1 for owner in owners.values())


def test_nothing_to_run() -> None:
    threads.run(lambda *_: pytest.fail("ran"), [], new_scratch=lambda: pytest.fail("made one"))


def test_arguments_and_scratch_come_after_the_range() -> None:
    calls: list[tuple] = []
    threads.run(lambda *all_: calls.append(all_), [(2, 5)], "a", "b", new_scratch=lambda: (7, 8))
    assert calls == [(2, 5, "a", "b", 7, 8)]


class BlockError(Exception):
    pass


@pytest.mark.parametrize("num_threads", [1, 2, 3])
def test_an_error_in_a_block_comes_through_and_stops_the_others(num_threads: int) -> None:
    torch.set_num_threads(num_threads)
    done: list[int] = []
    failed = threading.Event()

    def work(start: int, end: int) -> None:
        if start == 5:
            failed.set()
            raise BlockError("five")
        if start > 5:
            failed.wait()
            threading.Event().wait(0.01)  # gives other threads time to see the error
        done.append(start)

    with pytest.raises(BlockError, match="five"):
        threads.run(work, [(i, i + 1) for i in range(2000)])
    assert len(done) < 1000
    assert threading.active_count() < 20


@pytest.mark.parametrize("num_threads", [2, 3])
def test_an_error_in_making_a_scratch_comes_through(num_threads: int) -> None:
    def scratch() -> tuple:
        raise MemoryError("no scratch")

    torch.set_num_threads(num_threads)
    with pytest.raises(MemoryError, match="no scratch"):
        threads.run(lambda *_: None, [(0, 1), (1, 2), (2, 3)], new_scratch=scratch)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("num_threads", [1, 2, 3])
def test_an_interrupt_ends_the_run(num_threads: int) -> None:
    """The interrupt is raised in the main thread while other threads work."""
    main = threading.main_thread().ident
    assert main is not None
    torch.set_num_threads(num_threads)
    done: list[int] = []

    def work(start: int, end: int) -> None:
        if start == 3:
            signal.pthread_kill(main, signal.SIGINT)
        threading.Event().wait(0.005)
        done.append(start)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            threads.run(work, [(i, i + 1) for i in range(4000)])
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(done) < 3000


def test_an_interrupt_while_threads_are_started_ends_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first helper already works when the interrupt is raised."""
    started: list[int] = []
    start = _thread.start_new_thread

    def interrupted(work: Callable[[], None], args: tuple[()]) -> None:
        if started:
            raise KeyboardInterrupt
        started.append(start(work, args))

    monkeypatch.setattr(_thread, "start_new_thread", interrupted)
    torch.set_num_threads(3)
    done: list[int] = []

    def work(start: int, end: int) -> None:
        threading.Event().wait(0.005)
        done.append(start)

    with pytest.raises(KeyboardInterrupt):
        threads.run(work, [(i, i + 1) for i in range(400)])
    assert len(done) < 300


def test_an_interrupt_at_any_moment_ends_the_run() -> None:
    """An interrupt may be raised in Python's library, where a lock could stay locked.

    Python raises it at the start of a function, or after a call of a C function.
    """
    torch.set_num_threads(3)
    ran: list[int] = []
    outcome: list[str] = []

    def interrupted_at(number: int) -> str:
        """Raises at one of the moments."""
        left = number

        def count(frame: FrameType, event: str, _: Any) -> None:
            nonlocal left
            left -= event in ("call", "c_return")
            if left < 0:
                raise KeyboardInterrupt

        sys.setprofile(count)
        try:
            threads.run(lambda start, *_: ran.append(start), [(i, i + 1) for i in range(9)])
            return "done"
        except KeyboardInterrupt:
            return "interrupted"
        finally:
            sys.setprofile(None)

    for number in range(400):
        caller = threading.Thread(
            target=lambda number=number: outcome.append(interrupted_at(number)), daemon=True
        )
        caller.start()
        caller.join(timeout=30)
        assert not caller.is_alive(), f"it hangs, interrupted at moment {number}"
        ran.clear()
        threads.run(lambda start, *_: ran.append(start), [(i, i + 1) for i in range(9)])
        assert sorted(ran) == list(range(9))
    assert set(outcome) == {"interrupted", "done"}


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_long_call_can_be_interrupted() -> None:
    """The call on a complete graph with weights would take minutes."""
    program = """
import signal, torch
from torch_geometric_simpool import topk_similarity
signal.signal(signal.SIGALRM, signal.default_int_handler)
edge_index = torch.ones(2500, 2500).nonzero().t()
weight = torch.rand(edge_index.size(1))
topk_similarity(edge_index[:, :10], 3, weight[:10])
for num_threads in (1, 2):
    torch.set_num_threads(num_threads)
    signal.setitimer(signal.ITIMER_REAL, 1.5)
    try:
        topk_similarity(edge_index, 3, weight)
    except KeyboardInterrupt:
        print("interrupted")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=150
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["interrupted"] * 2


# ------------------------------------------------------------------ results


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("p", [1, 2])
def test_the_same_bits_for_any_number_of_threads(p: int, weighted: bool) -> None:
    graph, _ = union(draw_all(1) + draw_all(2))
    edge_index = graph.edge_index
    weight = graph.edge_weight() if weighted else None
    if not weighted:
        edge_index = edge_index.unique(dim=1)  # so that all weights are ones
    for lam in (0.0, 0.3 if weighted else 1.0):
        results = []
        for num_threads in (1, 2, 3, 5):
            torch.set_num_threads(num_threads)
            settings, forced = TopKSettings(p, lam), Budget(None, force=True)
            edges = EdgeList(edge_index, weight, graph.num_nodes, None)
            description = numba_backend.prepare(edges, settings, forced).description
            work = numba_backend.rows_of(description, None).work
            assert len(threads.blocks(work)) > 2
            results.append(
                topk_similarity(
                    edge_index, 5, weight, graph.num_nodes, p=p, lam=lam, backend="numba"
                )
            )
        results.append(
            topk_similarity(edge_index, 5, weight, graph.num_nodes, p=p, lam=lam, backend="torch")
        )
        for values, index in results[1:-1]:
            assert torch.equal(values, results[0][0])
            assert torch.equal(index, results[0][1])
        torch.testing.assert_close(results[0][0], results[-1][0], rtol=0, atol=1e-12)
        assert torch.equal(results[0][1], results[-1][1])

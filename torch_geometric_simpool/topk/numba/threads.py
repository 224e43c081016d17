"""Blocks of rows on threads: balanced by work, and interruptible."""

import _thread
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

#: The products in a block, unless one row alone has more. An interrupt (Ctrl-C) is handled
#: between blocks, so a block must take a fraction of a second.
BLOCK = 10_000_000

#: Less work than this is not worth a thread of its own.
SMALLEST = 25_000

#: The cost of a row, in products, apart from its own products.
ROW = 256


def blocks(work: np.ndarray, num_threads: int) -> Iterator[tuple[int, int]]:
    """Yields ranges of rows with about the same work each, enough for all threads."""
    num_rows = work.size
    if num_rows == 0:
        return
    before = np.zeros(num_rows + 1, np.int64)
    np.cumsum(work + ROW, out=before[1:])
    size = min(BLOCK, int(before[-1]) // (4 * num_threads)) if num_threads > 1 else BLOCK
    size = max(size, SMALLEST)
    start = 0
    while start < num_rows:
        end = int(np.searchsorted(before, before[start] + size, side="right")) - 1
        end = min(max(end, start + 1), num_rows)
        yield start, end
        start = end


def run(
    function: Callable[..., None],
    ranges: list[tuple[int, int]],
    num_threads: int,
    new_scratch: Callable[[], Any] = lambda: None,
) -> None:
    """Calls `function(start, end, scratch)` for every range, with one scratch for each thread.

    The calling thread takes ranges too. An error or an interrupt stops all threads at the end of
    their ranges.
    """
    remaining = iter(ranges)  # threads may share it: the GIL makes its steps atomic
    working: list[None] = []  # an entry for each other thread that works
    errors: list[BaseException] = []
    wake: SimpleQueue[None] = SimpleQueue()
    stopped = not ranges  # then no scratch is made

    def work() -> None:
        scratch = None if stopped else new_scratch()
        for start, end in remaining:
            if stopped or errors:
                break
            function(start, end, scratch)

    def help_working() -> None:
        working.append(None)
        try:
            work()
        except BaseException as error:
            errors.append(error)
        working.pop()
        wake.put(None)

    def wait() -> None:
        while working:
            # Without a timeout, Ctrl-C would not interrupt this on every platform.
            with suppress(Empty):
                wake.get(timeout=0.2)

    # Not a ThreadPoolExecutor, nor `threading.Thread`: where Ctrl-C comes while the calling thread
    # has a lock of their conditions, it is never released, and a thread waits for it forever.
    try:
        for _ in range(min(num_threads, len(ranges)) - 1):
            _thread.start_new_thread(help_working, ())
        work()
        wait()
    finally:
        stopped = True
        wait()
    if errors:
        raise errors[0]

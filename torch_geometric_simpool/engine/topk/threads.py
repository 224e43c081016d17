"""Blocks of rows on threads: balanced by work, and interruptible."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

#: A block has so many products at most, unless one row alone has more: Ctrl-C is heard
#: between blocks, so a block takes a fraction of a second.
BLOCK = 10_000_000

#: Less than this is not worth a thread of its own.
SMALLEST = 1_000_000

#: A row costs about as much as so many products, apart from those it has.
ROW = 32


def blocks(work: np.ndarray, num_threads: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows with about the same work each, enough for all threads."""
    num_rows = work.size
    if num_rows == 0:
        return
    before = np.zeros(num_rows + 1, np.int64)
    np.cumsum(work + ROW, out=before[1:])
    size = min(BLOCK, int(before[-1]) // (8 * num_threads)) if num_threads > 1 else BLOCK
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
    scratch: Callable[[], Any],
) -> None:
    """Calls `function(start, end, scratch)` for every range, each thread with its own scratch.

    An error or an interrupt stops all threads at the end of their blocks.
    """
    num_threads = min(num_threads, len(ranges))
    if num_threads <= 1:
        own = scratch() if ranges else None
        for start, end in ranges:
            function(start, end, own)
        return

    todo = iter(ranges)
    lock = threading.Lock()
    stop = threading.Event()

    def work() -> None:
        own = scratch()
        while not stop.is_set():
            with lock:
                following = next(todo, None)
            if following is None:
                return
            function(*following, own)

    with ThreadPoolExecutor(num_threads, thread_name_prefix="simpool") as pool:
        try:
            pending = {pool.submit(work) for _ in range(num_threads)}
            while pending:
                # A wait without an end would not hear Ctrl-C on every platform.
                done, pending = wait(pending, timeout=0.2, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
        finally:
            stop.set()

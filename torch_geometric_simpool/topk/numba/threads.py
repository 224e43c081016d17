"""Ranges of rows on threads: balanced by work, and interruptible.

The number of threads is :func:`torch.get_num_threads`.
"""

import _thread
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
import torch

from torch_geometric_simpool.topk.budget import row_ranges

#: The products in a block, unless one row alone has more. An interrupt (Ctrl-C) is handled
#: between blocks, so a block must take a fraction of a second.
BLOCK = 10_000_000

#: Less work than this is not worth a thread of its own.
SMALLEST = 200_000

#: The cost of a row, in products, apart from its own products.
ROW = 256


def blocks(work: np.ndarray) -> list[tuple[int, int]]:
    """Returns ranges of rows with about the same work, a few for each of several threads."""
    ptr = np.concatenate([[0], np.cumsum(work + ROW)])
    num_threads = torch.get_num_threads()
    share = int(ptr[-1]) // (4 * num_threads) if num_threads > 1 else BLOCK
    return row_ranges(ptr, max(min(BLOCK, share), SMALLEST))


def shares(ptr: np.ndarray, max_ranges: int = sys.maxsize) -> list[tuple[int, int]]:
    """Returns a range of rows for each thread, `max_ranges` at most, some of them empty.

    Ranges have about the same number of entries, unless a row has more.

    Row `i` has the entries from `ptr[i]` to `ptr[i + 1]`.
    """
    starts = ptr.searchsorted([start for start, _ in equal_shares(int(ptr[-1]), max_ranges)])
    return list(pairwise([*starts.tolist(), ptr.size - 1]))


def equal_shares(size: int, max_ranges: int = sys.maxsize) -> list[tuple[int, int]]:
    """Returns ranges of equal length: one for each thread, fewer if there is little work."""
    num_threads = min(torch.get_num_threads(), 1 + size // SMALLEST, max_ranges)
    return list(pairwise(size * t // num_threads for t in range(num_threads + 1)))


def run(
    function: Callable[..., None],
    ranges: list[tuple[int, int]],
    *arguments: Any,
    new_scratch: Callable[[], tuple] = tuple,
) -> None:
    """Calls `function(start, end, *arguments, *scratch)` for every range.

    Each thread makes a scratch of its own. The calling thread takes ranges too. An error or an
    interrupt stops all threads at the end of their ranges.
    """
    if len(ranges) == 1:
        return function(*ranges[0], *arguments, *new_scratch())
    remaining = iter(ranges)  # threads may share it: the GIL makes its steps atomic
    working: list[None] = []  # an entry for each other thread that works
    errors: list[BaseException] = []
    wake: SimpleQueue[None] = SimpleQueue()
    stopped = not ranges  # then no scratch is made

    def work() -> None:
        scratch = () if stopped else new_scratch()
        for start, end in remaining:
            if stopped or errors:
                break
            function(start, end, *arguments, *scratch)

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
        for _ in range(min(torch.get_num_threads(), len(ranges)) - 1):
            _thread.start_new_thread(help_working, ())
        work()
        wait()
    finally:
        stopped = True
        wait()
    if errors:
        raise errors[0]

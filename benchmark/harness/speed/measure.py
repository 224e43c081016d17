"""Measures time and memory of functions in turns."""

import ctypes
import resource
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Optional

import pandas as pd
import psutil
import torch

#: The seconds of a turn. A shorter call is repeated, because threads of the package that was
#: measured before it keep a core busy for some milliseconds.
TURN = 0.2


def in_turns(
    calls: Mapping[str, Callable[[], Any]], seconds: float, device: str = "cpu"
) -> pd.DataFrame:
    """Measures calls in turns, so that a slow minute of the machine affects all of them.

    Args:
        calls (Mapping): The functions by name. A first call, which may compile, is not measured.
            A turn repeats a call that takes less than :obj:`TURN` seconds.
        seconds (float): No round starts after this time, but there are at least three rounds.
        device (str): The device, which is synchronized after each call.

    Returns:
        A row for each function: the median, the smallest and the largest number of seconds, the
        median of the CPU seconds of all threads, and the number of rounds. CPU seconds tell more on
        a busy machine. `peak` is the memory of a call with its result in bytes, or `None`.
    """
    for call in calls.values():
        call()
    peaks = {name: _peak(call, device) for name, call in calls.items()}
    times: list[tuple[str, float, float]] = []
    rounds, end = 0, time.monotonic() + seconds
    while rounds < 3 or time.monotonic() < end:
        rounds += 1
        for name, call in calls.items():
            turn_end = time.perf_counter() + TURN
            while (start := time.perf_counter()) < turn_end:
                busy = time.process_time()
                call()
                if device.startswith("cuda"):
                    torch.cuda.synchronize()
                times.append((name, time.perf_counter() - start, time.process_time() - busy))
    groups = pd.DataFrame(times, columns=["method", "seconds", "cpu_seconds"]).groupby(
        "method", sort=False
    )
    return groups.median().assign(
        fastest=groups.seconds.min(),
        slowest=groups.seconds.max(),
        rounds=rounds,
        peak=pd.Series(peaks),
    )


def _peak(call: Callable[[], Any], device: str) -> Optional[int]:
    """Returns the bytes that a call adds to the memory of the process at its peak."""
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        return torch.cuda.max_memory_allocated() - before
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)  # reused freed memory would not be counted
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    except OSError:
        return None
    before = psutil.Process().memory_info().rss
    call()
    return max(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 0)

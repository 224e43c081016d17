"""Time and memory of functions, which are called in turns."""

import ctypes
import resource
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, Optional

import psutil
import torch


class Measurement(NamedTuple):
    """The median and the range of the seconds of a call, and the memory that it needs."""

    seconds: float
    fastest: float
    slowest: float
    #: The median of the CPU seconds of all threads, which tell more on a busy machine.
    cpu_seconds: float
    rounds: int
    #: Bytes beyond those before the call, result included; `None` if they cannot be measured.
    peak: Optional[int]
    #: The quality of the result, where methods differ in it.
    quality: str = ""

    def __str__(self) -> str:
        peak = "" if self.peak is None else f", peak {self.peak / 2**20:.0f} MiB"
        span = f"{self.fastest:.4g} to {self.slowest:.4g}"
        return f"{self.quality}{self.seconds:.4g} s ({span}), CPU {self.cpu_seconds:.4g} s{peak}"


def in_turns(
    calls: Mapping[str, Callable[[], Any]], seconds: float, device: str = "cpu"
) -> dict[str, Measurement]:
    """Measures calls in turns, so that a slow minute of the machine affects all of them.

    Args:
        calls (Mapping): The functions by name. Each is called once before, to compile.
        seconds (float): The time after which no further round is started. Three rounds are the
            least.
        device (str): The device, which is synchronized after each call.
    """
    for call in calls.values():
        call()
    peaks = {name: _peak(call, device) for name, call in calls.items()}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    end, rounds = time.monotonic() + seconds, 0
    while rounds < 3 or (time.monotonic() < end and rounds < 50):
        for name, call in calls.items():
            start, busy = time.perf_counter(), time.process_time()
            call()
            if device.startswith("cuda"):
                torch.cuda.synchronize()
            times[name].append((time.perf_counter() - start, time.process_time() - busy))
        rounds += 1
    measured = {}
    for name, pairs in times.items():
        wall, cpu = zip(*pairs)
        measured[name] = Measurement(
            median(wall), min(wall), max(wall), median(cpu), rounds, peaks[name]
        )
    return measured


def _peak(call: Callable[[], Any], device: str) -> Optional[int]:
    """Returns the bytes that a call needs beyond those before it."""
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        return torch.cuda.max_memory_allocated() - before
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)  # else memory that was freed is used again
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    except OSError:
        return None
    before = psutil.Process().memory_info().rss
    call()
    return max(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 0)

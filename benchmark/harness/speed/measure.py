"""Time and memory of functions, which are called in turns."""

import ctypes
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, Optional

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

    def __str__(self) -> str:
        peak = "" if self.peak is None else f", peak {self.peak / 2**20:.0f} MiB"
        span = f"{self.fastest:.4g} to {self.slowest:.4g}"
        return f"{self.seconds:.4g} s ({span}), CPU {self.cpu_seconds:.4g} s{peak}"


def in_turns(
    calls: Mapping[str, Callable[[], Any]], seconds: float, device: str = "cpu", least: int = 3
) -> dict[str, Measurement]:
    """Measures calls in turns, so that a slow minute of the machine affects all of them.

    Args:
        calls (Mapping): The functions by name. Each is called once before, to compile.
        seconds (float): The time after which no further round is started.
        device (str): The device, which is synchronized after each call.
        least (int): The least number of rounds.
    """
    for call in calls.values():
        call()
    peaks = {name: _peak(call, device) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    busy: dict[str, list[float]] = {name: [] for name in calls}
    end, rounds = time.monotonic() + seconds, 0
    while rounds < least or (time.monotonic() < end and rounds < 50):
        for name, call in calls.items():
            start, before = time.perf_counter(), time.process_time()
            call()
            _synchronize(device)
            times[name].append(time.perf_counter() - start)
            busy[name].append(time.process_time() - before)
        rounds += 1
    return {
        name: Measurement(median(t), min(t), max(t), median(busy[name]), len(t), peaks[name])
        for name, t in times.items()
    }


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
    before = _status("VmRSS")
    call()
    return max(_status("VmHWM") - before, 0)


def _status(field: str) -> int:
    """Returns a field of the status of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def _synchronize(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()

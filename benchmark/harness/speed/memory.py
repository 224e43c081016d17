"""The memory of the process that calls it."""

from pathlib import Path

from harness.errors import BenchmarkError


def reset_peak() -> int:
    """Resets the peak of the resident memory; returns the resident memory."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError as error:
        raise BenchmarkError(f"peak memory cannot be measured on this system: {error}") from error
    return memory_of_process("VmRSS")


def memory_of_process(field: str) -> int:
    """A field of the status of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise BenchmarkError(f"/proc/self/status has no {field}")

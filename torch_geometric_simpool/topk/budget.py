"""What a top k may cost: its memory and its number of products."""

import os
from pathlib import Path
from typing import NamedTuple, Optional, Union

import torch

#: More products take the better part of an hour on a few cores. They are refused unless forced.
MAX_PRODUCTS = 10**12

#: The share of the free memory that may be used if no budget is given.
SHARE = 0.5

#: Up to this many bytes, the system is not asked for the free memory: that takes longer than
#: the top k of a small graph.
ALWAYS_FREE = 2**28


class TooExpensiveError(ValueError):
    """A top k that is refused unless forced. Smaller parts of the job may be accepted."""


class Budget(NamedTuple):
    """The arguments `memory_budget` and `force` of a top k."""

    memory: Optional[int]
    force: bool

    def check_memory(self, needed: int, device: Union[str, torch.device] = "cpu") -> None:
        """Raises if so many bytes may not be used."""
        allowed = None if self.force else exceeds_memory(needed, self.memory, device)
        if allowed is not None:
            share = " (half of what is free)" if self.memory is None else ""
            raise TooExpensiveError(
                f"`memory_budget` must be at least {format_bytes(needed)} for this top k, got "
                f"{format_bytes(allowed)}{share}: raise it, lower `p`, leave hubs out with "
                "`max_degree`, or set `force=True`"
            )

    def check_output(self, size: int, device: torch.device) -> None:
        """Raises if a result of so many bytes cannot be allocated."""
        if not self.force and exceeds_output(size, device):
            raise TooExpensiveError(
                "`k` must be such that the result fits into memory, got a result of "
                f"{format_bytes(size)} where {format_bytes(free_memory(device))} are free: lower "
                "`k`, or set `force=True`"
            )

    def check_products(self, products: int) -> None:
        """Raises if so many products would take more than an hour or so."""
        if products > MAX_PRODUCTS and not self.force:
            raise TooExpensiveError(
                f"the graph must need at most {MAX_PRODUCTS:.0e} products for this top k, got "
                f"{products:.1e}: leave hubs out with `max_degree`, lower `p`, or set `force=True`"
            )


def exceeds_memory(
    needed: int, budget: Optional[int], device: Union[str, torch.device]
) -> Optional[int]:
    """The bytes that may be used if that is less than needed, else `None`."""
    if budget is None:
        if needed < ALWAYS_FREE:
            return None
        budget = int(free_memory(device) * SHARE)
    return budget if needed > budget else None


def exceeds_output(size: int, device: torch.device) -> bool:
    """Whether a result of so many bytes cannot be allocated."""
    return size >= ALWAYS_FREE and size > free_memory(device)


def free_memory(device: Union[str, torch.device]) -> int:
    """The free bytes of a device, as far as the system tells."""
    device = torch.device(device)
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    free = [size for size in (_free_of_machine(), _free_of_container()) if size is not None]
    return min(free, default=2 * 2**30)


def _free_of_machine() -> Optional[int]:
    """What could be allocated without swapping."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None  # Windows, macOS


def _free_of_container() -> Optional[int]:
    """What is left of the limit of a control group, if there is one."""
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        try:
            return max(int(Path(limit).read_text()) - int(Path(used).read_text()), 0)
        except (OSError, ValueError):
            continue  # no such group, or no limit ("max")
    return None


def format_bytes(size: int) -> str:
    """A size in the largest unit that is not larger: `'1.5 MiB'`."""
    for unit, exponent in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << exponent:
            return f"{size / (1 << exponent):.1f} {unit}"
    return f"{size} bytes"

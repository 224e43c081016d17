"""What a top k may cost: the memory at hand, and how much work is too much."""

import os
from pathlib import Path
from typing import Optional, Union

import torch

#: More products than this take the better part of an hour on a few cores; they are refused
#: unless forced.
MAX_PRODUCTS = 10**12

#: The share of the free memory that is used where no budget is given.
SHARE = 0.5

#: Up to so many bytes, the system is not asked what is free: that takes longer than the top k
#: of a small graph.
ALWAYS_THERE = 2**28


class TooExpensiveError(ValueError):
    """A top k that is refused unless forced: smaller parts of the job may be accepted."""


def exceeds_memory(
    needed: int, budget: Optional[int], device: Union[str, torch.device]
) -> Optional[int]:
    """The bytes that may be used, if that is less than needed: the budget, or a share."""
    if budget is None:
        if needed < ALWAYS_THERE:
            return None
        budget = int(free_memory(device) * SHARE)
    return budget if needed > budget else None


def free_memory(device: Union[str, torch.device]) -> int:
    """Bytes that are free on the device, as far as the system tells."""
    device = torch.device(device)
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    free = [size for size in (_free_of_machine(), _free_of_container()) if size is not None]
    return min(free, default=2 * 2**30)


def _free_of_machine() -> Optional[int]:
    """What the kernel says could be allocated without swapping."""
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


def check_memory(
    needed: int, budget: Optional[int], force: bool, device: Union[str, torch.device] = "cpu"
) -> None:
    """Refuses what does not fit, before it is allocated."""
    allowed = None if force else exceeds_memory(needed, budget, device)
    if allowed is not None:
        raise TooExpensiveError(
            f"`memory_budget` must be at least {_bytes(needed)} for this top k, got "
            f"{_bytes(allowed)}{' (half of what is free)' if budget is None else ''}: raise it, "
            "lower `p`, leave hubs out with `max_degree`, or set `force=True`"
        )


def check_output(size: int, device: torch.device, force: bool) -> None:
    """Refuses a result that cannot be allocated."""
    if not force and exceeds_output(size, device):
        raise TooExpensiveError(
            f"`k` must be such that the result fits into memory, got a result of {_bytes(size)} "
            f"where {_bytes(free_memory(device))} are free: lower `k`, or set `force=True`"
        )


def exceeds_output(size: int, device: torch.device) -> bool:
    """Whether a result of so many bytes cannot be allocated."""
    return size >= ALWAYS_THERE and size > free_memory(device)


def check_products(products: int, force: bool) -> None:
    """Refuses what would not end within an hour or so."""
    if products > MAX_PRODUCTS and not force:
        raise TooExpensiveError(
            f"the graph must need at most {MAX_PRODUCTS:.0e} products for this top k, got "
            f"{products:.1e}: leave hubs out with `max_degree`, lower `p`, or set `force=True`"
        )


def _bytes(size: int) -> str:
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << power:
            return f"{size / (1 << power):.1f} {unit}"
    return f"{size} bytes"

"""The limits of a top k: its memory and its number of products; ranges of rows within a limit."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Optional, Union

import numpy as np
import psutil
import torch

#: A call with more products takes about an hour on a few cores. It is refused unless forced.
MAX_PRODUCTS = 10**12

#: The share of the free memory that a call may use if no budget is given.
SHARE = 0.5

#: A call that needs fewer bytes does not read the free memory, which takes longer than the top k
#: of a small graph.
ALWAYS_FREE = 2**28

#: The files with the limit and the used bytes of a container, of both versions of control groups.
CONTROL_GROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


class TooExpensiveError(ValueError):
    """Raised if a call needs too much memory or too many products. It is a `ValueError`.

    Where a function has `force`, `force=True` ignores the memory budget and the limit of products.
    Arrays over the nodes must always fit into the free memory.

    Args:
        message (str): The message.
        memory (int): The bytes of working memory and of the result, if they are too many.
            (default: :obj:`0`)
        products (int): The number of products, if they are too many. (default: :obj:`0`)

    Example:
        >>> from torch_geometric_simpool import topk_similarity
        >>> star = torch.tensor([[0, 0, 1, 2], [1, 2, 0, 0]])
        >>> try:
        ...     topk_similarity(star, k=2, memory_budget=100)
        ... except TooExpensiveError as error:
        ...     print(error.memory)
        372
    """

    def __init__(self, message: str, memory: int = 0, products: int = 0) -> None:
        super().__init__(message)
        self.memory, self.products = memory, products


@dataclass(frozen=True)
class Budget:
    """The limits of one call: see `memory_budget` and `force` of :func:`topk_similarity`.

    A call uses the bytes of its result (`output`) and of its working memory, beyond its input.
    An error of memory names the task and ends with the advice.
    """

    memory: Optional[int]
    force: bool
    output: int = 0
    device: Union[str, torch.device] = "cpu"
    task: str = "this top k"
    advice: str = (
        "raise `memory_budget`, lower `k` or `p`, pass fewer nodes or graphs at a time, leave hubs "
        "out with `max_degree`, or set `force=True`"
    )

    @cached_property
    def limit(self) -> int:
        """Returns the bytes that the call may use. The free memory is read once."""
        return int(free_memory(self.device) * SHARE) if self.memory is None else self.memory

    def allows(self, working: int) -> bool:
        """Returns whether the result and `working` bytes fit into the limit."""
        needed = working + self.output
        return (self.memory is None and needed < ALWAYS_FREE) or needed <= self.limit

    def check_memory(self, working: int) -> None:
        """Raises if the result and `working` bytes do not fit into the limit."""
        if not self.force and not self.allows(working):
            allowed = "half of the free memory" if self.memory is None else "`memory_budget`"
            raise TooExpensiveError(
                f"{self.task} needs {working + self.output:_} bytes ({self.output:_} of them for "
                f"the result), {allowed} is {self.limit:_}: {self.advice}",
                memory=working + self.output,
            )

    def check_products(self, products: int) -> None:
        """Raises if there are more than :data:`MAX_PRODUCTS` products."""
        if products > MAX_PRODUCTS and not self.force:
            raise TooExpensiveError(
                f"{self.task} takes {products:.1e} products, more than {MAX_PRODUCTS:.0e}: leave "
                "hub nodes out (`max_degree` of topk_similarity), or set `force=True`",
                products=products,
            )


def free_memory(device: Union[str, torch.device]) -> int:
    """Returns the free bytes of a device, within the limit of a container."""
    device = torch.device(device)
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    free = psutil.virtual_memory().available
    for limit, used in CONTROL_GROUPS:
        try:
            of_group = int(Path(limit).read_text()) - int(Path(used).read_text())
        except (OSError, ValueError):
            continue  # the group does not exist, or has no limit ("max")
        free = min(free, max(of_group, 0))
    return free


def row_ranges(ptr: np.ndarray, size: int) -> list[tuple[int, int]]:
    """Returns ranges of rows with at most `size` entries each. A longer row is a range of its own.

    Row `i` has the entries from `ptr[i]` to `ptr[i + 1]`.
    """
    ranges, start = [], 0
    while start < ptr.size - 1:
        end = int(ptr.searchsorted(ptr[start] + size, side="right")) - 1
        ranges.append((start, max(end, start + 1)))
        start = ranges[-1][1]
    return ranges

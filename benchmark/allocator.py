"""Whether the C library hands memory back to the system."""

import os
import platform

#: With these, glibc returns no memory to the system; as it is, large blocks are, and come page by
#: page again, which is more than half of the time of methods that allocate much at every step.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}


def memory_is_kept() -> bool:
    """Whether this process, started with its environment as it is, keeps its memory."""
    glibc = platform.libc_ver()[0] == "glibc"
    return glibc and all(os.environ.get(name) == value for name, value in KEEP_MEMORY.items())

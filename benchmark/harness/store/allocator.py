"""Whether the C library returns freed memory to the system."""

import os
import platform

#: With these variables, glibc returns no memory to the system. By default it returns large blocks
#: and gets them back page by page, which takes more than half of the time of methods that
#: allocate much at every step.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}


def memory_is_kept() -> bool:
    """Whether this process keeps the memory that it frees."""
    glibc = platform.libc_ver()[0] == "glibc"
    return glibc and all(os.environ.get(name) == value for name, value in KEEP_MEMORY.items())

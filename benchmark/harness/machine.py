"""The machine and the versions that a result depends on."""

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch
import torch_geometric

import torch_geometric_simpool

#: With these variables, glibc keeps the memory that is freed. By default it returns large blocks to
#: the system, which takes more than half of the time of methods that allocate much in every step.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
#: One thread for each process: threads that wait for each other spin, and more processes gain more.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def flush_denormals() -> None:
    """Computes with zeros in place of numbers below 1e-38, which a CPU computes slowly.

    Hard assignments are full of them, so epochs would get slower as a training goes on.
    """
    torch.set_flush_denormal(True)


def provenance(device: torch.device) -> dict[str, Any]:
    """Returns versions, hardware, commit and command of this process."""
    hardware: dict[str, Any] = {
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
    }
    if platform.libc_ver()[0] == "glibc" and KEEP_MEMORY.items() <= os.environ.items():
        hardware["memory"] = "kept"
    if not bool((torch.full((1,), 1e-40) * 1).item()):
        hardware["denormals"] = "flushed"
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_geometric": torch_geometric.__version__,
        "torch_geometric_simpool": torch_geometric_simpool.__version__,
        "numpy": np.__version__,
    }
    command = " ".join(sys.argv)
    return {"versions": versions, "hardware": hardware, "commit": _commit(), "command": command}


def _commit() -> Optional[str]:
    """Returns the commit of the repository, marked if the working tree has changes."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()

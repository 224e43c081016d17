"""The machine and the versions that a result depends on."""

import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch
import torch_geometric

import torch_geometric_simpool

#: With these variables, glibc keeps freed memory. By default it returns large blocks to the system,
#: which takes more than half of the time of methods that allocate much in every step.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
#: A process has one thread, because waiting threads spin. More processes gain more than threads.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def provenance(device: torch.device) -> dict[str, Any]:
    """Returns versions, hardware, commit and command of this process."""
    hardware: dict[str, Any] = {
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
    }
    is_kept = platform.libc_ver()[0] == "glibc" and KEEP_MEMORY.items() <= os.environ.items()
    is_flushed = (torch.full((1,), 1e-40) * 1).item() == 0
    hardware |= {"memory": "kept"} if is_kept else {}
    hardware |= {"denormals": "flushed"} if is_flushed else {}
    versions = {
        "python": platform.python_version(),
        "torch": str(torch.__version__),  # it is a TorchVersion
        "torch_geometric": torch_geometric.__version__,
        "torch_geometric_simpool": torch_geometric_simpool.__version__,
        "numpy": np.__version__,
    }
    command = " ".join(sys.argv)
    return {"versions": versions, "hardware": hardware, "commit": _commit(), "command": command}


def _commit() -> Optional[str]:
    """Returns the commit of the repository, marked if the working tree has changes."""
    command = "describe --always --dirty --abbrev=40 --exclude='*'"
    folder = shlex.quote(str(Path(__file__).parent))
    status, commit = subprocess.getstatusoutput(f"git -C {folder} {command}")
    return commit if status == 0 else None

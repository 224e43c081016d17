"""What results depend on beside the settings."""

import hashlib
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
from harness.store.allocator import memory_is_kept
from harness.store.denormals import denormals_are_flushed


def surroundings(device: torch.device) -> dict[str, Any]:
    """What results depend on beside the settings: versions, hardware, commit."""
    hardware = {
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
    }
    if memory_is_kept():
        hardware["memory"] = "kept"
    if denormals_are_flushed():
        hardware["denormals"] = "flushed"
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_geometric": torch_geometric.__version__,
        "torch_geometric_simpool": torch_geometric_simpool.__version__,
        "numpy": np.__version__,
    }
    return {
        "versions": versions,
        "hardware": hardware,
        "commit": _commit(),
        "command": " ".join(sys.argv),
    }


def code() -> dict[str, str]:
    """What the bits of a result depend on beside data and settings: sources and libraries."""
    folders = (Path(torch_geometric_simpool.__file__).parent, Path(__file__).parents[1])
    return {
        "sources": sources(*folders),
        "torch": torch.__version__,
        "torch_geometric": torch_geometric.__version__,
    }


def sources(*folders: Path) -> str:
    """A checksum of the Python files in folders, by their names and contents."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()[:16]


def _commit() -> Optional[str]:
    """The commit of the repository of this file, marked if the working tree has changes."""
    here = Path(__file__).resolve().parent
    try:
        shown = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=here,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return shown.stdout.strip()

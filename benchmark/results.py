"""The file of results: written whole or not at all, and read back to go on after a kill."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch
import torch_geometric

import torch_geometric_simpool
from errors import BenchmarkError

NAME = "results.json"


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Has `write` make a file under a temporary name, then renames it to `path`."""
    temporary = path.with_name(f".{path.name}.tmp{path.suffix}")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def save(out: Path, results: dict[str, Any]) -> None:
    """Writes `OUT/results.json`, with mean and standard deviation over its folds."""
    accuracy = [fold["best_val_accuracy"] for fold in results["folds"]]
    results = {
        **results,
        "mean": float(np.mean(accuracy)),
        "std": float(np.std(accuracy)),
    }
    text = json.dumps(results, indent=1) + "\n"
    write_whole(out / NAME, lambda path: path.write_text(text, encoding="utf-8"))


def read(out: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """The finished folds in `out`; an error if they were made with other settings."""
    path = out / NAME
    if not path.exists():
        return []
    try:
        there = json.loads(path.read_text(encoding="utf-8"))
        known, folds = there["settings"], there["folds"]
        finished = {fold["fold"]: fold["best_val_accuracy"] for fold in folds}
    except (ValueError, KeyError, TypeError) as error:
        raise BenchmarkError(
            f"{path} is damaged, or not a file of this benchmark: move it away, or choose "
            "another --out"
        ) from error
    except OSError as error:
        raise BenchmarkError(f"--out {out}: {error}") from error
    differing = [
        f"{name}: {known.get(name)!r} there, {settings.get(name)!r} now"
        for name in dict.fromkeys([*known, *settings])
        if known.get(name) != settings.get(name)
    ]
    if differing:
        raise BenchmarkError(
            f"--out {out} holds {len(finished)} finished folds with other settings "
            f"({'; '.join(differing)}): choose another --out, or delete {path}"
        )
    return folds


def surroundings(device: torch.device) -> dict[str, Any]:
    """What the figures depend on beside the settings: versions, hardware, commit."""
    hardware = {
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
    }
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


def _commit() -> Optional[str]:
    """The commit of the repository that holds this file, marked where the tree is changed."""
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

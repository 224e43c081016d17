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
from allocator import memory_is_kept
from errors import BenchmarkError

try:
    import fcntl
except ImportError:  # Windows: there, two runs on one folder are not kept apart
    fcntl = None  # type: ignore[assignment]

NAME = "results.json"
LEVELS = (0, 1)
#: What is stored of a level after every epoch.
OF_LEVEL = ("entropy_loss", "cluster_loss", "clusters")
CURVES = ("loss", "train_accuracy", "val_accuracy")
CURVES_OF_LEVELS = tuple(f"{name}_{level}" for level in LEVELS for name in OF_LEVEL)
#: The methods that assign nodes to clusters.
ASSIGNING = ("simpool", "diffpool")


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Has `write` make a file under a temporary name, then renames it to `path`."""
    temporary = path.with_name(f".{path.name}.tmp{os.getpid()}{path.suffix}")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


class Locked:
    """Holds the folder of the results against a second run; freed by any end of this one."""

    def __init__(self, out: Path) -> None:
        self.out = out

    def __enter__(self) -> None:
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            write_whole(self.out / ".probe", lambda path: path.write_text(""))
            (self.out / ".probe").unlink()
        except OSError as error:
            raise BenchmarkError(f"--out {self.out}: {error}") from error
        if fcntl is None:
            return
        self.handle = os.open(self.out, os.O_RDONLY)
        try:
            fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self.handle)
            raise BenchmarkError(
                f"--out {self.out}: another run is writing there; wait for it, or choose another"
            ) from error

    def __exit__(self, *_: object) -> None:
        if fcntl is not None:
            os.close(self.handle)


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


def read(out: Path, settings: dict[str, Any], data: dict[str, Any]) -> list[dict[str, Any]]:
    """The finished folds in `out`; an error if they were made with other settings or data."""
    path = out / NAME
    if not path.exists():
        return []
    try:
        there = json.loads(path.read_text(encoding="utf-8"))
        folds = there["folds"]
        # The first results do not name their method.
        known = {
            "method": "simpool",
            **there["settings"],
            **{f"data.{k}": v for k, v in there["data"].items()},
        }
        _check_folds(folds, there["settings"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BenchmarkError(
            f"{path} is damaged, or not a file of this benchmark: move it away, or choose "
            "another --out"
        ) from error
    except OSError as error:
        raise BenchmarkError(f"--out {out}: {error}") from error
    wanted = {"method": "simpool", **settings, **{f"data.{k}": v for k, v in data.items()}}
    differing = [
        f"{name}: {known.get(name)!r} there, {wanted.get(name)!r} now"
        for name in dict.fromkeys([*known, *wanted])
        if known.get(name) != wanted.get(name)
    ]
    if differing:
        raise BenchmarkError(
            f"--out {out} holds {len(folds)} finished folds with other settings "
            f"({'; '.join(differing)}): choose another --out, or delete {path}"
        )
    return folds


def _check_folds(folds: Any, settings: dict[str, Any]) -> None:
    """Raises where a stored fold lacks what is read of it later."""
    numbers = [fold["fold"] for fold in folds]
    if not isinstance(folds, list) or not set(numbers) <= set(range(settings["folds"])):
        raise ValueError("folds")
    if len(set(numbers)) != len(numbers):
        raise ValueError("a fold is there twice")
    for fold in folds:
        for name in ("best_val_accuracy", "seconds_per_epoch"):
            if not isinstance(fold[name], float):
                raise TypeError(name)
        if not isinstance(fold["best_epoch"], int):
            raise TypeError("best_epoch")
        curves = fold["history"]
        assigns = settings.get("method", "simpool") in ASSIGNING
        for name in (*CURVES, *CURVES_OF_LEVELS) if assigns else CURVES:
            if len(curves[name]) != settings["epochs"]:
                raise ValueError(name)


def surroundings(device: torch.device) -> dict[str, Any]:
    """What the figures depend on beside the settings: versions, hardware, commit."""
    hardware = {
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
    }
    if memory_is_kept():
        hardware["memory"] = "kept"
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

"""The file of a run of the study: read, and checked for what is read of it later."""

import json
from math import isfinite
from pathlib import Path
from typing import Any, Optional

from harness.errors import BenchmarkError, first_line
from harness.methods.registry import ASSIGNING
from harness.study.run import Run
from harness.training.curves import curves_of
from torch_geometric_simpool.analysis.locality import Locality

#: The format of the files; a new name if their contents change their meaning.
FORMAT = "simpool-study-1"
#: What is read of every run later, and its type.
STORED: dict[str, Any] = {
    "data": dict,
    "sizes": dict,
    "versions": dict,
    "hardware": dict,
    "commit": (str, type(None)),
    "num_parameters": int,
    "seconds": float,
}
#: What is stored of the machine; not every system knows its number of processors.
HARDWARE: dict[str, Any] = {"device": str, "threads": int, "cpus": (int, type(None))}


class UnreadableRunError(BenchmarkError):
    """A file that is damaged, or not a run of the study."""


def read_run(path: Path, run: Optional[Run] = None) -> dict[str, Any]:
    """Reads the file of a run, and checks what is read of it later."""
    try:
        there = json.loads(path.read_text(encoding="utf-8"))
        if there["format"] != FORMAT:
            raise ValueError(f"its format is {there['format']!r}, not {FORMAT!r}")
        stored = Run.from_settings(there["settings"])
        if stored.key != path.stem or (run is not None and stored != run):
            raise ValueError("its settings are not those that its name stands for")
        for name, kind in STORED.items():
            if not isinstance(there[name], kind):
                raise TypeError(f"{name} is {there[name]!r}")
        _check_surroundings(there, stored)
        if "error" not in there:
            _check_metrics(there, stored)
    except OSError as error:
        raise UnreadableRunError(f"{path} cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableRunError(
            f"{path} is damaged, or not a file of this study ({first_line(error)}): move it away"
        ) from error
    return there


def _check_surroundings(there: dict[str, Any], run: Run) -> None:
    """Raises if a run lacks its data or hardware."""
    parts = ("train", "validation") + ("test",) * (run.protocol == "nested")
    for part in parts:
        if not isinstance(there["sizes"][part], int) or there["sizes"][part] < 1:
            raise ValueError(f"sizes: {part} is {there['sizes'][part]!r}")
    for name, kind in HARDWARE.items():
        if not isinstance(there["hardware"][name], kind):
            raise TypeError(f"hardware: {name} is {there['hardware'][name]!r}")
    if "cpu_seconds" in there:
        _check_numbers("cpu_seconds", [there["cpu_seconds"]])


def _check_metrics(there: dict[str, Any], run: Run) -> None:
    """Raises if a finished run lacks what is read later."""
    for name in curves_of(run.method):
        curve = there["history"][name]
        if len(curve) != run.epochs:
            raise ValueError(f"{name} has {len(curve)} epochs, not {run.epochs}")
        _check_numbers(name, curve)
    accuracies = ["best_val_accuracy"] + ["test_accuracy"] * (run.protocol == "nested")
    for name in accuracies:
        if not isinstance(there[name], float) or not 0 <= there[name] <= 1:
            raise ValueError(f"{name} is {there[name]!r}")
    if run.method in ASSIGNING:
        measures = [there["locality"][name] for name in Locality._fields]
        _check_numbers("locality", [value for value in measures if value is not None])
        _check_numbers("num_clusters", [there["num_clusters"]])
        for graph in there["drawn"]:
            _check_drawn(graph)


def _check_numbers(name: str, values: list[Any]) -> None:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
            raise ValueError(f"{name} holds {value!r}")


def _check_drawn(graph: dict[str, Any]) -> None:
    """Raises if a graph cannot be drawn."""
    ends = [end for source, target in graph["edges"] for end in (source, target)]
    _check_numbers("drawn", [graph["class"], *ends, *graph["clusters"]])
    if not graph["clusters"] or not set(ends) <= set(range(len(graph["clusters"]))):
        raise ValueError("drawn: an edge ends at no node")

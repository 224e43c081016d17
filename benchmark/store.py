"""The folder of the study's runs: one file each, written whole, claimed while it is being made."""

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import isfinite
from pathlib import Path
from typing import Any, Optional

from declarations import Run
from errors import BenchmarkError
from results import ASSIGNING, CURVES, CURVES_OF_LEVELS, fcntl, write_whole
from torch_geometric_simpool.analysis.locality import Locality

#: What the files say they are; raised when their contents change their meaning.
FORMAT = "simpool-study-1"
LOCKS = ".locks"
#: What is read of every run later, and of which type it is.
STORED: dict[str, Any] = {
    "data": dict,
    "sizes": dict,
    "versions": dict,
    "hardware": dict,
    "commit": (str, type(None)),
    "num_parameters": int,
    "seconds": float,
}
#: What a run says of the machine; there are systems that do not tell how many processors.
HARDWARE: dict[str, Any] = {"device": str, "threads": int, "cpus": (int, type(None))}


class Store:
    """The folder of the finished runs, one JSON file each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[Run, dict[str, Any]] = {}
        self.named: set[Run] = set()
        try:
            (folder / LOCKS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BenchmarkError(f"--out {folder}: {error}") from error

    def path(self, run: Run) -> Path:
        """The file of a run."""
        return self.folder / f"{run.key}.json"

    def read(self, run: Run) -> Optional[dict[str, Any]]:
        """What a finished run has left, or `None`; a damaged or foreign file is an error."""
        if run not in self.known:
            path = self.path(run)
            if not path.exists():
                return None
            self.known[run] = read_run(path, run)
        return self.known[run]

    def missing(self, run: Run) -> bool:
        """Whether there is nothing of a run yet. What cannot be read is named, and left."""
        try:
            return self.read(run) is None
        except UnreadableRunError as error:
            if run not in self.named:
                self.named.add(run)
                print(f"skipped: {error}", file=sys.stderr, flush=True)
            return False

    def save(self, run: Run, result: dict[str, Any]) -> None:
        """Stores a run, whole or not at all."""
        text = json.dumps(result, indent=None, separators=(",", ":")) + "\n"
        try:
            write_whole(self.path(run), lambda path: path.write_text(text, encoding="utf-8"))
        except OSError as error:
            raise BenchmarkError(f"--out {self.folder}: {error}") from error

    @contextmanager
    def claimed(self, run: Run) -> Iterator[bool]:
        """Whether the run is ours; not if another process has it. Ends with the process."""
        if fcntl is None:  # Windows: there, two studies on one folder are not kept apart
            yield True
            return
        path = self.folder / LOCKS / run.key
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise BenchmarkError(f"--out {self.folder}: {error}") from error
        try:
            yield _lock(handle, path)
        finally:
            os.close(handle)


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """Waits until no other process of this user is: data must not be unpacked twice at once."""
    if fcntl is None:
        yield
        return
    # Not in `root`, which may not be there yet, or not be ours to write to. It stays: a lock on
    # a file that is removed keeps nobody from the one that is made next.
    digest = hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"simpool-data-{os.getuid()}-{digest}.lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise BenchmarkError(f"the lock of --root {root}: {error}") from error
    try:
        # A file system without locks must not keep anyone from its data.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, path: Path) -> bool:
    """Locks an open file, or says that another process has; anything else is an error."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise BenchmarkError(
            f"--out: {path} cannot be locked ({error}), so two processes could not share the work: "
            "choose a folder on another file system"
        ) from error
    return True


class UnreadableRunError(BenchmarkError):
    """A file that is damaged, or not one of the study."""


def read_run(path: Path, run: Optional[Run] = None) -> dict[str, Any]:
    """Reads the file of a run, and checks what is read of it later."""
    try:
        there = json.loads(path.read_text(encoding="utf-8"))
        if there["format"] != FORMAT:
            raise ValueError(f"its format is {there['format']!r}, not {FORMAT!r}")
        stored = Run(**there["settings"])
        if stored.key != path.stem or (run is not None and stored != run):
            raise ValueError("its settings are not those that its name stands for")
        for name, kind in STORED.items():
            if not isinstance(there[name], kind):
                raise TypeError(f"{name} is {there[name]!r}")
        _check_surroundings(there, stored)
        if "error" not in there:
            _check_figures(there, stored)
    except OSError as error:
        raise UnreadableRunError(f"{path} cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UnreadableRunError(
            f"{path} is damaged, or not a file of this study ({reason}): move it away"
        ) from error
    return there


def _check_surroundings(there: dict[str, Any], run: Run) -> None:
    """Raises where a run does not say what it was made of, and on what."""
    parts = ("train", "validation") + ("test",) * (run.protocol == "nested")
    for part in parts:
        if not isinstance(there["sizes"][part], int) or there["sizes"][part] < 1:
            raise ValueError(f"sizes: {part} is {there['sizes'][part]!r}")
    for name, kind in HARDWARE.items():
        if not isinstance(there["hardware"][name], kind):
            raise TypeError(f"hardware: {name} is {there['hardware'][name]!r}")
    if "cpu_seconds" in there:
        _check_numbers("cpu_seconds", [there["cpu_seconds"]])


def _check_figures(there: dict[str, Any], run: Run) -> None:
    """Raises where a finished run lacks what is read of it."""
    assigns = run.method in ASSIGNING
    for name in (*CURVES, *CURVES_OF_LEVELS) if assigns else CURVES:
        curve = there["history"][name]
        if len(curve) != run.epochs:
            raise ValueError(f"{name} has {len(curve)} epochs, not {run.epochs}")
        _check_numbers(name, curve)
    accuracies = ["best_val_accuracy"] + ["test_accuracy"] * (run.protocol == "nested")
    for name in accuracies:
        if not isinstance(there[name], float) or not 0 <= there[name] <= 1:
            raise ValueError(f"{name} is {there[name]!r}")
    if assigns:
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
    """Raises where a graph cannot be drawn."""
    ends = [end for source, target in graph["edges"] for end in (source, target)]
    _check_numbers("drawn", [graph["class"], *ends, *graph["clusters"]])
    if not graph["clusters"] or not set(ends) <= set(range(len(graph["clusters"]))):
        raise ValueError("drawn: an edge ends at no node")

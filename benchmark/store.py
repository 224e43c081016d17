"""The folder of the study's runs: one file each, written whole, claimed while it is being made."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

from declarations import Run
from errors import BenchmarkError
from results import LEVELS, OF_LEVEL, fcntl, write_whole

#: What the files say they are; raised when their contents change their meaning.
FORMAT = "simpool-study-1"
LOCKS = ".locks"
#: What is read of every run later, and of which type it is.
STORED = {
    "data": dict,
    "sizes": dict,
    "versions": dict,
    "hardware": dict,
    "num_parameters": int,
    "seconds": float,
}


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
        handle = os.open(self.folder / LOCKS / run.key, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
            else:
                yield True
        finally:
            os.close(handle)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Waits until no other process is here: a data set must not be unpacked twice at once."""
        if fcntl is None:
            yield
            return
        handle = os.open(self.folder / LOCKS / "data", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


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
        if "error" not in there:
            _check_figures(there, stored)
    except OSError as error:
        raise UnreadableRunError(f"{path} cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UnreadableRunError(
            f"{path} is damaged, or not a file of this study ({reason}): move it away"
        ) from error
    return there


def _check_figures(there: dict[str, Any], run: Run) -> None:
    """Raises where a finished run lacks what is read of it."""
    curves = ["loss", "train_accuracy", "val_accuracy"]
    if "locality" in there:
        curves += [f"{name}_{level}" for level in LEVELS for name in OF_LEVEL]
        if not isinstance(there["locality"], dict) or not isinstance(there["drawn"], list):
            raise TypeError("locality")
    for name in curves:
        if len(there["history"][name]) != run.epochs:
            raise ValueError(f"{name} has {len(there['history'][name])} epochs, not {run.epochs}")
    accuracies = ["best_val_accuracy"] + ["test_accuracy"] * (run.protocol == "nested")
    for name in accuracies:
        if not isinstance(there[name], float) or not 0 <= there[name] <= 1:
            raise ValueError(f"{name} is {there[name]!r}")

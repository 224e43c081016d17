"""The folder of the study's runs: one file for each, locked while the run is being made."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

from harness.errors import BenchmarkError
from harness.store.files import write_json
from harness.store.locks import fcntl, try_lock
from harness.study.run import Run
from harness.study.run_files import UnreadableRunError, read_run

LOCKS = ".locks"
#: Runs in the middle of their training.
CHECKPOINTS = ".checkpoints"


class Store:
    """The finished runs of a folder, one JSON file each.

    With `quiet`, files that cannot be read are not reported: another process does.
    """

    def __init__(self, folder: Path, quiet: bool = False) -> None:
        self.folder = folder
        self.quiet = quiet
        self.known: dict[Run, dict[str, Any]] = {}
        self.unreadable: set[Run] = set()
        try:
            (folder / LOCKS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BenchmarkError(f"--out {folder}: {error}") from error

    def path(self, run: Run) -> Path:
        """The file of a run."""
        return self.folder / f"{run.key}.json"

    def checkpoint(self, run: Run) -> Path:
        """The file of a run in the middle of its training."""
        return self.folder / CHECKPOINTS / f"{run.key}.pt"

    def read(self, run: Run) -> Optional[dict[str, Any]]:
        """The result of a finished run, or `None`. Raises if its file cannot be read."""
        if run not in self.known:
            path = self.path(run)
            if not path.exists():
                return None
            self.known[run] = read_run(path, run)
        return self.known[run]

    def missing(self, run: Run) -> bool:
        """Whether a run has no file. A file that cannot be read is reported once, and kept."""
        try:
            return self.read(run) is None
        except UnreadableRunError as error:
            if run not in self.unreadable:
                self.unreadable.add(run)
                if not self.quiet:
                    print(f"skipped: {error}", file=sys.stderr, flush=True)
            return False

    def save(self, run: Run, result: dict[str, Any]) -> None:
        """Stores the result of a run, in place of its checkpoint."""
        try:
            write_json(self.path(run), result, indent=None)
            self.checkpoint(run).unlink(missing_ok=True)
        except OSError as error:
            raise BenchmarkError(f"--out {self.folder}: {error}") from error

    @contextmanager
    def claimed(self, run: Run) -> Iterator[bool]:
        """Tries to lock a run; gives `False` if another process has the lock."""
        if fcntl is None:  # Windows
            yield True
            return
        path = self.folder / LOCKS / run.key
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise BenchmarkError(f"--out {self.folder}: {error}") from error
        try:
            yield try_lock(handle, path)
        finally:
            os.close(handle)

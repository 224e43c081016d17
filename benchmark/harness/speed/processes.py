"""Processes of this machine: their memory while they run, and a Dask cluster of them."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import BenchmarkError

#: Seconds between two looks at the memory of all processes.
PERIOD = 0.25


class Watch:
    """The peaks of the memory of all child processes, by what they do, inside of a `with`.

    `anonymous` is what a process has allocated. `private` also counts the pages of mapped files
    that no other process has mapped; the system may take these back at any time.
    """

    def __init__(self) -> None:
        self.peaks: dict[str, dict[str, int]] = {}
        self.written: dict[int, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def bytes_written(self) -> int:
        """What all child processes have given to the system to write to disk."""
        return sum(self.written.values())

    def _run(self) -> None:
        while not self._stop.wait(PERIOD):
            for pid, kind in descendants(os.getpid()).items():
                try:
                    self._look(pid, kind)
                except (OSError, IndexError):
                    continue  # it has ended

    def _look(self, pid: int, kind: str) -> None:
        folder = Path(f"/proc/{pid}")
        anonymous = _field(folder / "status", "RssAnon")
        private = sum(
            _field(folder / "smaps_rollup", field) for field in ("Private_Clean", "Private_Dirty")
        )
        self.written[pid] = int((folder / "io").read_text().split("write_bytes: ")[1].split()[0])
        peak = self.peaks.setdefault(kind, {"anonymous": 0, "private": 0})
        peak["anonymous"] = max(peak["anonymous"], anonymous)
        peak["private"] = max(peak["private"], private)


def _field(path: Path, name: str) -> int:
    """A field of a file of /proc, in bytes."""
    return int(path.read_text().split(f"{name}:")[1].split()[0]) * 1024


def descendants(root: int) -> dict[int, str]:
    """The processes that a process has started, and those that they have, and what they do."""
    parents, commands = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                status = (folder / "stat").read_text().rpartition(")")[2].split()
                commands[int(folder.name)] = (folder / "cmdline").read_text().split("\0")
            except OSError:
                continue
            parents[int(folder.name)] = int(status[1])
    found: dict[int, str] = {}
    todo = [root]
    while todo:
        parent = todo.pop()
        for pid, of in parents.items():
            if of == parent and pid in commands:
                found[pid] = _kind(commands[pid], commands.get(parent, []))
                todo.append(pid)
    return found


def _kind(command: list[str], parent: list[str]) -> str:
    if "--step" in command:
        return command[command.index("--step") + 1]
    if any("dask_scheduler" in word for word in command):
        return "scheduler"
    if any("dask_worker" in word for word in command):
        return "nanny"
    if any("dask_worker" in word for word in parent) and any("spawn_main" in w for w in command):
        return "worker"
    return "other"


@contextmanager
def dask_cluster(folder: Path, num_workers: int) -> Iterator[Path]:
    """A scheduler and workers of one thread each, restarted if they die; yields its file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "scheduler.json"
    file.unlink(missing_ok=True)
    line = [sys.executable, "-W", "ignore", "-m"]
    address = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file)]
    # What is mapped counts as memory of a worker, which must not be stopped for it.
    of_worker = ["--nworkers", str(num_workers), "--nthreads", "1", "--memory-limit", "0"]
    place = ["--local-directory", str(folder)]
    processes = []
    try:
        scheduler = [*line, "distributed.cli.dask_scheduler", *address, "--port", "0"]
        processes.append(_start(scheduler))
        _wait_for(file.exists, "the scheduler does not start")
        workers = [*line, "distributed.cli.dask_worker", *address, *of_worker, *place]
        processes.append(_start(workers))
        yield file
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def workers_of(root: int) -> list[int]:
    """The Dask workers among the processes that a process has started."""
    return [pid for pid, kind in descendants(root).items() if kind == "worker"]


def _start(line: list[str]) -> subprocess.Popen:
    return subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _wait_for(condition: Callable[[], bool], problem: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise BenchmarkError(problem)
        time.sleep(0.05)

"""SIGKILL to programs that write: started again, they end with what they would have written."""

import faulthandler
import functools
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from campaign import jobs
from campaign.fuzzer import Fuzzer

#: Seconds after which a job hangs.
HANGS = 120.0

#: Events of the interpreter that touch files, and name them.
EVENTS = {"open", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate", jobs.STEP}

#: Children are forked from a process that has imported the package, and run no thread.
_children = multiprocessing.get_context("forkserver")
_PRELOADED = ["torch", "torch_geometric.data", "torch_geometric_simpool", "campaign.jobs"]


@dataclass(frozen=True)
class Case:
    """A job, and when it is killed: before this part of its file operations, plus seconds."""

    job: str
    kills: tuple[tuple[float, float], ...]


def draw(rng: Random) -> Case:
    """Commands take some seconds each, so they come less often."""
    names = [name for name in jobs.JOBS for _ in range(1 if name in COMMANDS else 4)]
    kills = tuple(
        (round(rng.random(), 3), rng.choice([0.0, round(rng.uniform(0, 0.05), 4)]))
        for _ in range(rng.choice([1, 1, 2, 3]))
    )
    return Case(rng.choice(names), kills)


COMMANDS = {"graph_classification", "report"}


def check(case: Case) -> None:
    """The files of a run that was killed, and started again, are those of one that was not."""
    expected, operations = clean(case.job)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "work"
        for moment, delay in case.kills:
            status, _ = start(case.job, folder, int(moment * operations), delay)
            assert status in (0, -signal.SIGKILL), f"after a kill: {log(folder)}"
        status, _ = start(case.job, folder)
        assert status == 0, f"it does not go on: {log(folder)}"
        found = jobs.contents(folder)
    assert set(found) == set(expected), f"other files: {sorted(set(found) ^ set(expected))}"
    wrong = [name for name in expected if found[name] != expected[name]]
    assert not wrong, f"other contents: {wrong}"


@functools.cache
def clean(job: str) -> tuple[dict[str, Any], int]:
    """The files of a run that is not killed, and the number of its operations on files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "work"
        status, operations = start(job, folder)
        assert status == 0, f"{job}: {log(folder)}"
        return jobs.contents(folder), operations


def start(
    job: str, folder: Path, moment: int | None = None, delay: float = 0.0
) -> tuple[int | None, int]:
    """Runs a job in a process of its own; returns its exit status and its operations."""
    # Children have no other way to the modules of the campaign.
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, [jobs.ROOT, *sys.path]))
    _children.set_forkserver_preload(_PRELOADED)
    count = _children.Value("i", 0)
    process = _children.Process(
        target=child, args=(jobs.JOBS[job], folder, moment, delay, count, HANGS), daemon=True
    )
    process.start()
    process.join()
    return process.exitcode, count.value


def log(folder: Path) -> str:
    """The end of what the last run has printed."""
    path = folder.with_name("log")
    return path.read_text()[-2000:] if path.exists() else "it did not start"


def child(
    job: Callable[[Path], Any],
    folder: Path,
    moment: int | None,
    delay: float,
    count: Any,
    hangs: float,
) -> None:
    """Counts the operations on files below a folder, and ends at one of them, or if it hangs."""
    import torch

    torch.set_num_threads(1)
    below = os.fspath(folder)
    folder.mkdir(exist_ok=True)
    with open(folder.with_name("log"), "w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)

    def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in EVENTS or not any(below in str(a) for a in arguments):
            return
        if count.value == moment:
            if delay:
                threading.Timer(delay, kill).start()
            else:
                kill()
        count.value += 1

    # Sooner than the campaign, so that the log says where it was.
    faulthandler.dump_traceback_later(hangs, exit=True)
    sys.addaudithook(watch)
    try:
        job(folder)
    except Exception:
        traceback.print_exc()
        os._exit(1)


def smaller(case: Case) -> Iterator[Case]:
    """Fewer kills, without delays."""
    for number, (moment, delay) in enumerate(case.kills):
        before, after = case.kills[:number], case.kills[number + 1 :]
        if len(case.kills) > 1:
            yield replace(case, kills=before + after)
        if delay:
            yield replace(case, kills=(*before, (moment, 0.0), *after))


FUZZER = Fuzzer(draw, check, 0.25, smaller)

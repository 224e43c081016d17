"""Trains runs in worker processes, with one thread each, and shows their progress."""

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Optional
from unittest import mock

import torch
from tqdm import tqdm

from harness.command import BenchmarkError
from harness.machine import KEEP_MEMORY, ONE_THREAD, flush_denormals
from harness.run import Result, Run
from harness.train import Place, train

#: The number of lines of progress that a run prints.
_LINES = 10
#: The metrics in a line.
_SHOWN = {"loss": "loss", "validation": "val_accuracy", "best": "best"}


def train_all(
    missing: Callable[[], list[Run]],
    place: Place,
    checkpoint: Callable[[Run], Path],
    save: Callable[[Result], None],
    num_workers: int,
    label: Callable[[Run], str] = lambda run: run.title,
) -> int:
    """Trains runs in processes until none is missing; returns the number of runs that failed.

    Args:
        missing (Callable): Returns the runs to make, in their order. It is called after every
            result, since results may lead to further runs.
        place (Place): The files and the device.
        checkpoint (Callable): Returns the file of a run in the middle of its training.
        save (Callable): Stores a result. It is called in this process alone.
        num_workers (int): The number of processes. None of them outlives this call.
        label (Callable): Returns the name of a run, for the progress.
    """
    failed: set[Run] = set()
    active: dict[Connection, Run] = {}
    processes: dict[Connection, Any] = {}
    # A process that is asked to stop stops its workers.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    bar = tqdm(total=sum(run.epochs for run in missing()), unit="epoch", leave=False, disable=None)
    try:
        while True:
            waiting = [run for run in missing() if run not in failed.union(active.values())]
            for run in waiting[: num_workers - len(active)]:
                idle = processes.keys() - active.keys()
                connection = idle.pop() if idle else _start(place, processes)
                connection.send((run, checkpoint(run)))
                active[connection] = run
            if not active:
                return len(failed)
            outcome = None
            while outcome is None:
                connection, outcome = _receive(active, processes, bar, label)
            run = active.pop(connection)
            if isinstance(outcome, Result):
                save(outcome)
                checkpoint(run).unlink(missing_ok=True)
            else:
                failed.add(run)
                tqdm.write(f"failed: {run.title}: {outcome}", sys.stderr)
    finally:
        bar.close()
        for process in processes.values():
            process.terminate()
        for process in processes.values():
            process.join()
        signal.signal(signal.SIGTERM, before)


def _receive(
    active: dict[Connection, Run],
    processes: dict[Connection, Any],
    bar: tqdm,
    label: Callable[[Run], str],
) -> tuple[Connection, Optional[object]]:
    """Waits for a worker; returns the outcome of its run, or shows an epoch and returns `None`."""
    connection: Any = wait(list(active))[0]
    run = active[connection]
    try:
        outcome = connection.recv()
    except EOFError:
        process = processes.pop(connection)
        process.join()
        return connection, f"its process ended with status {process.exitcode}"
    if not isinstance(outcome, tuple):
        return connection, outcome
    epoch, metrics = outcome
    bar.update()
    if epoch % max(run.epochs // _LINES, 1) == 0 or epoch in (1, run.epochs):
        words = ", ".join(f"{name} {metrics[key]:.3f}" for name, key in _SHOWN.items())
        tqdm.write(f"{label(run)}: epoch {epoch} of {run.epochs}: {words}", sys.stderr)
    return connection, None


def _start(place: Place, processes: dict[Connection, Any]) -> Connection:
    """Starts a worker; returns the connection to it."""
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_work, args=(theirs, place), daemon=True)
    with mock.patch.dict(os.environ, {**KEEP_MEMORY, **ONE_THREAD}):  # read at the start
        process.start()
    processes[ours] = process
    theirs.close()
    return ours


def _work(connection: Connection, place: Place) -> None:
    """Trains the runs that are sent, one after another, until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    torch.set_num_threads(1)
    flush_denormals()
    while True:
        outcome: object
        try:
            run, checkpoint = connection.recv()
            outcome = train(run, place, checkpoint, lambda *epoch: connection.send(epoch))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return  # the parent was killed
        except BenchmarkError as error:
            outcome = str(error)
        except Exception:  # such as a lack of memory: other runs may succeed
            outcome = traceback.format_exc().rstrip()
        connection.send(outcome)

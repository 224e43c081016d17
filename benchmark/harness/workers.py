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

import torch
from tqdm import tqdm

from harness.command import BenchmarkError
from harness.machine import KEEP_MEMORY, ONE_THREAD, flush_denormals
from harness.run import Result, Run
from harness.train import Place, train

#: The number of lines of progress that a run prints where there is no terminal.
_LINES = 10


class Progress:
    """Shows the epochs of all runs in training: a bar for each, or lines where bars cannot be."""

    def __init__(self, label: Callable[[Run], str]) -> None:
        self.label = label
        self.bars: dict[Run, tqdm] = {}

    def show(self, run: Run, epoch: int, metrics: dict[str, float]) -> None:
        """Shows the metrics of an epoch, counted from 1."""
        if run not in self.bars:
            self.bars[run] = tqdm(
                total=run.epochs,
                initial=epoch - 1,
                desc=self.label(run),
                leave=False,
                disable=None,
            )
        bar = self.bars[run]
        shown = {
            "loss": metrics["loss"], "validation": metrics["val_accuracy"], "best": metrics["best"]
        }  # fmt: skip
        bar.set_postfix({name: f"{value:.3f}" for name, value in shown.items()}, refresh=False)
        bar.update()
        every = max(run.epochs // _LINES, 1)
        if bar.disable and (epoch % every == 0 or epoch in (1, run.epochs)):
            words = ", ".join(f"{name} {value:.3f}" for name, value in shown.items())
            print(f"{self.label(run)}: epoch {epoch} of {run.epochs}: {words}", file=sys.stderr)

    def close(self, run: Run) -> None:
        """Ends the bar of a run."""
        if run in self.bars:
            self.bars.pop(run).close()


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
    progress = Progress(label)
    failed: set[Run] = set()
    active: dict[Connection, tuple[Run, Any]] = {}
    idle: list[tuple[Connection, Any]] = []
    processes: list[Any] = []
    # A process that is asked to stop stops its workers.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        while True:
            taken = failed.union(run for run, _ in active.values())
            # Messages on epochs come between results: nothing is missing that was not before.
            left = missing() if len(active) < num_workers else []
            for run in [run for run in left if run not in taken]:
                if not idle and len(active) == num_workers:
                    break
                if not idle:
                    idle.append(_start(place))
                    processes.append(idle[-1][1])
                connection, process = idle.pop()
                connection.send((run, checkpoint(run)))
                active[connection] = (run, process)
            if not active:
                return len(failed)
            for connection in wait(list(active)):  # type: ignore[assignment]
                run, process = active[connection]
                try:
                    outcome = connection.recv()
                except EOFError:
                    process.join()
                    outcome = f"its process ended with status {process.exitcode}"
                if isinstance(outcome, tuple):
                    progress.show(run, *outcome)
                    continue
                progress.close(run)
                del active[connection]
                if process.is_alive():
                    idle.append((connection, process))
                if isinstance(outcome, Result):
                    save(outcome)
                    checkpoint(run).unlink(missing_ok=True)
                else:
                    failed.add(run)
                    print(f"failed: {run.title}: {outcome}", file=sys.stderr, flush=True)
    finally:
        for run in list(progress.bars):
            progress.close(run)
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()
        signal.signal(signal.SIGTERM, before)


def _start(place: Place) -> tuple[Connection, Any]:
    """Starts a worker; returns its connection and its process."""
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_work, args=(theirs, place), daemon=True)
    environment = dict(os.environ)
    os.environ.update({**KEEP_MEMORY, **ONE_THREAD})  # read when a process starts
    try:
        process.start()
    finally:
        os.environ.clear()
        os.environ.update(environment)
    theirs.close()
    return ours, process


def _work(connection: Connection, place: Place) -> None:
    """Trains the runs that are sent, one after another, until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    torch.set_num_threads(1)
    flush_denormals()

    def report(epoch: int, metrics: dict[str, float]) -> None:
        connection.send((epoch, metrics))

    while True:
        outcome: Optional[object]
        try:
            run, checkpoint = connection.recv()
            outcome = train(run, place, checkpoint, report)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return  # the parent was killed
        except BenchmarkError as error:
            outcome = str(error)
        except Exception:  # such as a lack of memory: other runs may succeed
            outcome = traceback.format_exc().rstrip()
        connection.send(outcome)

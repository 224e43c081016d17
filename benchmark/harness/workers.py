"""Trains runs in worker processes, with one thread each, and shows their progress."""

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Optional
from unittest import mock

import torch

from harness.command import BenchmarkError
from harness.machine import KEEP_MEMORY, ONE_THREAD
from harness.run import Result, Run
from harness.store import Store
from harness.train import Place, train

#: The number of lines of progress that a run prints.
_LINES = 10
_PROGRESS = "epoch {} of {}: loss {loss:.3f}, validation {val_accuracy:.3f}, best {best:.3f}"


def train_all(
    runs: Callable[[], list[Run]],
    place: Place,
    store: Store,
    num_workers: int,
    label: Callable[[Run], str] = lambda run: run.title,
) -> None:
    """Trains runs in processes until no run is missing. Raises at the end if a run failed.

    Args:
        runs (Callable): Returns all runs in their order, stored ones included. It is called again
            after they finish, because their results may ask for further runs.
        place (Place): The files and the device.
        store (Store): The results, to which this process adds.
        num_workers (int): The number of processes. None of them outlives this call.
        label (Callable): Returns the name of a run, for the progress.
    """
    failed: set[Run] = set()
    # SIGTERM raises, so that the `finally` below ends the workers.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    executor = ProcessPoolExecutor(num_workers, multiprocessing.get_context("spawn"), _start)
    try:
        while missing := [run for run in runs() if run not in failed.union(store.results)]:
            with mock.patch.dict(os.environ, {**KEEP_MEMORY, **ONE_THREAD}):  # for the workers
                futures = {
                    executor.submit(_train, run, place, store.checkpoint(run), label(run)): run
                    for run in missing
                }
            for future in as_completed(futures):
                run, result = futures[future], future.result()
                if result is None:
                    failed.add(run)
                else:
                    store.add(result)
                    store.checkpoint(run).unlink(missing_ok=True)
    except BrokenProcessPool as error:
        raise BenchmarkError(
            "a worker process was killed, as for a lack of memory. The same command continues; "
            "fewer --workers need less memory"
        ) from error
    finally:
        for process in multiprocessing.active_children():
            process.terminate()
        executor.shutdown()
        signal.signal(signal.SIGTERM, before)
    if failed:
        raise BenchmarkError(f"{len(failed)} runs failed, see above")


def _start() -> None:
    """Prepares a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    # Hard assignments are full of numbers below 1e-38, with which a CPU computes slowly.
    torch.set_flush_denormal(True)


def _end_with_parent() -> None:
    """Ends this process after its parent was killed."""
    parent: Any = multiprocessing.parent_process()
    parent.join()
    os._exit(1)


def _train(run: Run, place: Place, checkpoint: Path, label: str) -> Optional[Result]:
    """Trains a run and prints its progress; returns `None` if it failed."""

    def show(text: object) -> None:
        print(f"{label}: {text}", file=sys.stderr, flush=True)

    def report(epoch: int, metrics: dict[str, float]) -> None:
        if epoch % max(run.epochs // _LINES, 1) == 0 or epoch in (1, run.epochs):
            show(_PROGRESS.format(epoch, run.epochs, **metrics))

    try:
        result = train(run, place, checkpoint, report)
    except Exception as error:  # other runs may succeed, as with less memory
        is_ours = isinstance(error, (BenchmarkError, OSError))
        show(error if is_ours else traceback.format_exc().rstrip())
        return None
    show(result.error or f"finished in {result.seconds:.0f} s")
    return result

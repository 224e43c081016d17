"""The paper's study: runs what is missing of the experiments, in several processes.

Usage: python benchmark/study.py --root data [--workers 2] [--only ENZYMES-10fold ...]

Stores one small JSON file per run in --out. Killed and started again it goes on: a run
that is there is not run again, and one that another process is running is left to it.
`python benchmark/report.py` makes the tables and pictures.
"""

import argparse
import multiprocessing
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import torch

from errors import BenchmarkError
from experiments import EXPERIMENTS, Run, queue
from peers import METHODS
from runs import Store, perform

OUT = Path(__file__).resolve().parent / "results" / "study"
#: How long to wait for runs of another process before looking again, in seconds.
PAUSE = 5.0


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the study; returns the exit status."""
    try:
        return study(parse(arguments))
    except BenchmarkError as error:
        print(f"study.py: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted. Start again to go on.", file=sys.stderr)
        return 130


def parse(arguments: Optional[Sequence[str]] = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        prog="study.py", usage="%(prog)s [options]", description=__doc__.split("\n\n")[0]
    )
    add = parser.add_argument
    add("--root", default="data", help="folder of the TU data sets (default: data)")
    add("--out", type=Path, default=OUT, help=f"folder of the runs (default: {OUT})")
    add(
        "--only",
        nargs="+",
        choices=list(EXPERIMENTS),
        default=list(EXPERIMENTS),
        metavar="EXPERIMENT",
        help=f"of {', '.join(EXPERIMENTS)} (default: all, in this order)",
    )
    add("--method", nargs="+", choices=METHODS, default=list(METHODS), help="default: all")
    add("--fold", nargs="+", type=int, help="default: all")
    add("--workers", type=int, default=1, help="processes, one thread each (default: 1)")
    add("--device", default="cpu", help="where to train (default: cpu)")
    add("--list", action="store_true", help="list the runs and what is missing, and stop")
    options = parser.parse_args(arguments)
    if options.workers < 1:
        parser.error(f"argument --workers: must be at least 1, got {options.workers}")
    return options


def study(options: argparse.Namespace) -> int:
    """Lists, or has the workers run what is missing."""
    runs = wanted(options)
    store = Store(options.out)
    missing = [run for run in runs if store.read(run) is None]
    print(f"{len(runs)} runs, {len(runs) - len(missing)} of them finished", flush=True)
    if options.list:
        for run in missing:
            print(run.key)
        return 0
    if options.workers == 1:
        work(options)
        return 0
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_worker, args=(options,)) for _ in range(options.workers)]
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            worker.join()
    finally:
        for worker in workers:
            worker.terminate()
    return max(abs(worker.exitcode or 0) for worker in workers)


def wanted(options: argparse.Namespace) -> list[Run]:
    """The runs that the options ask for, in the order in which they are run."""
    return [
        run
        for run in queue(options.only)
        if run.method in options.method and (options.fold is None or run.fold in options.fold)
    ]


def _worker(options: argparse.Namespace) -> None:
    try:
        torch.set_num_threads(1)
        work(options)
    except BenchmarkError as error:
        print(f"study.py: error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def work(options: argparse.Namespace) -> None:
    """Runs what is missing and unclaimed, until nothing is missing."""
    store = Store(options.out)
    while True:
        taken = 0
        for run in wanted(options):
            if store.read(run) is not None:
                continue
            with store.claimed(run) as ours:
                if not ours:
                    taken += 1
                    continue
                # Once more: another process may have finished it since.
                if store.read(run) is None:
                    result = perform(run, options.root, options.device)
                    store.save(run, result)
                    print(summary(run, result), flush=True)
        if taken == 0:
            return
        # Another process is at work on the rest. Should it be killed, they are ours.
        time.sleep(PAUSE)


def summary(run: Run, result: dict[str, Any]) -> str:
    """One line on a finished run."""
    if "error" in result:
        return f"{run.key}: {result['error']}"
    return (
        f"{run.key}: best validation accuracy {result['best_val_accuracy']:.4f} in epoch "
        f"{result['best_epoch']} of {run.epochs}; {result['num_parameters']:,} parameters, "
        f"{result['seconds']:.0f} s"
    )


if __name__ == "__main__":
    sys.exit(main())

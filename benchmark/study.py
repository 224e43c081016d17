"""The paper's study: runs what is missing of the experiments, in several processes.

Usage: python benchmark/study.py --root data [--workers 2] [--only ENZYMES-10fold ...]

Stores one small JSON file per run in --out. Killed and started again it goes on: a run
that is there is not run again, and one that another process is running is left to it.
`python benchmark/report.py` makes the tables and pictures.
"""

import argparse
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import torch

from allocator import KEEP_MEMORY
from declarations import FOLDS, Nested, Run
from errors import BenchmarkError
from experiments import NAMES, NESTED, queue
from options import device_of, integer
from peers import METHODS
from runs import load_data, perform
from splits import splits_name
from store import Store

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
        choices=NAMES,
        default=list(NAMES),
        metavar="EXPERIMENT",
        help=f"of {', '.join(NAMES)} (default: all, in this order)",
    )
    add("--method", nargs="+", choices=METHODS, default=list(METHODS), help="default: all")
    add("--fold", nargs="+", type=integer(0, FOLDS - 1), help="default: all")
    add(
        "--splits",
        type=Path,
        help="protocol 'nested': published splits, a file or a folder of DATASET_splits.json; "
        "default: stratified ones of our own",
    )
    add(
        "--workers",
        type=integer(1, 1000),
        default=1,
        help="processes; of one thread each if several",
    )
    add("--device", default="cpu", help="where to train: cpu, the default, cuda, ...")
    add("--list", action="store_true", help="list the runs and what is missing, and stop")
    options = parser.parse_args(arguments)
    options.device = device_of(parser, options.device)
    return options


def study(options: argparse.Namespace) -> int:
    """Lists, or has the workers run what is missing."""
    store = Store(options.out)
    runs = wanted(options, store)
    missing = [run for run in runs if store.missing(run)]
    print(f"{len(runs)} runs, {len(runs) - len(missing)} of them there", flush=True)
    if options.list:
        for run in missing:
            print(run.key)
        return 0
    if options.workers == 1:
        work(options)
        return 0
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_worker, args=(options,)) for _ in range(options.workers)]
    # Stopped in an orderly way, it stops its workers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # Without it, a GRU's step takes twice as long. Only a process that starts takes it.
    ours = dict(os.environ)
    os.environ.update({**KEEP_MEMORY, **ours})
    for worker in workers:
        worker.start()
    for name in KEEP_MEMORY.keys() - ours.keys():
        del os.environ[name]
    try:
        for worker in workers:
            worker.join()
    finally:
        for worker in workers:
            worker.terminate()
    return max(abs(worker.exitcode or 0) for worker in workers)


def wanted(options: argparse.Namespace, store: Store) -> list[Run]:
    """The runs that the options ask for, in their order, as far as they are known by now.

    The final runs of protocol 'nested' are, once all that they are chosen by have finished.
    """
    early, late = queue(options.only)
    nested = [
        run
        for name in options.only
        if name in NESTED
        for run in nested_runs(NESTED[name], options.splits, store)
    ]
    return [
        run
        for run in early + nested + late
        if run.method in options.method and (options.fold is None or run.fold in options.fold)
    ]


def nested_runs(nested: Nested, path: Optional[Path], store: Store) -> list[Run]:
    """Fold by fold: the runs to choose by, and those of the choice where it is made."""
    splits = "seeded" if path is None else splits_name(path, nested.base.dataset)
    runs: list[Run] = []
    for fold in range(nested.base.folds):
        for method in nested.methods:
            selection = nested.selection(method, fold, splits)
            runs += selection.values()
            chosen = choose(list(selection.values()), store)
            runs += nested.final(chosen) if chosen is not None else []
    return runs


def choose(selection: list[Run], store: Store) -> Optional[Run]:
    """The run of the highest validation accuracy, the first of equals; `None` if not all are there.

    One that diverged is never chosen.
    """
    if any(store.missing(run) for run in selection):
        return None
    results = [(run, store.known.get(run, {}).get("best_val_accuracy", -1.0)) for run in selection]
    best, accuracy = max(results, key=lambda pair: pair[1])
    return best if accuracy >= 0 else None


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
    parent = multiprocessing.parent_process()
    while True:
        taken = 0
        for run in wanted(options, store):
            if not store.missing(run):
                continue
            if parent is not None and not parent.is_alive():
                return  # it was killed outright, and could not stop its workers
            with store.claimed(run) as ours:
                if not ours:
                    taken += 1
                    continue
                # Once more: another process may have finished it since.
                if not store.missing(run):
                    continue
                with store.alone():
                    load_data(run, options.root)
                result = perform(run, options.root, options.device, options.splits)
                store.save(run, result)
                print(summary(run, result), flush=True)
            break  # to look again: runs that have waited for this one are known now
        else:
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

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
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import torch

from allocator import KEEP_MEMORY
from declarations import FOLDS, Nested, Run
from errors import BenchmarkError
from experiments import DEFAULT_NAMES, NAMES, NESTED, asked_by, queue
from nested import final_runs
from options import device_of, integer
from peers import METHODS
from runs import load_data, perform
from splits import read_splits, splits_name
from store import Store, alone

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
    except BrokenPipeError:
        _hush()
        return 141


def _hush() -> None:
    """As in `--list | head`: what is left unsaid was not asked for, not at the exit either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
        default=list(DEFAULT_NAMES),
        metavar="EXPERIMENT",
        help=f"of {', '.join(NAMES)} (default: all, in this order, but for D&D at full width, "
        "which is for a GPU)",
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
    add(
        "--list",
        action="store_true",
        help="list the runs and what is missing, and stop; the final runs of protocol 'nested' are "
        "listed once their choice is made",
    )
    options = parser.parse_args(arguments)
    options.device = device_of(parser, options.device)
    return options


def study(options: argparse.Namespace) -> int:
    """Lists, or has the workers run what is missing."""
    check_splits(options)
    store = Store(options.out)
    runs = wanted(options, store)
    if not runs:
        raise BenchmarkError("--only, --method and --fold leave no run: no table has all of them")
    missing = [run for run in runs if store.missing(run)]
    unreadable = len(store.named)
    print(
        f"{len(runs)} runs, {len(runs) - len(missing) - unreadable} of them there"
        + (f", {unreadable} cannot be read" if unreadable else ""),
        flush=True,
    )
    if options.list:
        tables = asked_by()
        for run in missing:
            print(f"{run.key}  ({tables.get(run, run.config)})")
        return 0
    if options.workers == 1:
        work(options)
        return 0
    return _in_workers(options, store)


def _in_workers(options: argparse.Namespace, store: Store) -> int:
    """Has several processes do the work; returns the exit status."""
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_worker, args=(options,)) for _ in range(options.workers)]
    # Stopped in an orderly way, it stops its workers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # Without it, a GRU's step takes twice as long. Only a process that starts takes it.
    ours = dict(os.environ)
    os.environ.update({**KEEP_MEMORY, **ours})
    started = []
    try:
        for worker in workers:
            worker.start()
            started.append(worker)
        for worker in workers:
            worker.join()
    finally:
        for name in KEEP_MEMORY.keys() - ours.keys():
            os.environ.pop(name, None)
        for worker in started:
            worker.terminate()
    codes = [worker.exitcode or 0 for worker in workers]
    for code in codes:
        if code < 0:
            print(f"study.py: a worker was killed by signal {-code}", file=sys.stderr)
    # What one was killed at, or has failed at, another may have done since.
    if any(map(store.missing, wanted(options, store))):
        return max(*codes, 1)
    return 0


def check_splits(options: argparse.Namespace) -> None:
    """A file of splits is of one data set; a folder has one for each. Said before any run."""
    nested = [NESTED[name].base for name in options.only if name in NESTED]
    if options.splits is None:
        return
    names = sorted({base.dataset for base in nested})
    if len(names) > 1 and not options.splits.is_dir():
        raise BenchmarkError(
            f"--splits {options.splits}: a file is of one data set, and tables of "
            f"{' and '.join(names)} are asked for: give a folder of DATASET_splits.json, or --only"
        )
    for base in nested:
        splits_name(options.splits, base.dataset)  # raises where the file cannot be read
        if options.list:
            continue
        try:
            with alone(Path(options.root)):
                count = len(load_data(base, options.root).graphs)
        except BenchmarkError:
            continue  # said when its turn comes: other tables may have their data
        read_splits(options.splits, base.dataset, count, base.folds)


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
            selection = list(nested.selection(method, fold, splits).values())
            for run in selection:
                store.missing(run)  # so that what is there is known
            runs += selection
            runs += final_runs(nested, method, fold, splits, store.known)
    return runs


def _worker(options: argparse.Namespace) -> None:
    try:
        torch.set_num_threads(1)
        work(options)
    except BenchmarkError as error:
        print(f"study.py: error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        _hush()
        sys.exit(141)


def work(options: argparse.Namespace) -> None:
    """Runs what is missing and unclaimed, until nothing is missing.

    A run that fails is named, and left out from then on: the others may do, and another
    process may try it. What nobody has done by the end is an error.
    """
    store = Store(options.out)
    parent = multiprocessing.parent_process()
    failed: dict[Run, str] = {}
    no_data: dict[tuple[str, bool, Optional[str]], str] = {}
    waiting = False
    while True:
        taken = 0
        for run in wanted(options, store):
            if run in failed or not store.missing(run):
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
                result = _attempt(run, options, store, failed, no_data)
                if result is not None:
                    store.save(run, result)
                    print(summary(run, result), flush=True)
            break  # to look again: runs that have waited for this one are known now
        else:
            if taken == 0:
                break
            # Another process is at work on the rest. Should it be killed, they are ours.
            if not waiting:
                print(f"waiting for {taken} runs of another process", flush=True)
            waiting = True
            time.sleep(PAUSE)
    failed = {run: reason for run, reason in failed.items() if store.missing(run)}
    if failed:
        first, reason = next(iter(failed.items()))
        raise BenchmarkError(f"{len(failed)} runs failed, {first.key} first: {reason}")


def _attempt(
    run: Run,
    options: argparse.Namespace,
    store: Store,
    failed: dict[Run, str],
    no_data: dict[tuple[str, bool, Optional[str]], str],
) -> Optional[dict[str, Any]]:
    """The outcome of a run; `None`, and a word on it, where it fails."""
    data = (run.dataset, run.cleaned, run.node_features)
    if data in no_data:  # for another run; said then
        failed[run] = no_data[data]
        return None
    try:
        with alone(Path(options.root)):
            graphs = load_data(run, options.root)
        check_same_data(run, graphs.describe()["checksum"], store)
    except BenchmarkError as error:
        failed[run] = no_data[data] = str(error)
    else:
        try:
            return perform(run, options.root, options.device, options.splits)
        except BenchmarkError as error:
            failed[run] = str(error)
        except Exception as error:
            # Whatever it was, no memory left on a GPU say, the next run may fare better.
            traceback.print_exc()
            failed[run] = f"{type(error).__name__}: {error}"
    print(f"failed: {run.key}: {failed[run]}", file=sys.stderr, flush=True)
    return None


def check_same_data(run: Run, checksum: str, store: Store) -> None:
    """Raises where runs in the folder were made with other data of the same name."""
    for other, there in store.known.items():
        alike = all(
            getattr(other, name) == getattr(run, name)
            for name in ("dataset", "cleaned", "node_features", "seed")
        )
        if alike and there["data"].get("checksum", checksum) != checksum:
            raise BenchmarkError(
                f"--out {store.folder}: {store.path(other).name} is of other data than "
                f"{run.dataset} in --root: checksum {there['data']['checksum']} there, {checksum} "
                "now. One table cannot hold both: choose another --out"
            )


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

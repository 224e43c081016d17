"""The paper's study: makes the runs of its tables that are missing, in several processes.
All of them take days of CPU time: --list shows them, and --only, --method and --fold choose some.

Usage: python benchmark/study.py --root data [--workers 2] [--only ENZYMES-10fold ...]

Writes one small JSON file for each run to --out. It can be interrupted and started again:
finished runs are not repeated, an unfinished one goes on from its last checkpoint (in
OUT/.checkpoints), and runs of another process are left to it. A file that cannot be read is kept,
and the exit status is 2.
`python benchmark/report.py` makes the tables and plots.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from harness.command import exit_status
from harness.errors import BenchmarkError
from harness.methods.registry import METHODS, TGP
from harness.options import device_of, integer
from harness.study.experiments import DEFAULT_NAMES, NAMES
from harness.study.queue import asked_by
from harness.study.run import FOLDS
from harness.study.store import Store
from harness.study.wanted import check_splits, wanted
from harness.study.work import work
from harness.study.workers import run_workers

OUT = Path(__file__).resolve().parent / "results" / "study"


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the study; returns the exit status."""
    message = "Interrupted. Start again to continue."
    return exit_status("study.py", lambda: study(parse(arguments)), message)


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
        help=f"the tables to run, of {', '.join(NAMES)} (default: all, in this order, except D&D "
        "at full width, which is for a GPU)",
    )
    methods = (*METHODS, *TGP)
    add(
        "--method",
        nargs="+",
        choices=methods,
        default=list(methods),
        metavar="METHOD",
        help=f"the methods to run, of {', '.join(methods)} (default: all that a table has)",
    )
    add("--fold", nargs="+", type=integer(0, FOLDS - 1), help=f"0 to {FOLDS - 1} (default: all)")
    add(
        "--splits",
        type=Path,
        help="protocol 'nested': published splits, a file or a folder of DATASET_splits.json; "
        "default: stratified splits from a seed",
    )
    add(
        "--workers",
        type=integer(1, 1000),
        default=1,
        help="number of processes; with one thread each if several (default: 1)",
    )
    add("--device", default="cpu", help="where to train: cpu, the default, cuda, ...")
    add(
        "--list",
        action="store_true",
        help="list the missing runs, and stop; the final runs of protocol 'nested' are listed once "
        "their settings are selected, and without --splits its runs are those of the splits that "
        "are stored",
    )
    options = parser.parse_args(arguments)
    options.device = device_of(parser, options.device)
    return options


def study(options: argparse.Namespace) -> int:
    """Lists the missing runs, or makes them."""
    check_splits(options)
    store = Store(options.out)
    runs = wanted(options, store)
    if not runs:
        raise BenchmarkError("--only, --method and --fold leave no run: no table has all of them")
    missing = [run for run in runs if store.missing(run)]
    unreadable = len(store.unreadable)
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
    status = 0
    if options.workers == 1:
        work(options, store)
    else:
        status = run_workers(options, store)
    if status == 0 and store.unreadable:
        raise BenchmarkError(f"{len(store.unreadable)} runs cannot be read, see above")
    return status


if __name__ == "__main__":
    sys.exit(main())

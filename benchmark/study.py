"""Trains the runs of the study's tables that are missing, in worker processes.

Usage: python benchmark/study.py --root data [--workers 2] [--only ENZYMES-10fold ...]

All runs take days of CPU time. --list shows missing runs, and --only chooses tables. Each finished
run is stored in --out at once. The same command continues an interrupted study, and runs that were
in training continue from their last checkpoints. `python benchmark/report.py` writes the tables and
plots.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from harness.command import device, exit_status, number
from harness.data.splits import splits_name
from harness.run import Run
from harness.store import Store
from harness.study import experiments
from harness.study.brec import count_pairs
from harness.study.nested import Results, asked, splits_of
from harness.train import Place
from harness.workers import train_all

OUT = Path(__file__).resolve().parent / "results" / "runs.parquet"


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the study; returns the exit status."""
    return exit_status("study.py", lambda: study(parse(arguments)))


def parse(arguments: Optional[Sequence[str]] = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        prog="study.py", usage="%(prog)s [options]", description=__doc__.split("\n\n")[0]
    )
    add = parser.add_argument
    names = (*experiments.EXPERIMENTS, *experiments.NESTED)
    add("--root", default="data", help="folder of the TU data sets (default: data)")
    add("--out", type=Path, default=OUT, help=f"file of results (default: {OUT})")
    add(
        "--only",
        nargs="+",
        choices=names,
        default=names,
        metavar="TABLE",
        help=f"the tables, of {', '.join(names)} (default: all)",
    )
    add(
        "--splits",
        type=Path,
        help="protocol 'nested': published splits, a file or a folder of DATASET_splits.json; "
        "default: the splits of the stored runs, or stratified ones from a seed",
    )
    add(
        "--brec",
        action="store_true",
        help="only count the pairs of BREC that color refinement and a network tell apart, "
        "ten minutes",
    )
    add("--workers", type=number(int, 1), default=1, help="processes of one thread (default: 1)")
    add("--device", type=device, default="cpu", help="cpu, cuda, ... (default: cpu)")
    add(
        "--list",
        action="store_true",
        help="list the missing runs and stop. Final runs of protocol 'nested' are listed once "
        "their settings are selected",
    )
    return parser.parse_args(arguments)


def study(options: argparse.Namespace) -> None:
    """Lists the missing runs, or trains them."""
    if options.brec:
        counts = json.dumps(count_pairs(Path(options.root)), indent=1)
        options.out.with_name("brec.json").write_text(counts + "\n", encoding="utf-8")
        return
    store = Store(options.out)
    runs = asked_runs(options, store.results)
    missing = [run for run in runs if run not in store.results]
    print(f"{len(runs)} runs, {len(runs) - len(missing)} of them there", flush=True)
    if options.list:
        for run in missing:
            print(run.title)
        return
    place = Place(options.root, options.device, options.splits)
    with store:
        train_all(lambda: asked_runs(options, store.results), place, store, options.workers)


def asked_runs(options: argparse.Namespace, results: Results) -> list[Run]:
    """Returns the runs of the chosen tables, each once, in the order of training.

    The order is fold by fold, so that every table has results if the study is stopped early. Final
    runs of protocol 'nested' are included after their settings are selected.
    """
    runs: list[Run] = []
    for name in options.only:
        if name in experiments.EXPERIMENTS:
            runs += experiments.EXPERIMENTS[name].runs
        else:
            table = experiments.NESTED[name]
            splits = splits_of(table, results)
            if options.splits is not None:
                splits = splits_name(options.splits, table.base.dataset)
            runs += asked(table, splits, results)
    return sorted(dict.fromkeys(runs), key=lambda run: run.fold)


if __name__ == "__main__":
    sys.exit(main())

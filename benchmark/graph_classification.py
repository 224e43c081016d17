"""Trains graph classifiers with SimPool, or other poolings, on the folds of a data set.

Usage: python benchmark/graph_classification.py [--method diffpool nopool --dataset ENZYMES ...]

By default, it trains a method, its control and a network without pooling on a generated data set on
which a network without pooling is at chance. For each stratified fold, protocol 'tested' gives the
accuracy on test graphs, and protocol 'paper' the highest validation accuracy over the epochs, which
is optimistic for every method. Results are stored in OUT/runs.parquet, one row for
each fold. Pictures are in OUT: the accuracy over the epochs and, for methods that cluster the
nodes, graphs with their clusters. A run that was interrupted continues when it is started again.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

import numpy as np
import pandas as pd

from harness.command import device_of, exit_status, number
from harness.data import twins
from harness.data.load import NODE_FEATURES
from harness.data.splits import make_splits
from harness.methods.registry import METHODS, TGP
from harness.report.plots import draw_run
from harness.report.statistics import accuracy
from harness.run import (
    BENCHMARK_PRESETS,
    GENERATED,
    SETTING_USED_BY,
    SIMILAR,
    TESTED,
    Result,
    Run,
    preset_of,
)
from harness.store import Store
from harness.train import Place, load_data
from harness.workers import train_all

#: Options that are numbers.
NUMBERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "p": (number(int, 1), "power of the adjacency matrix"),
    "k": (number(int, 1), "number of similar nodes per node"),
    "alpha": (number(float, 0, 1), "weight of the similarity in the features"),
    "lam": (number(float, 0), "weight of added self-loops"),
    "entropy-scaler": (number(float, 0), "factor of the entropy loss L_E"),
    "entropy-warmup": (number(float, 0, 1), "share of the epochs in which this factor grows"),
    "cluster-scaler": (number(float, 0), "factor of the cluster loss L_C"),
    "dropout": (number(float, 0, 1), "before the last layer"),
    "width": (number(float, 0, above=True), "factor of the layer widths"),
    "folds": (number(int, 2), "number of folds; default: 3 for generated data, else 10"),
    "fold": (number(int, 0), "this fold only, counted from 0"),
    "epochs": (number(int, 1), "number of epochs"),
    "batch-size": (number(int, 1), "graphs in a batch"),
    "lr": (number(float, 0, above=True), "learning rate of Adam"),
    "weight-decay": (number(float, 0), "weight decay of Adam"),
}


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the benchmark; returns the exit status."""
    message = "Interrupted. The same command continues."
    return exit_status("graph_classification.py", lambda: start(parse(arguments)), message)


def start(options: argparse.Namespace) -> int:
    """Trains the folds that are not stored yet, and prints and draws all of them."""
    rows = rows_of(options)
    runs = [run for row in rows.values() for run in row]
    data = load_data(runs[0], options.root)
    if data.node_features in NODE_FEATURES:
        for label, row in rows.items():
            rows[label] = [replace(run, node_features=data.node_features) for run in row]
        runs = [run for row in rows.values() for run in row]
    make_splits(data, runs[0].folds, runs[0].seed)  # refuses too many folds
    described = data.describe()
    chance = float(np.bincount(data.labels).max() / len(data.labels))
    print(
        f"{described['name']}: {described['num_graphs']} graphs, {described['num_classes']} "
        f"classes, {described['mean_num_nodes']} nodes on average; {data.node_features}; "
        f"{', '.join(rows)}; preset {runs[0].preset}, width {runs[0].width:g}, "
        f"{runs[0].epochs} epochs on {options.device}",
        flush=True,
    )
    with Store(options.out / "runs.parquet") as store:

        def missing() -> list[Run]:
            return [run for run in runs if run not in store.results]

        place = Place(options.root, options.device)
        labels = {run: f"{label}, fold {run.fold}" for label, row in rows.items() for run in row}
        if missing() and train_all(
            missing, place, store.checkpoint, store.add, options.workers, labels.__getitem__
        ):
            return 1
        results = {label: [store.results[run] for run in row] for label, row in rows.items()}
    drawn = draw_run(options.out, results, chance)
    print_accuracies(results, chance)
    print(f"runs: {store.path}; pictures: {', '.join(str(path) for path in drawn)}")
    return 0


def print_accuracies(results: dict[str, list[Result]], chance: float) -> None:
    """Prints the accuracies of all folds, and their mean, for each method."""
    for label, of_method in results.items():
        for result in of_method:
            if result.error is not None:
                print(f"{label}, fold {result.run.fold}: {result.error}")
    finished = {label: [r for r in row if r.error is None] for label, row in results.items()}
    columns = {
        label: {
            "mean": np.mean(values := [accuracy(result) for result in row]),
            "std": np.std(values),
            **{f"fold {result.run.fold}": accuracy(result) for result in row},
            "s per epoch": np.mean([result.seconds_per_epoch for result in row]),
        }
        for label, row in finished.items()
        if row
    }
    if columns:
        tested = next(iter(results.values()))[0].run.protocol in TESTED
        print("test accuracy" if tested else "best validation accuracy (protocol 'paper')")
        columns["chance"] = {"mean": chance}
        print(pd.DataFrame(columns).T.to_string(float_format="{:.3f}".format, na_rep=""))


def parse(arguments: Optional[Sequence[str]] = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        prog="graph_classification.py",
        usage="%(prog)s [options]",
        description=f"{__doc__.splitlines()[0]} Options without a default have the value of the "
        "preset.",
    )
    add = parser.add_argument
    add(
        "--dataset",
        default="twin-colors",
        help=f"a generated data set ({', '.join(GENERATED)}), gcb-easy or gcb-hard, a TU data set "
        "by name, or module:name, a list of PyG's Data or a function that returns one (default: "
        "twin-colors)",
    )
    add("--root", default="data", help="folder of TU data sets, as of TUDataset (default: data)")
    add("--cleaned", action="store_true", help="the TU data set without isomorphic graphs")
    add("--preset", choices=list(BENCHMARK_PRESETS), help="default: by data set")
    add(
        "--method",
        nargs="+",
        help=f"of {', '.join((*METHODS, *TGP))}, or module:Class, a pooling layer of your own "
        "(default: simmatch and nopool for twin-colors and twins, else simpool)",
    )
    add(
        "--similar",
        nargs="+",
        choices=("cosine", "constant", "shuffled", "counts", "neighbors"),
        help="similar nodes, or controls in their place (default: cosine and neighbors for the "
        "default method, else cosine)",
    )
    add("--protocol", choices=("paper", "tested"), help="default: tested for the preset narrow")
    add("--features", choices=("structural", "node", "both"), help="input of the assignments")
    add("--node-features", choices=NODE_FEATURES, help="default: all that the data set has")
    add("--gru", action="store_true", help="a GRU reads whole rows of the similarities C")
    add(
        "--order",
        choices=("given", "rcm", "bfs", "fiedler"),
        help="numbering of the nodes for structural features (default: fiedler for generated "
        "graphs but motifs-by-ring, else given)",
    )
    for name, (kind, meaning) in NUMBERS.items():
        add(f"--{name}", type=kind, help=meaning)
    add("--readout", choices=("last", "all"), help="levels that the last layer reads")
    add("--seed", type=number(int, 0, 2**32 - 1), default=0, help="of all draws (default: 0)")
    add("--device", default="auto", help="cpu, cuda, ... (default: cuda if available)")
    add("--workers", type=number(int, 1), help="processes; default: the cores, 1 on a GPU")
    add("--out", type=Path, help="folder of results (default: out/DATASET-METHOD-FEATURES)")
    options = parser.parse_args(arguments)
    if options.method is None:
        has_twins = options.dataset in twins.NUM_CLASSES
        options.method = ["simmatch", "nopool"] if has_twins else ["simpool"]
        options.similar = options.similar or (["cosine", "neighbors"] if has_twins else None)
    for method in options.method:
        own = ":" in method and not method.startswith("tgp:")
        if not own and method not in (*METHODS, *TGP):
            parser.error(f"argument --method: must be of {', '.join(METHODS)}, a tgp:NAME or a "
                         f"module:Class, got {method!r}")  # fmt: skip
    for name, methods in SETTING_USED_BY.items():
        if getattr(options, name) and not set(methods) & set(options.method):
            parser.error(
                f"argument --{name.replace('_', '-')}: only {' and '.join(methods)} read it, got "
                f"--method {' '.join(options.method)}"
            )
    options.preset = options.preset or preset_of(options.dataset)
    narrow = options.preset == "narrow"
    options.protocol = options.protocol or ("tested" if narrow else "paper")
    options.folds = options.folds or (3 if options.dataset in GENERATED else 10)
    if options.fold is not None and options.fold >= options.folds:
        parser.error(f"argument --fold: must be below --folds, {options.folds}, got {options.fold}")
    options.device = device_of(parser, options.device)
    options.workers = options.workers or (1 if options.device != "cpu" else cores())
    if options.out is None:
        words = [options.dataset, *options.method, options.features or ""]
        name = "-".join(filter(None, words)).replace(":", "-")
        options.out = Path("out") / name
    return options


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def rows_of(options: argparse.Namespace) -> dict[str, list[Run]]:
    """Returns the runs that the options ask for, one for each fold, by method and control."""
    chosen = {
        name: value
        for name, value in vars(options).items()
        if name in Run.__dataclass_fields__ and value is not None and name != "fold"
    }
    if options.dataset in GENERATED and options.dataset != "motifs-by-ring":
        chosen.setdefault("order", "fiedler")
    rows = {}
    for method in options.method:
        for similar in options.similar or ["cosine"] if method in SIMILAR else ["cosine"]:
            run = Run(**chosen | {"method": method, "similar": similar})
            label = method if similar == "cosine" else f"{method}, {similar}"
            folds = range(options.folds) if options.fold is None else [options.fold]
            rows[label] = [replace(run, fold=fold).filled() for fold in folds]
    return rows


if __name__ == "__main__":
    sys.exit(main())

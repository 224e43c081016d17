"""Trains a graph classifier with SimPool, or another pooling, on the folds of a data set.

Usage: python benchmark/graph_classification.py [--method diffpool --dataset ENZYMES ...]

For each stratified fold, the result is the highest validation accuracy over the epochs: protocol
'paper', which is optimistic for every method. Results are stored in OUT/runs.parquet, one row for
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

from harness.command import add_plot_options, device_of, exit_status, number
from harness.data.load import NODE_FEATURES
from harness.data.splits import make_splits
from harness.methods.registry import METHODS, TGP
from harness.report.plots import PlotFolder, draw_run
from harness.run import BENCHMARK_PRESETS, GENERATED, READERS, Result, Run, preset_of
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
    "folds": (number(int, 2), "number of folds; default: 3 for motifs, else 10"),
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
    runs = runs_of(options)
    data = load_data(runs[0], options.root)
    if data.node_features in NODE_FEATURES:
        runs = [replace(run, node_features=data.node_features) for run in runs]
    make_splits(data, runs[0].folds, runs[0].seed)  # refuses too many folds
    described = data.describe()
    print(
        f"{described['name']}: {described['num_graphs']} graphs, {described['num_classes']} "
        f"classes, {described['mean_num_nodes']} nodes on average; {data.node_features}; "
        f"{runs[0].method}, preset {runs[0].preset}, width {runs[0].width:g}, "
        f"{runs[0].epochs} epochs on {options.device}",
        flush=True,
    )
    with Store(options.out / "runs.parquet") as store:

        def missing() -> list[Run]:
            return [run for run in runs if run not in store.results]

        place = Place(options.root, options.device)
        if missing():
            failed = train_all(
                missing, place, store.checkpoint, store.add, options.workers,
                lambda run: f"fold {run.fold}",
            )  # fmt: skip
            if failed:
                return 1
        results = [store.results[run] for run in runs]
    plots = PlotFolder(options.out, options.format, options.dpi)
    drawn = draw_run(plots, results, data.num_classes)
    print_accuracies(results)
    print(f"runs: {store.path}; pictures: {', '.join(str(path) for path in drawn)}")
    return 0


def print_accuracies(results: list[Result]) -> None:
    """Prints the accuracy of every fold, and their mean."""
    for result in results:
        print(
            f"fold {result.run.fold}: {result.error}"
            if result.error
            else f"fold {result.run.fold}: best validation accuracy "
            f"{result.best_val_accuracy:.4f} in epoch {result.best_epoch}, "
            f"{result.seconds_per_epoch:.2f} s an epoch"
        )
    accuracies = [result.best_val_accuracy for result in results if result.error is None]
    if accuracies:
        print(
            f"mean {np.mean(accuracies):.4f}, standard deviation {np.std(accuracies):.4f} over "
            f"{len(accuracies)} folds (protocol 'paper': best epoch on the validation fold)"
        )


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
        default="motifs",
        help=f"a generated data set ({', '.join(GENERATED)}), a TU data set by name, or "
        "module:name, a list of PyG's Data or a function that returns one (default: motifs)",
    )
    add("--root", default="data", help="folder of TU data sets, as of TUDataset (default: data)")
    add("--cleaned", action="store_true", help="the TU data set without isomorphic graphs")
    add("--preset", choices=list(BENCHMARK_PRESETS), help="default: by data set")
    add(
        "--method",
        default="simpool",
        help=f"one of {', '.join((*METHODS, *TGP))}, or module:Class, a pooling layer of your own "
        "(default: simpool)",
    )
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
    add_plot_options(parser)
    options = parser.parse_args(arguments)
    own = ":" in options.method and not options.method.startswith("tgp:")
    if not own and options.method not in (*METHODS, *TGP):
        parser.error(f"argument --method: must be one of {', '.join(METHODS)}, a tgp:NAME or a "
                     f"module:Class, got {options.method!r}")  # fmt: skip
    for name, methods in READERS.items():
        if options.method not in methods and getattr(options, name):
            parser.error(
                f"argument --{name.replace('_', '-')}: only {' and '.join(methods)} read it, got "
                f"--method {options.method}"
            )
    options.folds = options.folds or (3 if options.dataset == "motifs" else 10)
    if options.fold is not None and options.fold >= options.folds:
        parser.error(f"argument --fold: must be below --folds, {options.folds}, got {options.fold}")
    options.device = device_of(parser, options.device)
    options.workers = options.workers or (1 if options.device != "cpu" else cores())
    if options.out is None:
        words = [options.dataset, options.method, options.features or ""]
        name = "-".join(filter(None, words)).replace(":", "-")
        options.out = Path("out") / name
    return options


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def runs_of(options: argparse.Namespace) -> list[Run]:
    """Returns the runs that the options ask for, one for each fold."""
    chosen = {
        name: value
        for name, value in vars(options).items()
        if name in Run.__dataclass_fields__ and value is not None and name != "fold"
    }
    chosen.setdefault("preset", preset_of(options.dataset))
    if options.dataset in GENERATED and options.dataset != "motifs-by-ring":
        chosen.setdefault("order", "fiedler")
    folds = range(options.folds) if options.fold is None else [options.fold]
    return [Run(**chosen, fold=fold).filled() for fold in folds]


if __name__ == "__main__":
    sys.exit(main())

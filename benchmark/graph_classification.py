"""Trains graph classifiers with SimPool, or other poolings, on the folds of a data set.

Usage: python benchmark/graph_classification.py [--method diffpool nopool --dataset ENZYMES ...]

By default, it trains a method, its control, and a network without pooling on a generated data set.
On this data set, the network without pooling is at chance.

Protocol 'tested' gives the accuracy on test graphs. Protocol 'paper' gives the highest validation
accuracy over the epochs, which is optimistic for every method. Both have one run for each
stratified fold.

OUT/runs.parquet stores one row for each fold. Pictures in OUT show the accuracy over the epochs
and, for methods that cluster the nodes, graphs with their clusters. The same command continues an
interrupted run.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Optional

import numpy as np
import pandas as pd
import torch

from harness.command import device, exit_status, number
from harness.data import twins
from harness.data.load import load
from harness.methods.registry import METHODS, TGP
from harness.report.plots import draw_run
from harness.report.statistics import accuracy
from harness.run import FOLDS, GENERATED, SIMILAR, TESTED, Result, Run, preset_of
from harness.store import Store
from harness.train import Place
from harness.workers import train_all


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the benchmark; returns the exit status."""
    return exit_status("graph_classification.py", lambda: start(parse(arguments)))


def start(options: argparse.Namespace) -> None:
    """Trains the folds that are not stored yet, and prints and draws all of them."""
    data = load(options.dataset, options.root, options.cleaned, options.node_features, options.seed)
    options.node_features = data.node_features
    rows = rows_of(options)
    labels = {run: f"{label}, fold {run.fold}" for label, row in rows.items() for run in row}
    run = next(iter(labels))
    print(
        f"{data.name}: {len(data.graphs)} graphs, {data.num_classes} classes; "
        f"{data.node_features}; {', '.join(rows)}; preset {run.preset}, width {run.width:g}, "
        f"{run.epochs} epochs on {options.device}",
        flush=True,
    )
    with Store(options.out / "runs.parquet") as store:
        place = Place(options.root, options.device)
        train_all(lambda: list(labels), place, store, options.workers, labels.__getitem__)
        results = {label: [store.results[run] for run in row] for label, row in rows.items()}
    chance = float(np.bincount(data.labels).max() / len(data.labels))
    drawn = draw_run(options.out, results, chance)
    print("test" if run.protocol in TESTED else "best validation", "accuracy")
    print(table_of(results).to_string(float_format="{:.3f}".format, na_rep=""))
    print(f"chance: {chance:.3f}")
    print(f"runs: {store.path}; pictures: {', '.join(str(path) for path in drawn)}")


def table_of(results: dict[str, list[Result]]) -> pd.DataFrame:
    """Returns the accuracies of all folds, and their mean, for each method."""
    table = pd.DataFrame(
        {
            label: {f"fold {r.run.fold}": np.nan if r.error else accuracy(r) for r in row}
            for label, row in results.items()
        }
    ).T
    seconds = {label: np.mean([r.seconds_per_epoch for r in row]) for label, row in results.items()}
    mean, std = table.mean(axis=1), table.std(axis=1, ddof=0)
    return table.assign(mean=mean, std=std, **{"s per epoch": pd.Series(seconds)})


def parse(arguments: Optional[Sequence[str]] = None) -> argparse.Namespace:
    """Parses the command line. Most options are fields of :class:`Run`."""
    parser = argparse.ArgumentParser(
        prog="graph_classification.py",
        usage="%(prog)s [options]",
        description=f"{__doc__.splitlines()[0]} Options without a default have the value of the "
        f"preset. Methods: {', '.join((*METHODS, *TGP))}.",
    )
    settings = [f for f in fields(Run) if "option" in f.metadata]
    for setting in settings:
        parser.add_argument(f"--{setting.name.replace('_', '-')}", **setting.metadata["option"])
    add = parser.add_argument
    add("--root", default="data", help="folder of TU data sets, as of TUDataset (default: data)")
    add(
        "--device",
        type=device,
        default="cuda" if torch.cuda.is_available() else "cpu",
        help="cpu, cuda, ... (default: cuda if available)",
    )
    add("--workers", type=number(int, 1), help="processes; default: the cores, 1 on a GPU")
    add("--out", type=Path, help="folder of results (default: out/DATASET-METHOD-FEATURES)")
    parser.set_defaults(dataset="twin-colors", seed=0)
    options = parser.parse_args(arguments)
    if options.method is None:
        has_twins = options.dataset in twins.NUM_CLASSES
        options.method = ["simmatch", "nopool"] if has_twins else ["simpool"]
        options.similar = options.similar or (["cosine", "neighbors"] if has_twins else None)
    for method in options.method:
        if method not in (*METHODS, *TGP) and (":" not in method or method.startswith("tgp:")):
            parser.error(f"argument --method: must be of {', '.join(METHODS)}, a tgp:NAME or a "
                         f"module:Class, got {method!r}")  # fmt: skip
    for setting in settings:
        methods = setting.metadata["methods"] or options.method
        if getattr(options, setting.name) and not set(methods) & set(options.method):
            parser.error(
                f"argument --{setting.name.replace('_', '-')}: only {' and '.join(methods)} read "
                f"it, got --method {' '.join(options.method)}"
            )
    options.preset = options.preset or preset_of(options.dataset)
    options.protocol = options.protocol or ("tested" if options.preset == "narrow" else "paper")
    options.folds = options.folds or (3 if options.dataset in GENERATED else FOLDS)
    if options.fold is not None and options.fold >= options.folds:
        parser.error(f"argument --fold: must be below --folds, {options.folds}, got {options.fold}")
    # PyTorch has one thread for each core, and a worker needs one core.
    options.workers = options.workers or (torch.get_num_threads() if options.device == "cpu" else 1)
    words = filter(None, [options.dataset, *options.method, options.features])
    options.out = options.out or Path("out") / "-".join(words).replace(":", "-")
    return options


def rows_of(options: argparse.Namespace) -> dict[str, list[Run]]:
    """Returns the runs that the options ask for, one for each fold, by method and control."""
    names = {f.name for f in fields(Run)} & vars(options).keys()
    chosen = {name: value for name in names if (value := getattr(options, name)) is not None}
    if options.dataset in GENERATED and options.dataset != "motifs-by-ring":
        chosen.setdefault("order", "fiedler")
    folds = range(options.folds) if options.fold is None else [options.fold]
    rows = {}
    for method in options.method:
        for similar in options.similar or ["cosine"] if method in SIMILAR else ["cosine"]:
            run = Run(**chosen | {"method": method, "similar": similar})
            label = method if similar == "cosine" else f"{method}, {similar}"
            rows[label] = [replace(run, fold=fold).filled() for fold in folds]
    return rows


if __name__ == "__main__":
    sys.exit(main())

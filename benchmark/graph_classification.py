"""SimPool, or a peer, on graph classification, protocol 'paper'.

Usage: python benchmark/graph_classification.py [--method diffpool --dataset ENZYMES ...]

Writes OUT/results.json and, of a method with assignments, OUT/curves_level0.png,
OUT/curves_level1.png and OUT/clusters.png. A run that was killed goes on from the last
finished fold when it is started again with the same settings.
"""

import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Optional

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold

from data import GraphData, add_structural_features, load
from errors import BenchmarkError
from networks import build, count_parameters
from options import parse, settings_of
from plots import plot_clusters, plot_curves
from results import ASSIGNING, Locked, read, save, surroundings
from torch_geometric_simpool import StructuralSimilarity
from training import run_fold


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the benchmark; returns the exit status."""
    try:
        return run(arguments)
    except BenchmarkError as error:
        print(f"graph_classification.py: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted. Start again with the same settings to go on.", file=sys.stderr)
        return 130


def run(arguments: Optional[Sequence[str]]) -> int:
    """Loads the data, runs the folds that are missing, and reports."""
    options = parse(arguments)
    data = load(options.dataset, options.root, options.cleaned, options.node_features, options.seed)
    options.node_features = data.node_features
    settings, described = settings_of(options), data.describe()
    splits = make_splits(data, options.folds, options.seed)
    finished = read(options.out, settings, described)
    wanted = range(options.folds) if options.fold is None else [options.fold]

    device = torch.device(options.device)
    results = {
        "protocol": "paper",
        "settings": settings,
        "data": described,
        "num_parameters": count_parameters(build(options, data, splits[wanted[0]][0])),
        **surroundings(device),
    }
    print(headline(results))
    if set(wanted) - {fold["fold"] for fold in finished}:
        with Locked(options.out):
            # Once more: another run may have finished folds since.
            finished = read(options.out, settings, described)
            missing = [i for i in wanted if i not in {fold["fold"] for fold in finished}]
            train_folds(options, data, splits, missing, {**results, "folds": finished})
    report(finished, options.out)
    return 0


def train_folds(
    options: Any,
    data: GraphData,
    splits: list[tuple[np.ndarray, np.ndarray]],
    missing: list[int],
    results: dict[str, Any],
) -> None:
    """Runs the folds that are missing, and stores and draws each as it comes."""
    if options.method == "simpool" and options.features != "node" and not options.gru:
        transform = StructuralSimilarity(
            options.k, options.p, options.lam, options.alpha, device=options.device
        )
        add_structural_features(data.graphs, transform)
    finished, title = results["folds"], f"{data.name}, {options.method}"
    if options.method == "simpool":
        title += f", features={options.features}"
    for number in missing:
        train, val = splits[number]
        graphs = data.standardised(train)
        start = time.perf_counter()
        fold = run_fold(
            partial(build, options, data, train),
            [graphs[i] for i in train],
            [graphs[i] for i in val],
            results["settings"],
            seed=1000 * options.seed + number,
            label=f"fold {number}",
        )
        assert fold.model is not None
        finished.append(
            {
                "fold": number,
                "best_val_accuracy": fold.best_val_accuracy,
                "best_epoch": fold.best_epoch,
                "seconds_per_epoch": fold.seconds_per_epoch,
                "seconds": time.perf_counter() - start,
                "num_parameters": count_parameters(fold.model),
                "num_train": len(train),
                "num_val": len(val),
                "history": fold.history,
            }
        )
        finished.sort(key=lambda fold: fold["fold"])
        try:
            save(options.out, results)
            if options.method in ASSIGNING:
                plot_curves(options.out, finished, title)
                plot_clusters(
                    options.out,
                    fold.model,
                    [graphs[i] for i in val],
                    f"{title}: clusters, fold {number}",
                )
        except OSError as error:
            raise BenchmarkError(f"--out {options.out}: {error}") from error


def make_splits(data: GraphData, folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Stratified folds: the indices of the graphs to train on, and to validate on."""
    rarest = int(np.bincount(data.labels).min())
    if folds > rarest:
        raise BenchmarkError(
            f"--folds must be at most {rarest}, the number of graphs in the smallest class of "
            f"{data.name}, got {folds}"
        )
    splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(len(data.graphs)), data.labels))


def headline(results: dict[str, Any]) -> str:
    """One line on what is about to run."""
    data, settings = results["data"], results["settings"]
    method, reads = settings["method"], settings["features"]
    if method == "simpool":
        method += f", assignment reads {reads} features"
    return (
        f"{data['name']}: {data['num_graphs']} graphs, {data['num_classes']} classes, "
        f"{data['mean_num_nodes']} nodes on average; {method}; "
        f"node features are {settings['node_features']}; preset {settings['preset']}, "
        f"width {settings['width']:g}, {results['num_parameters']:,} parameters, "
        f"on {results['hardware']['device']}"
    )


def report(folds: list[dict[str, Any]], out: Any) -> None:
    """Prints the figures."""
    for fold in folds:
        print(
            f"fold {fold['fold']}: best validation accuracy {fold['best_val_accuracy']:.4f} "
            f"in epoch {fold['best_epoch']}, {fold['seconds_per_epoch']:.2f} s an epoch"
        )
    accuracy = [fold["best_val_accuracy"] for fold in folds]
    print(
        f"mean {np.mean(accuracy):.4f}, standard deviation {np.std(accuracy):.4f} over "
        f"{len(folds)} folds (protocol 'paper': best epoch on the validation fold); see {out}"
    )


if __name__ == "__main__":
    sys.exit(main())

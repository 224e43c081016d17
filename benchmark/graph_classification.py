"""Graph classification with SimPool, or another pooling, by protocol 'paper'.

Usage: python benchmark/graph_classification.py [--method diffpool --dataset ENZYMES ...]

Writes OUT/results.json and, for methods with assignments, OUT/curves_level0.png,
OUT/curves_level1.png and OUT/clusters.png (--format). An interrupted run continues when it is
started again with the same settings: finished folds are kept, and of the fold that was being
trained there is a checkpoint, OUT/checkpoint_foldN.pt, which goes when the fold is finished.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch

from harness.command import exit_status
from harness.data.load import GENERATED, NODE_FEATURES, load
from harness.data.motifs import BY_RING
from harness.data.motifs import NAME as DEFAULT
from harness.data.splits import make_splits
from harness.errors import BenchmarkError
from harness.methods.build import build, count_parameters
from harness.methods.presets import (
    BENCHMARK_PRESETS,
    DEFAULT_PRESET,
    ONLY_SIMPOOL,
    PRESET_OF,
    READERS,
)
from harness.methods.registry import METHODS, TGP
from harness.options import device_of, integer, real
from harness.report.drawing import add_plot_options
from harness.report.fold_plots import FoldPlots
from harness.store.denormals import flushed_denormals
from harness.store.files import temporaries
from harness.store.locks import LockedFolder
from harness.store.surroundings import surroundings
from harness.training.checkpoint import Checkpoint
from harness.training.folds_file import NAME as RESULTS
from harness.training.folds_file import read, save
from harness.training.paper import train_folds
from torch_geometric_simpool.layer import FEATURES
from torch_geometric_simpool.models.sim_pool_net import READOUTS

#: The default data set has fewer folds, so that two cores take a minute or two.
FOLDS_OF = {DEFAULT: 3}
#: Where nodes are numbered at random, which tells nothing about them.
ORDER_OF = {name: "fiedler" for name in GENERATED if name != BY_RING}
#: Options that may differ between starts of one run.
NOT_SETTINGS = ("checkpoint_every", "dpi", "fold", "format", "out", "root")


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the benchmark; returns the exit status."""
    message = "Interrupted. Start again with the same settings to continue."
    return exit_status("graph_classification.py", lambda: run(parse(arguments)), message)


@flushed_denormals()
def run(options: argparse.Namespace) -> int:
    """Loads the data, runs the missing folds, and prints the results."""
    data = load(options.dataset, options.root, options.cleaned, options.node_features, options.seed)
    options.node_features = data.node_features
    settings = {k: v for k, v in vars(options).items() if k not in NOT_SETTINGS}
    described = data.describe()
    splits = make_splits(data, options.folds, options.seed)
    finished = read(options.out, settings, described)
    wanted = range(options.folds) if options.fold is None else [options.fold]

    results = {
        "protocol": "paper",
        "settings": settings,
        "data": described,
        "num_parameters": count_parameters(build(options, data, splits[wanted[0]][0])),
        **surroundings(torch.device(options.device)),
    }
    print(headline(results), flush=True)
    for number in sorted(numbers_of(finished).intersection(wanted)):
        path = options.out / RESULTS
        print(f"fold {number} is stored in {path}, and is not trained again", flush=True)

    def checkpoint_of(fold: int) -> Checkpoint:
        path = options.out / f"checkpoint_fold{fold}.pt"
        known = {**settings, **{f"data.{k}": v for k, v in described.items()}, "fold": fold}
        return Checkpoint(path, known, options.checkpoint_every)

    plots = FoldPlots(options)
    missing = set(wanted) - numbers_of(finished)
    # Of a run that was killed after its last fold, or had plots of another format.
    left = any(checkpoint_of(fold).path.exists() for fold in numbers_of(finished))
    left = left or any(temporaries(options.out)) or (bool(finished) and plots.missing)
    if missing or left:
        with LockedFolder(options.out):
            # Again: another process may have finished folds in the meantime.
            finished = read(options.out, settings, described)
            missing -= numbers_of(finished)
            for fold in train_folds(options, data, splits, sorted(missing), checkpoint_of):
                finished = sorted([*finished, fold.stored], key=lambda stored: stored["fold"])
                with naming_out(options):
                    save(options.out, {**results, "folds": finished})
                    plots.draw_curves(finished)
                    plots.draw_clusters(fold)
                    checkpoint_of(fold.stored["fold"]).remove()
            if left:
                with naming_out(options):
                    plots.draw_curves(finished)
                    for number in numbers_of(finished):
                        checkpoint_of(number).remove()
    print_accuracy(finished, options.out)
    return 0


@contextmanager
def naming_out(options: argparse.Namespace) -> Iterator[None]:
    """Errors of files name the option."""
    try:
        yield
    except OSError as error:
        raise BenchmarkError(f"--out {options.out}: {error}") from error


def numbers_of(finished: list[dict[str, Any]]) -> set[int]:
    """The numbers of the finished folds."""
    return {fold["fold"] for fold in finished}


def headline(results: dict[str, Any]) -> str:
    """One line about the run."""
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


def print_accuracy(folds: list[dict[str, Any]], out: Any) -> None:
    """Prints the accuracy of every fold, and their mean."""
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


def parse(arguments: Optional[Sequence[str]] = None) -> argparse.Namespace:
    """Parses the command line. Settings that are not given take the values of the preset."""
    parser = argparse.ArgumentParser(
        prog="graph_classification.py",
        usage="%(prog)s [options]",
        description="Trains a graph classifier with SimPool, or another pooling, by the paper's "
        "protocol: stratified folds, and for each fold the highest validation accuracy over the "
        "epochs. "
        "This protocol is optimistic for every method; the paper's tables use it. Options without "
        "a default take the value of the preset.",
    )
    add = parser.add_argument
    add(
        "--dataset",
        default=DEFAULT,
        help=f"a TU data set by name; or a generated one: {', '.join(GENERATED)} (default: "
        f"{DEFAULT}; {BY_RING}: the same graphs, their nodes numbered ring by ring)",
    )
    add(
        "--root",
        default="data",
        help="folder of the TU data sets, one sub-folder each (default: data)",
    )
    add("--cleaned", action="store_true", help="the TU data set without isomorphic graphs")
    add(
        "--preset",
        choices=list(BENCHMARK_PRESETS),
        help="settings of the network and of the training: those of the paper's ten folds, or "
        "of its other tables (enzymes, dd); default: motifs for generated data sets, dd-10fold "
        "for DD, else enzymes-10fold",
    )
    add(
        "--method",
        choices=(*METHODS, *TGP),
        metavar="METHOD",
        default="simpool",
        help=f"the pooling, on the same backbone, graphs, folds and node features: one of "
        f"{', '.join(METHODS)}, or of {', '.join(TGP)}; nopool: no pooling; baseline: a network "
        "that ignores the edges; tgp:NAME: a pooler of torch-geometric-pool (default: simpool)",
    )
    add(
        "--features",
        choices=FEATURES,
        help="input of the networks that assign nodes to clusters (default: structural)",
    )
    add(
        "--node-features",
        choices=NODE_FEATURES,
        help="default: labels+attributes where the data set has attributes, else labels; "
        "labels+laplacian: labels, and eigenvectors of the Laplacian",
    )
    add(
        "--gru",
        action="store_true",
        default=None,
        help="a GRU reads whole rows of C, the similarities",
    )
    add(
        "--order",
        choices=("given", "rcm", "bfs", "fiedler"),
        help="how nodes are numbered before the structural features are computed; default: "
        f"{ORDER_OF[DEFAULT]} for {', '.join(ORDER_OF)}, else given",
    )
    add("--p", type=integer(1), help="power of the adjacency matrix whose rows are compared")
    add("--k", type=integer(1, 100_000), help="similar nodes of each node, read as features")
    add("--alpha", type=real(0, 1), help="weight of the similarity in structural features")
    add("--lam", type=real(0, 1e6), help="weight of added self-loops")
    add("--entropy-scaler", type=real(0), help="factor of the entropy loss L_E")
    add(
        "--entropy-warmup",
        type=real(0, 1),
        default=0.0,
        help="share of the epochs in which the factor of L_E, or of DiffPool's entropy loss, grows "
        "linearly from 0 (default: 0)",
    )
    add("--cluster-scaler", type=real(0), help="factor of the cluster loss L_C")
    add(
        "--readout",
        choices=READOUTS,
        default="last",
        help="what the last layer of SimPool and DiffPool reads: the sum over the clusters of the "
        "last level, or of all levels (default: last)",
    )
    add(
        "--dropout",
        type=real(0, 1),
        default=0.0,
        help=f"probability of dropout before the last layer of {', '.join(READERS['dropout'])} "
        "(default: 0)",
    )
    add(
        "--width",
        type=real(0, 64, open_low=True),
        default=1.0,
        help="factor of the layer widths (default: 1)",
    )
    add("--folds", type=integer(2), help="number of folds; default: 3 for motifs, else 10")
    add("--fold", type=integer(0), help="run this fold only, counted from 0")
    add("--epochs", type=integer(1), help="number of epochs")
    add("--batch-size", type=integer(1), help="graphs in a batch")
    add("--lr", type=real(0, open_low=True), help="learning rate of Adam")
    add("--weight-decay", type=real(0), default=0.0, help="weight decay of Adam (default: 0)")
    add(
        "--seed",
        type=integer(0, 2**32 - 1),
        default=0,
        help="seed of folds, weights, batches and generated data sets",
    )
    add(
        "--device",
        default="auto",
        help="cpu, cuda, ...; auto, the default, is cuda if available",
    )
    add("--out", help="folder of results; default: out/DATASET-PRESET-FEATURES, or -METHOD")
    add(
        "--checkpoint-every",
        type=integer(0),
        default=10,
        metavar="EPOCHS",
        help="how often the fold that is being trained is stored, so that a run that is killed "
        "continues from there; 0: never (default: 10)",
    )
    add_plot_options(parser)
    options = parser.parse_args(arguments)

    if options.preset is None:
        options.preset = PRESET_OF.get(options.dataset, DEFAULT_PRESET)
    for name, methods in READERS.items():
        if options.method not in methods and getattr(options, name) != parser.get_default(name):
            parser.error(
                f"argument --{name.replace('_', '-')}: only --method {' or '.join(methods)} reads "
                f"it, got {options.method}"
            )
    if options.method == "simpool":
        options.features = options.features or "structural"
        options.gru = bool(options.gru)
        refuse_unread(parser, options)
        options.order = options.order or ORDER_OF.get(options.dataset, "given")
    preset = BENCHMARK_PRESETS[options.preset]
    for name in (*ONLY_SIMPOOL, "epochs", "batch_size", "lr"):
        skipped = name in ONLY_SIMPOOL and options.method != "simpool"
        if getattr(options, name) is None and not skipped:
            setattr(options, name, getattr(preset, name))
    if options.folds is None:
        options.folds = FOLDS_OF.get(options.dataset, 10)
    if options.fold is not None and options.fold >= options.folds:
        parser.error(f"argument --fold: must be below --folds, {options.folds}, got {options.fold}")
    options.device = device_of(parser, options.device)
    if options.out is None:
        what = options.features if options.method == "simpool" else options.method
        options.out = f"out/{options.dataset}-{options.preset}-{what.replace(':', '-')}"
    options.out = Path(options.out)
    return options


def refuse_unread(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuses options of SimPool that go with none of what its assignment networks read."""
    unread = []
    if options.features == "node":
        unread = ["gru", "p", "lam"]
    if options.features == "node" or options.gru:
        unread += ["order", "k", "alpha"]
    for name in unread:
        value = getattr(options, name)
        if value is not None and value is not False:
            other = "--features node" if options.features == "node" else "--gru"
            parser.error(
                f"argument --{name}: must not be given with {other}, which does not read it"
            )


if __name__ == "__main__":
    sys.exit(main())

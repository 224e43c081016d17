"""The options of the benchmark, checked, and the settings that come of them."""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

import torch

from data import DEFAULT
from peers import METHODS
from torch_geometric_simpool.layer import FEATURES
from torch_geometric_simpool.models import PRESETS

#: The presets of the paper, and one for the generated data set, narrow enough for two cores.
BENCHMARK_PRESETS = {
    **PRESETS,
    "motifs": replace(
        PRESETS["enzymes-10fold"],
        architecture=PRESETS["enzymes-10fold"].architecture.scaled(0.25),
        lr=3e-4,
        epochs=60,
    ),
}
PRESET_OF = {DEFAULT: "motifs", "DD": "dd-10fold"}
#: Folds of the generated data set: what two cores do in a minute or two.
FOLDS_OF = {DEFAULT: 3}
NODE_FEATURES = ("labels", "labels+attributes")

#: Settings that only SimPool reads.
ONLY_SIMPOOL = (
    "features",
    "gru",
    "k",
    "p",
    "lam",
    "alpha",
    "entropy_scaler",
    "cluster_scaler",
)

#: What may differ between two runs that go on from each other.
NOT_SETTINGS = ("fold", "out", "root")


def parse(arguments: Optional[Sequence[str]] = None) -> argparse.Namespace:
    """Parses the command line; what a preset says fills in what it does not."""
    parser = argparse.ArgumentParser(
        prog="graph_classification.py",
        usage="%(prog)s [options]",
        description="SimPool, or a peer, on graph classification, by the paper's protocol: "
        "stratified folds, and of each fold the highest validation accuracy over the epochs. "
        "It flatters every method; it is what the paper's tables hold. Options without a default "
        "here take that of the preset.",
    )
    add = parser.add_argument
    add(
        "--dataset",
        default=DEFAULT,
        help=f"a TU data set by name, or {DEFAULT!r}: generated (default)",
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
        help="default: by data set; motifs, dd-10fold for DD, else enzymes-10fold",
    )
    add(
        "--method",
        choices=METHODS,
        default="simpool",
        help="the pooling, on the same backbone, graphs, folds and node features; nopool: a "
        "network without, baseline: one blind to structure (default: simpool)",
    )
    add(
        "--features",
        choices=FEATURES,
        help="what assignments read (default: structural)",
    )
    add(
        "--node-features",
        choices=NODE_FEATURES,
        help="default: labels+attributes where the data set has attributes, else labels",
    )
    add("--gru", action="store_true", default=None, help="have a GRU read the row of C, all of it")
    add("--p", type=integer(1), help="power of the adjacency matrix")
    add("--k", type=integer(1, 100_000), help="width of the structural features")
    add("--alpha", type=_real(0, 1), help="scaler of the similarity in mapped indices")
    add("--lam", type=_real(0, 1e6), help="weight of added self-loops")
    add("--entropy-scaler", type=_real(0), help="factor of L_E")
    add("--cluster-scaler", type=_real(0), help="factor of L_C")
    add(
        "--width",
        type=_real(0, 64, open_low=True),
        default=1.0,
        help="multiplies layer widths (default: 1)",
    )
    add("--folds", type=integer(2), help="number of folds; default: 3 for motifs, else 10")
    add("--fold", type=integer(0), help="run this fold only, from 0")
    add("--epochs", type=integer(1), help="number of epochs")
    add("--batch-size", type=integer(1), help="graphs in a batch")
    add("--lr", type=_real(0, open_low=True), help="learning rate of Adam")
    add(
        "--seed",
        type=integer(0, 2**32 - 1),
        default=0,
        help="of folds, weights, batches and motifs",
    )
    add(
        "--device",
        default="auto",
        help="'cpu', 'cuda', ...; auto, the default: cuda where there is one",
    )
    add("--out", help="folder of results; default: out/DATASET-PRESET-FEATURES, or -METHOD")
    options = parser.parse_args(arguments)

    if options.preset is None:
        options.preset = PRESET_OF.get(options.dataset, "enzymes-10fold")
    if options.method != "simpool":
        for name in ONLY_SIMPOOL:
            if getattr(options, name) is not None:
                option = f"--{name.replace('_', '-')}"
                parser.error(
                    f"argument {option}: only --method simpool reads it, got {options.method}"
                )
    else:
        options.features = options.features or "structural"
        options.gru = bool(options.gru)
    preset = BENCHMARK_PRESETS[options.preset]
    for name in (*ONLY_SIMPOOL, "epochs", "batch_size", "lr"):
        skipped = name in ONLY_SIMPOOL and options.method != "simpool"
        if getattr(options, name) is None and not skipped:
            setattr(options, name, getattr(preset, name))
    if options.folds is None:
        options.folds = FOLDS_OF.get(options.dataset, 10)
    if options.fold is not None and options.fold >= options.folds:
        parser.error(f"argument --fold: must be below --folds, {options.folds}, got {options.fold}")
    if options.gru and options.features == "node":
        parser.error("argument --gru: must not be given with --features node, which reads no row")
    options.device = device_of(parser, options.device)
    if options.out is None:
        what = options.features if options.method == "simpool" else options.method
        options.out = f"out/{options.dataset}-{options.preset}-{what}"
    options.out = Path(options.out)
    return options


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """What the figures depend on, as it is stored with them."""
    return {k: v for k, v in vars(options).items() if k not in NOT_SETTINGS}


def integer(low: int, high: Optional[int] = None) -> Callable[[str], int]:
    """What parses an integer within bounds."""

    def parse(text: str) -> int:
        bound = f">= {low}" if high is None else f">= {low} and <= {high}"
        expected = f"must be an integer {bound}, got {text!r}"
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(expected) from None
        if value < low or (high is not None and value > high):
            raise argparse.ArgumentTypeError(expected)
        return value

    return parse


def _real(low: float, high: float = math.inf, open_low: bool = False) -> Callable[[str], float]:
    def parse(text: str) -> float:
        bound = f"> {low:g}" if open_low else f">= {low:g}"
        bound += f" and <= {high:g}" if high < math.inf else ""
        expected = f"must be a finite number {bound}, got {text!r}"
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(expected) from None
        if not math.isfinite(value) or not low <= value <= high or (open_low and value == low):
            raise argparse.ArgumentTypeError(expected)
        return value

    return parse


def device_of(parser: argparse.ArgumentParser, name: str) -> str:
    """The device of that name, 'auto' among them, or an error of the parser."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name).item()
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0][:200]
        parser.error(f"argument --device: {name!r} is not available: {reason}")
    return name

"""Time and memory of the pooling operators, and of training, beside other implementations.

Usage: python benchmark/pooling.py [--root DIR] [--part PART] [--out DIR]

Parts: dd, scaling, training, denormals (the price of denormal numbers).

Every method runs in processes of its own, on the same batches. Its results are compared with those
of `sim_pool` before it is timed. Writes OUT/PART.json, and OUT/scaling.png (--format). Two of
the methods need torch-geometric-pool (`tgp`). With --tables, prints the tables of what OUT holds,
and draws its plot again.
"""

import argparse
import json
import sys
from pathlib import Path

import torch

from harness.report.drawing import PlotFolder, add_plot_options
from harness.speed.denormals import denormal_metrics
from harness.speed.pool_cases import dd_cases, scaling_cases
from harness.speed.pool_measure import measure
from harness.speed.pool_methods import METHODS
from harness.speed.pool_plots import plot_scaling
from harness.speed.pool_run import in_child, operator_metrics
from harness.speed.pool_tables import tables
from harness.speed.pool_training import epochs, training_metrics
from harness.store.files import read_json, write_json
from harness.store.surroundings import surroundings

PARTS = ("dd", "scaling", "training", "denormals")


def main() -> int:
    """Measures one part, or prints the tables; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default="data", help="folder of the TU data sets")
    parser.add_argument("--part", choices=PARTS, default="dd")
    parser.add_argument("--out", type=Path, default=Path("out/pooling"))
    parser.add_argument(
        "--tables", action="store_true", help="print the tables of OUT, draw its plot, stop"
    )
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    add_plot_options(parser)
    options = parser.parse_args()
    plots = PlotFolder(options.out, options.format, options.dpi)
    if options.child:
        # A method on a stored case, or a network on the data of a case.
        name, *words = options.child
        if name == "denormals":
            print(json.dumps(denormal_metrics(words[0])))
        else:
            print(json.dumps((measure if name in METHODS else epochs)(name, *words)))
        return 0
    if options.tables:
        print("\n".join(tables(options.out)))
        scaling = options.out / "scaling.json"
        if scaling.exists():
            plot_scaling(plots, read_json(scaling))
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    if options.part == "training":
        results = training_metrics(
            lambda case, network, kept: in_child(case, network, options.root, kept=kept)
        )
    elif options.part == "denormals":
        results = in_child(options.part, options.root, kept=True)
    else:
        make_cases = dd_cases if options.part == "dd" else scaling_cases
        results = operator_metrics(make_cases(options.root))
    if "error" in results:
        print(f"pooling.py: error: {results['error']}", file=sys.stderr)
        return 1
    results = {**surroundings(torch.device("cpu")), **results}
    write_json(options.out / f"{options.part}.json", results)
    if options.part == "scaling":
        plot_scaling(plots, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())

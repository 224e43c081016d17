"""Measures time and memory.

python benchmark/speed.py topk       the top k beside sparse_dot_topn, similaripy and implicit
python benchmark/speed.py pooling    sim_pool on D&D beside PyG's and tgp's DiffPool
python benchmark/speed.py training   epochs of ENZYMES and D&D
python benchmark/speed.py recommend  Recall@20, NDCG@20 and costs of `recommend` and other methods

Methods take turns. Medians with the fastest and the slowest call are printed, and written to --out.
On a GPU (--device cuda), `topk` compares the backends of this package.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Optional, Union

import torch

from harness.command import device_of, exit_status, number
from harness.machine import flush_denormals, provenance
from harness.speed import pooling, recommendation, topk, training
from harness.speed.measure import Measurement


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Measures; returns the exit status."""
    return exit_status("speed.py", lambda: measure(parse(arguments)))


def parse(arguments: Optional[Sequence[str]] = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        prog="speed.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("part", choices=("topk", "pooling", "training", "recommend"))
    add("--root", help="folder of TU data sets, or of NAME_train.npz and NAME_test.npz for\n"
        "`recommend`; without it, data are generated")  # fmt: skip
    add("--cases", nargs="+", choices=list(topk.CASES), default=list(topk.DEFAULT), metavar="CASE",
        help=f"graphs of `topk`: {', '.join(topk.CASES)}")  # fmt: skip
    add("--threads", nargs="+", type=number(int, 1), default=[1, 2], help="default: 1 2")
    add("--seconds", type=number(float, 0), default=10.0, help="for each case, at least 3 rounds")
    add("--graphs", type=number(int, 1), help="number of graphs of `pooling` and `training`")
    add("--device", default="cpu", help="cpu or cuda (default: cpu)")
    add("--out", type=Path, help="a JSON file of the measurements")
    options = parser.parse_args(arguments)
    options.device = device_of(parser, options.device)
    return options


def measure(options: argparse.Namespace) -> None:
    """Measures a part, with each number of threads."""
    flush_denormals()
    root, device, seconds = options.root, options.device, options.seconds
    rows = []
    cases: Iterable[str] = options.cases if options.part == "topk" else [options.part]
    if options.part == "recommend":
        cases = data_sets = recommendation.load_data(root)
    for threads in options.threads if device == "cpu" else options.threads[:1]:
        torch.set_num_threads(threads)
        for name in cases:
            measured: Mapping[str, Union[Measurement, recommendation.Result]]
            if options.part == "recommend":
                measured = recommendation.measure_data_set(*data_sets[name], seconds)
            elif options.part == "pooling":
                measured = pooling.measure_pooling(
                    root, device, seconds, count=options.graphs or 160
                )
            elif options.part == "training":
                measured = training.measure_training(root, device, seconds, options.graphs)
            elif device == "cpu":
                measured = topk.measure_case(name, threads, seconds)
            else:
                measured = topk.measure_backends(name, device, seconds)
            title = topk.CASES[name].title if options.part == "topk" else name
            show(f"{title}, {threads} threads", measured)
            rows += [
                {"case": title, "threads": threads, "method": method, **measurement._asdict()}
                for method, measurement in measured.items()
            ]
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        result = {"part": options.part, "rows": rows, **provenance(torch.device(device))}
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def show(title: str, measured: Mapping[str, Union[Measurement, recommendation.Result]]) -> None:
    """Prints the measurements of a case; ratios are to the first."""
    print(title)
    first = next(iter(measured.values())).seconds
    for name, measurement in measured.items():
        print(f"  {name}: {measurement}, ratio {measurement.seconds / first:.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

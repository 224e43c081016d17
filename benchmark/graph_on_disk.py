"""Graphs on disk: equal results from all executors and after kills, and a large graph.

    python benchmark/graph_on_disk.py equality --out benchmark/results/graph_on_disk/equality.json
    python benchmark/graph_on_disk.py scale --out benchmark/results/graph_on_disk/scale.json

Every step is a process of its own. `equality` compares SHA-256 of values and indices; processes are
killed with `kill -9` in the middle. `scale` goes from shards to a stored top k, on two Dask
workers, and samples the memory of all processes. It needs `pip install '.[distributed]'`.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Optional

import torch

from harness.command import exit_status
from harness.options import integer
from harness.speed.disk_run import compare, large
from harness.speed.disk_steps import KINDS, STEPS
from harness.store.files import write_json
from harness.store.surroundings import surroundings


def main(arguments: Optional[list[str]] = None) -> int:
    """Measures; returns the exit status."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    return exit_status("graph_on_disk.py", lambda: run(options))


def run(options: argparse.Namespace) -> None:
    """Does what the options say."""
    if options.step is not None:
        name, *words = options.step
        print(json.dumps(STEPS[name](*words)))
        return
    results: dict[str, Any] = {**surroundings(torch.device("cpu")), "graphs": []}
    for kind in options.kinds:
        with tempfile.TemporaryDirectory(dir=options.work) as folder:
            work = Path(folder) / kind
            if options.part == "equality":
                found = compare(kind, options.nodes, options.degree, options.k, work)
            else:
                edges = options.nodes * options.degree // 2
                found = large(kind, options.nodes, edges, options.k, options.workers, work)
        print(json.dumps(found, indent=1), flush=True)
        results["graphs"].append(found)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(options.out, results)


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", choices=("equality", "scale"), default="equality")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--nodes", type=integer(2), default=1_000_000)
    parser.add_argument("--degree", type=integer(1), default=10, help="entries for each node")
    parser.add_argument("--k", type=integer(1), default=16)
    parser.add_argument("--workers", type=integer(1), default=2, help="of Dask, for 'scale'")
    parser.add_argument("--work", help="where graphs and results are meanwhile; a temporary folder")
    parser.add_argument("--out", type=Path, default=Path("out/graph_on_disk.json"))
    parser.add_argument("--step", nargs="+", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

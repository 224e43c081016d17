"""Time and memory of the features of data sets that are as large as you like.

Usage: python benchmark/precompute.py [--graphs 20000 200000] [--out FILE]

Graphs are generated one at a time, and their features kept in a list, written to disk or looped
over, each in a process of its own. Writes FILE, and prints the table of it.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Optional

import torch

from harness.command import exit_status
from harness.options import integer
from harness.speed.child import run_child
from harness.speed.precompute_measure import DEGREE, FEATURES, NODES, WAYS, K, measure
from harness.store.files import write_json
from harness.store.surroundings import surroundings


def main(arguments: Optional[list[str]] = None) -> int:
    """Measures; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--graphs", nargs="+", type=integer(1), default=[20_000, 200_000])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--out", type=Path, default=Path("out/precompute.json"))
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    return exit_status("precompute.py", lambda: run(options))


def run(options: argparse.Namespace) -> None:
    """Does what the options say."""
    if options.measure is not None:
        print(json.dumps(measure(*options.measure)))
        return
    rows = []
    for count in options.graphs:
        for way in options.ways:
            found = run_child("precompute.py", ["--measure", way, str(count)])
            rows.append({"way": way, "graphs": count, **found})
            print(line_of(rows[-1]), flush=True)
    problem = {"nodes": NODES, "degree": DEGREE, "features": FEATURES, "k": K, "threads": 1}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_json(options.out, {**surroundings(torch.device("cpu")), "problem": problem, "rows": rows})


def line_of(row: dict[str, Any]) -> str:
    """A row of the table of docs/speed.md."""
    peak, stored = (f"{row[key] / 2**20:,.0f}" for key in ("peak", "stored"))
    return f"| {row['graphs']:,} | {row['way']} | {peak} | {stored} |"


if __name__ == "__main__":
    sys.exit(main())

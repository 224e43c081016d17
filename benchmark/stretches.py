"""How local clusters can be: every graph is cut into stretches of an order of its nodes.

Usage: python benchmark/stretches.py --root data

Writes benchmark/results/stretches.json. The report shows it beside the assignments of SimPool and
DiffPool: the same graphs, and as many clusters, of equal size.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

import torch

from harness.errors import BenchmarkError
from harness.store.files import write_json
from harness.store.surroundings import surroundings
from harness.study.experiments import LOCALITY
from harness.study.stretches import measure, read_stretches

OUT = Path(__file__).resolve().parent / "results" / "stretches.json"


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Measures, and writes the file; returns the exit status."""
    parser = argparse.ArgumentParser(prog="stretches.py", description=__doc__.split("\n\n")[0])
    parser.add_argument("--root", default="data", help="folder of the TU data sets")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--only", nargs="+", choices=list(LOCALITY), default=list(LOCALITY))
    options = parser.parse_args(arguments)
    try:
        # Read first, as measuring takes minutes.
        there = read_stretches(options.out)
        tables = {name: measure(LOCALITY[name].rows[0].runs, options.root) for name in options.only}
        # Other tables are kept.
        found = {"tables": {**there, **tables}, **surroundings(torch.device("cpu"))}
        write_json(options.out, found)
    except (BenchmarkError, OSError) as error:
        print(f"stretches.py: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

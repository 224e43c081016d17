"""Time and memory of the top k, beside sparse_dot_topn, SciPy and the dense formula.

Every measurement is a process of its own. It runs the method once on a small graph, as some methods
are compiled, and `--repeats` times on the graph, and reports the times and the peak of its resident
memory beyond the input. The methods take turns on a graph. Their results are compared before
anything is timed.

    python benchmark/topk.py --root data --out benchmark/results/topk.json
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Optional

from harness.command import exit_status
from harness.errors import BenchmarkError
from harness.options import integer
from harness.speed.topk_cases import DATASETS, GRAPHS, HARD, ROWS
from harness.speed.topk_measure import measure
from harness.speed.topk_run import run
from harness.speed.topk_tables import summary
from harness.store.files import read_json


def main(arguments: Optional[list[str]] = None) -> int:
    """Measures; returns the exit status."""
    options = parse(arguments)
    return exit_status("topk.py", lambda: start(options))


def start(options: argparse.Namespace) -> None:
    """Does what the options say."""
    if options.measure is not None:
        print(json.dumps(measure(*options.measure)))
    elif options.summary:
        try:
            lines = summary(read_json(Path(options.out)))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BenchmarkError(f"--out {options.out} cannot be read: {error}") from error
        print("\n".join(lines))
    else:
        run(options)


def parse(arguments: Optional[list[str]]) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        "--graphs",
        nargs="+",
        default=[*GRAPHS, *HARD, *DATASETS, *ROWS],
        help="data sets, or kind-nodes-degree with a kind of uniform, power_law, power_law_hub; "
        "star-leaves; complete-nodes; items-nodes-users-edges, users-nodes-items-edges; and with "
        "-queries-number after a graph, rows of random nodes",
    )
    parser.add_argument("--k", nargs="+", type=integer(1), default=[16, 32])
    parser.add_argument("--threads", nargs="+", type=integer(1), default=[1, 2])
    parser.add_argument("--repeats", type=integer(1), default=2, help="runs in one process")
    parser.add_argument("--turns", type=integer(1), default=2, help="processes of each method")
    parser.add_argument("--root", help="folder of the TU data sets")
    parser.add_argument("--out", default="benchmark/results/topk.json")
    parser.add_argument(
        "--summary", action="store_true", help="print the short table of --out, and stop"
    )
    parser.add_argument("--measure", nargs=5, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

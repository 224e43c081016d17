"""Writes benchmark/RESULTS.md and its plots from the results of the study.

Usage: python benchmark/report.py [--runs benchmark/results/runs.parquet]

Tables show missing runs as 'not run'. The paragraphs of benchmark/NOTES.md are written by hand for
the stored runs, each under the name of its table.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from harness.command import exit_status
from harness.report.document import HERE, make_report


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Writes the report; returns the exit status."""
    parser = argparse.ArgumentParser(prog="report.py", description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    runs, page = HERE / "results" / "runs.parquet", HERE / "RESULTS.md"
    add("--runs", type=Path, default=runs, help=f"file of results (default: {runs})")
    add("--out", type=Path, default=page,
        help=f"the file to write, beside results/figures (default: {page})")  # fmt: skip
    options = parser.parse_args(arguments)
    return exit_status("report.py", lambda: make_report(options.runs, options.out))


if __name__ == "__main__":
    sys.exit(main())

"""Makes benchmark/RESULTS.md and its plots from the runs of the study.

Usage: python benchmark/report.py [--runs benchmark/results/study]

Tables show what has not been run as 'not run'. Damaged files, and files that are not runs of the
study, are reported and skipped. The paragraphs of benchmark/NOTES.md, each under the name of its
table, are written by hand.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from harness.errors import BenchmarkError
from harness.report.document import Paths, make_report, read_all
from harness.store.files import write_text

HERE = Path(__file__).resolve().parent


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Writes the report; returns the exit status."""
    parser = argparse.ArgumentParser(prog="report.py", description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=Path, default=HERE / "results" / "study")
    parser.add_argument("--out", type=Path, default=HERE / "RESULTS.md")
    parser.add_argument("--notes", type=Path, default=HERE / "NOTES.md")
    parser.add_argument("--figures", type=Path, default=HERE / "results" / "figures")
    parser.add_argument("--stretches", type=Path, default=HERE / "results" / "stretches.json")
    options = parser.parse_args(arguments)
    try:
        results, skipped = read_all(options.runs)
        write_text(options.out, make_report(results, Paths(**vars(options))))
    except (BenchmarkError, OSError) as error:
        print(f"report.py: error: {error}", file=sys.stderr)
        return 2
    for reason in skipped:
        print(f"skipped: {reason}", file=sys.stderr)
    print(f"{len(results)} runs, {len(skipped)} files skipped; see {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

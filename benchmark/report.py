"""Writes benchmark/RESULTS.md and its plots from the results of the study.

Usage: python benchmark/report.py [--runs benchmark/results/runs.parquet]

Tables show runs that are missing as 'not run'. The paragraphs of benchmark/NOTES.md, each under the
name of its table, are written by hand for the stored runs.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from harness.command import add_plot_options, exit_status
from harness.report.document import Paths, make_report
from harness.report.plots import PlotFolder
from harness.store import read_results

HERE = Path(__file__).resolve().parent


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Writes the report; returns the exit status."""
    parser = argparse.ArgumentParser(prog="report.py", description=__doc__.split("\n\n")[0])
    results = HERE / "results"

    def add(name: str, path: Path, meaning: str) -> None:
        parser.add_argument(name, type=Path, default=path, help=f"{meaning} (default: {path})")

    add("--runs", results / "runs.parquet", "file of results")
    add("--out", HERE / "RESULTS.md", "the file to write")
    add("--notes", HERE / "NOTES.md", "paragraphs to show with the tables; may be missing")
    add("--baseline", results / "locality_baseline.json", "locality of blocks of consecutive nodes")
    parser.add_argument(
        "--figures", type=Path, help="folder of plots (default: results/figures beside --out)"
    )
    add_plot_options(parser)
    options = parser.parse_args(arguments)
    return exit_status("report.py", lambda: report(options))


def report(options: argparse.Namespace) -> None:
    """Writes the report and its plots."""
    results = read_results(options.runs)
    folder = options.figures or options.out.parent / "results" / "figures"
    figures = PlotFolder(folder, options.format, options.dpi)
    paths = Paths(options.runs, options.out, options.notes, figures, options.baseline)
    text = make_report(results, paths)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text, encoding="utf-8")
    print(f"{len(results)} runs; see {options.out}")


if __name__ == "__main__":
    sys.exit(main())

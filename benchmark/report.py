"""Makes benchmark/RESULTS.md and its plots from the runs of the study.

Usage: python benchmark/report.py [--runs benchmark/results/study]

Tables show what has not been run as 'not run'. Damaged files, and files that are not runs of the
study, are reported and skipped. The paragraphs of benchmark/NOTES.md, each under the name of its
table, are written by hand, for the runs in benchmark/results/study.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from harness.command import exit_status
from harness.errors import BenchmarkError
from harness.report.document import Paths, make_report
from harness.report.drawing import PlotFolder, add_plot_options
from harness.store.files import write_text
from harness.study.run_files import read_runs

HERE = Path(__file__).resolve().parent


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Writes the report; returns the exit status."""
    parser = argparse.ArgumentParser(prog="report.py", description=__doc__.split("\n\n")[0])
    results = HERE / "results"

    def add(name: str, path: Path, what: str) -> None:
        parser.add_argument(name, type=Path, default=path, help=f"{what} (default: {path})")

    add("--runs", results / "study", "folder of the runs, --out of study.py")
    add("--out", HERE / "RESULTS.md", "the file to write")
    add(
        "--notes",
        HERE / "NOTES.md",
        "paragraphs to show with the tables; those of the default are about the default runs: with "
        "others, give a file of your own, which may be missing",
    )
    parser.add_argument(
        "--figures",
        type=Path,
        help="folder of the plots to write (default: results/figures beside --out)",
    )
    add(
        "--stretches",
        results / "stretches.json",
        "the file that stretches.py writes, on how local clusters can be",
    )
    add_plot_options(parser)
    options = parser.parse_args(arguments)
    if options.figures is None:
        options.figures = options.out.parent / "results" / "figures"
    return exit_status("report.py", lambda: report(options))


def report(options: argparse.Namespace) -> None:
    """Writes the report and its plots."""
    results, skipped = read_runs(options.runs)
    figures = PlotFolder(options.figures, options.format, options.dpi)
    paths = Paths(options.runs, options.out, options.notes, figures, options.stretches)
    try:
        text = make_report(results, paths)
    except OSError as error:  # it names the file
        raise BenchmarkError(str(error)) from error
    try:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write_text(options.out, text)
    except OSError as error:
        raise BenchmarkError(f"--out {options.out}: {error}") from error
    for reason in skipped:
        print(f"skipped: {reason}", file=sys.stderr)
    print(f"{len(results)} runs, {len(skipped)} files skipped; see {options.out}")


if __name__ == "__main__":
    sys.exit(main())

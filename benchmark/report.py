"""Turns the runs of the study into benchmark/RESULTS.md and pictures.

Usage: python benchmark/report.py [--runs benchmark/results/study]

What has not been run says so. A file that is damaged, or not one of the study, is named and
skipped. Paragraphs written by hand come from benchmark/NOTES.md, by the name of the table.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

from declarations import Experiment, Run
from errors import BenchmarkError
from experiments import EXPERIMENTS, LOCALITY, NESTED
from figures import draw_accuracy, draw_clusters, draw_curves
from nested import Results, declared, missing
from results import write_whole
from store import UnreadableRunError, read_run
from stretches import read_stretches
from tables import (
    conditions,
    finished,
    heading,
    locality_section,
    nested_section,
    section,
    summary,
)

HERE = Path(__file__).resolve().parent
HEAD = """# Results of the study

Made by `benchmark/report.py` from the runs in `{runs}`, which `benchmark/study.py` makes; the
commands are at the end. **{there} runs are there{failed}{others}; not run yet are {missing} of
protocol 'paper', {nested} of protocol 'nested'**: they show as 'not run', and a table counts what
it has.

Two protocols, never mixed:

- **paper**: stratified 10 folds; of each, the highest validation accuracy over the epochs. It
  flatters every method, since the epoch is picked on the data that is reported. It is what the
  paper's tables hold. A 'single split' is the first of these folds, as the paper has one; where
  more have been run, the mean over the first three shows how far one split can be trusted (one of
  about 60 graphs: a graph is 0.017).
- **nested**: 10 outer folds to test on; settings chosen by the validation accuracy of one inner
  holdout; 3 final runs for each fold, each tested at the epoch of its best validation accuracy;
  the mean over folds of the mean of 3.

Accuracies are mean ± standard deviation over folds. *Difference* is the mean difference to the
first row over the folds that both have, with the p value of the corrected resampled t-test of
Nadeau and Bengio (2003), which allows for folds that share training graphs; no p under three folds.
All methods of a table see the same graphs, folds, node features, epochs, batch size and, by
protocol 'paper', learning rate, unless that is what it is about. Seconds are CPU seconds of one
thread where they were recorded. A run with 'memory kept' (at the end) leaves less to do for the
system: compare seconds of one kind.
"""


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
        text = report(results, options)
        write_whole(options.out, lambda path: path.write_text(text, encoding="utf-8"))
    except (BenchmarkError, OSError) as error:
        print(f"report.py: error: {error}", file=sys.stderr)
        return 2
    for reason in skipped:
        print(f"skipped: {reason}", file=sys.stderr)
    print(f"{len(results)} runs, {len(skipped)} files skipped; see {options.out}")
    return 0


def read_all(folder: Path) -> tuple[Results, list[str]]:
    """The runs in a folder, and why the other files in it were skipped."""
    if not folder.is_dir():
        raise BenchmarkError(f"--runs {folder}: there is no such folder")
    results: dict[Run, dict[str, Any]] = {}
    skipped = []
    for path in sorted(folder.glob("[!.]*.json")):  # none that a kill has left half written
        try:
            there = read_run(path)
            results[Run(**there["settings"])] = there
        except UnreadableRunError as error:
            skipped.append(str(error))
    return results, skipped


def report(results: Results, options: argparse.Namespace) -> str:
    """The text of RESULTS.md; draws the pictures on the way."""
    notes = read_notes(options.notes)
    stretches = read_stretches(options.stretches)
    shown = {
        name: table
        for name, table in EXPERIMENTS.items()
        if not table.optional or not results.keys().isdisjoint(table.runs)
    }
    asked = {run for table in shown.values() for run in table.runs}
    known = asked.union(*(declared(nested, results) for nested in NESTED.values()))
    failed = sum("error" in there for there in results.values())
    others = len(set(results) - known)
    head = HEAD.format(
        runs=_relative(options.runs, options.out.parent),
        there=len(results),
        missing=len(asked - set(results)),
        nested=sum(missing(nested, results) for nested in NESTED.values()),
        failed=f", {failed} of them diverged" if failed else "",
        others=f", {others} of them of no table here" if others else "",
    )
    parts = [head, mixed_data(results), notes.get("summary", ""), summary(results)]
    for name, table in shown.items():
        parts += [section(table, results), pictures(table, results, options), notes.get(name, "")]
    for name, table in LOCALITY.items():
        parts += [locality_section(table, results, stretches.get(name, {}))]
        parts += [pictures(table, results, options)]
        parts += [notes.get(name, "")]
    for name, nested in NESTED.items():
        parts += [nested_section(nested, results), notes.get(name, "")]
    parts += [surroundings(results)]
    return "\n".join(part.strip() + "\n" for part in parts if part.strip())


def mixed_data(results: Results) -> str:
    """A warning where runs on data of one name were not on the same graphs."""
    checksums: dict[str, set[str]] = {}
    for run, there in results.items():
        name = f"{run.dataset}, {'' if run.cleaned else 'not '}cleaned, {run.node_features}"
        checksums.setdefault(name, set()).add(there["data"].get("checksum", ""))
    found = [f"{name} ({len(of)})" for name, of in sorted(checksums.items()) if len(of) > 1]
    if not found:
        return ""
    return f"**Not the same graphs in all runs, so not to be compared: {'; '.join(found)}.**"


def read_notes(path: Path) -> dict[str, str]:
    """The paragraphs under each heading `## NAME`."""
    if not path.exists():
        return {}
    pieces = re.split(r"^## (\S+)\n", path.read_text(encoding="utf-8"), flags=re.M)
    return dict(zip(pieces[1::2], pieces[2::2]))


def pictures(table: Experiment, results: Results, options: argparse.Namespace) -> str:
    """Draws what belongs to a table, and shows it."""
    rows = {row.label: list(finished(row.runs[:1], results).values()) for row in table.rows}
    rows = {label: found for label, found in rows.items() if found}
    if not rows:
        return ""
    kind = table.name.split("-")[-1]
    drawn: list[tuple[Path, str]] = []
    path = options.figures / f"{table.name}.png"
    title = f"{heading(table)}, first split\n{conditions(table.rows).replace('**', '')}"
    if kind in ("features", "scaler"):
        draw_curves(path, rows, title)
        drawn.append((path, "L_E, L_C and clusters used per epoch, on the validation graphs"))
    if kind in ("k", "p"):
        all_rows = {r.label: list(finished(r.runs, results).values()) for r in table.rows}
        printed = {r.label: float(r.paper) if r.paper else None for r in table.rows}
        draw_accuracy(path, all_rows, printed, heading(table))
        drawn.append((path, "best validation accuracy, here and in the paper"))
    coloured = {label: found for label, found in rows.items() if found[0].get("drawn")}
    if kind == "locality" and coloured:
        draw_clusters(path, coloured, "The same graphs, coloured by cluster")
        drawn.append((path, "graphs coloured by cluster, one line for each way to assign"))
    base = options.out.parent
    return "\n".join(f"![{text}]({_relative(file, base)})" for file, text in drawn)


def surroundings(results: Results) -> str:
    """What the figures were made with, and how to make them again."""
    lines = ["## Made with", "", "| runs | versions | hardware | commit |", "| --- " * 4 + "|"]
    seen: Counter[tuple[str, str, str]] = Counter()
    for there in results.values():
        versions = ", ".join(f"{name} {v}" for name, v in there["versions"].items())
        hardware = there["hardware"]
        place = f"{hardware['device']}, {hardware['cpus']} CPUs ({hardware['threads']} thread)"
        place += ", memory kept" if hardware.get("memory") == "kept" else ""
        seen[versions, place, (there["commit"] or "unknown")[:10]] += 1
    for (versions, place, commit), count in seen.most_common():
        lines.append(f"| {count} | {versions} | {place} | {commit} |")
    lines += [
        "",
        "```",
        "python benchmark/study.py --root data --workers 2    # --splits PATH: published splits",
        "python benchmark/report.py",
        "```",
    ]
    return "\n".join(lines)


def _relative(path: Path, base: Path) -> str:
    try:
        return path.resolve().relative_to(base.resolve()).as_posix()
    except ValueError:
        return str(path)


if __name__ == "__main__":
    sys.exit(main())

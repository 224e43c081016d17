"""The tables of README.md, from what `pooling.py` has stored.

Usage: python benchmark/pool_tables.py FOLDER
"""

import json
import sys
from pathlib import Path
from typing import Any

OURS = "sim_pool"
#: Of these series only ours; the picture has the others.
IN_THE_PICTURE = ("one large graph among 19", "by K, D&D")


def tables(folder: Path) -> list[str]:
    """The rows of all tables, in Markdown."""
    rows: list[str] = []
    for part in ("dd", "scaling"):
        for case, found in _read(folder, part).get("cases", {}).items():
            rows += _case(case, found)
    for case, found in _read(folder, "training").items():
        if isinstance(found, dict) and "ratio" in found:
            rows += _epochs(case, found)
    return rows


def _read(folder: Path, part: str) -> dict[str, Any]:
    """What a part has stored; nothing where it has not been run."""
    path = folder / f"{part}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _case(case: str, found: dict[str, Any]) -> list[str]:
    """A row a method and run: ms a graph, against ours, and the peak memory of the process."""
    rows = []
    for method, figures in found.items():
        if not isinstance(figures, dict) or (case in IN_THE_PICTURE and method != OURS):
            continue
        if "error" in figures:
            limit = found.get("limit", 14 * 2**30) / 2**30
            rows.append(f"| {case} | {method} | out of memory ({limit:.0f} GiB) | | | |")
            continue
        for label, run in figures["runs"].items():
            ours = found[OURS]["runs"][label]
            name = case if label == "all" else f"{case}, {label}"
            rows.append(
                f"| {name} | {method} | {1e3 * run['forward']:.3f} | {1e3 * run['both']:.3f} | "
                f"{run['both'] / ours['both']:.2f} | {figures['peak'] / 2**30:.2f} |"
            )
    return rows


def _epochs(case: str, found: dict[str, Any]) -> list[str]:
    rows = []
    for name, figures in found.items():
        if isinstance(figures, dict) and "seconds" in figures:
            low, high = figures["range"]
            ratio = figures["seconds"] / found["SimPoolNet"]["seconds"]
            rows.append(
                f"| {case} | {name} | {figures['seconds']:.2f} | {low:.2f} to {high:.2f} | "
                f"{ratio:.2f} |"
            )
    return rows


if __name__ == "__main__":
    print("\n".join(tables(Path(sys.argv[1]))))

"""The tables of the documentation, from the results of `pooling.py`."""

from pathlib import Path
from typing import Any

from harness.speed import denormals
from harness.store.files import read_json

OURS = "sim_pool"
#: Of these series only ours is in the tables; the plot has all methods.
PLOTTED = ("one large graph among 19", "by K, D&D")


def tables(folder: Path) -> list[str]:
    """The rows of all tables, in Markdown."""
    rows: list[str] = []
    for part in ("dd", "scaling"):
        for case, found in _read(folder, part).get("cases", {}).items():
            rows += _case(case, found)
    for case, found in _read(folder, "training").items():
        if isinstance(found, dict) and "ratio" in found:
            rows += _epochs(case, found)
    found = _read(folder, "denormals")
    return rows + (denormals.table(found) if found else [])


def _read(folder: Path, part: str) -> dict[str, Any]:
    """The stored results of a part; nothing if it has not been run."""
    path = folder / f"{part}.json"
    return read_json(path) if path.exists() else {}


def _case(case: str, found: dict[str, Any]) -> list[str]:
    """One row for each method and run: ms per graph, ratio to ours, peak memory."""
    rows = []
    for method, metrics in found.items():
        if not isinstance(metrics, dict) or (case in PLOTTED and method != OURS):
            continue
        if "error" in metrics:
            limit = found.get("limit", 14 * 2**30) / 2**30
            rows.append(f"| {case} | {method} | out of memory ({limit:.0f} GiB) | | | |")
            continue
        for label, run in metrics["runs"].items():
            ours = found[OURS]["runs"][label]
            name = case if label == "all" else f"{case}, {label}"
            rows.append(
                f"| {name} | {method} | {1e3 * run['forward']:.3f} | {1e3 * run['both']:.3f} | "
                f"{run['both'] / ours['both']:.2f} | {metrics['peak'] / 2**30:.2f} |"
            )
    return rows


def _epochs(case: str, found: dict[str, Any]) -> list[str]:
    rows = []
    for name, metrics in found.items():
        if isinstance(metrics, dict) and "seconds" in metrics:
            low, high = metrics["range"]
            ratio = metrics["seconds"] / found["SimPoolNet"]["seconds"]
            rows.append(
                f"| {case} | {name} | {metrics['seconds']:.2f} | {low:.2f} to {high:.2f} | "
                f"{ratio:.2f} |"
            )
    return rows

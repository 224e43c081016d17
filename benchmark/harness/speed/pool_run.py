"""Runs the pooling operators on all cases, in processes of their own."""

import tempfile
from pathlib import Path
from typing import Any

import torch

from harness.errors import BenchmarkError
from harness.speed.child import run_child
from harness.speed.pool_cases import Cases
from harness.speed.pool_measure import KEPT_LIMIT, MEMORY_LIMIT
from harness.speed.pool_methods import METHODS

#: The same method on the same batches can be slower by half in one process than in another,
#: from start to end. Page faults, huge pages and pinning do not explain it.
PROCESSES = 3


def operator_metrics(cases: Cases) -> dict[str, Any]:
    """Runs every method on every case, each in processes of its own."""
    metrics: dict[str, Any] = {"width": 64, "clusters": 32, "cases": {}}
    with tempfile.TemporaryDirectory() as folder:
        for case, content in cases.items():
            torch.save(content, Path(folder) / "case.pt")
            kept = content.get("kept", False)
            metrics["cases"][case] = {
                "num_batches": len(content["runs"]),
                "limit": KEPT_LIMIT if kept else MEMORY_LIMIT,
            }
            for method in METHODS:
                if content.get("methods") and method not in content["methods"]:
                    continue
                found = in_children(method, Path(folder) / "case.pt", kept)
                metrics["cases"][case][method] = found
                print(f"{case:28} {method:26} {_short(found)}", flush=True)
    return metrics


def in_children(method: str, path: Path, kept: bool) -> dict[str, Any]:
    """The metrics of the median process, and the range over all processes."""
    found = [in_child(method, str(path), kept=kept)]
    slow = all(run["rounds"] == 1 for run in found[0].get("runs", {}).values())
    if not slow:
        found += [in_child(method, str(path), kept=kept) for _ in range(PROCESSES - 1)]
    return next((one for one in found if "error" in one), None) or combined(found)


def combined(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Combines processes that measured the same: the median time, the highest peak."""
    runs = {}
    for label in found[0]["runs"]:
        several = sorted((one["runs"][label] for one in found), key=lambda run: run["both"])
        ranges = [run["range"] for run in several]
        runs[label] = {
            **several[len(several) // 2],
            "range": [min(low for low, _ in ranges), max(high for _, high in ranges)],
            "processes": len(several),
        }
    return {**max(found, key=lambda one: one["peak"]), "runs": runs}


def in_child(*names: str, kept: bool) -> dict[str, Any]:
    """What `pooling.py --child` finds in a process of its own; an entry 'error' if it fails."""
    try:
        return run_child("pooling.py", ["--child", *names], keep_memory=kept)
    except BenchmarkError as error:
        return {"error": str(error)}


def _short(found: Any) -> str:
    if "error" in found:
        return found["error"]
    ms = ", ".join(
        f"{1e3 * run['forward']:.3f}/{1e3 * run['both']:.3f}" for run in found["runs"].values()
    )
    return f"forward/both, ms a graph: {ms}; {found['peak'] / 2**30:.2f} GiB"

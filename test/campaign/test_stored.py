"""What has been run is what CONTRIBUTING.md says, and it found nothing."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from campaign.batches import GRAPHS

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmark" / "results"


def rows(summaries: list[dict[str, Any]]) -> Iterator[str]:
    """One for each fuzzer and way to run it, of all its runs."""
    found: dict[tuple[str, str], list[tuple[dict[str, Any], int]]] = {}
    for summary in summaries:
        way = ", ".join(summary.get("backends", ("numba", "torch")))
        way += ", sanitized" if summary["sanitized"] else ""
        for fuzzer in summary["fuzzers"]:
            found.setdefault((fuzzer["name"], way), []).append((fuzzer, summary["seed"]))
    for (name, way), runs in found.items():
        cases, failures, minutes = (
            sum(run[key] for run, _ in runs) for key in ("cases", "failures", "minutes")
        )
        seeds = ", ".join(str(seed) for _, seed in runs)
        yield f"| {name} | {way} | {cases:,} | {failures} | {minutes:.1f} | {seeds} |"


def test_the_table_is_that_of_the_stored_summaries() -> None:
    summaries = json.loads((RESULTS / "campaign.json").read_text())
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert "\n".join(rows(summaries)) in text


def test_a_million_graphs() -> None:
    summaries = json.loads((RESULTS / "campaign.json").read_text())
    fuzzers = [fuzzer for summary in summaries for fuzzer in summary["fuzzers"]]
    assert not any(fuzzer["failures"] for fuzzer in fuzzers)
    graphs = {"batches": GRAPHS, "topk": 1}
    assert sum(graphs.get(f["name"], 0) * f["cases"] for f in fuzzers) >= 1_000_000


def test_the_long_run() -> None:
    soak = json.loads((RESULTS / "soak.json").read_text())
    text = " ".join((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split())
    assert soak["failures"] == []
    assert soak["minutes"] >= 60
    assert f"{soak['epochs']:,} epochs" in text
    assert f"{soak['growth']:.1%}" in text

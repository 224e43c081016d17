"""Runs that were not trained, and the report of them."""

import json
from pathlib import Path
from typing import Any

import report
from harness.study.run import Run
from harness.study.run_files import FORMAT
from harness.training.curves import CURVES, CURVES_OF_LEVELS


def fake(run: Run, accuracy: float, **more: Any) -> dict[str, Any]:
    """What is stored of a run, without what is `None` in `more`."""
    curves = {name: [0.5] * run.epochs for name in (*CURVES, *CURVES_OF_LEVELS)}
    there = {
        "format": FORMAT,
        "settings": run.settings,
        "data": {},
        "sizes": {"train": 90, "validation": 10, "test": 9},
        "versions": {"torch": "1"},
        "hardware": {"device": "cpu", "cpus": 2, "threads": 1},
        "commit": "abcdef0123456789",
        "num_parameters": 1234567,
        "history": curves,
        "best_val_accuracy": accuracy,
        "best_epoch": 1,
        "seconds": 9.0,
        "cpu_seconds": 8.0,
        "num_clusters": 8,
        "locality": {
            "edges_inside": 0.25,
            "edges_by_chance": 0.125,
            "distance_ratio": 0.75,
            "connected": 0.5,
            "clusters": 6.5,
            "evenness": 0.875,
        },
        "drawn": [
            {"class": 1, "edges": [[0, 1], [1, 2], [3, 4]], "clusters": [0, 1, 1, 2, 2]}
            for _ in range(3)
        ],
        **more,
    }
    return {name: value for name, value in there.items() if value is not None}


def write(folder: Path, run: Run, accuracy: float, **more: Any) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{run.key}.json").write_text(json.dumps(fake(run, accuracy, **more)))


def made(tmp_path: Path, *more: str) -> str:
    options = {
        "--runs": "runs",
        "--out": "RESULTS.md",
        "--notes": "NOTES.md",
        "--figures": "figures",
        "--stretches": "stretches.json",
    }
    arguments = [word for k, v in options.items() for word in (k, str(tmp_path / v))]
    assert report.main([*arguments, *more]) == 0
    return (tmp_path / "RESULTS.md").read_text()


def section(text: str, heading: str) -> str:
    return text.split(f"## {heading}\n")[1].split("\n## ")[0]

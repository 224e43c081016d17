"""The log-log picture of the pooling operators."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from results import write_whole

SERIES = {
    "one large graph among 19": ("nodes of the largest of 20 graphs", "ms a batch"),
    "by K, D&D": ("clusters K", "ms a batch"),
    "graphs of one size": ("nodes of each of 20 graphs", "ms a batch"),
}


def plot_scaling(path: Path, results: dict[str, Any]) -> None:
    """Time of a batch, forward and backward, against what it grows with."""
    figure, axes = plt.subplots(1, len(SERIES), figsize=(13, 4), layout="constrained")
    for axis, (case, (xlabel, ylabel)) in zip(axes, SERIES.items()):
        for method, found in results["cases"][case].items():
            if not isinstance(found, dict) or not found.get("runs"):
                continue
            runs = found["runs"]
            ms = [1e3 * 20 * run["both"] for run in runs.values()]
            axis.plot([int(label) for label in runs], ms, marker="o", ms=3, label=method)
        axis.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel, title=case)
        axis.grid(alpha=0.3, which="both")
    axes[0].legend(fontsize=8)
    figure.suptitle("Forward and backward, F = 64, K = 32 but where it varies, 2 CPU cores")
    write_whole(path, lambda temporary: figure.savefig(temporary, dpi=110))
    plt.close(figure)

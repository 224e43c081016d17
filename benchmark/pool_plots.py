"""The log-log picture of the pooling operators."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from pool_methods import METHODS
from results import write_whole

SERIES = {
    "one large graph among 19": ("nodes of the largest of 20 graphs", "ms a batch"),
    "by K, D&D": ("clusters K", "ms a batch"),
    "graphs of one size": ("nodes of each of 20 graphs", "ms a batch"),
}


def plot_scaling(path: Path, results: dict[str, Any]) -> None:
    """Time of a batch, forward and backward, against what it grows with."""
    figure, axes = plt.subplots(1, len(SERIES), figsize=(13, 4.6), layout="constrained")
    # One colour for a method in all panels, though some have fewer.
    colours = {method: f"C{n}" for n, method in enumerate(METHODS)}
    for axis, (case, (xlabel, ylabel)) in zip(axes, SERIES.items()):
        for method, found in results["cases"][case].items():
            if not isinstance(found, dict) or not found.get("runs"):
                continue
            runs = found["runs"]
            sizes = [int(label) for label in runs]
            ms = [1e3 * 20 * run["both"] for run in runs.values()]
            axis.plot(sizes, ms, marker="o", ms=3, label=method, color=colours[method])
            if method == "sim_pool":  # which has them all
                axis.set_xscale("log")
                axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
                axis.minorticks_off()
        axis.set(yscale="log", xlabel=xlabel, ylabel=ylabel, title=case)
        axis.grid(alpha=0.3, which="both")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), fontsize=9)
    figure.suptitle("Forward and backward, F = 64, K = 32 but where it varies, 2 CPU cores")
    write_whole(path, lambda temporary: figure.savefig(temporary, dpi=110))
    plt.close(figure)

"""The log-log plot of the pooling operators."""

from pathlib import Path
from typing import Any

from harness.report.drawing import plt, save_plot
from harness.speed.pool_methods import METHODS

SERIES = {
    "one large graph among 19": ("nodes of the largest of 20 graphs", "ms per batch"),
    "by K, D&D": ("clusters K", "ms per batch"),
    "graphs of one size": ("nodes of each of 20 graphs", "ms per batch"),
}


def plot_scaling(path: Path, results: dict[str, Any]) -> None:
    """The time of a batch, forward and backward, over sizes."""
    figure, axes = plt.subplots(1, len(SERIES), figsize=(13, 4.6), layout="constrained")
    # A method has the same color in all panels.
    colors = {method: f"C{n}" for n, method in enumerate(METHODS)}
    for axis, (case, (xlabel, ylabel)) in zip(axes, SERIES.items()):
        for method, found in results["cases"][case].items():
            if not isinstance(found, dict) or not found.get("runs"):
                continue
            runs = found["runs"]
            sizes = [int(label) for label in runs]
            ms = [1e3 * 20 * run["both"] for run in runs.values()]
            axis.plot(sizes, ms, marker="o", ms=3, label=method, color=colors[method])
            if method == "sim_pool":  # it has all sizes
                axis.set_xscale("log")
                axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
                axis.minorticks_off()
        axis.set(yscale="log", xlabel=xlabel, ylabel=ylabel, title=case)
        axis.grid(alpha=0.3, which="both")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), fontsize=9)
    figure.suptitle("Forward and backward, F = 64, K = 32 unless it varies, 2 CPU cores")
    save_plot(figure, path)

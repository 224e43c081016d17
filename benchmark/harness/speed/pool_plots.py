"""The log-log plot of the pooling operators."""

from typing import Any

from harness.report.drawing import PlotFolder, line_style, plt
from harness.speed.pool_methods import METHODS

SERIES = {
    "one large graph among 19": ("nodes of the largest of 20 graphs", "ms per batch"),
    "by K, D&D": ("clusters K", "ms per batch"),
    "graphs of one size": ("nodes of each of 20 graphs", "ms per batch"),
}


def plot_scaling(plots: PlotFolder, results: dict[str, Any]) -> None:
    """Draws `scaling`: the time of a batch, forward and backward, over sizes."""
    figure, axes = plt.subplots(1, len(SERIES), figsize=(13, 4.6), layout="constrained")
    # A method has the same style in all panels.
    numbers = {method: number for number, method in enumerate(METHODS)}
    for axis, (case, (xlabel, ylabel)) in zip(axes, SERIES.items()):
        for method, found in results["cases"][case].items():
            if not isinstance(found, dict) or not found.get("runs"):
                continue
            runs = found["runs"]
            sizes = [int(label) for label in runs]
            ms = [1e3 * 20 * run["both"] for run in runs.values()]
            style = line_style(numbers[method], len(METHODS), len(sizes))
            axis.plot(sizes, ms, label=method, **style)
            if method == "sim_pool":  # it has all sizes
                axis.set_xscale("log")
                axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
                axis.minorticks_off()
        axis.set(yscale="log", xlabel=xlabel, ylabel=ylabel, title=case)
        axis.grid(alpha=0.3, which="both")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(
        handles, names, loc="outside lower center", ncols=len(names), fontsize=9, handlelength=4
    )
    figure.suptitle("Forward and backward, F = 64, K = 32 unless it varies, 2 CPU cores")
    plots.save(figure, "scaling")

"""The plots of `graph_classification.py`: the assignments over the epochs, and on graphs."""

from typing import Any

import numpy as np
import torch
from torch_geometric.data import Batch, Data

from harness.methods.registry import ASSIGNING
from harness.report.drawing import LABELS, PlotFolder, epoch_axis, from_zero, line_style, plt
from harness.training.curves import LEVELS
from harness.training.evaluation import middling, predict
from harness.training.paper import TrainedFold
from torch_geometric_simpool import plot_clusters
from torch_geometric_simpool.analysis.plotting import COLORS

NUM_GRAPHS = 6


class FoldPlots:
    """The plots of a run with the options of `graph_classification.py`, where it has any."""

    def __init__(self, options: Any) -> None:
        self.folder = PlotFolder(options.out, options.format, options.dpi)
        self.wanted = options.method in ASSIGNING
        self.title = f"{options.dataset}, {options.method}"
        if options.method == "simpool":
            self.title += f", features={options.features}"

    @property
    def missing(self) -> bool:
        """Whether the last one of the curves is not there."""
        return self.wanted and not self.folder.path(_curves(LEVELS[-1])).exists()

    def draw_curves(self, folds: list[dict[str, Any]]) -> None:
        """Draws the curves of all finished folds."""
        if self.wanted:
            plot_curves(self.folder, folds, self.title)

    def draw_clusters(self, fold: TrainedFold) -> None:
        """Draws the clusters of a fold."""
        if self.wanted:
            title = f"{self.title}: clusters, fold {fold.stored['fold']}"
            plot_assignments(self.folder, fold.model, fold.validation, title)


def _curves(level: int) -> str:
    return f"curves_level{level}"


def plot_curves(plots: PlotFolder, folds: list[dict[str, Any]], title: str) -> None:
    """Draws `curves_level0` and `curves_level1`: the mean and, of several folds, the range."""
    for level in LEVELS:
        figure, axes = plt.subplots(1, len(LABELS), figsize=(12, 3.2), layout="constrained")
        for axis, (name, label) in zip(axes, LABELS.items()):
            curves = np.array([fold["history"][f"{name}_{level}"] for fold in folds])
            epoch = np.arange(1, curves.shape[1] + 1)
            axis.plot(epoch, curves.mean(axis=0), **line_style(0, 1, len(epoch)))
            if len(folds) > 1:
                low, high = curves.min(axis=0), curves.max(axis=0)
                axis.fill_between(epoch, low, high, color=COLORS[0], alpha=0.25)
            axis.set_ylabel(label)
            epoch_axis(axis, len(epoch))
            from_zero(axis)
            axis.grid(alpha=0.3)
        count = f"{len(folds)} folds, mean and range" if len(folds) > 1 else "1 fold"
        figure.suptitle(f"{title}: level {level}, on the validation graphs ({count})")
        plots.save(figure, _curves(level))


def plot_assignments(
    plots: PlotFolder, model: torch.nn.Module, graphs: list[Data], title: str
) -> None:
    """Draws `clusters`: graphs of middling size, their nodes by the cluster of level 0."""
    chosen = [graphs[i] for i in middling(graphs, NUM_GRAPHS)]
    batch = Batch.from_data_list(chosen)
    model.eval()
    with torch.no_grad():
        s = predict(model, batch).levels[0].s
    cluster = s.argmax(dim=-1)
    figure, axes = plt.subplots(2, 3, figsize=(12, 8), layout="constrained")
    for axis in axes.flat:
        axis.axis("off")
    for i, (axis, graph) in enumerate(zip(axes.flat, chosen)):
        clusters = cluster[batch.batch == i]
        plot_clusters(graph, clusters, axis, node_size=40)
        axis.set_title(
            f"class {int(graph.y)}: {graph.num_nodes} nodes, {clusters.unique().numel()} clusters"
        )
    figure.suptitle(title)
    plots.save(figure, "clusters")

"""The plots of `graph_classification.py`: the assignments over the epochs, and on graphs."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Batch, Data

from harness.report.drawing import LABELS, plt, save_plot
from harness.training.curves import LEVELS
from harness.training.evaluation import middling, predict
from torch_geometric_simpool import plot_clusters

NUM_GRAPHS = 6


def plot_curves(out: Path, folds: list[dict[str, Any]], title: str) -> None:
    """Draws `curves_level0.png` and `curves_level1.png`: mean and range over the folds."""
    for level in LEVELS:
        figure, axes = plt.subplots(1, len(LABELS), figsize=(12, 3.2), layout="constrained")
        for axis, (name, label) in zip(axes, LABELS.items()):
            curves = np.array([fold["history"][f"{name}_{level}"] for fold in folds])
            epoch = np.arange(1, curves.shape[1] + 1)
            axis.plot(epoch, curves.mean(axis=0))
            axis.fill_between(epoch, curves.min(axis=0), curves.max(axis=0), alpha=0.25)
            axis.set(xlabel="epoch", ylabel=label)
            axis.set_ylim(bottom=0)
            axis.grid(alpha=0.3)
        count = f"{len(folds)} fold" + ("s, mean and range" if len(folds) > 1 else "")
        figure.suptitle(f"{title}: level {level}, on the validation graphs ({count})")
        save_plot(figure, out / f"curves_level{level}.png")


def plot_assignments(out: Path, model: torch.nn.Module, graphs: list[Data], title: str) -> None:
    """Draws `clusters.png`: graphs of middling size, colored by the cluster of level 0."""
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
    save_plot(figure, out / "clusters.png")

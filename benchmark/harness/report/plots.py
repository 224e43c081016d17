"""The plots of the study, like those of the paper: `benchmark/results/figures/*.png`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np
import torch
from torch_geometric.data import Data

from harness.report.drawing import LABELS, plt, save_plot
from harness.report.statistics import finished
from harness.report.tables import conditions, heading
from harness.study.declarations import Experiment
from harness.study.nested import Results
from harness.training.curves import LEVELS
from torch_geometric_simpool import plot_clusters

#: Results by the label of their row.
ByLabel = dict[str, list[dict[str, Any]]]


class Plot(NamedTuple):
    """How a table is plotted."""

    caption: str
    #: Draws the file; returns whether there was anything to draw.
    draw: Callable[[Path, Experiment, Results], bool]


def _by_label(table: Experiment, results: Results, splits: Optional[int] = None) -> ByLabel:
    """The results of each row that has any, on its first splits or on all."""
    rows = {row.label: list(finished(row.runs[:splits], results).values()) for row in table.rows}
    return {label: found for label, found in rows.items() if found}


def _plot_curves(path: Path, table: Experiment, results: Results) -> bool:
    rows = _by_label(table, results, splits=1)
    if rows:
        shared = conditions(table.rows).replace("**", "")
        draw_curves(path, rows, f"{heading(table)}, first split\n{shared}")
    return bool(rows)


def _plot_accuracy(path: Path, table: Experiment, results: Results) -> bool:
    rows = _by_label(table, results)
    if rows:
        published = {r.label: float(r.paper) if r.paper else None for r in table.rows}
        draw_accuracy(path, rows, published, heading(table))
    return bool(rows)


def _plot_clusters(path: Path, table: Experiment, results: Results) -> bool:
    rows = _by_label(table, results, splits=1)
    rows = {label: found for label, found in rows.items() if found[0].get("drawn")}
    if rows:
        draw_clusters(path, rows, "The same graphs, colored by cluster")
    return bool(rows)


#: The plots that an experiment can have.
PLOTS = {
    "curves": Plot("L_E, L_C and clusters used per epoch, on the validation graphs", _plot_curves),
    "accuracy": Plot("best validation accuracy, here and in the paper", _plot_accuracy),
    "clusters": Plot("graphs colored by cluster, one line for each way to assign", _plot_clusters),
}


def draw_curves(path: Path, rows: ByLabel, title: str) -> None:
    """L_E, L_C and clusters used over the epochs, at both levels, one line for each row."""
    figure, axes = plt.subplots(
        len(LEVELS), len(LABELS), figsize=(12, 6), layout="constrained", sharex=True
    )
    for level, across in zip(LEVELS, axes):
        for axis, (name, label) in zip(across, LABELS.items()):
            for row, results in rows.items():
                curves = np.array([r["history"][f"{name}_{level}"] for r in results])
                axis.plot(np.arange(1, curves.shape[1] + 1), curves.mean(axis=0), label=row)
            axis.set_title(f"level {level}: {label}", fontsize="medium")
            axis.set_ylim(bottom=0)
            axis.grid(alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel("epoch")
    axes[0][0].legend()
    figure.suptitle(title, fontsize="medium")
    save_plot(figure, path, dpi=100)


def draw_accuracy(
    path: Path, rows: ByLabel, published: dict[str, Optional[float]], title: str
) -> None:
    """The best validation accuracies of each row, their mean, and that of the paper."""
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    labels = list(published)
    for place, label in enumerate(labels):
        ours = [r["best_val_accuracy"] for r in rows.get(label, [])]
        axis.scatter([place] * len(ours), ours, color="C0", alpha=0.5, s=20)
        if ours:
            axis.hlines(np.mean(ours), place - 0.3, place + 0.3, color="C0")
    known = [(i, value) for i, value in enumerate(published.values()) if value is not None]
    axis.scatter(*zip(*known), marker="x", color="C3", label="the paper, one split")
    axis.plot([], [], color="C0", label="here: mean, and every split")
    axis.set_xticks(range(len(labels)), labels, rotation=20)
    axis.set(ylabel="best validation accuracy", title=title)
    axis.grid(axis="y", alpha=0.3)
    axis.legend()
    save_plot(figure, path, dpi=100)


def draw_clusters(path: Path, rows: ByLabel, title: str) -> None:
    """The same graphs, their nodes colored by cluster; one line of graphs for each row."""
    count = min(len(results[0]["drawn"]) for results in rows.values())
    figure, axes = plt.subplots(
        len(rows), count, figsize=(3 * count, 3 * len(rows)), layout="constrained", squeeze=False
    )
    for across, (label, results) in zip(axes, rows.items()):
        for axis, graph in zip(across, results[0]["drawn"]):
            _draw_stored_graph(axis, graph)
        across[0].set_ylabel(label)
    figure.suptitle(title, fontsize="medium")
    save_plot(figure, path, dpi=100)


def _draw_stored_graph(axis: plt.Axes, graph: dict[str, Any]) -> None:
    clusters = torch.tensor(graph["clusters"])
    edge_index = torch.tensor(graph["edges"], dtype=torch.long).view(-1, 2).t()
    data = Data(edge_index=edge_index, num_nodes=clusters.numel())
    plot_clusters(data, clusters, axis, node_size=30)
    count = clusters.unique().numel()
    axis.set_title(f"class {graph['class']}, {count} clusters", fontsize="small")

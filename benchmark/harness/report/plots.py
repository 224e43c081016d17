"""The plots of the study, like those of the paper: `benchmark/results/figures`."""

from collections.abc import Callable
from typing import Any, NamedTuple, Optional

import numpy as np
import torch
from torch_geometric.data import Data

from harness.report.drawing import LABELS, epoch_axis, from_zero, line_style, plt
from harness.report.statistics import finished
from harness.report.tables import conditions, heading
from harness.study.declarations import Experiment
from harness.study.nested import Results
from harness.training.curves import LEVELS, curves_of
from torch_geometric_simpool import plot_clusters
from torch_geometric_simpool.analysis.plotting import COLORS

#: Results by the label of their row.
ByLabel = dict[str, list[dict[str, Any]]]


class Plot(NamedTuple):
    """How a table is plotted."""

    caption: str
    #: Returns the figure; nothing if there is nothing to draw.
    draw: Callable[[Experiment, Results], Optional[plt.Figure]]


def _by_label(table: Experiment, results: Results, splits: Optional[int] = None) -> ByLabel:
    """The results of each row that has any, on its first splits or on all."""
    rows = {row.label: list(finished(row.runs[:splits], results).values()) for row in table.rows}
    return {label: found for label, found in rows.items() if found}


def _plot_curves(table: Experiment, results: Results) -> Optional[plt.Figure]:
    rows = _by_label(table, results, splits=1)
    needed = set(curves_of("simpool"))
    rows = {label: found for label, found in rows.items() if needed <= found[0]["history"].keys()}
    if not rows:
        return None
    shared = conditions(table.rows).replace("**", "")
    return draw_curves(rows, f"{heading(table)}, first split\n{shared}")


def _plot_accuracy(table: Experiment, results: Results) -> Optional[plt.Figure]:
    rows = _by_label(table, results)
    if not rows:
        return None
    published = {r.label: float(r.paper) if r.paper else None for r in table.rows}
    return draw_accuracy(rows, published, heading(table))


def _plot_clusters(table: Experiment, results: Results) -> Optional[plt.Figure]:
    rows = _by_label(table, results, splits=1)
    rows = {label: found for label, found in rows.items() if found[0].get("drawn")}
    if not rows:
        return None
    return draw_clusters(rows, "The same graphs, their nodes by cluster")


#: The plots that an experiment can have.
PLOTS = {
    "curves": Plot("L_E, L_C and clusters used per epoch, on the validation graphs", _plot_curves),
    "accuracy": Plot("best validation accuracy, here and in the paper", _plot_accuracy),
    "clusters": Plot("graphs colored by cluster, one line for each way to assign", _plot_clusters),
}


def draw_curves(rows: ByLabel, title: str) -> plt.Figure:
    """L_E, L_C and clusters used over the epochs, at both levels, one line for each row."""
    figure, axes = plt.subplots(
        len(LEVELS), len(LABELS), figsize=(12, 6), layout="constrained", sharex=True
    )
    for level, across in zip(LEVELS, axes):
        for axis, (name, label) in zip(across, LABELS.items()):
            for number, (row, results) in enumerate(rows.items()):
                curves = np.array([r["history"][f"{name}_{level}"] for r in results])
                length = curves.shape[1]
                style = line_style(number, len(rows), length)
                axis.plot(np.arange(1, length + 1), curves.mean(axis=0), label=row, **style)
            axis.set_title(f"level {level}: {label}", fontsize="medium")
            from_zero(axis)
            axis.grid(alpha=0.3)
    for axis in axes[-1]:
        epoch_axis(axis, length)
    # Beside the panels, where it hides no line.
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), handlelength=4)
    figure.suptitle(title, fontsize="medium")
    return figure


def draw_accuracy(rows: ByLabel, published: dict[str, Optional[float]], title: str) -> plt.Figure:
    """The mean of the best validation accuracies of each row, and the value of the paper.

    Where a row has several splits, each of them is drawn as well.
    """
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    labels = list(published)
    most = max((len(found) for found in rows.values()), default=0)
    for place, label in enumerate(labels):
        ours = [r["best_val_accuracy"] for r in rows.get(label, [])]
        if not ours:
            continue
        axis.hlines(np.mean(ours), place - 0.3, place + 0.3, color=COLORS[0])
        if len(ours) > 1:
            # Side by side: splits often have the same accuracy.
            beside = place + np.linspace(-0.2, 0.2, len(ours))
            axis.scatter(beside, ours, color=COLORS[0], s=20)
    axis.plot([], [], color=COLORS[0], label="here, one split" if most == 1 else "here, mean")
    if most > 1:
        axis.scatter([], [], color=COLORS[0], s=20, label="here, every split")
    known = [(i, value) for i, value in enumerate(published.values()) if value is not None]
    if known:
        axis.scatter(
            *zip(*known), marker="x", color=COLORS[1], zorder=3, label="the paper, one split"
        )
    axis.set_xticks(range(len(labels)), labels, rotation=20)
    axis.set(ylabel="best validation accuracy", title=title)
    axis.grid(axis="y", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def draw_clusters(rows: ByLabel, title: str) -> plt.Figure:
    """The same graphs, their nodes by cluster; one line of graphs for each row."""
    count = min(len(results[0]["drawn"]) for results in rows.values())
    figure, axes = plt.subplots(
        len(rows), count, figsize=(3 * count, 3 * len(rows)), layout="constrained", squeeze=False
    )
    for across, (label, results) in zip(axes, rows.items()):
        for axis, graph in zip(across, results[0]["drawn"]):
            _draw_stored_graph(axis, graph)
        across[0].set_ylabel(label)
    figure.suptitle(title, fontsize="medium")
    return figure


def _draw_stored_graph(axis: plt.Axes, graph: dict[str, Any]) -> None:
    clusters = torch.tensor(graph["clusters"])
    edge_index = torch.tensor(graph["edges"], dtype=torch.long).view(-1, 2).t()
    data = Data(edge_index=edge_index, num_nodes=clusters.numel())
    plot_clusters(data, clusters, axis, node_size=30)
    count = clusters.unique().numel()
    axis.set_title(f"class {graph['class']}, {count} clusters", fontsize="small")

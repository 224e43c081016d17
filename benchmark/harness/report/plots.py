"""The plots of a run, and of tables of the study as in the paper."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.ticker import MaxNLocator
from torch_geometric.data import Data

from harness.report.statistics import finished
from harness.report.tables import conditions, heading
from harness.run import Drawing, Result, Run
from harness.study.declarations import Experiment
from torch_geometric_simpool import plot_clusters
from torch_geometric_simpool.analysis.plotting import COLORS

#: The curves of each level, with their labels.
_LABELS = {
    "entropy_loss": "$L_E$",
    "cluster_loss": "$L_C$",
    "clusters": "clusters used per graph",
}
_DASHES = ("-", "--", "-.", ":", (0, (7, 2, 1, 2, 1, 2)), (0, (3, 3)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
#: What a file would hold of the time and the program that made it.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    "svg": {"Creator": None, "Date": None},
}
plt.rcParams.update({"svg.hashsalt": "simpool", "pdf.fonttype": 42})
#: The results of each row of a table.
ByLabel = Mapping[str, list[Result]]


@dataclass(frozen=True)
class PlotFolder:
    """The folder and the format of plots."""

    folder: Path
    format: str = "png"
    dpi: int = 100

    def path(self, name: str) -> Path:
        """Returns the file of a plot."""
        return self.folder / f"{name}.{self.format}"

    def save(self, figure: plt.Figure, name: str) -> Path:
        """Writes a plot without version or date, so that equal results give equal files."""
        self.folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(self.path(name), dpi=self.dpi, metadata=_METADATA[self.format])
        plt.close(figure)
        return self.path(name)


def draw_run(plots: PlotFolder, results: ByLabel, chance: float) -> list[Path]:
    """Draws the accuracies over the epochs and, if the first method clusters nodes, graphs."""
    rows = {label: [r for r in row if r.error is None] for label, row in results.items()}
    rows = {label: row for label, row in rows.items() if row}
    if not rows:
        return []
    first = next(iter(rows.values()))[0]
    title = f"{first.run.dataset}, {next(iter(rows)) if len(rows) == 1 else 'validation graphs'}"
    paths = [plots.save(_accuracies(rows, title, chance), "accuracy")]
    if first.drawn:
        figure, axes = plt.subplots(2, 3, figsize=(12, 8), layout="constrained")
        for axis in axes.flat:
            axis.axis("off")
        for axis, graph in zip(axes.flat, first.drawn):
            _draw_graph(axis, graph, node_size=90)
        labels = sorted({label for graph in first.drawn for label in graph.labels or []})
        marks = ", ".join(f"{_letter(label)} = {label}" for label in labels)
        marks = f"\nLabels of the nodes: {marks}" if marks else ""
        title = f"{first.run.dataset}, {first.run.method}, fold {first.run.fold}"
        figure.suptitle(f"{title}: validation graphs colored by cluster{marks}")
        paths.append(plots.save(figure, "clusters"))
    return paths


def _accuracies(rows: ByLabel, title: str, chance: float) -> plt.Figure:
    """Returns accuracies over the epochs, mean and range of folds: of training too if one row."""
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    lines = [(label, "val", row) for label, row in rows.items()]
    if len(rows) == 1:
        (row,) = rows.values()
        lines = [("training", "train", row), ("validation", "val", row)]
    for number, (label, part, row) in enumerate(lines):
        curves = np.array([result.history[f"{part}_accuracy"] for result in row])
        epoch = np.arange(1, curves.shape[1] + 1)
        color, line = COLORS[number], "--" if part == "train" else "-"
        axis.plot(epoch, curves.mean(axis=0), label=label, color=color, linestyle=line)
        axis.fill_between(epoch, curves.min(axis=0), curves.max(axis=0), color=color, alpha=0.2)
    axis.axhline(chance, color="0.4", linestyle=":", label="chance")
    axis.set(ylabel="accuracy", ylim=(0, 1.03))
    _epoch_axis(axis, len(epoch))
    axis.grid(alpha=0.3)
    axis.legend(loc="best")
    count = len(lines[0][2])
    folds = f"mean and range of {count} folds" if count > 1 else "one fold"
    figure.suptitle(f"{title} ({folds})")
    return figure


def _letter(label: int) -> str:
    return chr(ord("a") + label % 26)


def _draw_graph(axis: plt.Axes, graph: Drawing, node_size: float = 30) -> None:
    """Draws a graph, its nodes colored by cluster, with letters for their labels."""
    clusters = torch.tensor(graph.clusters)
    edge_index = torch.tensor(graph.edges, dtype=torch.long).view(-1, 2).t()
    data = Data(edge_index=edge_index, num_nodes=clusters.numel())
    letters = None if graph.labels is None else [_letter(label) for label in graph.labels]
    plot_clusters(data, clusters, axis, node_size=node_size, labels=letters)
    count = clusters.unique().numel()
    axis.set_title(f"class {graph.y}, {count} clusters", fontsize="small")


#: The captions of the plots that a table can have.
CAPTIONS = {
    "curves": "L_E, L_C and clusters used per epoch, on the validation graphs",
    "accuracy": "best validation accuracy, here and in the paper",
    "clusters": "graphs colored by cluster, one line for each way to assign",
}


def draw_table(table: Experiment, results: Mapping[Run, Result]) -> Optional[plt.Figure]:
    """Returns the plot of a table, or `None` if it has none or there is nothing to draw."""
    splits = None if table.plot == "accuracy" else 1
    rows = {row.label: list(finished(row.runs[:splits], results).values()) for row in table.rows}
    rows = {label: of_row for label, of_row in rows.items() if of_row}
    if table.plot == "curves":
        rows = {
            label: of_row for label, of_row in rows.items() if "clusters_1" in of_row[0].history
        }
    elif table.plot == "clusters":
        rows = {label: of_row for label, of_row in rows.items() if of_row[0].drawn}
    if table.plot is None or not rows:
        return None
    if table.plot == "clusters":
        return draw_clusters(rows, "The same graphs, their nodes by cluster")
    if table.plot == "accuracy":
        published = {r.label: float(r.paper) if r.paper else None for r in table.rows}
        return draw_accuracy(rows, published, heading(table))
    shared = conditions(table.rows).replace("**", "")
    return draw_curves(rows, f"{heading(table)}, first split\n{shared}")


def draw_curves(rows: ByLabel, title: str) -> plt.Figure:
    """Returns L_E, L_C and clusters used over the epochs at both levels, a line for each row."""
    figure, axes = plt.subplots(2, len(_LABELS), figsize=(12, 6), layout="constrained", sharex=True)
    for level, across in enumerate(axes):
        for axis, (name, label) in zip(across, _LABELS.items()):
            for number, (row, results) in enumerate(rows.items()):
                curve = np.mean([r.history[f"{name}_{level}"] for r in results], axis=0)
                style = _line_style(number, len(rows), len(curve))
                axis.plot(np.arange(1, len(curve) + 1), curve, label=row, **style)
            axis.set_title(f"level {level}: {label}", fontsize="medium")
            top = axis.dataLim.ymax or 1
            axis.set_ylim(-0.03 * top, 1.05 * top)  # a margin: no line is on the frame
            axis.grid(alpha=0.3)
    for axis in axes[-1]:
        _epoch_axis(axis, len(curve))
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), handlelength=4)
    figure.suptitle(title, fontsize="medium")
    return figure


def draw_accuracy(rows: ByLabel, published: dict[str, Optional[float]], title: str) -> plt.Figure:
    """Returns the best validation accuracies of each row, and the values of the paper."""
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    labels = list(published)
    most = max((len(results) for results in rows.values()), default=0)
    for place, label in enumerate(labels):
        ours = [result.best_val_accuracy for result in rows.get(label, [])]
        if ours:
            axis.hlines(np.mean(ours), place - 0.3, place + 0.3, color=COLORS[0])
        if len(ours) > 1:
            # Side by side: splits often have the same accuracy.
            axis.scatter(place + np.linspace(-0.2, 0.2, len(ours)), ours, color=COLORS[0], s=20)
    axis.plot([], [], color=COLORS[0], label="here, one split" if most == 1 else "here, mean")
    if most > 1:
        axis.scatter([], [], color=COLORS[0], s=20, label="here, every split")
    values = [(i, value) for i, value in enumerate(published.values()) if value is not None]
    if values:
        style: dict[str, Any] = {"marker": "x", "color": COLORS[1], "zorder": 3}
        axis.scatter(*zip(*values), label="the paper, one split", **style)
    axis.set_xticks(range(len(labels)), labels, rotation=20)
    axis.set(ylabel="best validation accuracy", title=title)
    axis.grid(axis="y", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def draw_clusters(rows: ByLabel, title: str) -> plt.Figure:
    """Returns the same graphs with their nodes by cluster, one line of graphs for each row."""
    drawn = {label: results[0].drawn or [] for label, results in rows.items()}
    count = min(map(len, drawn.values()))
    figure, axes = plt.subplots(
        len(rows), count, figsize=(3 * count, 3 * len(rows)), layout="constrained", squeeze=False
    )
    for across, (label, graphs) in zip(axes, drawn.items()):
        for axis, graph in zip(across, graphs):
            _draw_graph(axis, graph)
        across[0].set_ylabel(label)
    figure.suptitle(title, fontsize="medium")
    return figure


def _line_style(number: int, count: int, length: int) -> dict[str, Any]:
    """Returns the style of line `number` of `count` with `length` points: none hides another."""
    step = max(length // 8, 1)
    below = (count - 1 - number) / max(count - 1, 1)
    apart = step >= count
    return {
        "color": COLORS[number % len(COLORS)],
        "linestyle": _DASHES[number % len(_DASHES)],
        "linewidth": 1.2 + 1.6 * below,
        "marker": _MARKERS[number % len(_MARKERS)],
        "markersize": 5 if apart else 4 + 8 * below,
        "markerfacecolor": "white" if apart else "none",
        "markevery": (number * step // count, step),
    }


def _epoch_axis(axis: plt.Axes, epochs: int) -> None:
    """Labels an axis of epochs with whole numbers."""
    axis.set_xlabel("epoch")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))
    if epochs == 1:
        axis.set_xlim(0.5, 1.5)

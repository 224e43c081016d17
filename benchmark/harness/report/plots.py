"""The plots of a run, and the paper's plots for tables of the study."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Optional

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from cycler import cycler
from matplotlib.ticker import MaxNLocator
from torch_geometric.data import Data

from harness.report.statistics import finished
from harness.report.tables import conditions, heading
from harness.run import Drawing, Result, Run
from harness.study.declarations import Experiment
from harness.study.experiments import PAPER
from torch_geometric_simpool import plot_clusters
from torch_geometric_simpool.analysis.plotting import COLORS

#: The results of each row of a table.
ByLabel = Mapping[str, list[Result]]
#: The curves of each level, with their labels.
_LABELS = {
    "entropy_loss": "$L_E$",
    "cluster_loss": "$L_C$",
    "clusters": "clusters used per graph",
}
#: The captions of the plots that a table can have.
CAPTIONS = {
    "curves": "L_E, L_C and clusters used per epoch, on the validation graphs",
    "accuracy": "best validation accuracy, here and in the paper",
    "clusters": "graphs colored by cluster, one line for each way to assign",
}
#: Each line has its own dashes, so that equal curves are both visible.
_CYCLE = cycler(color=COLORS[:6]) + cycler(
    linestyle=["-", "--", "-.", ":", (0, (7, 2, 1, 2, 1, 2)), (0, (3, 3))]
)
plt.rcParams.update({"axes.prop_cycle": _CYCLE, "axes.grid": True, "grid.alpha": 0.3})
plt.rcParams["figure.constrained_layout.use"] = True


def save(figure: plt.Figure, path: Path) -> Path:
    """Writes a plot without the version of Matplotlib, so that equal results give equal files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100, metadata={"Software": None})
    plt.close(figure)
    return path


def draw_run(folder: Path, results: ByLabel, chance: float) -> list[Path]:
    """Draws the accuracies over the epochs, and graphs if the first method clusters nodes."""
    every = {label: [r for r in row if r.error is None] for label, row in results.items()}
    rows = {label: row for label, row in every.items() if row}
    if not rows:
        return []
    paths = [save(_accuracies(rows, chance), folder / "accuracy.png")]
    first = next(iter(rows.values()))[0]
    if first.drawn:
        labels = sorted({label for graph in first.drawn for label in graph.labels or []})
        marks = ", ".join(f"{_letter(label)} = {label}" for label in labels)
        title = f"{first.run.dataset}, {first.run.method}, fold {first.run.fold}: validation graphs"
        title += " colored by cluster" + (f"\nLabels of the nodes: {marks}" if marks else "")
        figure = _graphs([first.drawn[:3], first.drawn[3:]], ("", ""), title, node_size=90)
        paths.append(save(figure, folder / "clusters.png"))
    return paths


def _accuracies(rows: ByLabel, chance: float) -> plt.Figure:
    """Returns a plot of validation accuracies over the epochs, with mean and range of the folds."""
    figure, axis = plt.subplots(figsize=(7, 4))
    for label, row in rows.items():
        curves = np.array([result.history["val_accuracy"] for result in row])
        epochs = np.arange(1, curves.shape[1] + 1)
        axis.plot(epochs, curves.mean(axis=0), label=label)
        axis.fill_between(epochs, curves.min(axis=0), curves.max(axis=0), alpha=0.2)
    axis.axhline(chance, color="0.4", linestyle=":", label="chance")
    axis.set(xlabel="epoch", ylabel="accuracy", ylim=(0, 1.03))
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.legend()
    first = next(iter(rows.values()))
    figure.suptitle(
        f"{first[0].run.dataset}, validation graphs (mean and range of {len(first)} folds)"
    )
    return figure


def _graphs(
    rows: Sequence[list[Drawing]], labels: Iterable[str], title: str, node_size: float = 30
) -> plt.Figure:
    """Returns a picture of graphs colored by cluster, with one line of graphs for each row."""
    across = max(map(len, rows))
    figure, axes = plt.subplots(
        len(rows), across, figsize=(3 * across, 3 * len(rows) + 1), squeeze=False
    )
    for axis in axes.flat:
        axis.axis("off")
    for line, label, graphs in zip(axes, labels, rows):
        for axis, graph in zip(line, graphs):
            clusters = torch.tensor(graph.clusters)
            edge_index = torch.tensor(graph.edges, dtype=torch.long).view(-1, 2).t()
            letters = None if graph.labels is None else [_letter(mark) for mark in graph.labels]
            data = Data(edge_index=edge_index, num_nodes=len(clusters))
            plot_clusters(data, clusters, axis, node_size=node_size, labels=letters)
            text = f"class {graph.y}, {len(clusters.unique())} clusters"
            axis.set_title(f"{label}\n{text}".strip(), fontsize="small")
            label = ""  # only the first graph of a line has the label
    figure.suptitle(title, fontsize="medium")
    return figure


def _letter(label: int) -> str:
    return chr(ord("a") + label % 26)


def draw_table(table: Experiment, results: Mapping[Run, Result], folder: Path) -> Optional[Path]:
    """Draws the plot of a table. Returns `None` if the table has no plot or no results for it."""
    splits = None if table.plot == "accuracy" else 1
    rows = {row.label: list(finished(row.runs[:splits], results).values()) for row in table.rows}
    rows = {label: row for label, row in rows.items() if row}
    drawn = {label: row[0].drawn for label, row in rows.items() if row[0].drawn}
    if table.plot is None or not (drawn if table.plot == "clusters" else rows):
        return None
    if table.plot == "clusters":
        figure = _graphs(list(drawn.values()), drawn, "The same graphs, their nodes by cluster")
    elif table.plot == "accuracy":
        figure = _best_accuracies(table, rows)
    else:
        figure = _curves(rows)
        shared = conditions(table.rows).replace("**", "")
        figure.suptitle(f"{heading(table)}, first split\n{shared}", fontsize="medium")
    return save(figure, folder / f"{table.name}.png")


def _curves(rows: ByLabel) -> plt.Figure:
    """Returns plots of L_E, L_C and clusters used over the epochs, with a line for each row."""
    figure, axes = plt.subplots(2, len(_LABELS), figsize=(12, 6), sharex=True)
    for level, line in enumerate(axes):
        for axis, (name, label) in zip(line, _LABELS.items()):
            curves = {row: of_row[0].history[f"{name}_{level}"] for row, of_row in rows.items()}
            for row, curve in curves.items():
                axis.plot(np.arange(1, len(curve) + 1), curve, label=row)
            axis.set_title(f"level {level}: {label}", fontsize="medium")
    for axis in axes[-1]:
        axis.set_xlabel("epoch")
    handles = axes[0][0].get_lines()
    figure.legend(handles=handles, loc="outside lower center", ncols=len(rows), handlelength=4)
    return figure


def _best_accuracies(table: Experiment, rows: ByLabel) -> plt.Figure:
    """Returns a plot of the best validation accuracies of each row and the values of the paper."""
    best = {row.label: [r.best_val_accuracy for r in rows.get(row.label, [])] for row in table.rows}
    paper = [float(PAPER[table.name].get(row.label, "nan")) for row in table.rows]
    figure, axis = plt.subplots(figsize=(7, 4))
    every = [(label, value) for label, values in best.items() for value in values or [np.nan]]
    axis.plot(*zip(*every), "o", alpha=0.5, label="here, every split")
    means = [np.mean(values or np.nan) for values in best.values()]
    axis.plot(list(best), means, "_", markersize=30, color=COLORS[0], label="here, mean")
    axis.plot(list(best), paper, "x", color=COLORS[1], label="the paper, one split")
    axis.tick_params(axis="x", rotation=20)
    axis.set(ylabel="best validation accuracy", title=heading(table))
    figure.legend(loc="outside lower center", ncols=3)
    return figure

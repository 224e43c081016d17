"""Pictures of the study, like the paper's figures: `benchmark/results/figures/*.png`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

from results import LEVELS, OF_LEVEL, write_whole

LABELS = dict(zip(OF_LEVEL, ("$L_E$", "$L_C$", "clusters used per graph")))
#: Results by the label of their row.
ByLabel = dict[str, list[dict[str, Any]]]


def draw_curves(path: Path, rows: ByLabel, title: str) -> None:
    """L_E, L_C and clusters used per epoch, at both levels, one line for each row."""
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
    _save(figure, path)


def draw_accuracy(
    path: Path, rows: ByLabel, printed: dict[str, Optional[float]], title: str
) -> None:
    """The best validation accuracy of each row, every split a dot, and the paper's."""
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    labels = list(printed)
    for place, label in enumerate(labels):
        ours = [r["best_val_accuracy"] for r in rows.get(label, [])]
        axis.scatter([place] * len(ours), ours, color="C0", alpha=0.5, s=20)
        if ours:
            axis.hlines(np.mean(ours), place - 0.3, place + 0.3, color="C0")
    known = [(i, printed[label]) for i, label in enumerate(labels) if printed[label] is not None]
    axis.scatter(*zip(*known), marker="x", color="C3", label="the paper, one split")
    axis.plot([], [], color="C0", label="here: mean, and every split")
    axis.set_xticks(range(len(labels)), labels, rotation=20)
    axis.set(ylabel="best validation accuracy", title=title)
    axis.grid(axis="y", alpha=0.3)
    axis.legend()
    _save(figure, path)


def draw_clusters(path: Path, rows: ByLabel, title: str) -> None:
    """The same graphs, their nodes coloured by cluster, one line of pictures for each row."""
    count = min(len(results[0]["drawn"]) for results in rows.values())
    figure, axes = plt.subplots(
        len(rows), count, figsize=(3 * count, 3 * len(rows)), layout="constrained", squeeze=False
    )
    for across, (label, results) in zip(axes, rows.items()):
        for axis, graph in zip(across, results[0]["drawn"]):
            _draw_graph(axis, graph)
        across[0].set_ylabel(label)
    figure.suptitle(title, fontsize="medium")
    _save(figure, path)


def _draw_graph(axis: plt.Axes, graph: dict[str, Any]) -> None:
    colours: Sequence[int] = graph["clusters"]
    net = nx.Graph()
    net.add_nodes_from(range(len(colours)))
    net.add_edges_from(graph["edges"])
    # Kamada-Kawai needs no random numbers; the parts of a graph are laid out apart.
    place = nx.kamada_kawai_layout(net)
    palette = plt.get_cmap("tab10" if max(colours) < 10 else "tab20")
    nx.draw_networkx_edges(net, place, ax=axis, edge_color="0.7")
    nx.draw_networkx_nodes(
        net, place, ax=axis, node_size=30, node_color=[palette(c % palette.N) for c in colours]
    )
    axis.set_title(f"class {graph['class']}, {len(set(colours))} clusters", fontsize="small")
    axis.tick_params(left=False, bottom=False)
    axis.set_frame_on(False)


def _save(figure: plt.Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # No version, no date: the same results give the same file.
    write_whole(
        path, lambda temporary: figure.savefig(temporary, dpi=100, metadata={"Software": None})
    )
    plt.close(figure)

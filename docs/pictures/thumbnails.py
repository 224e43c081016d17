"""Thumbnails of the examples of the gallery that draw no picture."""

from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from matplotlib.axes import Axes

from small_graph import COLORS, NODES, adjacency, assignment, draw_graph, draw_pooled

BLUE, ORANGE, GREEN, _ = COLORS
STARS = [COLORS[node % 3] for node in NODES]


def draw_train(axis: Axes) -> None:
    """Draws an accuracy that rises to a plateau."""
    epoch = np.arange(40)
    axis.plot(epoch, 0.95 - 0.45 * np.exp(-epoch / 7), color=GREEN, linewidth=5)
    axis.axhline(0.5, color="0.4", linestyle=":", linewidth=3)
    axis.set(ylim=(0, 1.1), xticks=[], yticks=[])


def draw_lightning(axis: Axes) -> None:
    """Draws a flash."""
    x, y = [0.55, 0.25, 0.48, 0.4, 0.75, 0.52], [1, 0.45, 0.45, 0, 0.6, 0.6]
    axis.fill(x, y, color=ORANGE, edgecolor="0.3", linewidth=2)
    axis.set(xlim=(-0.4, 1.4), ylim=(-0.1, 1.1))
    axis.axis("off")


def draw_ddp(axis: Axes) -> None:
    """Draws two copies of a graph, one above the other."""
    for place, title in ((0.5, "process 0"), (0, "process 1")):
        part = axis.inset_axes((0, place, 1, 0.5))
        draw_graph(part, STARS, node_size=90, with_labels=False)
        part.text(0.5, 0.85, title, transform=part.transAxes, ha="center")
    axis.axis("off")


def draw_recommend(axis: Axes) -> None:
    """Draws three users, four items, and a recommended item."""
    bought = nx.Graph([(0, 3), (0, 4), (1, 3), (1, 4), (1, 5), (2, 5), (2, 6)])
    places = {node: (node, 1) for node in range(3)} | {
        node: (node - 3.5, 0) for node in range(3, 7)
    }
    colors = [BLUE if node < 3 else ORANGE for node in bought]
    nx.draw(bought, places, ax=axis, node_color=colors, edgecolors="0.3", edge_color="0.6")
    nx.draw_networkx_edges(bought, places, [(0, 5)], ax=axis, style="--", edge_color=GREEN, width=4)


def draw_rewiring(axis: Axes) -> None:
    """Draws edges between nodes with the same neighbors."""
    graph = nx.complete_bipartite_graph(3, 3)
    places = nx.bipartite_layout(graph, range(3))
    colors = [BLUE] * 3 + [ORANGE] * 3
    nx.draw(graph, places, ax=axis, node_color=colors, edgecolors="0.3", edge_color="0.8")
    similar = [(0, 1), (1, 2), (3, 4), (4, 5)]
    nx.draw_networkx_edges(nx.Graph(similar), places, ax=axis, edge_color=GREEN, width=4)


def draw_tgp(axis: Axes) -> None:
    """Draws a pooled graph."""
    draw_pooled(axis, assignment(adjacency()).adj[0].detach())


THUMBNAILS: dict[str, Callable[[Axes], None]] = {
    "ddp": draw_ddp,
    "lightning_training": draw_lightning,
    "recommend": draw_recommend,
    "rewiring": draw_rewiring,
    "tgp_classification": draw_tgp,
    "train": draw_train,
}


def save(folder: Path) -> None:
    """Replaces the thumbnails that sphinx-gallery has made."""
    for name, draw in THUMBNAILS.items():
        figure, axis = plt.subplots(figsize=(4, 2.8), layout="constrained")
        draw(axis)
        figure.savefig(folder / f"sphx_glr_{name}_thumb.png", dpi=100)
        plt.close(figure)

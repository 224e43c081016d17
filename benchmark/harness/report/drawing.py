"""What all plots share: the backend of Matplotlib, labels, graphs, and how files are written."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import networkx as nx

from harness.store.files import write_whole
from harness.training.curves import OF_LEVEL

#: The labels of the curves of a level.
LABELS = dict(zip(OF_LEVEL, ("$L_E$", "$L_C$", "clusters used per graph")))


def draw_graph(
    axis: plt.Axes, net: nx.Graph, place: dict, clusters: Sequence[int], colors: int, node_size: int
) -> None:
    """Draws a graph, its nodes colored by cluster; `colors` is the number that is needed."""
    palette = plt.get_cmap("tab10" if colors <= 10 else "tab20")
    node_color = [palette(c % palette.N) for c in clusters]
    nx.draw_networkx_edges(net, place, ax=axis, edge_color="0.7")
    nx.draw_networkx_nodes(net, place, ax=axis, node_size=node_size, node_color=node_color)


def save_plot(figure: plt.Figure, path: Path, dpi: int = 110) -> None:
    """Writes a plot without version or date, so that equal results give equal files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Software": None}
    write_whole(path, lambda temporary: figure.savefig(temporary, dpi=dpi, metadata=metadata))
    plt.close(figure)

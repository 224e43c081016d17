"""The small graph of the page on the method, and how to draw it and matrices."""

import matplotlib.pyplot as plt
import networkx as nx
import torch
from matplotlib.axes import Axes
from torch import Tensor

from torch_geometric_simpool.analysis import plotting

#: Two hubs, 1 and 6, with three leaves each, and node 5 between them.
EDGES = [(1, 2), (1, 3), (1, 4), (1, 5), (5, 6), (6, 7), (6, 8), (6, 9)]
PLACES = {
    1: (-1.0, 0.0),
    2: (-1.4, 0.9),
    3: (-2.0, 0.0),
    4: (-1.4, -0.9),
    5: (0.0, 0.0),
    6: (1.0, 0.0),
    7: (1.4, 0.9),
    8: (2.0, 0.0),
    9: (1.4, -0.9),
}
#: Those of the colors of `plot_clusters` on which black numbers can be read.
COLORS = [plotting.COLORS[i] for i in (4, 1, 2, 6)]
NODES = sorted(PLACES)

plt.rcParams.update({"font.size": 11, "figure.facecolor": "white"})


def adjacency() -> Tensor:
    """The adjacency matrix, `[9, 9]`."""
    net = nx.Graph(EDGES)
    return torch.tensor(nx.to_numpy_array(net, nodelist=NODES), dtype=torch.float)


def draw_graph(axis: Axes, colors: list[str]) -> None:
    """Draws the graph with the nodes in these colors."""
    nx.draw(
        nx.Graph(EDGES),
        PLACES,
        ax=axis,
        nodelist=NODES,
        node_color=colors,
        edgecolors="0.3",
        edge_color="0.6",
        node_size=430,
        with_labels=True,
        font_size=11,
    )
    axis.set_aspect("equal")
    axis.margins(0.12)


def draw_matrix(axis: Axes, matrix: Tensor, title: str, digits: int = 1) -> None:
    """Draws a matrix with numbers in [0, 1] in its cells; zeros are left empty."""
    axis.imshow(matrix, cmap="Blues", vmin=0, vmax=1.4, aspect="equal")
    for i, row in enumerate(matrix.tolist()):
        for j, value in enumerate(row):
            if round(value, digits) != 0:
                text = f"{value:.{digits}f}".removesuffix(".0")
                axis.text(j, i, text, ha="center", va="center", fontsize=9)
    axis.set_xticks(range(matrix.size(1)), map(str, range(1, matrix.size(1) + 1)))
    axis.set_yticks(range(matrix.size(0)), map(str, range(1, matrix.size(0) + 1)))
    axis.tick_params(length=0)
    axis.set_title(title)

"""The small graph of the page on the method, and functions that draw graphs and matrices."""

import matplotlib.pyplot as plt
import networkx as nx
import torch
from matplotlib.axes import Axes
from torch import Tensor

from torch_geometric_simpool import SimPool, SimPoolOutput
from torch_geometric_simpool.analysis import plotting

#: The hubs 1 and 6 have three leaves each, and node 5 is between them.
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
#: Colors of `plot_clusters` that are light enough for black numbers.
COLORS = [plotting.COLORS[i] for i in (4, 1, 2, 6)]
NODES = sorted(PLACES)

plt.rcParams.update({"font.size": 11, "figure.facecolor": "white"})


def adjacency() -> Tensor:
    """Returns the adjacency matrix, `[9, 9]`."""
    net = nx.Graph(EDGES)
    return torch.tensor(nx.to_numpy_array(net, nodelist=NODES), dtype=torch.float)


def assignment(adj: Tensor) -> SimPoolOutput:
    """Returns three clusters of the graph, learned from the two losses alone."""
    torch.manual_seed(3)
    pool = SimPool(3, k=None, hidden_channels=16)
    pool(torch.ones(9, 1), adj=adj)  # sets the size of the lazy first layer
    optimizer = torch.optim.Adam(pool.parameters(), lr=0.02)
    for _ in range(150):
        out = pool(torch.ones(9, 1), adj=adj)
        optimizer.zero_grad()
        (out.entropy_loss + out.cluster_loss).backward()
        optimizer.step()
    return out


def draw_graph(
    axis: Axes, colors: list[str], node_size: float = 430, with_labels: bool = True
) -> None:
    """Draws the graph with its nodes in the given colors."""
    nx.draw(
        nx.Graph(EDGES),
        PLACES,
        ax=axis,
        nodelist=NODES,
        node_color=colors,
        edgecolors="0.3",
        edge_color="0.6",
        node_size=node_size,
        with_labels=with_labels,
        font_size=11,
    )
    axis.set_aspect("equal")
    axis.margins(0.12)


def draw_pooled(axis: Axes, adj: Tensor) -> None:
    """Draws the pooled graph, with the weights of its edges and self-loops."""
    net = nx.Graph()
    net.add_nodes_from(range(len(adj)))
    weights = {(i, j): float(adj[i, j]) for i in range(len(adj)) for j in range(i + 1)}
    net.add_weighted_edges_from((i, j, w) for (i, j), w in weights.items() if i != j and w > 0.005)
    places = nx.shell_layout(net, rotate=-0.5)
    nx.draw(
        net,
        places,
        ax=axis,
        node_color=COLORS[: len(adj)],
        edgecolors="0.3",
        edge_color="0.6",
        node_size=1100,
        width=[3 * w for _, _, w in net.edges(data="weight")],
    )
    labels = {(i, j): f"{w:.2f}" for i, j, w in net.edges(data="weight")}
    nx.draw_networkx_edge_labels(net, places, labels, ax=axis, font_size=9)
    axis.margins(0.3)


def draw_matrix(axis: Axes, matrix: Tensor, title: str, digits: int = 1) -> None:
    """Draws a matrix of numbers in [0, 1]. The cells of zeros are empty."""
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

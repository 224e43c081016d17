"""Pictures of graphs, colored by cluster: the optional import of Matplotlib and networkx."""

import math
from typing import TYPE_CHECKING, Any, Optional

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_simpool.transforms.inputs import read_graphs
from torch_geometric_simpool.utils.checks import (
    check_dense,
    check_finite,
    check_real,
    is_integral,
    shape,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The colors of Okabe and Ito (2008), which readers tell apart whatever colors they see.
COLORS = (
    "#0072B2",  # blue
    "#E69F00",  # orange
    "#009E73",  # green
    "#CC79A7",  # purple
    "#56B4E9",  # light blue
    "#D55E00",  # red
    "#F0E442",  # yellow
    "#000000",  # black
)
#: The marks of clusters beyond the colors: the first colors again, in another shape.
SHAPES = "os^DvphX"
#: More nodes are placed by springs: the other layout takes cubic time.
MOST_NODES = 300


def plot_clusters(
    data: Data,
    s: Tensor,
    ax: Optional["Axes"] = None,
    pos: Optional[dict[int, Any]] = None,
    node_size: float = 60.0,
) -> "Axes":
    r"""Draws a graph, its nodes colored by cluster :math:`c_i = \arg\max_k s_{ik}`.

    A cluster has its color and shape whichever other clusters are used, so pictures can be
    compared. The first eight clusters are dots in eight colors that color-blind readers can tell
    apart; the next eight have the same colors and are squares, and so on, up to 64, where they
    start again. Edges are drawn without direction, parallel edges once and self-loops not at all.

    Args:
        data: The graph, of `N` nodes, with `edge_index`, `adj_t` or a dense `adj`. A batch is
            drawn as one graph of several parts.
        s: The cluster of each node, integers `>= 0`, `[N]`, or an assignment matrix, `[N, K]` or
            `[1, N, K]`, as :class:`SimPool` returns it; of equal entries the first counts. Rows
            of padded nodes of a dense graph are left out.
        ax: Where to draw; a new figure if `None`.
        pos: The place `(x, y)` of each node `0, ..., N - 1`, as the layouts of networkx return
            it. If `None`, distances follow the lengths of shortest paths (Kamada-Kawai); of more
            than 300 nodes, springs along the edges. Connected components are placed side by
            side.
        node_size: The area of a node in square points, `>= 0`.

    Returns:
        The Matplotlib `Axes`. Its `legend()` names the clusters.

    Raises:
        ImportError: Matplotlib or networkx is not installed.
        TypeError, ValueError: `data` is not a graph of one type of nodes, `s` does not fit it, has
            NaN or negative numbers, or `pos` leaves nodes out.

    Not differentiable. Time `O(N^3)` for a component of up to 300 nodes, else `O(N^2)`; with
    `pos`, linear.
    Deterministic.

    Source: the figures of clusters of Shulman (2020); colors of Okabe and Ito (2008), 'Color
    Universal Design'.

    Example:
        >>> import matplotlib; matplotlib.use("Agg")
        >>> path = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4)
        >>> ax = plot_clusters(path, torch.tensor([0, 0, 1, 1]))
        >>> [text.get_text() for text in ax.legend().get_texts()]
        ['cluster 0', 'cluster 1']
    """
    plt, nx = _packages()
    edge_index, cluster = _read(data, s)
    check_real("node_size", node_size, 0.0)
    net = nx.Graph()
    net.add_nodes_from(range(cluster.numel()))
    net.add_edges_from((i, j) for i, j in edge_index.t().tolist() if i != j)
    if pos is None:
        pos = _places(net, nx)
    elif not isinstance(pos, dict) or not set(net) <= set(pos):
        raise ValueError(
            f"`pos` must hold a place for each of the nodes 0 to {len(net) - 1}, got {pos!r:.60}"
        )
    if ax is not None and not isinstance(ax, plt.Axes):
        raise TypeError(f"`ax` must be Matplotlib's Axes, got {type(ax).__name__}")
    if ax is None:
        ax = plt.subplots(layout="constrained")[1]
    nx.draw_networkx_edges(net, pos, ax=ax, edge_color="0.7")
    for c in cluster.unique().tolist():
        nx.draw_networkx_nodes(
            net,
            pos,
            nodelist=(cluster == c).nonzero().view(-1).tolist(),
            ax=ax,
            node_size=node_size,
            node_color=COLORS[c % len(COLORS)],
            node_shape=SHAPES[c // len(COLORS) % len(SHAPES)],
            edgecolors="0.3",  # yellow is hard to see on white
            linewidths=0.5,
            label=f"cluster {c}",
        )
    # No frame, but labels of the axes remain visible.
    ax.set_frame_on(False)
    ax.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
    return ax


def _places(net: Any, nx: Any) -> dict[int, Any]:
    """Where nodes are drawn: each connected component by itself, from left to right in rows."""

    def places_of(part: Any) -> dict[int, Any]:
        small = len(part) <= MOST_NODES
        return nx.kamada_kawai_layout(part) if small else nx.spring_layout(part, seed=0)

    parts = [net.subgraph(nodes) for nodes in nx.connected_components(net)]
    if len(parts) < 2:
        return places_of(net)
    parts.sort(key=len, reverse=True)
    sides = [math.sqrt(len(part)) for part in parts]  # of squares, so that nodes lie equally close
    width = max(sides[0], 1.4 * math.sqrt(sum(side**2 for side in sides)))
    pos: dict[int, Any] = {}
    left = top = height = 0.0
    for part, side in zip(parts, sides):
        if left + side > width:  # a new row, below its predecessor
            left, top, height = 0.0, top - height, 0.0
        height = max(height, side)
        center = (left + side / 2, top - side / 2)
        for node, (x, y) in places_of(part).items():
            # A layout reaches from -1 to 1. A fifth of the square is left free between parts.
            pos[node] = (center[0] + 0.4 * side * x, center[1] + 0.4 * side * y)
        left += side
    return pos


def _read(data: Any, s: Any) -> tuple[Tensor, Tensor]:
    """The edges, and the cluster of each node, on the CPU."""
    if not isinstance(data, Data):
        raise TypeError(f"`data` must be a Data or a Batch of them, got {type(data).__name__}")
    graphs = read_graphs(data, None)
    mask, num_nodes = graphs.mask, graphs.edges.num_nodes
    s = check_dense("s", s).detach().cpu()
    rows = s[0] if s.dim() == 3 and s.size(0) == 1 else s
    if mask is not None and rows.dim() > 0 and rows.size(0) == mask.numel():
        rows = rows[mask.view(-1).cpu()]
    if rows.dim() not in (1, 2) or rows.size(0) != num_nodes or rows.size(-1) == 0 < num_nodes:
        raise ValueError(
            f"`s` must have shape [{num_nodes}], [{num_nodes}, K] or [1, {num_nodes}, K], one row "
            f"for each node of `data`, got {shape(s)}"
        )
    if rows.dim() == 1:
        if not is_integral(rows.dtype):
            raise TypeError(f"`s` must hold integers where it is [N], got {rows.dtype}")
        if rows.numel() > 0 and int(rows.min()) < 0:
            raise ValueError(f"`s` must hold clusters >= 0, got {int(rows.min())}")
        cluster = rows.long()
    else:
        check_finite("s", rows)
        cluster = rows.double().argmax(dim=-1) if rows.numel() > 0 else torch.empty(0).long()
    edge_index = graphs.edges.edge_index.cpu()
    if graphs.position is not None:  # in the numbering of `data`
        edge_index = graphs.position.cpu().argsort()[edge_index]
    return edge_index, cluster


def _packages() -> tuple[Any, Any]:
    """Matplotlib's pyplot and networkx, or an error that says what is missing."""
    try:
        import matplotlib.pyplot as plt
        import networkx as nx
    except ImportError as error:
        raise ImportError(
            "`plot_clusters` needs Matplotlib and networkx: `pip install matplotlib networkx`, or "
            f"the extra `benchmark`; got: {error}"
        ) from error
    return plt, nx

"""Pictures of graphs that are colored by cluster; needs Matplotlib and networkx."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional

from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_simpool.transforms.inputs import read_graphs
from torch_geometric_simpool.utils.checks import check_dense, check_finite, is_integral

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The colors of Okabe and Ito (2008), which color-blind readers can tell apart.
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
#: The shapes of clusters. As many clusters as there are colors have the first shape, and so on.
SHAPES = "os^DvphX"
#: The largest graph that is drawn by the Kamada-Kawai layout, which takes cubic time.
MOST_NODES = 300


def plot_clusters(
    data: Data,
    s: Tensor,
    ax: Optional["Axes"] = None,
    pos: Optional[dict[int, Any]] = None,
    node_size: float = 60.0,
    labels: Optional[Sequence[Any]] = None,
    legend: bool = False,
) -> "Axes":
    r"""Draws a graph with nodes colored by cluster :math:`c_i = \arg\max_k s_{ik}`.

    A cluster has the same color and shape in every picture. The first eight clusters are dots, the
    next eight are squares in the same colors, and so on, up to 64 clusters. Edges are drawn without
    direction, parallel edges once, and self-loops not at all.

    Args:
        data (Data): The graph, with `edge_index`, `adj_t` or a dense `adj`. A batch is drawn as one
            graph.
        s (torch.Tensor): The assignment matrix of :class:`SimPool`, `[N, K]` or `[1, N, K]`, or the
            cluster of each node, integers `>= 0`, `[N]`. Padded rows are left out.
        ax (Axes, optional): Where to draw. (default: :obj:`None`, a new figure)
        pos (dict, optional): The place `(x, y)` of each node `0, ..., N - 1`, as the layouts of
            networkx return it. (default: :obj:`None`, the layout of Kamada and Kawai for a
            connected graph of up to 300 nodes, else a spring layout)
        node_size (float, optional): Area of a node in square points. (default: :obj:`60.0`)
        labels (sequence or torch.Tensor, optional): Text on each node, `[N]`, such as its class. A
            label :obj:`None` or an empty string writes nothing. (default: :obj:`None`)
        legend (bool, optional): Whether to draw a legend that names the clusters.
            (default: :obj:`False`)

    Returns:
        matplotlib.axes.Axes: The axes.

    Raises:
        ImportError: If Matplotlib or networkx is not installed.
        TypeError, ValueError: If `s`, `pos` or `labels` does not fit `data`.

    Time is linear with `pos`. Otherwise it is `O(N^3)` for a connected graph of up to 300 nodes,
    and `O(N^2)` for other graphs.

    Source: the figures of clusters of Shulman (2020).

    Example:
        >>> import matplotlib, torch
        >>> matplotlib.use("Agg")
        >>> path = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4)
        >>> ax = plot_clusters(path, torch.tensor([0, 0, 1, 1]), legend=True)
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['cluster 0', 'cluster 1']
    """
    import matplotlib.pyplot as plt
    import networkx as nx

    edge_index, cluster = _read(data, s)
    net = nx.Graph()
    net.add_nodes_from(range(cluster.numel()))
    net.add_edges_from((i, j) for i, j in edge_index.t().tolist() if i != j)
    if pos is None:
        small = len(net) <= MOST_NODES and cluster.numel() > 0 and nx.is_connected(net)
        pos = nx.kamada_kawai_layout(net) if small else nx.spring_layout(net, seed=0)
    if not isinstance(pos, dict) or not set(net) <= set(pos):
        raise ValueError(
            f"`pos` must be a dict with each of the {len(net)} nodes from 0, got {pos!r:.80}"
        )
    ax = plt.subplots(layout="constrained")[1] if ax is None else ax
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
    if labels is not None:
        labels = labels.tolist() if isinstance(labels, Tensor) else list(labels)
        if len(labels) != len(net):
            raise ValueError(f"`labels` must have {len(net)} entries, got {len(labels)}")
        text = {node: label for node, label in enumerate(labels) if label not in (None, "")}
        box = {"boxstyle": "circle,pad=0.1", "color": "white", "alpha": 0.7}
        size = 0.8 * math.sqrt(node_size)
        nx.draw_networkx_labels(net, pos, text, font_size=size, bbox=box, ax=ax)
    if legend:
        ax.legend()
    # Unlike `axis("off")`, this keeps the labels of the axes.
    ax.set_frame_on(False)
    ax.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
    return ax


def _read(data: Any, s: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the edges, and the cluster of each node, on the CPU."""
    graphs = read_graphs(data, None)
    num_nodes = graphs.batch.numel()
    rows = check_dense("s", s).detach().cpu()
    rows = rows[0] if rows.dim() == 3 and rows.size(0) == 1 else rows
    if graphs.mask is not None and rows.shape[:1] == (graphs.mask.numel(),):
        rows = rows[graphs.mask.view(-1).cpu()]
    check_dense("s", rows, (num_nodes,), (num_nodes, "K"))
    if rows.size(-1) == 0 < num_nodes:
        raise ValueError(f"`s` must have at least one cluster, got shape {list(s.shape)}")
    if rows.dim() == 2:
        check_finite("s", rows)
        rows = rows.argmax(dim=-1)
    elif not is_integral(rows.dtype) or (rows.numel() > 0 and int(rows.min()) < 0):
        raise ValueError(f"`s` must hold clusters, integers >= 0, where it is [N], got {s!r:.80}")
    return graphs.edges.edge_index.cpu(), rows.long()

"""Generates `twins` and `twin-colors`, on which color refinement is at chance.

All nodes have neighbors of equal colors. Color refinement (1-WL), and every message passing network
without pooling, therefore gives all nodes of one color one value. The class can be predicted from
similar nodes.

`twins` (three classes): a graph has 24 nodes of degree 6 without features. It is a cycle of 8 nodes
with three copies of each, a random cubic graph of 12 nodes with two copies of each, or a random
6-regular graph. Copies of a node have the same neighbors.

`twin-colors` (two classes): two random 2-regular graphs of 10 nodes are the two sides, and a random
2-regular bipartite graph joins them. Each node gets a copy, which gives 40 nodes of degree 8. In
one class, the sides have different colors. In the other class, a node and its copy have different
colors. In both classes, every node has four neighbors of each color.

Then 11 (`twins`) or 16 (`twin-colors`) random double edge swaps blur the copies. A swap replaces
the edges (u, v), (x, y) by (u, y), (x, v), where u and x have equal colors, and so have v and y.
Swaps keep degrees and the colors of neighbors. Nodes are numbered at random. Edges are sorted,
because the order in which they are generated would reveal the class by the rounding of sums.
"""

import networkx as nx
import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.utils import coalesce

from harness.data.generated import make_graph, renumbered, shuffled

NUM_CLASSES = {"twins": 3, "twin-colors": 2}
#: The number of double edge swaps.
SWAPS = {"twins": 11, "twin-colors": 16}


def generate_twins(name: str, num_graphs: int = 200, seed: int = 0) -> list[Data]:
    """Generates `twins` or `twin-colors`: `x` one-hot `[N, 1]` or `[N, 2]`, `edge_index`, `y`.

    The numbers of graphs in the classes differ by at most one. The same `seed` gives the same
    graphs.
    """
    random = np.random.default_rng(seed)
    generator = torch.Generator().manual_seed(seed)
    graphs = []
    for i in range(num_graphs):
        label = i % NUM_CLASSES[name]
        graph, colors = _copies(label, random) if name == "twins" else _colored(label, random)
        _swap(graph, colors, SWAPS[name], random)
        data = make_graph(
            torch.from_numpy(colors), int(colors.max()) + 1, torch.tensor(list(graph.edges)), label
        )
        data = renumbered(data, generator)
        data.edge_index = coalesce(data.edge_index)
        graphs.append(data)
    return shuffled(graphs, generator)


def _copies(label: int, random: np.random.Generator) -> tuple[nx.Graph, np.ndarray]:
    if label == 0:
        graph = nx.lexicographic_product(nx.cycle_graph(8), nx.empty_graph(3))
    elif label == 1:
        cubic = nx.random_regular_graph(3, 12, seed=random)
        graph = nx.lexicographic_product(cubic, nx.empty_graph(2))
    else:
        graph = nx.random_regular_graph(6, 24, seed=random)
    return nx.convert_node_labels_to_integers(graph), np.zeros(24, dtype=np.int64)


def _colored(label: int, random: np.random.Generator) -> tuple[nx.Graph, np.ndarray]:
    graph = nx.disjoint_union(*(nx.random_regular_graph(2, 10, seed=random) for _ in range(2)))
    second = random.permutation(10)
    while bool((second == np.arange(10)).any()):  # the two matchings must be disjoint
        second = random.permutation(10)
    graph.add_edges_from((i, 10 + j) for i in range(10) for j in (i, second[i]))
    copies = [(a, b) for a in (0, 1) for b in (0, 1)]
    doubled = nx.Graph((2 * i + a, 2 * j + b) for i, j in graph.edges for a, b in copies)
    node = np.arange(40)
    return doubled, node // 20 if label == 0 else node % 2


def _swap(graph: nx.Graph, colors: np.ndarray, count: int, random: np.random.Generator) -> None:
    """Makes double edge swaps that keep the colors of every node's neighbors."""
    edges = list(graph.edges)
    while count > 0:
        i, j = random.choice(len(edges), 2, replace=False)
        (u, v), (x, y) = edges[i], edges[j]
        if random.random() < 0.5:
            x, y = y, x
        distinct = len({u, v, x, y}) == 4 and not graph.has_edge(u, y) and not graph.has_edge(x, v)
        if distinct and colors[u] == colors[x] and colors[v] == colors[y]:
            graph.remove_edges_from([(u, v), (x, y)])
            edges[i], edges[j] = (u, y), (x, v)
            graph.add_edges_from([edges[i], edges[j]])
            count -= 1

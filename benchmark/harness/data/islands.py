"""A generated data set of colored grids: the class is whether red nodes are one island or two.

The color-connectivity task of Rampášek and Wolf (2021), 'Hierarchical Graph Neural Nets can Capture
Long-Range Interactions', as the program that they published draws it: on a grid, two random walks
start from random nodes and color what they visit red, until half of the nodes are red. The class
is the number of connected components of the red nodes; both are equally frequent. It is smaller
than theirs: 400 grids of 6 x 8 nodes, not 15,000 of 16 x 16 or 32 x 32.

All graphs are the same grid with as many red nodes. So neither the structure alone nor a sum over
all nodes says anything about the class. Local counts do: two islands have fewer edges between red
nodes, mostly. Nodes are numbered at random.
"""

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from harness.data.generated import make_graph, num_components, renumbered, shuffled

#: The classes are one island and two.
NUM_CLASSES = 2
#: The sides of the grid.
SIDES = (6, 8)


def generate_islands(num_graphs: int = 400, seed: int = 0) -> list[Data]:
    """Generates the data set: `x` one-hot `[48, 2]` (not red, red), `edge_index`, `y`.

    The classes are equally frequent, up to one. The same `seed` gives the same graphs.
    """
    generator = torch.Generator().manual_seed(seed)
    edges = _grid()
    graphs = [_graph(i % NUM_CLASSES, edges, generator) for i in range(num_graphs)]
    return shuffled([renumbered(graph, generator) for graph in graphs], generator)


def _grid() -> Tensor:
    """The edges of the grid, `[E, 2]`."""
    number = torch.arange(SIDES[0] * SIDES[1]).view(SIDES)
    down = torch.stack([number[:-1].flatten(), number[1:].flatten()], dim=1)
    right = torch.stack([number[:, :-1].flatten(), number[:, 1:].flatten()], dim=1)
    return torch.cat([down, right])


def _graph(label: int, edges: Tensor, generator: torch.Generator) -> Data:
    while True:
        graph = make_graph(_walks(edges, generator), 2, edges, label)
        if _islands(graph) == label + 1:
            return graph


def _walks(edges: Tensor, generator: torch.Generator) -> Tensor:
    """Two random walks in turn, until half of the nodes are visited: 1 where one was."""
    num_nodes = SIDES[0] * SIDES[1]
    neighbors: list[list[int]] = [[] for _ in range(num_nodes)]
    for i, j in edges.tolist():
        neighbors[i].append(j)
        neighbors[j].append(i)
    red = torch.zeros(num_nodes, dtype=torch.long)
    walker, other = torch.randint(num_nodes, (2,), generator=generator).tolist()
    while True:
        red[walker] = 1
        if int(red.sum()) == num_nodes // 2:
            return red
        step = int(torch.randint(len(neighbors[walker]), (), generator=generator))
        walker, other = other, neighbors[walker][step]


def _islands(graph: Data) -> int:
    """The number of connected components of the red nodes."""
    red = graph.x[:, 1] == 1
    inside, _ = subgraph(red, graph.edge_index, relabel_nodes=True)
    return num_components(inside, int(red.sum()))

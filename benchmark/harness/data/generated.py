"""Generates `communities` and `islands`, and has the helpers of all generated data sets.

`communities` (two classes): the nodes of three communities vote for or against. The majority of its
nodes is the vote of a community, and the majority of the communities is the class. This is the
recursive majority of depth two of O'Donnell (2014), 'Analysis of Boolean Functions', section 2.1.
Votes are random, but half of all nodes vote for, and no community is undecided. A sum over all
nodes is therefore equal in both classes. The class can be predicted by a pooling that keeps
communities together, followed by a nonlinear layer, and by message passing that sees a community.

The graphs are the community graphs of You et al. (2018), 'GraphRNN', section 4.1, with three
communities in place of two. Communities have one size. Two nodes of a community are joined with
probability 0.3, and 0.05 N further edges join nodes of different communities. A graph that is not
connected is drawn again.

`islands` (two classes): red nodes of a grid form one island or two. The class is the number of
connected components of the red nodes. This is the color-connectivity task of Rampášek and Wolf
(2021), 'Hierarchical Graph Neural Nets can Capture Long-Range Interactions'. As in their program,
two random walks start from random nodes and color their nodes red, until half of the nodes are red.
There are 400 grids of 6 x 8 nodes, in place of 15,000 of 16 x 16 or 32 x 32. All graphs are the
same grid with equally many red nodes, so neither the structure alone nor a sum over all nodes
depends on the class. Local counts do: two islands mostly have fewer edges between red nodes.

In both data sets, the numbers of graphs in the classes differ by at most one, and nodes are
numbered at random. The same seed gives the same graphs.
"""

import math
from collections.abc import Callable

import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph, to_scipy_sparse_matrix

#: The number of communities. It is odd, so that there is a majority.
NUM_COMMUNITIES = 3
#: The numbers of nodes of a community. They are even, so that half of all nodes can vote for.
SIZES = (12, 14, 16, 18, 20)
#: The probability of an edge in a community, and the edges between communities per node.
INSIDE, BETWEEN = 0.3, 0.05
#: The sides of the grid of islands.
SIDES = (6, 8)


def make_graph(types: Tensor, num_types: int, edges: Tensor, label: int) -> Data:
    """Returns a graph of undirected edges `[E, 2]`, with node types `[N]` as one-hot features."""
    edge_index = torch.cat([edges.t(), edges.t().flip(0)], dim=1)
    x = torch.nn.functional.one_hot(types, num_types).float()
    return Data(x=x, edge_index=edge_index, y=torch.tensor([label]))


def renumbered(graph: Data, generator: torch.Generator) -> Data:
    """Returns the graph with its nodes numbered at random."""
    number = torch.randperm(graph.num_nodes, generator=generator)
    return Data(x=graph.x[number.argsort()], edge_index=number[graph.edge_index], y=graph.y)


def shuffled(graphs: list[Data], generator: torch.Generator) -> list[Data]:
    """Returns the graphs in a random order."""
    order = torch.randperm(len(graphs), generator=generator)
    return [graphs[i] for i in order.tolist()]


def num_components(edge_index: Tensor, num_nodes: int) -> int:
    """Returns the number of connected components."""
    matrix = to_scipy_sparse_matrix(edge_index, num_nodes=num_nodes)
    return int(connected_components(matrix, directed=False, return_labels=False))


def generate(
    make: Callable[[int, torch.Generator], Data], num_graphs: int = 400, seed: int = 0
) -> list[Data]:
    """Generates a data set of two classes; `make` is :func:`communities` or :func:`islands`."""
    generator = torch.Generator().manual_seed(seed)
    graphs = [make(i % 2, generator) for i in range(num_graphs)]
    return shuffled([renumbered(graph, generator) for graph in graphs], generator)


def communities(label: int, generator: torch.Generator) -> Data:
    """Returns a graph of a class: `x` one-hot `[N, 2]` (against, for), `edge_index`, `y`."""
    size = SIZES[int(torch.randint(len(SIZES), (), generator=generator))]
    return make_graph(_votes(label, size, generator), 2, _edges(size, generator), label)


def _votes(label: int, size: int, generator: torch.Generator) -> Tensor:
    """Returns the vote of every node, community by community: 1 is for."""
    num_nodes = NUM_COMMUNITIES * size
    while True:
        votes = (torch.randperm(num_nodes, generator=generator) < num_nodes // 2).long()
        lead = 2 * votes.view(NUM_COMMUNITIES, size).sum(dim=1) - size
        won = int((lead > 0).sum())
        if bool(lead.all()) and (2 * won > NUM_COMMUNITIES) == label:
            return votes


def _edges(size: int, generator: torch.Generator) -> Tensor:
    num_nodes = NUM_COMMUNITIES * size
    pairs = torch.combinations(torch.arange(num_nodes))
    community = pairs // size
    within = community[:, 0] == community[:, 1]
    while True:
        inside = pairs[within & (torch.rand(len(pairs), generator=generator) < INSIDE)]
        across = pairs[~within]
        chosen = torch.randperm(len(across), generator=generator)
        between = across[chosen[: math.ceil(BETWEEN * num_nodes)]]
        edges = torch.cat([inside, between])
        if (
            num_components(inside.t(), num_nodes) == NUM_COMMUNITIES
            and num_components(edges.t(), num_nodes) == 1
        ):
            return edges


def islands(label: int, generator: torch.Generator) -> Data:
    """Returns a graph of a class: `x` one-hot `[48, 2]` (not red, red), `edge_index`, `y`."""
    edges = _grid()
    while True:
        red = _walks(edges, generator)
        graph = make_graph(red, 2, edges, label)
        inside, _ = subgraph(red == 1, graph.edge_index, relabel_nodes=True)
        if num_components(inside, int(red.sum())) == label + 1:
            return graph


def _grid() -> Tensor:
    """Returns the edges of the grid, `[E, 2]`."""
    number = torch.arange(SIDES[0] * SIDES[1]).view(SIDES)
    down = torch.stack([number[:-1].flatten(), number[1:].flatten()], dim=1)
    right = torch.stack([number[:, :-1].flatten(), number[:, 1:].flatten()], dim=1)
    return torch.cat([down, right])


def _walks(edges: Tensor, generator: torch.Generator) -> Tensor:
    """Walks two random walks in turn until half of the nodes are visited; returns 1 for these."""
    num_nodes = SIDES[0] * SIDES[1]
    both = torch.stack([edges, edges.flip(1)], dim=1).view(-1, 2)
    red = torch.zeros(num_nodes, dtype=torch.long)
    walker, other = torch.randint(num_nodes, (2,), generator=generator).tolist()
    while True:
        red[walker] = 1
        if int(red.sum()) == num_nodes // 2:
            return red
        neighbors = both[both[:, 0] == walker, 1]
        step = torch.randint(len(neighbors), (), generator=generator)
        walker, other = other, neighbors[step]

"""A generated data set of communities that vote: the class is the majority of their majorities.

A graph is three communities of one size, each a random graph in which two nodes are joined with
probability 0.3; as many further edges as 0.05 times the number of nodes join nodes of different
communities. These are the community graphs of You et al. (2018), 'GraphRNN', section 4.1, with
three communities for two, and connected: those that are not are drawn again.

A node votes for or against, at random. The vote of a community is that of most of its nodes, and
the class is the vote of most communities: the recursive majority of O'Donnell (2014), 'Analysis of
Boolean Functions', section 2.1, of depth two. Half of all nodes vote for, and no community is
undecided: other votes are drawn again.

So a sum over all nodes says nothing about the class. A pooling that keeps communities together,
followed by a nonlinear layer, can tell it, and so can message passing that sees a community.
Nodes are numbered at random.
"""

import math

import torch
from torch import Tensor
from torch_geometric.data import Data

from harness.data.generated import make_graph, num_components, renumbered, shuffled

#: Odd, so that there is a majority.
NUM_COMMUNITIES = 3
NUM_CLASSES = 2
#: The numbers of nodes of a community. Even, so that half of all nodes can vote for.
SIZES = (12, 14, 16, 18, 20)
#: The probability of an edge in a community, and the edges between communities per node.
INSIDE, BETWEEN = 0.3, 0.05


def generate_communities(num_graphs: int = 400, seed: int = 0) -> list[Data]:
    """Generates the data set: `x` one-hot `[N, 2]` (against, for), `edge_index`, `y`.

    The classes are equally frequent, up to one. The same `seed` gives the same graphs.
    """
    generator = torch.Generator().manual_seed(seed)
    graphs = [_graph(i % NUM_CLASSES, generator) for i in range(num_graphs)]
    return shuffled([renumbered(graph, generator) for graph in graphs], generator)


def _graph(label: int, generator: torch.Generator) -> Data:
    size = SIZES[int(torch.randint(len(SIZES), (), generator=generator))]
    return make_graph(_votes(label, size, generator), 2, _edges(size, generator), label)


def _votes(label: int, size: int, generator: torch.Generator) -> Tensor:
    """The vote of every node, community by community: 1 is for."""
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

"""Generates `motifs`, a data set of three classes on rings with marks.

A graph is a backbone of four nodes, each of which carries a ring. Nodes are numbered at
random. In a second form, they are numbered along the backbone, ring by ring, like residues
along a protein chain.

Every ring has two marked nodes on opposite sides, at least six steps apart. All other
nodes have one plain type. There are four types of mark, and each occurs equally often
in every graph. The class tells which marks occur *together in one ring*:

===== ==================
class pairs in the rings
===== ==================
0     a with b, c with d
1     a with c, b with d
2     a with d, b with c
===== ==================

Two propagations reach two steps far, and the two ends of an edge together see five steps. So no
node and no edge sees two marks, and sums over the whole graph have equal distributions in all
classes. The classes can be separated if the first pooling brings the marks
of a ring closer and tells rings apart. Clusters of neighbors do, and so do selected nodes along
the ring. An assignment from node features does not, because it puts equal nodes of all rings
into one cluster. An assignment from structure can.
"""

import torch
from torch_geometric.data import Data

from harness.data.generated import make_graph, renumbered, shuffled

#: The number of rings. It is even, so that both pairs of a class occur equally often.
NUM_MOTIFS = 4
NUM_CLASSES = 3
MARKS = ("a", "b", "c", "d")
PLAIN = len(MARKS)
#: The smallest and the largest number of nodes of a ring.
RING = (12, 15)
PAIRS = (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2)))


def generate_motifs(num_graphs: int = 600, seed: int = 0, by_ring: bool = False) -> list[Data]:
    """Generates the data set: `x` one-hot `[N, 5]`, `edge_index`, `y`.

    The numbers of graphs in the classes differ by at most one. The same `seed` gives the same
    graphs. `by_ring` only changes the numbers of their nodes.
    """
    generator = torch.Generator().manual_seed(seed)
    graphs = [_graph(i % NUM_CLASSES, generator) for i in range(num_graphs)]
    graphs = shuffled(graphs, generator)
    return graphs if by_ring else [renumbered(graph, generator) for graph in graphs]


def _graph(label: int, generator: torch.Generator) -> Data:
    order = torch.randperm(NUM_MOTIFS, generator=generator).tolist()
    types: list[int] = []
    edges: list[tuple[int, int]] = []
    anchor = -1
    for place in order:
        size = int(torch.randint(RING[0], RING[1] + 1, (), generator=generator))
        previous, anchor = anchor, len(types)
        ring = [anchor + 1 + i for i in range(size)]
        if previous >= 0:
            edges.append((previous, anchor))
        edges.append((anchor, ring[0]))
        edges.extend(zip(ring, ring[1:] + ring[:1]))
        types.extend([PLAIN] * (size + 1))
        # The marks are a quarter of the ring away from the backbone, on both sides.
        first = size // 4
        marked = (ring[first], ring[first + (size + 1) // 2 if size % 2 else first + size // 2])
        swap = bool(torch.randint(2, (), generator=generator))
        for node, mark in zip(marked[::-1] if swap else marked, PAIRS[label][place % 2]):
            types[node] = mark
    return make_graph(torch.tensor(types), PLAIN + 1, torch.tensor(edges), label)

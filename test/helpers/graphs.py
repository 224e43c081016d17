"""Random graphs of many kinds ("flavors") from seeded generators, small enough for the oracle."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

import torch
from torch import Tensor
from torch_geometric.data import Data

from helpers import oracle


@dataclass(frozen=True)
class Graph:
    """A directed multigraph, optionally weighted."""

    num_nodes: int
    edges: tuple[tuple[int, int], ...]
    weights: tuple[float, ...] | None = None

    @property
    def edge_index(self) -> Tensor:
        """The edges, `[2, E]`."""
        return torch.tensor(self.edges, dtype=torch.long).view(-1, 2).t().contiguous()

    def edge_weight(self, dtype: torch.dtype = torch.float64) -> Tensor | None:
        """Returns the weights, `[E]`, or None for an unweighted graph."""
        return None if self.weights is None else torch.tensor(self.weights, dtype=dtype)

    @property
    def exact_adj(self) -> oracle.Matrix:
        """The adjacency matrix in fractions."""
        return oracle.adjacency(self.edges, self.weights, self.num_nodes)

    def adj(self, dtype: torch.dtype = torch.float64) -> Tensor:
        """Returns the adjacency matrix, `[N, N]`."""
        rows = [[float(a) for a in row] for row in self.exact_adj]
        return torch.tensor(rows, dtype=dtype).view(self.num_nodes, self.num_nodes)

    def data(self, **attributes: Tensor) -> Data:
        """Returns a PyG data object without node features."""
        data = Data(edge_index=self.edge_index, num_nodes=self.num_nodes, **attributes)
        if self.weights is not None:
            data.edge_weight = self.edge_weight(torch.float32)
        return data


def union(graphs: Sequence[Graph]) -> tuple[Graph, Tensor]:
    """Returns one block-diagonal graph, and the block of each node."""
    edges: list[tuple[int, int]] = []
    weights: list[float] = []
    first = 0
    for graph in graphs:
        edges += [(i + first, j + first) for i, j in graph.edges]
        weights += [1.0] * len(graph.edges) if graph.weights is None else graph.weights
        first += graph.num_nodes
    sizes = torch.tensor([graph.num_nodes for graph in graphs], dtype=torch.long)
    weighted = any(graph.weights is not None for graph in graphs)
    batch = torch.arange(len(graphs)).repeat_interleave(sizes)
    return Graph(first, tuple(edges), tuple(weights) if weighted else None), batch


def _both_ways(pairs: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    return tuple(edge for i, j in pairs for edge in ([(i, j), (j, i)] if i != j else [(i, j)]))


def undirected(rng: Random, low: int = 4, high: int = 10, density: float = 0.4) -> Graph:
    """Draws a simple, undirected, unweighted graph."""
    n = rng.randint(low, high)
    pairs = [(i, j) for i in range(n) for j in range(i) if rng.random() < density]
    return Graph(n, _both_ways(pairs))


def directed(rng: Random) -> Graph:
    """Draws each direction of an edge independently."""
    n = rng.randint(4, 9)
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j and rng.random() < 0.35]
    return Graph(n, tuple(pairs))


def _weighted(graph: Graph, rng: Random, choices: Sequence[float]) -> Graph:
    """Draws one weight for both directions, so that an undirected graph stays symmetric."""
    drawn = {frozenset(edge): rng.choice(choices) for edge in graph.edges}
    return replace(graph, weights=tuple(float(drawn[frozenset(edge)]) for edge in graph.edges))


def integer(rng: Random) -> Graph:
    """Draws an undirected graph with integer weights."""
    return _weighted(undirected(rng), rng, [1, 2, 3, 5])


def dyadic(rng: Random) -> Graph:
    """Draws a directed graph. Weights are multiples of an eighth, whose sums are exact."""
    return _weighted(directed(rng), rng, [0.125, 0.25, 0.375, 0.5, 1.0])


def signed(rng: Random) -> Graph:
    """Draws an undirected graph with dot products that cancel."""
    return _weighted(undirected(rng, density=0.5), rng, [-2, -1, 1, 2])


def signed_directed(rng: Random) -> Graph:
    """Draws a directed graph with dyadic weights of both signs."""
    return _weighted(directed(rng), rng, [-1.0, -0.5, 0.25, 0.5])


def isolated(rng: Random) -> Graph:
    """Draws a graph with isolated nodes in the middle and at the end."""
    graph = undirected(rng, low=3, high=6)
    edges = tuple((2 * i, 2 * j) for i, j in graph.edges)
    return Graph(2 * graph.num_nodes + rng.randint(0, 2), edges)


def loops(rng: Random) -> Graph:
    """Draws a graph with self-loops, some of them at nodes without other edges."""
    graph = undirected(rng, low=3, high=8, density=0.3)
    some = [(i, i) for i in range(graph.num_nodes) if rng.random() < 0.5]
    return Graph(graph.num_nodes, (*graph.edges, *some))


def parallel(rng: Random) -> Graph:
    """Draws repeated edges in shuffled order, self-loops included."""
    graph = loops(rng)
    edges = [edge for edge in graph.edges for _ in range(rng.randint(1, 3))]
    rng.shuffle(edges)
    return Graph(graph.num_nodes, tuple(edges))


def parallel_weighted(rng: Random) -> Graph:
    """Draws parallel edges of both signs, which may cancel."""
    graph = parallel(rng)
    return replace(graph, weights=tuple(rng.choice([-1.0, 0.5, 1.0, 2.0]) for _ in graph.edges))


def star(rng: Random) -> Graph:
    """Draws a star, whose leaves are all equally similar."""
    n = rng.randint(3, 10)
    hub = rng.randrange(n)
    return Graph(n, _both_ways([(hub, i) for i in range(n) if i != hub]))


def bipartite(rng: Random) -> Graph:
    """Draws a complete bipartite graph with interleaved sides, two classes of equal nodes."""
    n = rng.randint(4, 10)
    side = [rng.random() < 0.5 for _ in range(n)]
    return Graph(n, _both_ways([(i, j) for i in range(n) for j in range(i) if side[i] != side[j]]))


def complete(rng: Random) -> Graph:
    """Returns a complete graph, in which all other nodes are equally similar."""
    n = rng.randint(2, 7)
    return Graph(n, _both_ways([(i, j) for i in range(n) for j in range(i)]))


def path(rng: Random) -> Graph:
    """Returns a path along the node numbers."""
    n = rng.randint(2, 10)
    return Graph(n, _both_ways([(i, i + 1) for i in range(n - 1)]))


def proportional(rng: Random) -> Graph:
    """Draws descriptions that are multiples of each other, so that different dot products tie."""
    n = rng.randint(2, 4)
    weights = [rng.choice([1, 2, 3]) for _ in range(n)]
    factors = [rng.choice([1, 3, 5, 7, 9, 11]) for _ in range(5)]
    edges = tuple((n + j, i) for j in range(len(factors)) for i in range(n))
    return Graph(
        n + len(factors), edges, tuple(float(factor * w) for factor in factors for w in weights)
    )


def edgeless(rng: Random) -> Graph:
    """Draws a graph without edges."""
    return Graph(rng.randint(1, 5), ())


def single(rng: Random) -> Graph:
    """Draws one node, with or without self-loops."""
    return Graph(1, ((0, 0),) * rng.randint(0, 2))


def nothing(rng: Random) -> Graph:
    """Returns a graph without nodes."""
    return Graph(0, ())


FLAVORS: dict[str, Callable[[Random], Graph]] = {
    function.__name__: function
    for function in (
        undirected,
        directed,
        integer,
        dyadic,
        signed,
        signed_directed,
        isolated,
        loops,
        parallel,
        parallel_weighted,
        star,
        bipartite,
        complete,
        path,
        proportional,
        edgeless,
        single,
        nothing,
    )
}


def draw(flavor: str, seed: int) -> Graph:
    """Returns a random graph, equal for equal arguments on every machine."""
    return FLAVORS[flavor](Random(f"{flavor} {seed}"))


def draw_all(seed: int) -> list[Graph]:
    """Draws one graph of every flavor."""
    return [draw(flavor, seed) for flavor in FLAVORS]


def all_distances(graph: Graph) -> Tensor:
    """Returns undirected geodesic distances by Floyd and Warshall, or 1e10 without a path."""
    distance = torch.full((graph.num_nodes, graph.num_nodes), 1e10)
    distance.fill_diagonal_(0)
    for a, b in graph.edges:
        if a != b:
            distance[a, b] = distance[b, a] = 1
    for k in range(graph.num_nodes):
        distance = torch.minimum(distance, distance[:, k : k + 1] + distance[k])
    return distance

"""Graphs with weights of every scale, and smaller ones."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from helpers.graphs import FLAVORS, Graph

#: Weights by how sums of them behave.
WEIGHTS: dict[str, list[float]] = {
    "integer": [1.0, 2.0, 3.0, 5.0],
    "signed": [-2.0, -1.0, 1.0, 2.0],
    "dyadic": [0.125, 0.375, 0.5, 1.0],
    "signed dyadic": [-1.0, -0.5, 0.25, 0.5],
    "decimal": [0.1, 0.2, 0.3, 0.7, 2.0],
    "signed decimal": [2.0, -2.0, -1.0, 0.3, 0.1, -0.2],
    "extreme": [1e30, 1e-30, 1.0, 3e-30, 2.0],
    "signed extreme": [1e30, -1e30, 1e-30, -1e-30, 1.0],
    "large": [1e30, 3e30],
    "small": [1e-30, 7e-30],
    "zero": [0.0, 1.0, 2.0],
}


def draw_graph(rng: Random) -> Graph:
    """A graph of any flavor; half of them with other weights."""
    graph = FLAVORS[rng.choice(list(FLAVORS))](rng)
    if rng.random() < 0.3:  # a multigraph
        edges = [(rng.randrange(5), rng.randrange(5)) for _ in range(rng.randint(0, 14))]
        graph = Graph(5, tuple(edges))
    return weighted(graph, rng) if rng.random() < 0.5 else graph


def weighted(graph: Graph, rng: Random) -> Graph:
    """With weights of one kind."""
    choices = WEIGHTS[rng.choice(list(WEIGHTS))]
    return replace(graph, weights=tuple(rng.choice(choices) for _ in graph.edges))


def with_edges(graph: Graph, kept: list[int]) -> Graph:
    """Some of the edges."""
    weights = graph.weights
    return replace(
        graph,
        edges=tuple(graph.edges[e] for e in kept),
        weights=None if weights is None else tuple(weights[e] for e in kept),
    )


def without_node(graph: Graph, node: int) -> Graph:
    """Nodes of higher numbers move down."""
    kept = [e for e, edge in enumerate(graph.edges) if node not in edge]
    graph = with_edges(graph, kept)
    edges = tuple((i - (i > node), j - (j > node)) for i, j in graph.edges)
    return replace(graph, num_nodes=graph.num_nodes - 1, edges=edges)


def smaller_edges(graph: Graph) -> Iterator[Graph]:
    """Half of the edges, then all but one; no weights, then simple ones."""
    every = list(range(len(graph.edges)))
    half = len(every) // 2
    if half:
        yield with_edges(graph, every[:half])
        yield with_edges(graph, every[half:])
    for e in every:
        yield with_edges(graph, every[:e] + every[e + 1 :])
    if graph.weights is not None:
        yield replace(graph, weights=None)
        for e, weight in enumerate(graph.weights):
            if weight != 1:
                ones = (*graph.weights[:e], 1.0, *graph.weights[e + 1 :])
                yield replace(graph, weights=ones)


def smaller_graphs(graph: Graph) -> Iterator[Graph]:
    """Without a node, then without edges."""
    for node in reversed(range(graph.num_nodes)):
        yield without_node(graph, node)
    yield from smaller_edges(graph)

"""The top k of many graphs in one call: each must get what it gets alone."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

import torch

from campaign import topk
from campaign.fuzzer import Fuzzer
from campaign.graphs import draw_graph, smaller_edges
from campaign.limits import moved
from campaign.topk import Call
from helpers.backends import BACKENDS
from helpers.graphs import Graph, union

#: The graphs of a case.
GRAPHS = 25


@dataclass(frozen=True)
class Case:
    """Graphs, and the settings of a call, whose own graph is left out."""

    graphs: tuple[Graph, ...]
    call: Call


def draw(rng: Random) -> Case:
    """If one graph has weights, all have."""
    call = topk.draw(rng)
    while call.num_src is not None:
        call = topk.draw(rng)
    graphs = [draw_graph(rng) for _ in range(GRAPHS)]
    kinds = rng.choice([("none",), ("none", "positive"), ("none", "positive", "signed")])
    graphs = [graph if kind(graph) in kinds else replace(graph, weights=None) for graph in graphs]
    if any(graph.weights is not None for graph in graphs):
        graphs = [replace(g, weights=g.weights or (1.0,) * len(g.edges)) for g in graphs]
    return Case(tuple(graphs), suited(call, graphs))


def kind(graph: Graph) -> str:
    """Of its weights."""
    if graph.weights is None:
        return "none"
    return "positive" if min(graph.weights, default=1) > 0 else "signed"


def suited(call: Call, graphs: list[Graph]) -> Call:
    """Settings that suit all graphs: see `topk.draw`."""
    weights = [weight for graph in graphs for weight in graph.weights or ()]
    single = all(weight.is_integer() and abs(weight) < 9 for weight in weights)
    return replace(
        call,
        graph=Graph(0, ()),
        nodes=None,
        candidates=None,
        max_degree=call.max_degree if min(weights, default=1) > 0 else None,
        double=call.double or not single,
    )


def check(case: Case) -> None:
    """Each graph against the oracle, and all backends against each other."""
    call = replace(case.call, graph=union(case.graphs)[0])
    with moved(call.limits):
        found = [topk.run(call, backend) for backend in BACKENDS]
    topk.assert_same(found, call)
    first = 0
    for graph in case.graphs:
        last = first + graph.num_nodes
        alone = replace(call, graph=graph)
        rows = topk.expected(alone)
        for values, index, _ in found:
            local = index[first:last] - first
            own = torch.where(index[first:last] < 0, -1, local)
            assert ((own >= -1) & (own < graph.num_nodes)).all(), "a node of another graph"
            if rows is not None:
                topk.assert_is_that_of((values[first:last], own), rows, alone)
        first = last


def smaller(case: Case) -> Iterator[Case]:
    """Fewer graphs, smaller graphs, simpler settings."""
    half = len(case.graphs) // 2
    if half:
        yield replace(case, graphs=case.graphs[:half])
        yield replace(case, graphs=case.graphs[half:])
    for number, graph in enumerate(case.graphs):
        before, after = case.graphs[:number], case.graphs[number + 1 :]
        if before or after:
            yield replace(case, graphs=before + after)
        for less in smaller_edges(graph):
            if (less.weights is None) == (graph.weights is None):
                yield replace(case, graphs=(*before, less, *after))
    for call in topk.smaller(case.call):
        yield replace(case, call=call)


FUZZER = Fuzzer(draw, check, 0.1, smaller)

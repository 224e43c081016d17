"""Pooling, message passing and the layer against `reference`, around every threshold."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

import torch
from torch import Tensor

from campaign.fuzzer import Fuzzer
from campaign.graphs import smaller_graphs, weighted
from campaign.limits import Limits, moved
from helpers import weights
from helpers.graphs import FLAVORS, Graph, union
from helpers.per_graph import GraphBatch, OneGraph, per_graph
from torch_geometric_simpool import (
    SimPool,
    dense_sim_pool,
    engine,
    lift,
    reference,
    sim_pool,
)
from torch_geometric_simpool.engine import dispatch
from torch_geometric_simpool.models import GMN, DenseGCN, GMNConv

#: What is computed, what `reference` computes, and what both are differentiated by.
Both = tuple[Sequence[Tensor], Sequence[Tensor], list[Tensor]]


@dataclass(frozen=True)
class Case:
    """An operator, a batch, and the widths of its features."""

    operator: str
    graphs: tuple[Graph, ...]
    width: int = 3
    clusters: int = 2
    edge_dim: int | None = None
    seed: int = 0
    limits: Limits = ()


def draw(rng: Random) -> Case:
    """Small graphs and a threshold moved to their size, or the threshold and graphs around it."""
    operator = rng.choice(list(OPERATORS))
    edge_dim = rng.choice([None, None, 2])
    if rng.random() < 0.03:
        return Case(operator, (large_graph(rng),), 64, rng.choice([2, 64]), None, rng.randrange(99))
    flavors = [rng.choice(list(FLAVORS)) for _ in range(rng.randint(1, 4))]
    graphs = tuple(finite(FLAVORS[flavor](rng), rng) for flavor in flavors)
    case = Case(operator, graphs, rng.randint(1, 6), rng.randint(1, 5), edge_dim, rng.randrange(99))
    return replace(case, limits=tuple(limits(case, rng)))


def large_graph(rng: Random) -> Graph:
    """As many edges as make a threshold with 64 features, or one more or less."""
    nodes = rng.choice([31, 32, 33, 80])
    count = dispatch.MIN_MESSAGES // 64 + rng.choice([-1, 0, 1])
    return Graph(nodes, tuple((rng.randrange(nodes), rng.randrange(nodes)) for _ in range(count)))


def finite(graph: Graph, rng: Random) -> Graph:
    """Half of the graphs with weights of one scale."""
    while rng.random() < 0.5:
        other = weighted(graph, rng)
        if all(1e-3 < abs(w) < 1e3 for w in other.weights or ()):
            return other
    return graph


def limits(case: Case, rng: Random) -> Iterator[tuple[str, int]]:
    """Each threshold is passed by a hair, missed by one, or out of the way."""
    edges = sum(len(graph.edges) for graph in case.graphs)
    nodes = sum(graph.num_nodes for graph in case.graphs)
    columns = rng.choice([case.width, case.clusters, 4])
    numbers = {
        "MIN_MESSAGES": edges * columns,
        "MIN_SEGMENT": nodes * (case.width + case.clusters) // len(case.graphs),
    }
    for name, number in numbers.items():
        value = rng.choice([0, number - 1, number, number + 1, 1 << 40])
        yield f"engine.dispatch.{name}", value


def check(case: Case) -> None:
    """With the engine and without: values, gradients and second gradients."""
    with moved(case.limits):
        compare(case)
        with engine.disabled():
            compare(case)


def compare(case: Case) -> None:
    torch.manual_seed(case.seed)
    graph, batch = union(case.graphs)
    weight = torch.ones(len(graph.edges), dtype=torch.float64)
    if graph.weights is not None:
        weight = torch.tensor(graph.weights, dtype=torch.float64)
    edges = GraphBatch(graph.edge_index, weight.requires_grad_(), batch, len(case.graphs))
    found, expected, inputs = OPERATORS[case.operator](case, edges)
    orders = [derivatives(outputs, inputs) for outputs in (found, expected)]
    for name, a, b in zip(("values", "gradients", "second gradients"), *orders):
        for one, other in zip(a, b, strict=True):
            scale = 1 + float(other.detach().abs().max()) if other.numel() else 1.0
            same = one.shape == other.shape and torch.allclose(one, other, 0, 1e-9 * scale)
            assert same, f"{name} differ: {one}, not {other}"


def derivatives(outputs: Sequence[Tensor], inputs: list[Tensor]) -> list[Sequence[Tensor]]:
    """The values, their gradients, and the gradients of those, in directions from one seed."""
    generator = torch.Generator().manual_seed(1)

    def along(tensors: Sequence[Tensor]) -> Tensor:
        total = torch.zeros((), dtype=torch.float64, requires_grad=True)
        for tensor in tensors:
            direction = torch.randn(tensor.shape, dtype=torch.float64, generator=generator)
            total = total + (tensor * direction).sum()
        return total

    def gradients(total: Tensor, create_graph: bool) -> Sequence[Tensor]:
        return torch.autograd.grad(total, inputs, create_graph=create_graph, materialize_grads=True)

    first = gradients(along(outputs), True)
    return [outputs, first, gradients(along(first), False)]


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


# ------------------------------------------------------------------ the operators


def pool_sparse(case: Case, batch: GraphBatch) -> Both:
    """Its losses count graphs with nodes alone."""
    x, logits = random(batch.num_nodes, case.width), random(batch.num_nodes, case.clusters)
    weighted = any(graph.weights is not None for graph in case.graphs)
    given = batch.edge_weight if weighted else None
    found = sim_pool(x, batch.edge_index, logits, batch.batch, given, batch.batch_size)
    return found, pooled(batch, x, logits), [x, logits] + ([given] if given is not None else [])


def pooled(batch: GraphBatch, x: Tensor, logits: Tensor) -> list[Tensor]:
    """`X'`, `A'` and the losses by the equations."""
    parts = per_graph(
        lambda graph, x, logits: reference.sim_pool(x, graph.adj(batch.edge_weight), logits),
        batch.graphs,
        x,
        logits,
    )
    s, features, adj = zip(*parts, strict=True)
    real = [one for one in s if one.size(0)]
    losses = [
        torch.stack([loss(one) for one in real]).mean() if real else x.new_zeros(())
        for loss in (reference.entropy_loss, reference.cluster_loss)
    ]
    return [torch.stack(features), torch.stack(adj), *losses]


def pool_dense(case: Case, batch: GraphBatch) -> Both:
    """Whatever the padding holds."""
    x, logits = random(batch.num_nodes, case.width), random(batch.num_nodes, case.clusters)
    padded = [batch.padded(rows, torch.nan) for rows in (x, logits)]
    adj = batch.padded_adj(torch.nan)
    found = dense_sim_pool(padded[0], adj, padded[1], batch.mask)
    return found, pooled(batch, x, logits), [x, logits, batch.edge_weight]


def pool_layer(case: Case, batch: GraphBatch) -> Both:
    """With given features, so that no choice of the top k takes part."""
    sim = torch.rand(batch.num_nodes, 4, dtype=torch.float64)
    assignment = torch.nn.Linear(4, case.clusters).double()
    x = random(batch.num_nodes, case.width)
    given = {"edge_weight": batch.edge_weight, "batch_size": batch.batch_size, "sim": sim}
    found = SimPool(assignment, k=4)(x, batch.edge_index, batch.batch, **given)
    inputs = [x, batch.edge_weight, *assignment.parameters()]
    s = assignment(sim).softmax(1)
    return found, [s, *pooled(batch, x, assignment(sim))], inputs


def unpool(case: Case, batch: GraphBatch) -> Both:
    x = random(batch.batch_size, case.clusters, case.width)
    s = random(batch.num_nodes, case.clusters)
    expected = [reference.lift(one, s[graph.nodes]) for one, graph in zip(x, batch.graphs)]
    return [lift(x, s, batch.batch)], [torch.cat(expected)], [x, s]


def messages(
    model: torch.nn.Module, plain: Callable[..., Tensor], case: Case, batch: GraphBatch
) -> Both:
    model = model.double()
    x = random(batch.num_nodes, case.width)
    inputs, attr = [x, *model.parameters()], None
    if case.edge_dim is not None:
        attr = random(batch.edge_weight.numel(), case.edge_dim)
        inputs.append(attr)

    def alone(graph: OneGraph, x: Tensor) -> Tensor:
        return plain(model, x, graph.edge_index, None if attr is None else attr[graph.edges])

    expected = torch.cat(per_graph(alone, batch.graphs, x))
    return [model(x, batch.edge_index, attr)], [expected], inputs


def convolution(case: Case, batch: GraphBatch) -> Both:
    model = GMNConv(case.width, case.clusters, 4, case.edge_dim, act=False)
    return messages(model, weights.gmn_conv, case, batch)


def network(case: Case, batch: GraphBatch) -> Both:
    model = GMN(case.width, 4, (4, 3), (3, case.clusters), case.edge_dim)
    return messages(model, weights.gmn, case, batch)


def dense_convolution(case: Case, batch: GraphBatch) -> Both:
    """Degrees are positive."""
    model = DenseGCN(case.width, case.clusters, act=False).double()
    x = random(batch.num_nodes, case.width)
    adj = batch.padded_adj().abs()
    found = model(batch.padded(x), adj, batch.mask)[batch.mask]
    expected = [
        weights.gcn(model, x[graph.nodes], graph.adj(batch.edge_weight).abs())
        for graph in batch.graphs
    ]
    return [found], [torch.cat(expected)], [x, *model.parameters()]


OPERATORS: dict[str, Callable[[Case, GraphBatch], Both]] = {
    function.__name__: function
    for function in (
        pool_sparse,
        pool_dense,
        pool_layer,
        unpool,
        convolution,
        network,
        dense_convolution,
    )
}


def smaller(case: Case) -> Iterator[Case]:
    """Simpler thresholds, fewer and smaller graphs, and narrower features."""
    for number, (name, value) in enumerate(case.limits):
        before, after = case.limits[:number], case.limits[number + 1 :]
        yield replace(case, limits=before + after)
        if value > 0:  # a threshold that is near the size of a case would be passed by no smaller
            yield replace(case, limits=(*before, (name, 0), *after))
    for number, graph in enumerate(case.graphs):
        left, right = case.graphs[:number], case.graphs[number + 1 :]
        if len(case.graphs) > 1:
            yield replace(case, graphs=left + right)
        for one in smaller_graphs(graph):
            yield replace(case, graphs=(*left, one, *right))
    for name in ("width", "clusters"):
        if getattr(case, name) > 1:
            yield replace(case, **{name: getattr(case, name) - 1})
    if case.edge_dim is not None:
        yield replace(case, edge_dim=None)


FUZZER = Fuzzer(draw, check, 0.15, smaller)

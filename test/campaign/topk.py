"""The top k of small graphs in all backends, against exact rational arithmetic."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import torch
from torch import Tensor

from campaign.fuzzer import Fuzzer
from campaign.graphs import draw_graph, smaller_edges, smaller_graphs, weighted
from campaign.limits import Limits, moved
from helpers import oracle
from helpers.backends import BACKENDS, INTERPRETED
from helpers.graphs import Graph
from helpers.top_rows import assert_is_nearly_top, assert_is_top
from torch_geometric_simpool import topk_similarity
from torch_geometric_simpool.topk.rounding import smallest_value

#: The values that thresholds take, beside their own.
LIMITS = {
    "engine.topk.plan.SHORTEST_HUB": (1, 2, 4),
    "engine.topk.plan.MOST_HUBS": (1, 3),
    "engine.topk.threads.SMALLEST": (1, 40),
    "engine.topk.threads.BLOCK": (1, 100),
    "engine.topk.nearby.MOST": (0, 1),
    "functional.topk_torch.BLOCK": (1, 2_000),
    "functional.topk_torch.SMALL_BLOCK": (0, 8),
    "threads": (1, 2, 3),
}
if INTERPRETED:
    LIMITS |= {
        "engine.triton.matrices.SHORTEST_HUB": (1, 2),
        "engine.triton.matrices.MOST_HUBS": (1, 3),
        "engine.triton.plan.SHORTEST_BLOCK": (4,),
        "engine.triton.plan.LONGEST_SORTED": (8, 64),
        "engine.triton.plan.FEATURES": (1, 2),
        "engine.triton.plan.TABLES": (64,),
    }


@dataclass(frozen=True)
class Call:
    """A call. With `num_src`, edges go from the first nodes to the others: a bipartite graph."""

    graph: Graph
    k: int
    p: int = 1
    lam: float = 0.0
    measure: str = "cosine"
    loop: bool = True
    min_similarity: float | None = None
    max_degree: int | None = None
    nodes: tuple[int, ...] | None = None
    candidates: tuple[int, ...] | None = None
    num_src: int | None = None
    double: bool = True
    limits: Limits = ()

    @property
    def num_rows(self) -> int:
        """The nodes that are compared."""
        return self.graph.num_nodes if self.num_src is None else self.num_src

    def weight(self) -> Tensor | None:
        """A leaf."""
        weight = self.graph.edge_weight(torch.float64 if self.double else torch.float32)
        return None if weight is None else weight.requires_grad_()

    def call(
        self, backend: str, weight: Tensor | None, nodes: bool = True, **more: Any
    ) -> tuple[Tensor, Tensor]:
        """The result of a backend; without `nodes`, of all rows."""
        edge_index, num_nodes = self.graph.edge_index, self.graph.num_nodes
        count: int | tuple[int, int] = num_nodes
        if self.num_src is not None:
            edge_index[1] -= self.num_src
            count = self.num_src, num_nodes - self.num_src
        return topk_similarity(
            edge_index,
            self.k,
            weight,
            count,
            self.p,
            self.lam,
            self.measure,
            self.loop,
            self.min_similarity,
            self.max_degree,
            backend=backend,
            nodes=None if self.nodes is None or not nodes else torch.tensor(self.nodes),
            candidates=None if self.candidates is None else torch.tensor(self.candidates),
            **more,
        )


def draw(rng: Random) -> Call:
    """Every setting is at its default in half of the cases."""

    def some(values: Any, default: Any) -> Any:
        return rng.choice(values) if rng.random() < 0.5 else default

    graph, num_src = draw_graph(rng), None
    if rng.random() < 0.15:
        graph, num_src = bipartite(rng)
    n = graph.num_nodes if num_src is None else num_src
    ids = [tuple(rng.choices(range(n), k=rng.randint(1, n + 1)))] if n else [None]
    positive = min(graph.weights or (1.0,)) > 0
    single = all(w.is_integer() and abs(w) < 9 for w in graph.weights or ())
    return Call(
        graph,
        rng.choice([1, 2, 3, 4, n + 2]),
        p=1 if num_src is not None else some((2, 3), 1),
        lam=0.0 if num_src is not None else some((0.5, 1.0, 2.0, 0.1, 0.3), 0.0),
        measure=some(("jaccard",), "cosine"),
        loop=some((False,), True),
        # Values that are exact where sums are.
        min_similarity=some((-1.0, -0.5, 0.0, 0.25, 0.5, 1.0), None),
        # An edge counts there even where a sum cancels, which the oracle does not know.
        max_degree=some((0, 1, 2, 4), None) if positive else None,
        nodes=some(ids, None),
        candidates=some(ids, None),
        num_src=num_src,
        double=not single or rng.random() < 0.5,
        limits=tuple((name, rng.choice(v)) for name, v in LIMITS.items() if rng.random() < 0.3),
    )


def bipartite(rng: Random) -> tuple[Graph, int]:
    """A graph, and the number of its source nodes."""
    src, dst = rng.randint(0, 6), rng.randint(0, 5)
    count = rng.randint(0, 14) if src and dst else 0
    edges = [(rng.randrange(src), src + rng.randrange(dst)) for _ in range(count)]
    graph = Graph(src + dst, tuple(edges))
    return (weighted(graph, rng) if rng.random() < 0.7 else graph), src


def check(case: Call) -> None:
    """Against the oracle where it decides, and all backends against each other."""
    with moved(case.limits):
        found = [run(case, backend) for backend in BACKENDS]
    rows = expected(case)
    for values, index, _ in found:
        assert torch.equal(values == 0, index < 0), "a place has an index where it has a value"
        if rows is not None:
            assert_is_that_of((values, index), rows, case)
    assert_same(found, case)


def assert_is_that_of(
    result: tuple[Tensor, Tensor], rows: list[list[oracle.Candidate]], case: Call
) -> None:
    """In the one right order where there is one."""
    if oracle.float64_is_exact(case.graph.exact_adj, case.p, case.lam):
        assert_is_top(result, rows, case.k)
    else:
        assert_is_nearly_top(result, rows, case.k, case.p)


def assert_same(found: list[tuple[Tensor, Tensor, Tensor]], case: Call) -> None:
    """What the backends have found, values, index and gradient."""
    for values, index, gradient in found[1:]:
        assert torch.equal(index, found[0][1]), "backends disagree"
        # Some builds of PyTorch take roots that are off by one in the last place.
        atol = 1.2e-16 if values.dtype == torch.float64 else 0
        rtol = 4 * torch.finfo(values.dtype).eps if far_apart(case) else 0
        torch.testing.assert_close(values, found[0][0], rtol=rtol, atol=atol)
        assert torch.equal(gradient, found[0][2]), "gradients disagree"


def far_apart(case: Call) -> bool:
    """Whether sums have terms that two doubles do not hold: see `utils/cancel.py`."""
    sizes = [abs(number) for number in (*(case.graph.weights or (1.0,)), case.lam) if number]
    return max(sizes, default=1) > 1e15 * min(sizes, default=1)


def run(case: Call, backend: str) -> tuple[Tensor, Tensor, Tensor]:
    """Values, index and gradient; rows alone are those of the whole result."""
    weight = case.weight()
    values, index = case.call(backend, weight)
    gradient = torch.zeros(0)
    if weight is not None and values.requires_grad:
        (gradient,) = torch.autograd.grad(values.sum(), weight)
        assert torch.isfinite(gradient).all(), "a gradient is not finite"
    if case.nodes is not None:
        whole = case.call(backend, weight, nodes=False)
        for alone, every in zip((values, index), whole):
            assert torch.equal(alone, every[list(case.nodes)]), "rows alone are others"
    return values.detach(), index, gradient


def expected(case: Call) -> list[list[oracle.Candidate]] | None:
    """The rows in their order; `None` where rounding decides which nodes are in them."""
    adj = case.graph.exact_adj
    if not oracle.float64_is_exact(adj, case.p, case.lam):
        weights = case.graph.weights or ()
        if min(weights, default=1) <= 0 or case.min_similarity is not None:
            return None
        if max(weights, default=1) > 1e15 * min(weights, default=1):
            return None
    elif far_apart(case) and min(case.graph.weights or (1,)) < 0:
        return None  # parallel edges cancel, and what they leave of `lam`
    rows = oracle.candidates(adj, case.p, case.lam, case.measure, case.loop, case.max_degree)
    least = -1.0 if case.min_similarity is None else case.min_similarity
    tiny = smallest_value(torch.float64 if case.double and case.graph.weights else torch.float32)
    among = range(case.num_rows) if case.candidates is None else set(case.candidates)
    rows = [
        [c for c in row if c.node in among and c.value >= least and abs(c.value) > tiny]
        for row in rows[: case.num_rows]
    ]
    return rows if case.nodes is None else [rows[i] for i in case.nodes]


def smaller(case: Call) -> Iterator[Call]:
    """Settings at their defaults, then smaller graphs."""
    plain = Call(case.graph, case.k, num_src=case.num_src)
    for name, default in vars(plain).items():
        if getattr(case, name) != default:
            yield replace(case, **{name: default})
    for number in range(len(case.limits)):
        yield replace(case, limits=case.limits[:number] + case.limits[number + 1 :])
    if case.k > 1:
        yield replace(case, k=case.k - 1)
    # The numbers of rows and candidates hold for the graph as it is.
    free = case.nodes is None and case.candidates is None and case.num_src is None
    for graph in smaller_graphs(case.graph) if free else smaller_edges(case.graph):
        yield replace(case, graph=graph)


FUZZER = Fuzzer(draw, check, 0.3, smaller)

"""Ctrl-C in the middle of a call: the next call is right."""

import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from types import FrameType

import torch
from torch import Tensor

from campaign.fuzzer import Fuzzer
from campaign.limits import moved
from torch_geometric_simpool import StructuralSimilarity, sim_pool, topk_similarity
from torch_geometric_simpool.models import GMNConv


@dataclass(frozen=True)
class Case:
    """A call on a random graph, and when it is interrupted: after this part of its time."""

    call: str
    nodes: int
    edges: int
    seed: int
    threads: int
    moment: float


def draw(rng: Random) -> Case:
    """Calls that take some milliseconds."""
    return Case(
        rng.choice(list(CALLS)),
        rng.randint(20, 800),
        rng.randint(500, 20_000),
        rng.randrange(10**6),
        rng.choice([1, 1, 2, 3]),
        round(rng.uniform(0, 1.1), 3),
    )


def random_graph(case: Case) -> tuple[Tensor, Tensor, torch.Generator]:
    """Edges and weights."""
    generator = torch.Generator().manual_seed(case.seed)
    edge_index = torch.randint(case.nodes, (2, case.edges), generator=generator)
    return edge_index, torch.rand(case.edges, generator=generator), generator


def weighted_topk(case: Case) -> list[Tensor]:
    """With the gradient."""
    edge_index, weight, _ = random_graph(case)
    values, index = topk_similarity(
        edge_index, 5, weight.requires_grad_(), case.nodes, backend="numba"
    )
    return [values.detach(), index, *torch.autograd.grad(values.sum(), weight)]


def topk(case: Case) -> list[Tensor]:
    edge_index, _, _ = random_graph(case)
    return list(topk_similarity(edge_index, 5, None, case.nodes, backend="numba"))


def topk_torch(case: Case) -> list[Tensor]:
    edge_index, weight, _ = random_graph(case)
    return list(topk_similarity(edge_index, 5, weight, case.nodes, backend="torch"))


def precompute(case: Case) -> list[Tensor]:
    """A list of graphs."""
    from torch_geometric.data import Data

    edge_index, _, _ = random_graph(case)
    graphs = [Data(edge_index=edge_index, num_nodes=case.nodes) for _ in range(2)]
    done = StructuralSimilarity(4).precompute(graphs, progress=False)
    return [data.sim for data in done]


def pooling(case: Case) -> list[Tensor]:
    """Messages and pooling, forward and backward."""
    edge_index, weight, generator = random_graph(case)
    x = torch.rand(case.nodes, 8, generator=generator).requires_grad_()
    torch.manual_seed(case.seed)
    conv = GMNConv(8, 8, 8)
    batch = torch.zeros(case.nodes, dtype=torch.long)
    out = sim_pool(conv(x, edge_index), edge_index, x, batch, weight)
    total = torch.stack([one.sum() for one in out]).sum()
    return [one.detach() for one in out] + list(torch.autograd.grad(total, [x]))


CALLS: dict[str, Callable[[Case], list[Tensor]]] = {
    function.__name__: function
    for function in (topk, weighted_topk, topk_torch, precompute, pooling)
}


class Alarm:
    """Raises `KeyboardInterrupt` after some seconds, unless the call has ended by then."""

    def __init__(self, seconds: float) -> None:
        self.seconds = max(seconds, 1e-5)
        self.armed = True

    def ring(self, number: int, frame: FrameType | None) -> None:
        if self.armed:
            raise KeyboardInterrupt

    def during(self, call: Callable[[], object]) -> None:
        before = signal.signal(signal.SIGALRM, self.ring)
        try:
            signal.setitimer(signal.ITIMER_REAL, self.seconds)
            call()
            self.armed = False
        except KeyboardInterrupt:
            pass
        finally:
            self.armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            # `torch.no_grad`, interrupted as it begins or ends, leaves gradients off: that is
            # PyTorch's, not the package's.
            torch.set_grad_enabled(True)


def check(case: Case) -> None:
    """Twice after the interrupt: also what a first call would leave."""

    def call() -> list[Tensor]:
        return CALLS[case.call](case)

    limits = (("threads", case.threads), ("engine.dispatch.MIN_MESSAGES", 0))
    with moved(limits):
        expected = call()
        start = time.perf_counter()
        call()
        Alarm(case.moment * (time.perf_counter() - start)).during(call)
        for _ in range(2):
            for a, b in zip(call(), expected, strict=True):
                assert torch.equal(a, b), "the call after an interrupt has another result"


def smaller(case: Case) -> Iterator[Case]:
    """Smaller graphs, as long as there is time to interrupt them."""
    for name in ("nodes", "edges"):
        if getattr(case, name) > 10:
            yield replace(case, **{name: getattr(case, name) // 2})
    if case.threads > 1:
        yield replace(case, threads=case.threads - 1)


FUZZER = Fuzzer(draw, check, 0.08, smaller)

"""The same calls one after another, and from several threads at once."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from random import Random
from threading import Barrier

import torch
from torch import Tensor

from campaign import topk
from campaign.fuzzer import Fuzzer
from campaign.limits import moved
from campaign.topk import Call
from helpers.graphs import draw_all, union
from torch_geometric_simpool import sim_pool


@dataclass(frozen=True)
class Case:
    """Calls of a top k, and poolings of a batch with a gradient; each thread runs all of them."""

    calls: tuple[Call, ...]
    poolings: int
    threads: int
    seed: int


def draw(rng: Random) -> Case:
    """The limits of a process are the same for all threads, so they stay."""
    calls = [replace(topk.draw(rng), limits=()) for _ in range(rng.randint(1, 6))]
    return Case(tuple(calls), rng.randint(0, 2), rng.randint(2, 5), rng.randrange(99))


def check(case: Case) -> None:
    """The same bits; each thread begins with another call."""
    work: list[Callable[[], list[Tensor]]] = []
    for call in case.calls:
        work.append(lambda call=call: list(topk.run(call, "numba")))  # type: ignore[misc]
    work += [lambda n=n: pooling(n) for n in range(case.poolings)]  # type: ignore[misc]
    with moved((("engine.dispatch.MIN_MESSAGES", 0), ("engine.dispatch.MIN_SEGMENT", 0))):
        expected = [job() for job in work]
        barrier = Barrier(case.threads)

        def run(thread: int) -> None:
            order = Random(f"{case.seed} {thread}").sample(range(len(work)), len(work))
            barrier.wait()
            for number in order:
                for a, b in zip(work[number](), expected[number], strict=True):
                    assert torch.equal(a, b), f"call {number} has another result in a thread"

        with ThreadPoolExecutor(case.threads) as pool:
            list(pool.map(run, range(case.threads)))


def pooling(seed: int) -> list[Tensor]:
    """Of a batch of all flavors: the results and the gradients."""
    graph, batch = union(draw_all(seed))
    generator = torch.Generator().manual_seed(seed)
    x, s = (torch.rand(graph.num_nodes, width, generator=generator) for width in (5, 3))
    x.requires_grad_()
    s.requires_grad_()
    out = sim_pool(x, graph.edge_index, s, batch, graph.edge_weight(torch.float32))
    total = torch.stack([one.sum() for one in out]).sum()
    return [one.detach() for one in out] + list(torch.autograd.grad(total, [x, s]))


def smaller(case: Case) -> Iterator[Case]:
    """Fewer calls and threads. A fault of timing may hide from it."""
    for number in range(len(case.calls)):
        if len(case.calls) + case.poolings > 1:
            yield replace(case, calls=case.calls[:number] + case.calls[number + 1 :])
    for name, least in (("poolings", 0 if case.calls else 1), ("threads", 2)):
        if getattr(case, name) > least:
            yield replace(case, **{name: getattr(case, name) - 1})
    for number, call in enumerate(case.calls):
        for one in topk.smaller(call):
            yield replace(case, calls=(*case.calls[:number], one, *case.calls[number + 1 :]))


FUZZER = Fuzzer(draw, check, 0.08, smaller)

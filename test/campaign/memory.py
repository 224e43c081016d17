"""Memory budgets of every size: the call is refused, or its result is the right one."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

import torch

from campaign import topk
from campaign.fuzzer import Fuzzer
from campaign.limits import moved
from campaign.topk import Call
from helpers.backends import BACKENDS
from torch_geometric_simpool.topk.budget import TooExpensiveError


@dataclass(frozen=True)
class Case:
    """A call and its budget in bytes."""

    call: Call
    budget: int


def draw(rng: Random) -> Case:
    """From a byte to more than enough, equally often in every order of magnitude."""
    return Case(topk.draw(rng), int(2 ** rng.uniform(0, 24)))


def check(case: Case) -> None:
    """In all backends. What is allowed stays allowed with twice the memory."""
    weight = case.call.weight()
    for backend in BACKENDS:
        with moved(case.call.limits):
            expected = case.call.call(backend, weight)
            try:
                found = case.call.call(backend, weight, memory_budget=case.budget)
            except TooExpensiveError:
                continue
            more = case.call.call(backend, weight, memory_budget=2 * case.budget)
        for result in (found, more):
            for a, b in zip(result, expected):
                assert torch.equal(a, b), f"{backend}: less memory, another result"


def smaller(case: Case) -> Iterator[Case]:
    """Smaller calls, and rounder budgets."""
    for call in topk.smaller(case.call):
        yield replace(case, call=call)
    if case.budget > 1:
        yield replace(case, budget=case.budget // 2)


FUZZER = Fuzzer(draw, check, 0.06, smaller)

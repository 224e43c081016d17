"""Compiled models beside eager ones: how long they take, and how often they are compiled.

Each case runs in a process of its own, whose memory is kept; the variants take turns.
"""

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch._dynamo.utils import counters

from harness.speed.pool_cases import load_graphs, make_batches
from harness.speed.pool_measure import step
from harness.speed.pool_methods import METHODS, make_batch
from harness.speed.pool_training import ours_on_dd, ours_on_enzymes
from torch_geometric_simpool import engine

#: Makes a variant of a module or of its `forward`.
Variant = Callable[[Any], Any]
#: Runs all batches once.
Run = Callable[[], object]


def _compile(module: Any) -> Any:
    return torch.compile(module, fullgraph=True, dynamic=True)


def _without_engine() -> AbstractContextManager[None]:
    return engine.disabled("spmm", "segment_matmul", "messages")


#: Each with what is switched off while it runs.
VARIANTS: dict[str, tuple[Variant, Callable[[], AbstractContextManager[None]]]] = {
    "eager": (lambda module: module, nullcontext),
    "compiled": (_compile, nullcontext),
    "compiled, plain forms": (_compile, _without_engine),
}


def compiled_metrics(case: str, root: str) -> dict[str, Any]:
    """Seconds of each variant, and of those that are compiled the graphs and the first round."""
    make_run, rounds = CASES[case]
    runs = {name: make_run(root, make) for name, (make, _) in VARIANTS.items()}
    seconds: dict[str, list[float]] = {name: [] for name in VARIANTS}
    graphs = dict.fromkeys(VARIANTS, 0)
    for _ in range(rounds + 1):
        for name, (_, off) in VARIANTS.items():
            before = counters["stats"]["unique_graphs"]
            start = time.perf_counter()
            with off():
                runs[name]()
            seconds[name].append(time.perf_counter() - start)
            graphs[name] += counters["stats"]["unique_graphs"] - before
    return {
        name: {
            "seconds": statistics.median(found[1:]),
            "range": [min(found[1:]), max(found[1:])],
            # Of runs of one round, so that a slow minute affects both.
            "ratio": statistics.median(a / b for a, b in zip(found[1:], seconds["eager"][1:])),
            "first": found[0],
            "rounds": rounds,
            "graphs": graphs[name],
        }
        for name, found in seconds.items()
    }


def _operator(dataset: str) -> Callable[[str, Variant], Run]:
    """`sim_pool` behind a linear layer, forward and backward, on all batches."""

    def make(root: str, variant: Variant) -> Run:
        made = [make_batch(graphs) for graphs in make_batches(load_graphs(dataset, root), 20)]
        method = METHODS["sim_pool"](32)
        method.forward = variant(method.forward)  # type: ignore[method-assign]
        return lambda: [step(method, batch) for batch in made]

    return make


#: What is run, given the folder of the data sets and the variant; and how often after the first
#: time, which compiles: more than 200 batches in all.
CASES: dict[str, tuple[Callable[[str, Variant], Run], int]] = {
    "ENZYMES, operator": (_operator("ENZYMES"), 7),
    "D&D, operator": (_operator("DD"), 4),
    "ENZYMES, width 0.25, epoch": (partial(ours_on_enzymes, width=0.25), 7),
    "D&D, width 0.125, epoch": (ours_on_dd, 4),
}


def table(metrics: dict[str, Any]) -> list[str]:
    """One row for each case and variant."""
    rows = []
    for case in CASES:
        for name, found in metrics[case].items():
            low, high = found["range"]
            compiling = " | " if name == "eager" else f" {found['graphs']} | {found['first']:.0f} "
            rows.append(
                f"| {case} | {name} | {found['seconds']:.3f} | {low:.3f} to {high:.3f} | "
                f"{found['ratio']:.2f} |{compiling}|"
            )
    return rows

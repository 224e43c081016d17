"""What each part costs or gives: epochs and the operator with one part switched off.

In one process, whose memory is kept; the parts take turns.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest import mock

from torch import Tensor

from harness.data import batches
from harness.speed.pool_cases import load_graphs, make_batches
from harness.speed.pool_measure import step
from harness.speed.pool_methods import METHODS, make_batch
from harness.speed.pool_training import ours_on_dd, ours_on_enzymes
from harness.speed.unchecked import without_checks, without_checks_of_saved
from torch_geometric_simpool import engine
from torch_geometric_simpool.functional.segment import segment_matmul_t
from torch_geometric_simpool.models import GMNConv

ROUNDS = 5


@contextmanager
def one_hot_features() -> Iterator[None]:
    """Node labels stay one-hot features."""
    with mock.patch.object(batches, "as_labels", lambda features: features):
        yield


@contextmanager
def layer_before_pooling() -> Iterator[None]:
    """The last layer of Z0 is computed for every node, then pooled."""

    def pooled(
        self: GMNConv,
        x: Tensor,
        s: Tensor,
        edge_index: Tensor,
        batch: Tensor,
        batch_size: int,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        return segment_matmul_t(s, self(x, edge_index, edge_attr), batch, batch_size)

    with mock.patch.object(GMNConv, "pooled", pooled):
        yield


#: What is switched off, by name.
Parts = dict[str, Callable[[], AbstractContextManager[None]]]
#: Labels are made when batches are, so they come first.
ENGINE: Parts = {
    "nothing": nullcontext,
    "`spmm`": lambda: engine.disabled("spmm"),
    "`segment_matmul`": lambda: engine.disabled("segment_matmul"),
    "`messages`": lambda: engine.disabled("messages"),
    "all three": lambda: engine.disabled("spmm", "segment_matmul", "messages"),
    "labels: one-hot features instead": one_hot_features,
    "pooling before the last layer of Z0": layer_before_pooling,
}
CHECKS: Parts = {
    "nothing": nullcontext,
    "checks of arguments": without_checks,
    "of these, the edges in the backward pass": without_checks_of_saved,
}


def part_metrics(root: str, parts: Parts, rounds: int = ROUNDS) -> dict[str, Any]:
    """Seconds of an epoch of ENZYMES and of D&D and of the operator on D&D, by part."""
    metrics = {}
    for case, make in CASES.items():
        runs = {}
        for name, off in parts.items():
            with off():
                runs[name] = make(root)
        seconds: dict[str, list[float]] = {name: [] for name in parts}
        for number in range(rounds + 1):
            for name, off in parts.items():
                with off():
                    start = time.perf_counter()
                    runs[name]()
                    if number > 0:  # the first is a warm-up
                        seconds[name].append(time.perf_counter() - start)
        metrics[case] = {
            name: _summary(found, seconds["nothing"]) for name, found in seconds.items()
        }
        print(f"{case}: {metrics[case]}", flush=True)
    return metrics


def _summary(found: list[float], full: list[float]) -> dict[str, Any]:
    """Medians; the ratio is that of runs of one round, so that a slow minute affects both."""
    return {
        "seconds": statistics.median(found),
        "range": [min(found), max(found)],
        "ratio": statistics.median(a / b for a, b in zip(found, full)),
        "rounds": len(found),
    }


def _operator(root: str) -> Callable[[], None]:
    made = [make_batch(graphs) for graphs in make_batches(load_graphs("DD", root), 20)[:20]]
    method = METHODS["sim_pool"](32)

    def run() -> None:
        for batch in made:
            step(method, batch)

    return run


#: What is run, given the folder of the data sets.
CASES: dict[str, Callable[[str], Callable[[], None]]] = {
    "ENZYMES, full width, epoch": ours_on_enzymes,
    "D&D, width 0.125, epoch": ours_on_dd,
    "operator, 20 batches of D&D": _operator,
}


def table(metrics: dict[str, Any], parts: Parts, digits: int = 2) -> list[str]:
    """One row for each part: the time without it over the time with everything."""
    rows = []
    for part in parts:
        cells = [
            f"{found[part]['seconds']:.3f} s"
            if part == "nothing"
            else f"{found[part]['ratio']:.{digits}f}"
            for found in (metrics[case] for case in CASES)
        ]
        rows.append(f"| {part} | {' | '.join(cells)} |")
    return rows

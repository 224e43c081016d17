"""Time and memory of one pooling operator, in the process that calls :func:`measure`."""

import resource
import time
from typing import Any

import torch

from harness.speed.pool_cases import Graph
from harness.speed.pool_methods import METHODS, Method, Ragged, make_batch

ROUNDS = 5
#: Where a method takes this long for a batch on average, one round is enough, in seconds.
SLOW = 0.2
#: The most data memory of a process; a method that needs more fails.
MEMORY_LIMIT = 14 * 2**30
#: Freed memory that is not returned is fragmented, so more of it is needed.
KEPT_LIMIT = 20 * 2**30
#: Dense methods are not tried if their adjacency matrices alone need more bytes than this.
DENSE_LIMIT = 2**31


def measure(name: str, path: str) -> dict[str, Any]:
    """Seconds for a graph, forward and with backward, and the peak memory of the process."""
    case = torch.load(path, weights_only=True)
    runs, kept = case["runs"], case.get("kept", False)
    _limit_memory(KEPT_LIMIT if kept else MEMORY_LIMIT)
    metrics = {}
    before = _peak()
    for label, (num_clusters, batches) in runs.items():
        method = METHODS[name](num_clusters)
        # Dense methods skip the sizes of a series that are too large for them.
        if method.dense and len(runs) > 1 and _dense_bytes(batches[0]) > DENSE_LIMIT:
            continue
        check(method, num_clusters, batches[-1])
        metrics[label] = time_method(method, batches, warm=kept)
    return {"runs": metrics, "peak": _peak(), "before": before}


def check(method: Method, num_clusters: int, graphs: list[Graph]) -> None:
    """Raises if the method does not return what `sim_pool` returns."""
    if method.dense and _dense_bytes(graphs) > DENSE_LIMIT:
        return
    batch = make_batch(graphs)
    with torch.no_grad():
        x, adj, _ = method(method.prepare(batch))
        expected_x, expected_adj, _ = METHODS["sim_pool"](num_clusters)(batch)
    if type(method).__name__ == "DMoN":
        expected_x = torch.nn.functional.selu(expected_x)
    torch.testing.assert_close(x, expected_x, rtol=1e-4, atol=1e-3)
    if adj is not None:
        torch.testing.assert_close(adj, expected_adj, rtol=1e-4, atol=1e-4)


def time_method(method: Method, batches: list[list[Graph]], warm: bool = False) -> dict[str, Any]:
    """Median and range over rounds of all batches; `warm` runs all of them once before."""
    ragged = [make_batch(graphs) for graphs in batches]
    for batch in ragged if warm else ragged[-1:]:
        step(method, batch)
    graphs = sum(batch.batch_size for batch in ragged)
    totals: list[tuple[float, ...]] = []
    # For two seconds at least, so that short disturbances of the machine do not count.
    while len(totals) < ROUNDS or (
        len(totals) < 20 * ROUNDS and sum(both for _, both in totals) < 2
    ):
        steps = [step(method, batch) for batch in ragged]
        totals.append(tuple(sum(part) for part in zip(*steps)))
        if totals[0][1] > SLOW * len(ragged):
            break
    forward, both = (sorted(t / graphs for t in times) for times in zip(*totals))
    middle = len(both) // 2
    return {
        "forward": forward[middle],
        "both": both[middle],
        "range": [both[0], both[-1]],
        "rounds": len(both),
        "nodes": sum(batch.x.size(0) for batch in ragged),
        "graphs": graphs,
    }


def step(method: Method, batch: Ragged) -> tuple[float, float]:
    """The seconds of a forward pass, and with the backward pass."""
    return step_prepared(method, method.prepare(batch))


def step_prepared(method: Method, prepared: Any) -> tuple[float, float]:
    """The same, of a batch in the form that the method needs."""
    leaf = method.leaf(prepared).requires_grad_()
    leaf.grad = None
    method.zero_grad()
    start = time.perf_counter()
    x, adj, loss = method(prepared)
    middle = time.perf_counter()
    (x.sum() + loss + (0 if adj is None else adj.sum())).backward()
    return middle - start, time.perf_counter() - start


def _dense_bytes(graphs: list[Graph]) -> int:
    return 4 * len(graphs) * max(nodes for nodes, _ in graphs) ** 2


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _limit_memory(limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

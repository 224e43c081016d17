"""Time and memory of one way to the top k, in the process that calls :func:`measure`."""

import time
from pathlib import Path
from typing import Any

import torch

from harness.speed.memory import memory_of_process, reset_peak
from harness.speed.topk_methods import METHODS, Problem


def measure(path: str, method: str, k: str, threads: str, repeats: str) -> dict[str, Any]:
    """Seconds and peak memory of a method on the problem stored in `path`."""
    torch.set_num_threads(int(threads))
    problem = Problem.load(Path(path))
    run = METHODS[method]
    # A small graph first, as some methods are compiled.
    small = problem.graphs[:3] if problem.graphs is not None else None
    path_graph = torch.arange(99)
    edges = torch.stack([path_graph, path_graph + 1])
    targets = None if problem.num_dst is None else 100
    node = None if problem.nodes is None else torch.tensor([7])
    run(Problem(edges, 100, small, targets, node), int(k))
    seconds, product, peak = [], [], 0
    for _ in range(int(repeats)):
        before = reset_peak()
        start = time.perf_counter()
        result = run(problem, int(k))
        seconds.append(time.perf_counter() - start)
        peak = max(peak, memory_of_process("VmHWM") - before)
        if result[2] is not None:
            product.append(result[2])
        del result
    output = problem.num_rows * int(k) * 12
    return {"seconds": seconds, "product": product, "peak": peak, "output": output}

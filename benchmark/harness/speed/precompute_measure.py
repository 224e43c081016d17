"""Time and memory of features of many graphs, in the process that calls :func:`measure`."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from harness.speed.memory import memory_of_process, reset_peak
from harness.speed.topk_graphs import uniform
from torch_geometric_simpool import StructuralSimilarity

#: What is done with the graphs: a list in memory, an `OnDiskDataset`, or a loop over them.
WAYS = ("list", "out", "stream")
NODES, DEGREE, FEATURES = 32, 4, 8
K = 16


def generated(num_graphs: int) -> Iterator[Data]:
    """Graphs about the size of those of ENZYMES; one at a time is in memory."""
    for seed in range(num_graphs):
        yield Data(
            x=torch.full((NODES, FEATURES), float(seed)),
            edge_index=uniform(NODES, DEGREE, seed),
            y=torch.tensor([seed % 2]),
        )


def measure(way: str, num_graphs: str) -> dict[str, Any]:
    """Seconds, the peak of the resident memory beyond that before, and bytes on disk."""
    torch.set_num_threads(1)
    count = int(num_graphs)
    with tempfile.TemporaryDirectory() as folder:
        # A few graphs first, as the top k is compiled.
        _run(way, 10, Path(folder) / "first")
        before = reset_peak()
        start = time.perf_counter()
        _run(way, count, Path(folder) / "out")
        seconds = time.perf_counter() - start
        peak = memory_of_process("VmHWM") - before
        stored = sum(file.stat().st_size for file in (Path(folder) / "out").rglob("*.db"))
    return {"seconds": seconds, "peak": peak, "stored": stored}


def _run(way: str, count: int, out: Path) -> None:
    transform, graphs = StructuralSimilarity(K), generated(count)
    if way == "stream":
        done = sum(1 for _ in transform.stream(graphs, progress=False))
    else:
        result = transform.precompute(graphs, False, out if way == "out" else None)
        done = len(result)
    if done != count:
        raise RuntimeError(f"{done} graphs where there should be {count}")

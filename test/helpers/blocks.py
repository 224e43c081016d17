"""A top k in blocks, and how far it is."""

import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from helpers.graphs import draw_all, union
from torch_geometric_simpool.distributed import TopKStore

#: Makes every block take a while. Dask may load it twice.
SLOW = """
import time
from torch_geometric_simpool.distributed import block, store

def slow(*rows):
    time.sleep(0.05)
    store.write_block(*rows)

block.write_block = slow
"""

GRAPH, _ = union([graph for seed in range(3) for graph in draw_all(seed) if graph.num_nodes > 0])


def check(store: TopKStore, expected: tuple[Tensor, Tensor]) -> None:
    for stored, wanted in zip(store.read(), expected):
        assert torch.equal(stored, wanted)


def times(out: Path) -> dict[str, int]:
    """When each block was written."""
    return {path.name: path.stat().st_mtime_ns for path in out.glob("block-*.bin")}


def wait_for_blocks(out: Path, count: int, process: Any) -> None:
    end = time.monotonic() + 120
    while len(times(out)) < count:
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)

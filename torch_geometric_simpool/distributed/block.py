"""One block of rows, as any process computes it that sees the folders."""

import functools
from pathlib import Path
from typing import NamedTuple

from torch_geometric_simpool.distributed.graph import DiskGraph
from torch_geometric_simpool.distributed.store import write_block
from torch_geometric_simpool.topk.numba import disk
from torch_geometric_simpool.topk.spec import Selection


class Job(NamedTuple):
    """What all blocks have in common: paths and numbers, and no part of the graph."""

    graph: Path
    fingerprint: str
    out: Path
    digest: str  # of the manifest in `out`
    settings: Selection


def compute_block(job: Job, block: int, start: int, end: int, num_threads: int = 1) -> None:
    """Computes the rows of the nodes `start` to `end` and writes them."""
    graph = _open(job.graph, job.fingerprint)
    values, index = disk.select(graph.prepared, start, end, job.settings, graph.dtype, num_threads)
    write_block(job.out, block, values, index, job.digest)


@functools.lru_cache(maxsize=1)
def _open(path: Path, fingerprint: str) -> DiskGraph:
    """The graph, opened once in each process; here it must be the same graph."""
    graph = DiskGraph.open(path)
    if graph.fingerprint != fingerprint:
        raise ValueError(
            f"`graph` must be the same on all machines, got another one in {path} on this one"
        )
    return graph

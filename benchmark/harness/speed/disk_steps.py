"""What the processes of the benchmark of graphs on disk do; each returns what it has found."""

import hashlib
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harness.speed import disk_graphs, topk_graphs
from torch_geometric_simpool import topk_similarity
from torch_geometric_simpool.distributed import DiskGraph, TopKStore, topk_to_disk

KINDS = {"uniform": topk_graphs.uniform, "power_law": topk_graphs.power_law}

#: The exponent of the weights of nodes, of graphs that are drawn in shards.
EXPONENTS = {"uniform": 0.0, "power_law": 0.5}


def graph(kind: str, nodes: str, degree: str, edges: str, folder: str) -> dict[str, Any]:
    """Draws a graph; keeps its edges in one file and in shards."""
    edge_index = KINDS[kind](int(nodes), int(degree))
    np.save(edges, edge_index.numpy())
    disk_graphs.write_shards(edge_index, Path(folder), 4)
    return {"entries": edge_index.size(1)}


def draw(kind: str, nodes: str, edges: str, folder: str) -> dict[str, Any]:
    """Draws a graph in shards."""
    drawn = disk_graphs.draw_shards(Path(folder), int(nodes), int(edges), EXPONENTS[kind], seed=0)
    return {"edges": drawn, "entries": 2 * drawn}


def full(edges: str, k: str) -> dict[str, Any]:
    """One call in memory."""
    edge_index = torch.from_numpy(np.load(edges))
    start = time.perf_counter()
    result = topk_similarity(edge_index, int(k))
    return {"seconds": time.perf_counter() - start, **hashes([result])}


def pieces(edges: str, k: str, count: str) -> dict[str, Any]:
    """Calls in memory, each with some of the nodes, shuffled."""
    edge_index = torch.from_numpy(np.load(edges))
    num_nodes = int(edge_index.max()) + 1
    values, index = torch.empty(num_nodes, int(k)), torch.empty(num_nodes, int(k), dtype=torch.long)
    start = time.perf_counter()
    for nodes in torch.randperm(num_nodes).chunk(int(count)):
        values[nodes], index[nodes] = topk_similarity(
            edge_index, int(k), num_nodes=num_nodes, nodes=nodes
        )
    return {"seconds": time.perf_counter() - start, **hashes([(values, index)])}


def build(shards: str, path: str) -> dict[str, Any]:
    """Builds a graph on disk."""
    start = time.perf_counter()
    built = DiskGraph.build(shards, path, progress=False)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "nodes": built.num_nodes, "entries": built.num_entries}


def estimate(path: str, k: str) -> dict[str, Any]:
    """What the top k would cost."""
    start = time.perf_counter()
    cost = DiskGraph.open(path).estimate(int(k))
    return {"seconds": time.perf_counter() - start, **cost._asdict()}


def topk(path: str, k: str, out: str, executor: str) -> dict[str, Any]:
    """Computes the top k, with an executor that `executor` names; a path is a Dask cluster."""
    opened = DiskGraph.open(path)
    start = time.perf_counter()
    with EXECUTORS.get(executor, lambda: _client(executor))() as pool:
        topk_to_disk(opened, int(k), out, pool, progress=False)
        return {"seconds": time.perf_counter() - start}


def hash_store(out: str) -> dict[str, Any]:
    """Hashes the rows that are stored."""
    start = time.perf_counter()
    found = hashes((values, index) for _, values, index in TopKStore(out).blocks())
    return {"seconds": time.perf_counter() - start, **found}


def hashes(parts: Iterable[tuple[Tensor, Tensor]]) -> dict[str, str]:
    """SHA-256 of all values, and of all indices."""
    of_values, of_index = hashlib.sha256(), hashlib.sha256()
    for values, index in parts:
        of_values.update(values.numpy().data)
        of_index.update(index.numpy().data)
    return {"values": of_values.hexdigest(), "index": of_index.hexdigest()}


def _client(file: str) -> AbstractContextManager[Any]:
    from distributed import Client

    client = Client(scheduler_file=file)
    client.wait_for_workers(1)
    return client


EXECUTORS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "none": nullcontext,
    "threads": lambda: ThreadPoolExecutor(2),
    "processes": lambda: ProcessPoolExecutor(2, get_context("spawn")),
}

STEPS: dict[str, Callable[..., dict[str, Any]]] = {
    function.__name__: function
    for function in (graph, draw, full, pieces, build, estimate, topk, hash_store)
}

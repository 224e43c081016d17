"""Edges in shards: of a graph in memory, and of random graphs that never are in memory."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
from torch import Tensor

#: The edges that are drawn together.
EDGES_OF_SHARD = 2_000_000


def write_shards(edge_index: Tensor, folder: Path, count: int) -> None:
    """The edges in `count` files, every other one Parquet."""
    import pyarrow
    from pyarrow import parquet

    folder.mkdir(parents=True)
    for number, part in enumerate(np.array_split(edge_index.int().numpy(), count, axis=1)):
        path = folder / f"part-{number:04d}"
        if number % 2 == 0:
            np.save(path.with_suffix(".npy"), part)
        else:
            table = pyarrow.table({"source": part[0], "target": part[1]})
            parquet.write_table(table, path.with_suffix(".parquet"))


def draw_shards(folder: Path, num_nodes: int, num_edges: int, exponent: float, seed: int) -> int:
    """An undirected random graph, both directions of each edge; returns the number of edges.

    The chance of an edge is proportional to the weights of its ends. Node `i` has the weight
    `(i + 1)^-exponent`: zero is a uniform graph, 1/2 a power law with exponent 3. The pairs whose
    smaller end is in a range of nodes are drawn together, so that no edge is drawn twice; nodes are
    renumbered at random.
    """
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    before = np.zeros(num_nodes + 1)
    np.cumsum(np.arange(1, num_nodes + 1, dtype=np.float64) ** -exponent, out=before[1:])
    # How many of all pairs have a smaller end below a node: weights times those of later nodes.
    pairs = np.cumsum(np.diff(before) * (before[-1] - before[1:]))
    num_shards = max(1, math.ceil(num_edges / EDGES_OF_SHARD))
    cuts = np.searchsorted(pairs, pairs[-1] * np.arange(1, num_shards) / num_shards)
    bounds = [0, *np.unique(cuts[cuts > 0]).tolist(), num_nodes - 1]
    step, total, share = _coprime(num_nodes), 0, 0.0
    for start, end in pairwise(bounds):
        low, high = pairs[start - 1] if start > 0 else 0.0, pairs[end - 1]
        wanted = round(num_edges * high / pairs[-1]) - round(num_edges * share)
        share = high / pairs[-1]
        keys = np.empty(0, np.int64)
        for _ in range(4):  # until what was drawn twice is replaced
            first = np.searchsorted(pairs, rng.uniform(low, high, wanted - keys.size), side="right")
            first = np.clip(first, start, end - 1)
            weight = rng.uniform(before[first + 1], before[-1])
            second = np.clip(np.searchsorted(before, weight, side="right") - 1, 0, num_nodes - 1)
            apart = second > first
            keys = np.unique(np.concatenate([keys, (first * num_nodes + second)[apart]]))
            if keys.size == wanted:
                break
        ends = np.stack([keys // num_nodes, keys % num_nodes])
        ends = (ends * step % num_nodes).astype(np.int32)
        np.save(folder / f"part-{start:010d}.npy", np.concatenate([ends, ends[::-1]], axis=1))
        total += keys.size
    return total


def _coprime(size: int) -> int:
    """A number without a common factor: its multiples visit all residues in no apparent order."""
    step = int(size * 0.6180339887) | 1
    while math.gcd(step, size) != 1:
        step += 2
    return step

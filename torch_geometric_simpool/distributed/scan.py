"""The first pass over the edges: how many there are at each node, and what their weights are."""

from typing import Any, NamedTuple, Union

import numpy as np

from torch_geometric_simpool.distributed.shards import (
    Shard,
    check_ids,
    check_weights,
    read_shards,
)
from torch_geometric_simpool.topk.budget import ALWAYS_FREE, format_bytes, free_memory
from torch_geometric_simpool.topk.numba import disk
from torch_geometric_simpool.utils.checks import check_bipartite_sizes, check_int

#: The bytes that a build needs for each node.
BYTES_PER_NODE = 64


class Scan(NamedTuple):
    """What a pass over the edges has found."""

    sizes: tuple[int, int]  # the rows and the columns of the adjacency matrix
    bipartite: bool
    ends: Any  # the degrees, and the sums of absolute weights: `engine.topk.disk.Ends`
    weighted: bool  # whether a weight is not one
    integers: bool  # whether all weights are integers
    largest: float  # the largest absolute weight


def scan(shards: list[Shard], num_nodes: Union[int, tuple[int, int], None], watch: Any) -> Scan:
    """Counts all edges, and checks them. `watch` wraps what reads all of them."""
    bipartite = isinstance(num_nodes, (tuple, list))
    sizes = _sizes(shards, num_nodes, watch)
    needed = BYTES_PER_NODE * sum(sizes) // (1 if bipartite else 2)
    if needed > ALWAYS_FREE and needed > free_memory("cpu"):
        raise ValueError(
            "`num_nodes`, or the largest node id plus one, must be such that "
            f"{BYTES_PER_NODE} bytes for each node fit into memory, got {max(sizes)}, where "
            f"{format_bytes(free_memory('cpu'))} are free"
        )
    engine = disk
    has_weights = shards[0].weight_type is not None
    ends = engine.new_ends(*sizes, has_weights)
    weighted, integers, largest = False, True, 0.0
    for edges in watch("checking edges", read_shards(shards)):
        check_ids(edges, sizes)
        if not has_weights:
            largest = 1.0
        elif edges.weight.size > 0:
            check_weights(edges)
            weighted = weighted or bool((edges.weight != 1).any())
            integers = integers and bool((edges.weight == np.rint(edges.weight)).all())
            largest = max(largest, float(np.abs(edges.weight).max()))
        engine.count_ends(engine.Entries(edges.source, edges.target, edges.weight), ends)
    return Scan(sizes, bipartite, ends, weighted, integers, largest)


def _sizes(
    shards: list[Shard], num_nodes: Union[int, tuple[int, int], None], watch: Any
) -> tuple[int, int]:
    if isinstance(num_nodes, (tuple, list)):
        return check_bipartite_sizes(num_nodes)
    if num_nodes is not None:
        size = check_int("num_nodes", num_nodes, 0)
        return size, size
    largest = -1
    for edges in watch("counting nodes", read_shards(shards)):
        for ids in (edges.source, edges.target):
            largest = max(largest, int(ids.max(initial=-1)))
    return largest + 1, largest + 1

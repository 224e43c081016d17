"""The cost of a sparse top k, before any product is computed."""

from dataclasses import replace
from typing import Any, NamedTuple, Optional, Union

import torch
from torch import Tensor

from torch_geometric_simpool.topk import budget as limits
from torch_geometric_simpool.topk.backend import Cost, get_backend
from torch_geometric_simpool.topk.parse import (
    BYTES_PER_NODE,
    NodeIds,
    parse_candidates,
    parse_edges,
    parse_nodes,
)
from torch_geometric_simpool.topk.spec import EdgeList, SimilaritySpec, TopKSettings
from torch_geometric_simpool.topk.torch import csr
from torch_geometric_simpool.utils.checks import check_int

#: Seconds per product, unweighted and weighted, on one core of an ordinary machine. Those of
#: `'triton'` are not measured: they are what it takes to read 20 and 40 bytes on a GPU.
SECONDS_PER_PRODUCT = {
    "numba": (2e-8, 4e-8),
    "torch": (2.7e-7, 2.7e-7),
    "triton": (1e-11, 2e-11),
}


class TopKEstimate(NamedTuple):
    """The cost of a call of :func:`topk_similarity`."""

    #: The number of products of the plain row-wise algorithm.
    num_products: int
    #: An upper bound of the products that are visited: the `'numba'` backend skips lists of hubs.
    num_visited: int
    #: The bytes that the call holds against its budget: working memory and the result.
    memory: int
    #: The bytes of the result.
    output: int
    #: A rough time of the products in seconds, on an ordinary machine with the present number of
    #: threads. For a few `nodes`, the passes over the edges take longer.
    seconds: float
    #: Whether :func:`topk_similarity` would refuse the call unless forced.
    refused: bool


def estimate_topk(
    edge_index: Tensor,
    k: int,
    edge_weight: Optional[Tensor] = None,
    num_nodes: Union[int, tuple[int, int], None] = None,
    *,
    nodes: Optional[NodeIds] = None,
    candidates: Optional[NodeIds] = None,
    **settings: Any,
) -> TopKEstimate:
    r"""Estimates the cost of :func:`topk_similarity`, before any product is computed.

    For `p = 1` the number of products is :math:`\sum_m d_m^2`, over the numbers :math:`d_m` of
    nodes that share feature :math:`m`. For `p > 1` all numbers are upper bounds, from the number of
    walks. :func:`topk_similarity` counts the products of the power itself, and may accept a call
    that this estimate refuses.

    Args:
        edge_index, k, edge_weight, num_nodes: As in :func:`topk_similarity`.
        nodes, candidates: As in :func:`topk_similarity`.
        **settings: Settings of :func:`topk_similarity`.

    Returns:
        A named tuple :class:`TopKEstimate`: `num_products`, `num_visited`, `memory` and `output`
        in bytes, `seconds` and `refused`. The time is rough: within a factor of three for all rows
        of sparse graphs, and too long for dense graphs.

    Raises:
        TypeError, ValueError: A wrong argument, as :func:`topk_similarity`.

    Time `O(E + N)`, and a sort of the edges in the torch backend. Without a `memory_budget`,
    `refused` depends on the free memory.

    Example:
        >>> star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
        >>> estimate_topk(star, k=2).num_products
        12
    """
    parsed = TopKSettings(**settings)
    k = check_int("k", k, 1)
    edges = parse_edges(edge_index, edge_weight, num_nodes, parsed)
    ids, spec = parse_nodes(nodes, edges), parsed.spec(parse_candidates(candidates, edges))
    budget = parsed.budget(edges, edges.num_nodes if ids is None else ids.numel(), k)
    least = BYTES_PER_NODE * edges.num_nodes
    if not budget.allows(least):
        # Counting would need as much memory as the call.
        return TopKEstimate(0, 0, least + budget.output, budget.output, 0.0, True)
    with torch.no_grad():
        cost = _cost(edges, spec, ids, k, parsed)
    refused = cost.visited > limits.MAX_PRODUCTS or not budget.allows(cost.memory)
    return TopKEstimate(
        cost.products,
        cost.visited,
        cost.memory + budget.output,
        budget.output,
        _seconds(edges, parsed, cost.visited),
        refused,
    )


def _cost(
    edges: EdgeList, spec: SimilaritySpec, nodes: Optional[Tensor], k: int, settings: TopKSettings
) -> Cost:
    """Counts products, and the bytes of working memory."""
    if spec.p > 1:
        return _bound_of_powers(edges, spec, nodes)
    num_rows = edges.num_nodes if nodes is None else nodes.numel()
    unlimited = replace(settings.budget(edges, num_rows, k), force=True)
    return (
        get_backend(settings, edges.device)
        .prepare(edges, spec, unlimited, nodes)
        .cost(nodes, k, unlimited)
    )


def _seconds(edges: EdgeList, settings: TopKSettings, visited: int) -> float:
    """Estimates the time of the products."""
    backend = settings.backend
    if backend == "auto":
        backend = "numba" if edges.device.type == "cpu" else "torch"
    unweighted, weighted = SECONDS_PER_PRODUCT[backend]
    plain = edges.edge_weight is None and settings.p == 1 and settings.lam in (0, 1)
    seconds = visited * (unweighted if plain else weighted)
    return seconds / torch.get_num_threads() if backend == "numba" else seconds


def _bound_of_powers(edges: EdgeList, spec: SimilaritySpec, nodes: Optional[Tensor]) -> Cost:
    """Computes upper bounds for `p > 1`: a power has at most as many entries as there are walks.

    Entry `i` of `A_hat^q 1` counts the walks of length `q` from node `i`.
    """
    num_nodes, (row, col) = edges.num_nodes, edges.edge_index
    p, loops = spec.p, spec.lam > 0
    degree = torch.bincount(row, minlength=num_nodes).double() + loops

    def extend(walks: Tensor, source: Tensor, target: Tensor) -> Tensor:
        longer = torch.zeros_like(walks).index_add(0, source, walks[target])
        return (longer + walks if loops else longer).clamp(max=num_nodes)

    products = 0.0
    starting = torch.ones(num_nodes, dtype=torch.float64, device=row.device)
    ending = starting  # the walks that start, and that end, at each node
    for power in range(p):
        if power > 0:
            # The entries of the power so far, times the degrees of their columns.
            products += float((ending * degree).sum())
        starting, ending = extend(starting, row, col), extend(ending, col, row)
    squares = float(starting.square().sum() + ending.square().sum())
    limit = spec.max_degree
    if limit is not None:
        squares = min(squares, limit * float(starting.sum() + ending.sum()))
    if nodes is not None and num_nodes > 0:
        # A row has at most as many entries as walks, whose lists are as long as the longest.
        rows = float(starting[nodes].sum()) * float(ending.max())
        rows += float(ending[nodes].sum()) * float(starting.max())
        squares = min(squares, rows)
    bound = int(products + squares)
    memory = BYTES_PER_NODE * num_nodes + csr.BYTES_PER_ENTRY * int(starting.sum())
    return Cost(bound, bound, memory)

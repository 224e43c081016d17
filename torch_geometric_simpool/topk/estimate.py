"""Estimates of the cost of a sparse top k."""

from dataclasses import replace
from typing import Any, NamedTuple, Optional, Union

import torch
from torch import Tensor

from torch_geometric_simpool.topk import budget as limits
from torch_geometric_simpool.topk.backend import Cost, backend_name, get_backend
from torch_geometric_simpool.topk.budget import TooExpensiveError
from torch_geometric_simpool.topk.parse import (
    BYTES_PER_NODE,
    NodeIds,
    parse_candidates,
    parse_edges,
    parse_nodes,
)
from torch_geometric_simpool.topk.spec import TopKSettings
from torch_geometric_simpool.utils.checks import check_int

#: Seconds of a product by backend, on one core, or on an H100 for `'triton'`.
SECONDS_PER_PRODUCT = {"numba": 3e-8, "torch": 2.7e-7, "triton": 5e-10}

#: The speed of `'torch'` on an H100 as a multiple of its speed on one core.
GPU_FACTOR = 150


class TopKEstimate(NamedTuple):
    """The cost of a call of :func:`topk_similarity`, as :func:`estimate_topk` returns it.

    Attributes:
        num_products (int): The number of products of the plain row-wise algorithm.
        memory (int): The bytes of working memory and of the result, which count against the
            memory budget.
        output (int): The bytes of the result.
        seconds (float): A rough time of the products, on an ordinary machine with
            :func:`torch.get_num_threads` threads, or on an H100 for tensors on a GPU. For a few
            `nodes`, passes over the edges take longer.
        refused (bool): Whether :func:`topk_similarity` refuses the call without `force=True`.
    """

    num_products: int
    memory: int
    output: int
    seconds: float
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
    r"""Estimates the cost of :func:`topk_similarity`, from the edges alone.

    For `p = 1`, the number of products is :math:`\sum_m d_m^2`, where :math:`d_m` nodes share
    feature :math:`m`. For `p > 1`, the power is computed first, within the limits of the call. If
    the power alone exceeds them, the estimate is the cost of the power.

    Args:
        edge_index (torch.Tensor): Edges `[2, E]`, integers.
        k (int): Number of similar nodes per node.
        edge_weight (torch.Tensor, optional): Weights `[E]` or `[E, 1]`, finite.
            (default: :obj:`None`, weights of one)
        num_nodes (int or tuple, optional): Number of nodes, or the numbers of source and
            destination nodes. (default: :obj:`None`, the largest id plus one)
        nodes (torch.Tensor, list or int, optional): Ids of the nodes whose rows are computed.
            (default: :obj:`None`, all nodes)
        candidates (torch.Tensor, list or int, optional): Ids of the nodes that may take a place.
            (default: :obj:`None`, all nodes)
        **settings (optional): Settings of :func:`topk_similarity`.

    Returns:
        TopKEstimate: The named tuple `(num_products, memory, output, seconds, refused)`. The time
        is within a factor of three for all rows of sparse graphs. For dense graphs it is too long.

    Raises:
        TypeError, ValueError: If an argument is wrong, as in :func:`topk_similarity`.

    Time: `O(E + N)`, with a sort of the edges in the torch backend, and the power for `p > 1`.
    Without a `memory_budget`, `refused` depends on the free memory.

    Example:
        >>> star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
        >>> estimate_topk(star, k=2).num_products
        12
    """
    parsed = TopKSettings.parse(settings)
    k = check_int("k", k, 1)
    edges = parse_edges(edge_index, edge_weight, num_nodes, parsed)
    ids, allowed = parse_nodes(nodes, edges), parse_candidates(candidates, edges)
    budget = parsed.budget(edges, edges.num_nodes if ids is None else ids.numel(), k)
    least = BYTES_PER_NODE * edges.num_nodes
    if not budget.allows(least):  # counting would need as much memory as the call
        return TopKEstimate(0, least + budget.output, budget.output, 0.0, True)
    # Only a power is computed, within the limits of the call. Everything else is counted.
    limits_of_counting = budget if parsed.p > 1 else replace(budget, force=True)
    try:
        with torch.no_grad():
            graph = get_backend(parsed, edges.device).prepare(
                edges, parsed, limits_of_counting, allowed
            )
            cost = graph.cost(ids, k, limits_of_counting)
    except TooExpensiveError as error:
        cost = Cost(error.products, max(error.memory - budget.output, 0))
    name = backend_name(parsed, edges.device)
    on_gpu = not edges.edge_index.is_cpu
    factor = {"numba": torch.get_num_threads(), "torch": GPU_FACTOR if on_gpu else 1}
    return TopKEstimate(
        num_products=cost.products,
        memory=cost.memory + budget.output,
        output=budget.output,
        seconds=cost.products * SECONDS_PER_PRODUCT[name] / factor.get(name, 1),
        refused=cost.products > limits.MAX_PRODUCTS or not budget.allows(cost.memory),
    )

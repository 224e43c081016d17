"""What a sparse top k would cost, before any product is computed."""

from typing import NamedTuple, Optional, Union

import torch
from torch import Tensor

from torch_geometric_simpool.topk import budget as limits
from torch_geometric_simpool.topk.backend import get_backend
from torch_geometric_simpool.topk.parse import (
    Request,
    check_budget,
    check_nodes,
    check_request,
    check_selection,
    output_bytes,
)
from torch_geometric_simpool.topk.torch import backend as topk_torch

#: Seconds per product, unweighted and weighted, on one core of an ordinary machine. Of `'triton'`,
#: which was not measured: what it takes to read 20 and 40 bytes on a GPU.
SECONDS_PER_PRODUCT = {
    "numba": (2e-8, 4e-8),
    "torch": (2.7e-7, 2.7e-7),
    "triton": (1e-11, 2e-11),
}


class TopKEstimate(NamedTuple):
    """What a call of :func:`topk_similarity` would cost."""

    #: The number of products of the plain row-wise algorithm.
    num_products: int
    #: An upper bound of the products that are visited: backends but `'torch'` skip lists of hubs.
    num_visited: int
    #: The bytes of working memory, beyond input and output.
    memory: int
    #: The bytes of the output.
    output: int
    #: A rough time of the products in seconds, on an ordinary machine with the present number of
    #: threads. Of a few `nodes`, the passes over the edges take longer.
    seconds: float
    #: Whether :func:`topk_similarity` would refuse it unless forced.
    refused: bool


def estimate_topk(
    edge_index: Tensor,
    k: int,
    edge_weight: Optional[Tensor] = None,
    num_nodes: Union[int, tuple[int, int], None] = None,
    p: int = 1,
    lam: float = 0.0,
    measure: str = "cosine",
    max_degree: Optional[int] = None,
    memory_budget: Optional[int] = None,
    backend: str = "auto",
    nodes: Optional[Tensor] = None,
    candidates: Optional[Tensor] = None,
) -> TopKEstimate:
    r"""What :func:`topk_similarity` would cost, before any product is computed.

    For `p = 1` the number of products is :math:`\sum_m d_m^2`, over the numbers
    :math:`d_m` of nodes that share feature :math:`m`. For `p > 1` it is an upper bound,
    from the number of walks, and includes the products of the powers. Then
    :func:`topk_similarity` counts again once it has computed the power, and may still
    refuse.

    Args:
        edge_index, k, edge_weight, num_nodes, p, lam, measure, max_degree: As in
            :func:`topk_similarity`.
        memory_budget, backend, nodes, candidates: As in :func:`topk_similarity`.

    Returns:
        A named tuple :class:`TopKEstimate`: `num_products`, `num_visited`, `memory` and
        `output` in bytes, `seconds` (rough: within a factor of three for all rows of sparse
        graphs, too long for dense ones, and too short for a few `nodes`, where a pass over the
        edges takes longer than the products), and `refused`.

    Raises:
        TypeError, ValueError: As :func:`topk_similarity`, for these arguments.

    Time `O(E + N)`, and a sort of the edges in the torch backend. Deterministic, apart
    from `refused` without a `memory_budget`, which depends on the free memory.

    Example:
        >>> star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
        >>> estimate_topk(star, k=2).num_products
        12
    """
    request = check_request(
        edge_index, edge_weight, num_nodes, p, lam, measure, max_degree, candidates, backend
    )
    selecting = check_selection(k)
    nodes = check_nodes("nodes", nodes, request.edges)
    check_budget(memory_budget, force=False)
    with torch.no_grad():
        products, visited, memory = _cost(request, nodes, selecting.k, memory_budget)
    num_rows = request.edges.num_nodes if nodes is None else nodes.numel()
    output, device = output_bytes(num_rows, selecting.k, request.dtype), edge_index.device
    refused = (
        visited > limits.MAX_PRODUCTS
        or limits.exceeds_memory(memory, memory_budget, device) is not None
        or limits.exceeds_output(output, device)
    )
    return TopKEstimate(products, visited, memory, output, _seconds(request, visited), refused)


def _cost(
    request: Request, nodes: Optional[Tensor], k: int, memory_budget: Optional[int]
) -> tuple[int, int, int]:
    """The products, those that are visited, and the bytes of working memory."""
    if request.spec.p > 1:
        return _bound_of_powers(request, nodes)
    module = get_backend(request.backend, request.edges.edge_index.device)
    unlimited = limits.Budget(memory_budget, force=True)
    prepared = module.prepare(request.edges, request.spec, unlimited, nodes)
    return prepared.cost(nodes, k, unlimited)


def _seconds(request: Request, visited: int) -> float:
    p, lam = request.spec.p, request.spec.lam
    unweighted, weighted = SECONDS_PER_PRODUCT[request.backend]
    plain = request.edges.edge_weight is None and p == 1 and lam in (0, 1)
    seconds = visited * (unweighted if plain else weighted)
    return seconds / torch.get_num_threads() if request.backend == "numba" else seconds


def _bound_of_powers(request: Request, nodes: Optional[Tensor]) -> tuple[int, int, int]:
    """Upper bounds for `p > 1`: a power has at most as many entries as there are walks.

    Entry `i` of `A_hat^q 1` counts the walks of length `q` from node `i`.
    """
    num_nodes, (row, col) = request.edges.num_nodes, request.edges.edge_index
    p, loops = request.spec.p, request.spec.lam > 0
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
    limit = request.spec.max_degree
    if limit is not None:
        squares = min(squares, limit * float(starting.sum() + ending.sum()))
    if nodes is not None:
        # A row has at most as many entries as walks, whose lists are as long as the longest.
        rows = float(starting[nodes].sum()) * float(ending.max())
        rows += float(ending[nodes].sum()) * float(starting.max())
        squares = min(squares, rows)
    bound = int(products + squares)
    return bound, bound, int(float(starting.sum()) * topk_torch.BYTES_PER_ENTRY)

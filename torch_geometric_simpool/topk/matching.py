"""Greedy matching of similar nodes: clusters of two, without training."""

from typing import Optional

import torch
from torch import Tensor

from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.parse import check_request
from torch_geometric_simpool.topk.topk_similarity import topk_similarity
from torch_geometric_simpool.topk.torch import backend as topk_torch
from torch_geometric_simpool.utils.checks import check_int


@torch.no_grad()
def match_similar(
    edge_index: Tensor,
    k: int,
    edge_weight: Optional[Tensor] = None,
    num_nodes: Optional[int] = None,
    p: int = 1,
    lam: float = 0.0,
    measure: str = "cosine",
) -> Tensor:
    r"""Matches each node with one of its `k` most similar nodes, greedily.

    The candidates are the pairs :math:`\{i, j\}`, :math:`i < j`, :math:`C_{ij} > 0`, where one
    node is among the `k` most similar of the other (:func:`topk_similarity` without the node
    itself). They are visited by **similarity descending, then i ascending, then j ascending**;
    a pair is matched if both of its nodes are still free. Two matched nodes are one cluster,
    and every other node is its own. Clusters are numbered by their smallest node.

    Equal similarities tie, as in :func:`topk_similarity`, for an unweighted graph, or integer
    weights and `lam`, with squared norms below :math:`2^{26}`; otherwise, those that are closer
    than rounding may swap. The clusters of a graph in a batch are those of the graph alone.

    Args:
        edge_index: The edges, integers, `[2, E]`.
        k: The number of similar nodes of each node, `>= 1`.
        edge_weight: The weights, `[E]` or `[E, 1]`, finite, of either sign. Ones if `None`.
        num_nodes: The number of nodes. The largest id plus one if `None`.
        p, lam, measure: As in :func:`topk_similarity`.

    Returns:
        The cluster of each node, `[N]`, long.

    Raises:
        TypeError, ValueError: As :func:`topk_similarity`.

    Not differentiable. Time and memory: those of :func:`topk_similarity`, and `O(k E)` to order
    the pairs; the pairs are visited one by one on the CPU. Deterministic.

    Source: beyond Shulman (2020), whose clusters are learned. Compare Graclus (Dhillon et al.,
    2007), which matches neighbors by edge weight, visiting nodes in random order.

    Example:
        >>> star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
        >>> match_similar(star, k=2)
        tensor([0, 1, 1, 2])
    """
    if num_nodes is not None:
        check_int("num_nodes", num_nodes, 0)  # no pair: nodes are matched with their like
    request = check_request(edge_index, edge_weight, num_nodes, p, lam, measure, None, None, "auto")
    num_nodes = request.edges.num_nodes
    _, index = topk_similarity(
        edge_index, k, edge_weight, num_nodes, p=p, lam=lam, measure=measure, loop=False
    )
    node, place = (index >= 0).nonzero(as_tuple=True)
    other = index[node, place]
    # Sorted by i, then by j: the stable sort below leaves ties in this order.
    pair = torch.unique(torch.minimum(node, other) * num_nodes + torch.maximum(node, other))
    i = pair.div(max(num_nodes, 1), rounding_mode="floor")
    j = pair - i * num_nodes
    # The top k has been within its budget.
    unlimited = Budget(None, force=True)
    description = topk_torch.describe(request.edges, request.spec, unlimited)
    key = topk_torch.keys_of_pairs(description, i, j, measure == "jaccard")
    order = key.argsort(descending=True, stable=True)
    order = order[key[order] > 0]

    first = list(range(num_nodes))  # the smallest node of each node's cluster
    free = [True] * num_nodes
    for a, b in zip(i[order].tolist(), j[order].tolist(), strict=True):
        if free[a] and free[b]:
            free[a] = free[b] = False
            first[b] = a
    smallest = torch.tensor(first, dtype=torch.long, device=index.device)
    return torch.unique(smallest, return_inverse=True)[1]

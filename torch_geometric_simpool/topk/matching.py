"""Greedy matching of similar nodes: clusters of two, without training."""

from typing import Any, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.topk.parse import parse_edges
from torch_geometric_simpool.topk.similarity_graph import similar_pairs
from torch_geometric_simpool.topk.similarity_of_pairs import keys_of_pairs
from torch_geometric_simpool.topk.spec import TopKSettings
from torch_geometric_simpool.utils.checks import check_int


def match_similar(
    edge_index: Tensor,
    k: int,
    edge_weight: Optional[Tensor] = None,
    num_nodes: Optional[int] = None,
    **settings: Any,
) -> Tensor:
    r"""Matches similar nodes in pairs, greedily.

    Two nodes :math:`i < j` with :math:`C_{ij} > 0` are a candidate pair if either is among the
    other's `k` most similar nodes. Pairs are visited by **similarity descending, then i ascending,
    then j ascending**. A pair is matched if both of its nodes are still free. Two matched nodes
    form a cluster, and every other node is a cluster of its own. Clusters are numbered by their
    smallest node.

    A graph in a batch has the same clusters as the graph alone.

    .. note::
        Equal similarities tie for an unweighted graph, and for integer weights and `lam` with
        squared norms below :math:`2^{26}`. Other similarities that are closer than rounding may
        swap.

    Args:
        edge_index (torch.Tensor): Edges `[2, E]`, integers.
        k (int): Number of similar nodes per node.
        edge_weight (torch.Tensor, optional): Weights `[E]` or `[E, 1]`, finite.
            (default: :obj:`None`, weights of one)
        num_nodes (int, optional): Number of nodes. (default: :obj:`None`, the largest id plus one)
        **settings (optional): Settings of :func:`topk_similarity`, except `loop`.

    Returns:
        The cluster of each node, `[N]`, long.

    Raises:
        TypeError, ValueError: If an argument is wrong, as in :func:`topk_similarity`.

    Not differentiable. Deterministic. Time and memory: a call of :func:`topk_similarity`, and a
    sort of up to `k N` pairs. Pairs are visited one by one on the CPU.

    Source: beyond Shulman (2020), whose clusters are learned. Compare Graclus (Dhillon et al.,
    2007), which matches neighbors by edge weight, visiting nodes in random order.

    Example:
        >>> star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
        >>> match_similar(star, k=2)
        tensor([0, 1, 1, 2])
    """
    parsed = TopKSettings.parse(settings, loop=False)
    k = check_int("k", k, 1)
    if num_nodes is not None:
        check_int("num_nodes", num_nodes, 0)  # clusters need a graph that is not bipartite
    edges = parse_edges(edge_index, edge_weight, num_nodes, parsed)
    with torch.no_grad():
        pairs, _ = similar_pairs(edges, k, parsed)
        # Pairs are sorted by i, then by j. The stable sort below keeps this order of ties.
        i, j = torch.unique(pairs.sort(dim=0).values, dim=1)
        budget = parsed.budget(edges, edges.num_nodes, k)
        key = keys_of_pairs(edges, parsed, i, j, budget)
    order = key.argsort(descending=True, stable=True)
    order = order[key[order] > 0]
    first = list(range(edges.num_nodes))  # the smallest node of each node's cluster
    free = set(first)
    for a, b in zip(i[order].tolist(), j[order].tolist()):
        if a in free and b in free:
            free -= {a, b}
            first[b] = a
    smallest = torch.tensor(first, dtype=torch.long, device=edges.device)
    return torch.unique(smallest, return_inverse=True)[1]

"""The similarities of given pairs of nodes."""

from typing import Optional, Union

import torch
from torch import Tensor

from torch_geometric_simpool.topk.parse import parse_edges
from torch_geometric_simpool.topk.spec import TopKSettings
from torch_geometric_simpool.topk.topk_similarity import check_reverse_mode
from torch_geometric_simpool.topk.torch import pairs as torch_pairs
from torch_geometric_simpool.utils.checks import check_integral, check_range


@torch.compiler.disable
def similarity_of_pairs(
    edge_index: Tensor,
    pairs: Tensor,
    edge_weight: Optional[Tensor] = None,
    num_nodes: Union[int, tuple[int, int], None] = None,
    p: int = 1,
    lam: float = 0.0,
    measure: str = "cosine",
) -> Tensor:
    r"""Computes the similarity :math:`C_{ij}` of each pair of nodes.

    The values are entries of :func:`structural_similarity`, without the `[N, N]` matrix.

    Args:
        edge_index (torch.Tensor): Edges `[2, E]`, integers.
        pairs (torch.Tensor): Pairs of nodes `[2, M]`, integers, in any order, repeats allowed.
        edge_weight (torch.Tensor, optional): Weights `[E]` or `[E, 1]`, finite.
            (default: :obj:`None`, weights of one)
        num_nodes (int or tuple, optional): Number of nodes, or the numbers of source and
            destination nodes of a bipartite graph, whose source nodes are compared.
            (default: :obj:`None`, the largest id plus one)
        p (int): Power in :math:`(A + \lambda I)^p`. (default: :obj:`1`)
        lam (float): Weight of the added self-loops. (default: :obj:`0.0`)
        measure (str): A measure of :func:`topk_similarity`. (default: :obj:`"cosine"`)

    Returns:
        The similarities, `[M]`, in the type of a floating-point :obj:`edge_weight`, else in the
        default type.

    Raises:
        TypeError, ValueError: If an argument is wrong.
        TooExpensiveError: If the pairs need more than half of the free memory.

    Differentiable once with respect to :obj:`edge_weight`, also where the similarity is zero.

    Time and memory: a sort of the edges, and the smaller of the two degrees for each pair.

    Source: section 'Graph structural similarity matrix' of Shulman (2020).

    Example:
        >>> star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
        >>> similarity_of_pairs(star, torch.tensor([[1, 0], [2, 1]]))
        tensor([1., 0.])
    """
    settings = TopKSettings(p=p, lam=lam, measure=measure, backend="torch")
    edges = parse_edges(edge_index, edge_weight, num_nodes, settings)
    i, j = pairs = check_integral("pairs", pairs, (2, "M"), device=edges.device)
    check_range("pairs", pairs, edges.num_nodes, "node ids")
    check_reverse_mode(edges.edge_weight)
    budget = settings.budget(edges, i.numel(), 1)
    return torch_pairs.similarities(edges, settings.spec(), i, j, budget).to(edges.dtype)

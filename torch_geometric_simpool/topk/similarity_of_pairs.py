"""The differentiable similarities of given pairs of nodes, and the keys that order all pairs."""

from typing import Optional, Union

import torch
from torch import Tensor

from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.measures import SPARSE_MEASURES
from torch_geometric_simpool.topk.parse import parse_edges
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings
from torch_geometric_simpool.topk.torch import csr
from torch_geometric_simpool.topk.torch.describe import describe, of_one_scale
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
        p (int): Power in :math:`(A + \lambda I)^p`. It must be 1 for a bipartite graph.
            (default: :obj:`1`)
        lam (float): Weight of the added self-loops, `>= 0`. It must be 0 for a bipartite graph.
            (default: :obj:`0.0`)
        measure (str): A measure of :func:`topk_similarity`. (default: :obj:`"cosine"`)

    Returns:
        The similarities, `[M]`, in the type of a floating-point :obj:`edge_weight`, else in the
        default type.

    Raises:
        TypeError, ValueError: If an argument is wrong.
        TooExpensiveError: If the pairs need more than half of the free memory. It is a
            `ValueError`.
        NotImplementedError: If weights are dual tensors or inside of :func:`torch.func.grad`.

    Differentiable once with respect to :obj:`edge_weight`, also where the similarity is zero.

    Time and memory: a sort of the edges, and for each pair the smaller degree of its two nodes. The
    degrees are the degrees of :math:`\hat{A} = (A + \lambda I)^p`.

    Source: section 'Graph structural similarity matrix' of Shulman (2020).

    Example:
        >>> star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
        >>> similarity_of_pairs(star, torch.tensor([[1, 0], [2, 1]]))
        tensor([1., 0.])
    """
    settings = TopKSettings(p=p, lam=lam, measure=measure, backend="torch")
    edges = parse_edges(edge_index, edge_weight, num_nodes, settings, stacklevel=5)
    i, j = pairs = check_integral("pairs", pairs, (2, "M"), device=edges.device)
    check_range("pairs", pairs, edges.num_nodes, "node ids")
    budget = settings.budget(
        edges,
        i.numel(),
        1,
        task="the similarity of these pairs",
        advice="pass fewer `pairs` at a time",
    )
    return similarities(edges, settings, i, j, budget).to(edges.dtype)


def similarities(
    edges: EdgeList, settings: TopKSettings, i: Tensor, j: Tensor, budget: Budget
) -> Tensor:
    """Returns the similarity of each pair, `[P]`, float64; differentiable in the weights.

    It is computed without the root of the key, so its gradient is finite at a dot product of zero.
    """
    return SPARSE_MEASURES[settings.measure].similarity(*_terms(edges, settings, i, j, budget))


def keys_of_pairs(
    edges: EdgeList, settings: TopKSettings, i: Tensor, j: Tensor, budget: Budget
) -> Tensor:
    """Returns numbers that order pairs of nodes as their similarity does, in float64, `[P]`.

    Without a square root, equal similarities have equal keys in all rows, if descriptions are exact
    and squared norms are below `2^26`. The key does not depend on the order of the two nodes.
    """
    if settings.measure != "cosine":
        return similarities(edges, settings, i, j, budget)
    dot, norm2_i, norm2_j = _terms(edges, settings, i, j, budget)
    return dot * dot.abs() / (norm2_i * norm2_j)


def _terms(
    edges: EdgeList, settings: TopKSettings, i: Tensor, j: Tensor, budget: Budget
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the dot product and both squared norms of each pair, in one scale."""
    matrix, (norm2, scale, exact) = describe(edges, settings, budget, one_sided=False)
    length = matrix.ptr.diff()
    shorter = length[i] <= length[j]
    short, long = torch.where(shorter, i, j), torch.where(shorter, j, i)
    budget.check_memory(int(length[short].sum()) * csr.BYTES_PER_PRODUCT)
    # Every entry of the shorter row of a pair is looked up in the longer row.
    pair, entry = csr.entries_of(matrix, short)
    keys, col = matrix.row * matrix.num_cols + matrix.col, matrix.col[entry]
    other, is_shared = csr.positions(keys, long[pair] * matrix.num_cols + col)
    if settings.max_degree is not None:
        is_shared &= (
            torch.bincount(matrix.col, minlength=matrix.num_cols)[col] <= settings.max_degree
        )
    pair, entry, other = pair[is_shared], entry[is_shared], other[is_shared]
    product = matrix.value[entry] * matrix.value[other]
    num_shared = torch.bincount(pair, minlength=i.numel())
    norm2 = norm2.where(norm2 > 0, 1)  # 0 / 0 has no gradient
    norms = of_one_scale(norm2[i], norm2[j], scale[i], scale[j])
    return csr.rounded_sums(product, pair, num_shared, exact), *norms

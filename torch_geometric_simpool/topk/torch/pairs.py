"""The similarities of given pairs of nodes, differentiable; and the order of all pairs."""

from typing import Optional

import torch
from torch import Tensor

from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.measures import SPARSE_MEASURES
from torch_geometric_simpool.topk.spec import EdgeList, SimilaritySpec
from torch_geometric_simpool.topk.torch import csr
from torch_geometric_simpool.topk.torch.csr import CSRMatrix
from torch_geometric_simpool.topk.torch.describe import describe
from torch_geometric_simpool.topk.torch.keys import of_one_scale


def similarities(
    edges: EdgeList, spec: SimilaritySpec, i: Tensor, j: Tensor, budget: Budget
) -> Tensor:
    """Returns the similarity of each pair, `[P]`, float64; differentiable in the weights.

    Unlike the root of the key, the gradient is smooth where a dot product is zero.
    """
    terms = _terms(edges, spec, i, j, budget, one_sided=False)
    return SPARSE_MEASURES[spec.measure].similarity(*terms)


def keys_of_pairs(
    edges: EdgeList, spec: SimilaritySpec, i: Tensor, j: Tensor, budget: Budget
) -> Tensor:
    """Returns numbers that order pairs of nodes as their similarity does, in float64, `[P]`.

    No square root is taken, so equal similarities have equal keys in all rows, as long as the
    descriptions are exact and no squared norm reaches `2^26`. A pair has one key, whichever
    node is first.
    """
    dot, norm2_i, norm2_j = _terms(edges, spec, i, j, budget, one_sided=True)
    if spec.measure == "cosine":
        return dot * dot.abs() / (norm2_i * norm2_j)
    return SPARSE_MEASURES[spec.measure].similarity(dot, norm2_i, norm2_j)


def _terms(
    edges: EdgeList, spec: SimilaritySpec, i: Tensor, j: Tensor, budget: Budget, one_sided: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the dot product and both squared norms of each pair, of one scale."""
    matrix, (norm2, scale, _, exact) = describe(edges, spec, budget, one_sided)
    dot = _dot_products(matrix, i, j, exact, spec.max_degree, budget)
    norm2 = norm2.where(norm2 > 0, 1)  # 0 / 0 has no gradient
    if spec.measure == "cosine":  # which does not depend on scales
        return dot, norm2[i], norm2[j]
    return dot, *of_one_scale(norm2[i], norm2[j], scale[i], scale[j])


def _dot_products(
    matrix: CSRMatrix,
    i: Tensor,
    j: Tensor,
    exact: bool,
    max_degree: Optional[int],
    budget: Budget,
) -> Tensor:
    """Returns the dot product of the rows of each pair, `[P]`; differentiable."""
    length = matrix.ptr.diff()
    shorter = length[i] <= length[j]
    i, j = torch.where(shorter, i, j), torch.where(shorter, j, i)
    # Look up every entry (i, m) of the first row of a pair among the entries (j, m).
    per_pair = length[i]
    budget.check_memory(int(per_pair.sum()) * csr.BYTES_PER_PRODUCT)
    pair = torch.arange(i.numel(), device=i.device).repeat_interleave(per_pair)
    before = per_pair.cumsum(0) - per_pair
    entry = torch.arange(pair.numel(), device=i.device) + (matrix.ptr[i] - before)[pair]
    keys = matrix.row * matrix.num_cols + matrix.col
    other, is_shared = csr.positions(keys, j[pair] * matrix.num_cols + matrix.col[entry])
    if max_degree is not None:
        nodes_of_feature = torch.bincount(matrix.col, minlength=matrix.num_cols)
        is_shared &= nodes_of_feature[matrix.col[entry]] <= max_degree
    product = matrix.value[entry[is_shared]] * matrix.value[other[is_shared]]
    lengths = torch.bincount(pair[is_shared], minlength=i.numel())
    return csr.sum_segments(product, lengths, exact)

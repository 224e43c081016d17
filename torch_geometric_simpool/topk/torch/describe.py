"""The descriptions of the nodes of a graph, and the keys by which candidates are ordered.

The key of the cosine takes no square root, so that equal similarities of integers are equal keys.
The key of every other measure is the similarity.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.measures import SPARSE_MEASURES
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings
from torch_geometric_simpool.topk.torch import csr
from torch_geometric_simpool.topk.torch.csr import CSRMatrix
from torch_geometric_simpool.utils.rounding import LEAST_RATIO, error_of, power_of_two

#: The bytes of a node: offsets in two matrices, norm, scale, and number of products.
BYTES_PER_NODE = 64


class Norms(NamedTuple):
    """The numbers of each node, `[N]`, that keys depend on."""

    norm2: Tensor  # squared norms of the descriptions
    scale: Tensor  # the power of two that each description was multiplied by
    exact: bool  # whether no dot product and no squared norm has been rounded


def describe(
    edges: EdgeList, settings: TopKSettings, budget: Budget, one_sided: bool = True
) -> tuple[CSRMatrix, Norms]:
    """Returns a matrix of the descriptions of all nodes, and their norms; differentiable.

    Nodes are described by `[A_hat | A_hat^T]`, or by `A` in a bipartite graph. With `one_sided`,
    nodes are described by `A_hat` alone if it is symmetric. This halves dot products and squared
    norms, and does not change similarities.
    """
    (row, col), weight, num_nodes, _ = edges
    # The p-th power of the largest sum bounds entries, and twice its square bounds dot products.
    # Without weights, the number of edges bounds sums.
    most = 2 ** (26 / settings.p)
    exact = weight is None and settings.lam == 0 and row.numel() < most
    weight = torch.ones_like(row, dtype=torch.float64) if weight is None else weight.double()
    if settings.lam > 0:
        node = torch.arange(num_nodes, device=row.device)
        row, col = torch.cat([row, node]), torch.cat([col, node])
        weight = torch.cat([weight, weight.new_full((num_nodes,), settings.lam)])
    if not exact and bool((weight == weight.round()).all()):
        size = weight.detach().abs()
        sums = [
            size.new_zeros(number + 1).index_add(0, ends, size)
            for ends, number in ((row, num_nodes), (col, edges.num_cols))
        ]
        exact = float(torch.cat(sums).max()) < most
    # Measures do not change if the matrix is scaled, and powers of scaled entries do not overflow.
    if not exact:
        weight = weight * power_of_two(weight.detach().abs().max())
    matrix = csr.from_coo(row, col, weight, num_nodes, edges.num_cols, exact)
    matrix = csr.matrix_power(matrix, settings.p, exact, budget)
    if not edges.bipartite and not (one_sided and csr.is_symmetric(matrix)):
        row, col, value = matrix.row, matrix.col, matrix.value.repeat(2)
        row, col = torch.cat([row, col]), torch.cat([col, row + num_nodes])
        matrix = csr.from_coo(row, col, value, num_nodes, 2 * num_nodes, exact)
    scale = weight.new_ones(num_nodes)
    if not exact:
        # Each row has its own scale, so that squares do not overflow or underflow.
        size = matrix.value.detach().abs()
        scale = power_of_two(csr.segment_max(size, matrix.row, num_nodes))
        matrix = matrix._replace(value=matrix.value * scale[matrix.row])
    norm2 = csr.rounded_sums(matrix.value.square(), matrix.row, matrix.ptr.diff(), exact)
    return matrix, Norms(norm2, scale, exact)


def order_key(measure: str, norms: Norms, i: Tensor, j: Tensor, dot: Tensor) -> Tensor:
    """Returns a monotone function of the similarity of pairs, `[P]`, for a fixed `i`."""
    norm2_j = norms.norm2.index_select(0, j)
    if measure != "cosine":
        both = of_one_scale(norms.norm2[i], norm2_j, norms.scale[i], norms.scale[j])
        return SPARSE_MEASURES[measure].similarity(dot, *both)
    square = dot * dot.abs()
    key = square / norm2_j
    if norms.exact and (dot.numel() == 0 or float(dot.abs().max()) < 2**26):
        return key  # squares are exact
    # The quotient is rounded once, so that equal fractions have equal keys.
    product = key * norm2_j
    rest = square - product - error_of(product, key, norm2_j) + error_of(square, dot, dot.abs())
    return key + rest / norm2_j


def of_one_scale(
    norm2_i: Tensor, norm2_j: Tensor, scale_i: Tensor, scale_j: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns squared norms of pairs, both in the scale of their dot products.

    The ratio of scales is clamped, because a larger ratio gives a similarity of zero, or an overlap
    as large as the ratio.
    """
    ratio = (scale_j / scale_i).clamp(LEAST_RATIO, 1 / LEAST_RATIO)
    return norm2_i * ratio, norm2_j / ratio


def similarity_of_key(measure: str, key: Tensor, norm2_i: Tensor) -> Tensor:
    """Returns the similarities of candidates. Equal keys have equal similarities."""
    if measure != "cosine":
        return key
    square = key.abs() / norm2_i
    # On a CPU, the square root of PyTorch is not correctly rounded.
    root = torch.from_numpy(np.sqrt(square.numpy())) if square.is_cpu else square.sqrt()
    return (key.sign() * root).clamp(-1, 1)

"""The descriptions of the nodes of a graph: what two nodes are compared by."""

import torch
from torch import Tensor

from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.spec import EdgeList, SimilaritySpec
from torch_geometric_simpool.topk.torch import csr
from torch_geometric_simpool.topk.torch.csr import CSRMatrix
from torch_geometric_simpool.topk.torch.keys import Norms
from torch_geometric_simpool.utils.scaling import power_of_two

#: The bytes of a node: offsets of rows in two matrices, norm, scale, and counts of products.
BYTES_PER_NODE = 64


def describe(
    edges: EdgeList, spec: SimilaritySpec, budget: Budget, one_sided: bool = True
) -> tuple[CSRMatrix, Norms]:
    """Returns the descriptions of all nodes, one in a row, and their norms; differentiable.

    Nodes are described by `[A_hat | A_hat^T]`, or by `A` in a bipartite graph. With `one_sided`, a
    symmetric matrix of exact values is described by `A_hat` alone, which is square. That halves dot
    products and norms, and leaves every similarity as it is.
    """
    edge_index, edge_weight, num_nodes, _ = edges
    p, lam = spec.p, spec.lam
    row, col = edge_index
    if edge_weight is None:
        weight = torch.ones(row.numel(), dtype=torch.float64, device=row.device)
    else:
        weight = edge_weight.to(torch.float64)
    if lam > 0:
        node = torch.arange(num_nodes, device=row.device)
        row, col = torch.cat([row, node]), torch.cat([col, node])
        weight = torch.cat([weight, weight.new_full((num_nodes,), lam)])
    exact = lam.is_integer()
    exact = exact and (edge_weight is None or bool((weight == weight.round()).all()))
    # No entry of a power exceeds that power of the largest sum, no dot product twice its square.
    for index, size in ((row, num_nodes), (col, edges.num_cols)):
        exact = exact and _largest_sum(index, weight, size) < 2 ** (26 / p)
    unit = weight.new_ones(())  # what a value of 1 is scaled to
    if not exact and weight.numel() > 0:
        # No measure changes when the whole matrix is scaled. So no power overflows.
        unit = power_of_two(weight.detach().abs().max())
        weight = weight * unit

    matrix = csr.from_coo(row, col, weight, num_nodes, edges.num_cols, exact)
    symmetric = one_sided and exact and not edges.bipartite and csr.is_symmetric(matrix)
    if p > 1:
        matrix = csr.matrix_power(matrix, p, exact, budget)
    if not edges.bipartite and not symmetric:
        row, col = matrix.row, matrix.col
        row, col = torch.cat([row, col]), torch.cat([col, row + num_nodes])
        value = torch.cat([matrix.value, matrix.value])
        matrix = csr.from_coo(row, col, value, num_nodes, 2 * num_nodes, exact)
    scale = torch.ones(num_nodes, dtype=torch.float64, device=row.device)
    integral = _is_integral(matrix, unit, p)
    if not exact and num_nodes > 0:
        # Each row has a scale of its own, so that no square under- or overflows.
        largest = matrix.value.detach().abs()
        largest = torch.segment_reduce(largest, "max", lengths=matrix.ptr.diff(), initial=0)
        scale = power_of_two(largest)
        matrix = matrix._replace(value=matrix.value * scale[matrix.row])
    norm2 = csr.sum_segments(matrix.value.square(), matrix.ptr.diff(), exact)
    return matrix, Norms(norm2, scale, integral, exact)


def _is_integral(matrix: CSRMatrix, unit: Tensor, p: int) -> Tensor:
    """Returns whether each row holds multiples of `unit^p`."""
    value = matrix.value.detach()
    for _ in range(p):
        value = value / unit
    integral = torch.ones(matrix.num_rows, dtype=torch.bool, device=value.device)
    integral[matrix.row[value != value.round()]] = False
    return integral


def _largest_sum(index: Tensor, weight: Tensor, size: int) -> float:
    """Returns the largest sum of absolute values in a row, or in a column."""
    if weight.numel() == 0:
        return 0.0
    sums = torch.zeros(size, dtype=weight.dtype, device=weight.device)
    return float(sums.index_add(0, index, weight.detach().abs()).max())

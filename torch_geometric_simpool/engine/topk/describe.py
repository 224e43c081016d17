"""From edges to the descriptions of all nodes: the matrix `[A_hat | A_hat^T]`, and its norms."""

from typing import Any, Optional

import numpy as np
import torch
from torch import Tensor

from torch_geometric_simpool.engine.compile import call
from torch_geometric_simpool.engine.topk import csr, matrices, weighted
from torch_geometric_simpool.engine.topk.arrays import CSRArrays, Description
from torch_geometric_simpool.utils.budget import Budget
from torch_geometric_simpool.utils.scaling import power_of_two
from torch_geometric_simpool.utils.settings import DescriptionSettings

_NO_VALUES = np.empty(0)


def describe(
    edge_index: Tensor,
    edge_weight: Optional[Tensor],
    num_nodes: int,
    settings: DescriptionSettings,
    budget: Budget,
) -> Description:
    """The descriptions of all nodes."""
    weight = _NO_VALUES
    if edge_weight is not None and not bool((edge_weight == 1).all()):
        weight = edge_weight.detach().double().contiguous().numpy()
    valued = settings.p > 1 or weight.size > 0 or settings.lam not in (0.0, 1.0)
    num_entries = edge_index.size(1) + (num_nodes if settings.lam > 0 else 0)
    # The entries as they come, and sorted: whatever else is needed, these are.
    memory = 2 * num_entries * (_type_of_ids(num_nodes).itemsize + (8 if valued else 0))
    budget.check_memory(memory)

    adj = _adjacency(edge_index, weight, num_nodes, settings.lam, valued)
    description = None if valued else _describe_ones(adj)
    if description is None:
        if not valued:  # there are parallel edges
            adj = adj._replace(value=np.ones(num_entries))
        integers = settings.lam.is_integer() and bool((weight == np.rint(weight)).all())
        description = _describe_values(adj, integers, settings, budget)
    return description._replace(building_memory=memory)


def _type_of_ids(num_nodes: int) -> np.dtype:
    # The squared norms of ones, at most `2 * num_nodes`, are stored in this type as well.
    return np.dtype(np.int32 if num_nodes < np.iinfo(np.int32).max // 2 else np.int64)


def _adjacency(
    edge_index: Tensor, weight: np.ndarray, num_nodes: int, lam: float, valued: bool
) -> CSRArrays:
    """`A + lam * I`, with parallel edges, and without values unless asked for."""
    row, col = (ids.contiguous().numpy() for ids in edge_index)
    counts, ascending = call(csr.count, row, num_nodes)
    ptr = call(csr.offsets, counts, 1 if lam > 0 else 0)
    num_entries = int(ptr[-1])
    adj = CSRArrays(
        ptr,
        np.empty(num_entries, _type_of_ids(num_nodes)),
        np.empty(num_entries if valued else 0),
    )
    call(csr.fill, row, col, weight, ptr, ascending, lam, adj.col, adj.value)
    return adj


def _describe_ones(adj: CSRArrays) -> Optional[Description]:
    """Descriptions of ones; or `None` if entries repeat.

    Nodes are renumbered by norm, then by id.
    """
    in_degree, _ = call(csr.count, adj.col, adj.num_rows)
    order = np.empty(adj.num_rows, adj.col.dtype)
    rank = np.empty(adj.num_rows, adj.col.dtype)
    # If the matrix is symmetric, this is twice the squared norm: the order is the same.
    call(csr.rank_by, adj.lengths + in_degree, order, rank)
    by_row = matrices.renumber(adj, order, rank)
    if call(csr.has_duplicates, by_row):
        return None
    by_col = by_row
    nodes = np.stack([order, by_row.lengths.astype(order.dtype)], axis=1)
    two_sided = not matrices.is_symmetric(by_row)
    if two_sided:
        by_col = matrices.transpose(by_row)
        nodes[:, 1] += by_col.lengths
    return Description(
        by_row=by_row,
        by_col=by_col,
        two_sided=two_sided,
        norm2=_NO_VALUES,
        nodes=nodes,
        exact=True,
        scale=_NO_VALUES,
        scaled_row=_NO_VALUES,
        scaled_col=_NO_VALUES,
        integral=np.empty(0, np.bool_),
        unweighted=True,
        building_memory=0,
    )


def _describe_values(
    adj: CSRArrays, integers: bool, settings: DescriptionSettings, budget: Budget
) -> Description:
    """Descriptions with values, in the caller's ids; overwrites `adj`."""
    p = settings.p
    # No entry of a power exceeds that power of the largest sum, no dot product twice its square.
    exact = integers and matrices.largest_sum(adj) < 2 ** (26 / p)
    unit = 1.0  # what a value of 1 is scaled to
    if not exact and adj.value.size > 0:
        # Neither measure changes when the whole matrix is scaled. So no power overflows.
        unit = float(_power_of_two(np.abs(adj.value).max()))
        adj.value[:] *= unit
    by_col = matrices.sum_duplicates(matrices.transpose(adj))
    by_row = matrices.transpose(by_col)
    if p > 1:
        by_col = matrices.transpose(matrices.power(by_row, p, exact, budget))
        by_row = matrices.transpose(by_col)

    scale = np.ones(by_row.num_rows)
    if settings.measure == "cosine" and not exact:
        # Nor does the cosine when a row is scaled. So no square under- or overflows.
        largest = np.maximum(matrices.largest_of_rows(by_row), matrices.largest_of_rows(by_col))
        scale = _power_of_two(largest)
    scaled = [by_row.value, by_col.value]
    if (scale != 1).any():
        scaled = [matrix.value * scale[matrix.col] for matrix in (by_row, by_col)]
    two_sided = not matrices.equal(by_row, by_col)
    norm2 = np.empty(by_row.num_rows)
    call(weighted.squared_norms, by_row, by_col, two_sided, scale, exact, norm2)
    return Description(
        by_row=by_row,
        by_col=by_col,
        two_sided=two_sided,
        norm2=norm2,
        nodes=np.empty((0, 2), by_row.col.dtype),
        exact=exact,
        scale=scale,
        scaled_row=scaled[0],
        scaled_col=scaled[1],
        integral=_is_integral(by_row, unit, p) & _is_integral(by_col, unit, p),
        unweighted=False,
        building_memory=0,
    )


def _is_integral(matrix: CSRArrays, unit: float, p: int) -> np.ndarray:
    """Whether each row holds integers, times `unit^p`."""
    value = matrix.value.copy()
    with np.errstate(over="ignore"):  # infinity counts as an integer
        for _ in range(p):
            value /= unit
    integral = np.ones(matrix.num_rows, np.bool_)
    fractions = np.flatnonzero(value != np.rint(value))
    integral[np.searchsorted(matrix.ptr, fractions, side="right") - 1] = False
    return integral


def _power_of_two(largest: Any) -> np.ndarray:
    return power_of_two(torch.as_tensor(largest, dtype=torch.float64)).numpy()

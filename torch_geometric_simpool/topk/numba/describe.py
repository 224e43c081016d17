"""From edges to the descriptions of all nodes: the matrix `[A_hat | A_hat^T]`, and its norms."""

from typing import Any, Optional

import numpy as np
import torch

from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.numba import csr, matrices, weighted
from torch_geometric_simpool.topk.numba.arrays import CSRArrays, Description
from torch_geometric_simpool.topk.numba.nearby import Degrees
from torch_geometric_simpool.topk.spec import EdgeList, SimilaritySpec
from torch_geometric_simpool.utils.scaling import power_of_two

_NO_VALUES = np.empty(0)
_ALL = np.empty(0, np.bool_)


def describe(
    graph: EdgeList,
    settings: SimilaritySpec,
    budget: Budget,
    degrees: Optional[Degrees] = None,
) -> Description:
    """The descriptions of all nodes; `degrees` where some edges are left out of the graph."""
    weight = _NO_VALUES
    if graph.edge_weight is not None and not bool((graph.edge_weight == 1).all()):
        weight = graph.edge_weight.detach().double().contiguous().numpy()
    valued = settings.p > 1 or weight.size > 0 or settings.lam not in (0.0, 1.0)
    num_entries = graph.edge_index.size(1) + (graph.num_nodes if settings.lam > 0 else 0)
    # The entries as they come, and sorted: whatever else is needed, these are.
    id_type = type_of_ids(max(graph.num_nodes, graph.num_cols))
    memory = 2 * num_entries * (id_type.itemsize + (8 if valued else 0))
    budget.check_memory(memory)

    adj = _adjacency(graph, weight, settings.lam, id_type, valued)
    description = None if valued else _describe_ones(adj, graph, degrees)
    if description is None:
        if not valued:  # there are parallel edges
            adj = adj._replace(value=np.ones(num_entries))
        integers = settings.lam.is_integer() and bool((weight == np.rint(weight)).all())
        description = _describe_values(adj, graph, integers, settings, budget)
    return description._replace(building_memory=memory)


def type_of_ids(num_nodes: int) -> np.dtype:
    """The type of node ids, and of the squared norms of ones, at most twice the number."""
    return np.dtype(np.int32 if num_nodes < np.iinfo(np.int32).max // 2 else np.int64)


def _adjacency(
    graph: EdgeList, weight: np.ndarray, lam: float, id_type: np.dtype, valued: bool
) -> CSRArrays:
    """`A + lam * I`, with parallel edges, and without values unless asked for."""
    row, col = (ids.contiguous().numpy() for ids in graph.edge_index)
    counts, ascending = csr.count(row, graph.num_nodes)
    ptr = csr.offsets(counts, 1 if lam > 0 else 0)
    num_entries = int(ptr[-1])
    adj = CSRArrays(
        ptr,
        np.empty(num_entries, id_type),
        np.empty(num_entries if valued else 0),
    )
    csr.fill(row, col, weight, ptr[:-1].copy(), ascending, lam, adj.col, adj.value)
    return adj


def _describe_ones(
    adj: CSRArrays, graph: EdgeList, degrees: Optional[Degrees]
) -> Optional[Description]:
    """Descriptions of ones; or `None` if entries repeat.

    Nodes are renumbered by norm, then by id.
    """
    if degrees is None:
        in_degree, _ = csr.count(adj.col, graph.num_cols)
        degrees = Degrees(adj.lengths, in_degree)
    # If the matrix is symmetric, this is twice the squared norm: the order is the same.
    norm2 = degrees.out if graph.bipartite else degrees.out + degrees.into
    order, rank = order_by(norm2, adj.col.dtype)
    columns = np.arange(graph.num_cols, dtype=rank.dtype) if graph.bipartite else rank
    rows = matrices.renumber(adj, order, columns)
    if csr.has_duplicates(rows):
        return None
    lists = back_rows = back_lists = rows
    two_sided = not graph.bipartite and not (
        np.array_equal(degrees.out, degrees.into) and matrices.is_symmetric(rows)
    )
    if graph.bipartite or two_sided:
        lists = matrices.transpose(rows, graph.num_cols)
    if two_sided:
        back_rows = lists
    else:
        norm2 = degrees.out
    return Description(
        rows=rows,
        lists=lists,
        back_rows=back_rows,
        back_lists=back_lists,
        two_sided=two_sided,
        norm2=_NO_VALUES,
        nodes=np.stack([order, norm2[order].astype(order.dtype)], axis=1),
        rank=rank,
        is_candidate=_ALL,
        exact=True,
        signed=False,
        scale=_NO_VALUES,
        integral=_ALL,
        unweighted=True,
        building_memory=0,
    )


def order_by(size: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """The ids sorted by `size`, then by id, and the rank of each id."""
    order, rank = np.empty(size.size, dtype), np.empty(size.size, dtype)
    place = np.zeros(int(size.max(initial=0)) + 2, np.int64)
    csr.rank_by(size, place, order, rank)
    return order, rank


def _describe_values(
    adj: CSRArrays, graph: EdgeList, integers: bool, settings: SimilaritySpec, budget: Budget
) -> Description:
    """Descriptions with values, in the caller's ids; overwrites `adj`."""
    p, num_cols = settings.p, graph.num_cols
    # No entry of a power exceeds that power of the largest sum, no dot product twice its square.
    exact = integers and matrices.largest_sum(adj) < 2 ** (26 / p)
    unit = 1.0  # what a value of 1 is scaled to
    if not exact and adj.value.size > 0:
        # Neither measure changes when the whole matrix is scaled. So no power overflows.
        unit = float(scale_of(np.abs(adj.value).max()))
        adj.value[:] *= unit
    lists = matrices.sum_duplicates(matrices.transpose(adj, num_cols))
    rows = matrices.transpose(lists, adj.num_rows)
    if p > 1:
        lists = matrices.transpose(matrices.power(rows, p, exact, budget), num_cols)
        rows = matrices.transpose(lists, adj.num_rows)

    two_sided = not graph.bipartite and not matrices.equal(rows, lists)
    scale = np.ones(rows.num_rows)
    integral = is_integral(rows, unit, p)
    if not exact:
        # Each row has a scale of its own, so that no square under- or overflows.
        largest = matrices.largest_of_rows(rows)
        if two_sided:
            largest = np.maximum(largest, matrices.largest_of_rows(lists))
        scale = scale_of(largest)
    if two_sided:
        integral &= is_integral(lists, unit, p)
    norm2 = np.empty(rows.num_rows)
    weighted.squared_norms(rows, lists, two_sided, scale, exact, norm2)
    return Description(
        rows=rows,
        lists=_scaled(lists, scale),
        back_rows=lists if two_sided else rows,
        back_lists=_scaled(rows, scale) if two_sided else rows,
        two_sided=two_sided,
        norm2=norm2,
        nodes=np.empty((0, 2), rows.col.dtype),
        rank=np.empty(0, rows.col.dtype),
        is_candidate=_ALL,
        exact=exact,
        signed=not exact and matrices.is_signed(rows),
        scale=scale,
        integral=integral,
        unweighted=False,
        building_memory=0,
    )


def _scaled(lists: CSRArrays, scale: np.ndarray) -> CSRArrays:
    """Lists whose values are times the scale of the node they stand for."""
    return lists._replace(value=lists.value * scale[lists.col]) if (scale != 1).any() else lists


def is_integral(matrix: CSRArrays, unit: float, p: int) -> np.ndarray:
    """Whether each row holds integers, times `unit^p`."""
    value = matrix.value.copy()
    with np.errstate(over="ignore"):  # infinity counts as an integer
        for _ in range(p):
            value /= unit
    integral = np.ones(matrix.num_rows, np.bool_)
    fractions = np.flatnonzero(value != np.rint(value))
    integral[np.searchsorted(matrix.ptr, fractions, side="right") - 1] = False
    return integral


def scale_of(largest: Any) -> np.ndarray:
    """The powers of two that numbers up to `largest` are multiplied by where sums round."""
    return power_of_two(torch.as_tensor(largest, dtype=torch.float64, device="cpu")).numpy()

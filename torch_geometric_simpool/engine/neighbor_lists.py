"""Edges as one list of neighbors for each node (compressed sparse rows, CSR)."""

from typing import NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor

from torch_geometric_simpool.topk.numba import csr

_NO_VALUES = np.empty(0)


class NeighborLists(NamedTuple):
    """Row `i` holds `col[ptr[i]:ptr[i + 1]]`, in the order of the edges."""

    ptr: Tensor
    col: Tensor
    #: The number of the edge of each entry; `None` if edges came in order, or if not asked for.
    edge: Optional[Tensor]


def neighbor_lists(
    row: Tensor, col: Tensor, num_rows: int, with_edge: bool = False
) -> NeighborLists:
    """Sorts edges by their rows, of which all are in range."""
    if not row.is_cpu:
        lists = sorted_lists(row, num_rows)
        return NeighborLists(lists.ptr, col.index_select(0, lists.edge), lists.edge)
    row, col = row.contiguous(), col.contiguous()
    counts, ascending = csr.count(row.numpy(), num_rows)
    ptr = csr.offsets(counts)
    if ascending:
        return NeighborLists(torch.from_numpy(ptr), col, None)
    values = np.arange(row.numel()) if with_edge else col.numpy()
    out = np.empty_like(values)
    begins = ptr[:-1].copy()
    csr.fill(row.numpy(), values, _NO_VALUES, begins, False, 0.0, out, _NO_VALUES)
    found = torch.from_numpy(out)
    if with_edge:
        return NeighborLists(torch.from_numpy(ptr), col.index_select(0, found), found)
    return NeighborLists(torch.from_numpy(ptr), found, None)


class SortedLists(NamedTuple):
    """Row `i` holds the edges `edge[ptr[i]:ptr[i + 1]]`, ascending."""

    ptr: Tensor
    edge: Tensor


def sorted_lists(row: Tensor, num_rows: int) -> SortedLists:
    """The edges of each row, on any device, in PyTorch: nothing synchronizes."""
    ordered, edge = row.sort(stable=True)
    rows = torch.arange(num_rows + 1, device=row.device)
    return SortedLists(torch.searchsorted(ordered, rows), edge)

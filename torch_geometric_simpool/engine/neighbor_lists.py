"""Edges as one list of neighbors for each node (compressed sparse rows, CSR)."""

from typing import NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor

from torch_geometric_simpool.engine.compile import call, kernel


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
    if bool((row[1:] >= row[:-1]).all()):
        ptr = row.new_zeros(num_rows + 1)
        torch.cumsum(torch.bincount(row, minlength=num_rows), dim=0, out=ptr[1:])
        return NeighborLists(ptr, col.contiguous(), None)
    row, col = row.contiguous(), col.contiguous()
    values = torch.arange(row.numel(), device=row.device) if with_edge else col
    ptr_, sorted_ = call(_sort, row.numpy(), values.numpy(), num_rows)
    ptr, found = torch.from_numpy(ptr_), torch.from_numpy(sorted_)
    if with_edge:
        return NeighborLists(ptr, col.index_select(0, found), found)
    return NeighborLists(ptr, found, None)


@kernel
def _sort(row, values, num_rows):
    """A counting sort, which keeps the order of the entries of a row."""
    ptr = np.zeros(num_rows + 1, np.int64)
    for e in range(row.size):
        ptr[row[e] + 1] += 1
    for i in range(num_rows):
        ptr[i + 1] += ptr[i]
    place = ptr[:-1].copy()
    out = np.empty_like(values)
    for e in range(row.size):
        i = row[e]
        out[place[i]] = values[e]
        place[i] += 1
    return ptr, out

"""The product of a sparse matrix, as of adjacent nodes, with rows."""

from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric_simpool.fusible import fusible

#: From how many numbers in all messages on edges that come in no order are put in one by
#: compiled code: below, adding them where they belong is as fast, and Numba is not loaded.
SORTED = 1 << 18
#: From how many columns on sums of lists beat sums of messages, by type: PyTorch has code of
#: its own for float32 lists.
LISTED = {torch.float32: 1, torch.float64: 64}


def neighbour_sums(rows: Tensor, edge_index: Tensor, num_nodes: Optional[int] = None) -> Tensor:
    """`A S`, `sum_{(i, j) in E} s_j` for every node `i`; any number of times differentiable.

    Args:
        rows: `S`, `[M, K]`.
        edge_index: `[2, E]`, int64.
        num_nodes: `N`; `M`, as each row is a node's, if `None`.

    Returns:
        `[N, K]`.
    """
    num_nodes = rows.size(0) if num_nodes is None else num_nodes
    if fusible(rows) and ids_fit(edge_index[0], num_nodes) and ids_fit(edge_index[1], rows.size(0)):
        return _NeighbourSums.apply(rows, edge_index, num_nodes)
    message = rows.index_select(0, edge_index[1])
    return rows.new_zeros(num_nodes, rows.size(1)).index_add(0, edge_index[0], message)


class _NeighbourSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
        ctx.save_for_backward(edge_index)
        ctx.num_rows = rows.size(0)
        return adjacent(rows.detach(), edge_index, None, num_nodes)

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (edge_index,) = ctx.saved_tensors
        return neighbour_sums(grads[0], edge_index.flip(0), ctx.num_rows), None, None


def ids_fit(ids: Tensor, num_nodes: int) -> bool:
    """Whether ids on a CPU are in range; those that are not are PyTorch's to report."""
    if ids.device.type != "cpu" or type(ids) is not Tensor:
        return False
    if ids.numel() == 0:
        return True
    lowest, highest = ids.aminmax()
    return bool(lowest >= 0) and bool(highest < num_nodes)


def adjacent(
    s: Tensor, edge_index: Tensor, edge_weight: Optional[Tensor], num_nodes: Optional[int] = None
) -> Tensor:
    """`A S`, as above, with weights; ids are in range, and nothing is differentiated."""
    row, col = edge_index
    num_nodes = s.size(0) if num_nodes is None else num_nodes
    first = None
    if s.size(-1) >= LISTED.get(s.dtype, s.size(-1) + 1):
        if bool((row[1:] >= row[:-1]).all()):
            first = torch._convert_indices_from_coo_to_csr(row, num_nodes)
        elif col.numel() * s.size(-1) >= SORTED:
            from torch_geometric_simpool.cpu import edges  # imports Numba, which takes a while

            by_row = edges.lists(row, num_nodes)
            first, order = torch.from_numpy(by_row.ptr), torch.from_numpy(by_row.edge)
            col = col.index_select(0, order)
            edge_weight = None if edge_weight is None else edge_weight.index_select(0, order)
    if first is None:
        message = s.index_select(0, col)
        if edge_weight is not None:
            message *= edge_weight.unsqueeze(-1)
        return s.new_zeros(num_nodes, s.size(-1)).index_add_(0, row, message)
    # Sums of the rows of each list, without a message per edge.
    return F.embedding_bag(
        col, s, first, mode="sum", per_sample_weights=edge_weight, include_last_offset=True
    )

"""The product of a sparse matrix, as of adjacent nodes, with rows."""

from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric_simpool.engine.fusible import fusible

#: From how many numbers in all messages on edges that come in no order are put in one by
#: compiled code: below, adding them where they belong is as fast, and Numba is not loaded.
SORTED = 1 << 18
#: From how many columns on sums of lists beat sums of messages, by type: PyTorch has code of
#: its own for float32 lists.
LISTED = {torch.float32: 1, torch.float64: 64}


def neighbour_sums(
    rows: Tensor, row: Tensor, col: Tensor, num_nodes: Optional[int] = None
) -> Tensor:
    """`A S`, `sum_{(i, j) in E} s_j` for every node `i`; any number of times differentiable.

    Args:
        rows: `S`, `[M, K]`.
        row, col: The edges: every `i`, and every `j`, `[E]`, int64.
        num_nodes: `N`; `M`, as each row is a node's, if `None`.

    Returns:
        `[N, K]`.
    """
    num_nodes = rows.size(0) if num_nodes is None else num_nodes
    if fusible(rows) and ids_fit(row, num_nodes) and ids_fit(col, rows.size(0)):
        return _NeighbourSums.apply(rows, row, col, num_nodes)
    return _plain(rows, row, col, num_nodes)


def _plain(rows: Tensor, row: Tensor, col: Tensor, num_nodes: int) -> Tensor:
    out = rows.new_zeros(num_nodes, rows.size(1))
    return out.index_add(0, row, rows.index_select(0, col))


class _NeighbourSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, row: Tensor, col: Tensor, num_nodes: int) -> Tensor:
        ctx.save_for_backward(row, col)
        ctx.num_rows = rows.size(0)
        return adjacent(rows.detach(), row, col, None, num_nodes)

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        row, col = ctx.saved_tensors
        # The ids have been looked at, and autograd sees to it that they are still the same.
        sums = _NeighbourSums.apply if fusible(grads[0]) else _plain
        return sums(grads[0], col, row, ctx.num_rows), None, None, None


def ids_fit(ids: Tensor, num_nodes: int) -> bool:
    """Whether int64 ids on a CPU are in range; those that are not are PyTorch's to report."""
    if ids.device.type != "cpu" or type(ids) is not Tensor or ids.dtype != torch.int64:
        return False
    if ids.numel() == 0:
        return True
    lowest, highest = ids.aminmax()
    return bool(lowest >= 0) and bool(highest < num_nodes)


def adjacent(
    s: Tensor,
    row: Tensor,
    col: Tensor,
    edge_weight: Optional[Tensor],
    num_nodes: Optional[int] = None,
) -> Tensor:
    """`A S`, as above, with weights; ids are in range, and nothing is differentiated."""
    num_nodes = s.size(0) if num_nodes is None else num_nodes
    first = None
    if s.size(-1) >= LISTED.get(s.dtype, s.size(-1) + 1):
        if bool((row[1:] >= row[:-1]).all()):
            # PyTorch takes ids for contiguous here, whatever they are.
            first = torch._convert_indices_from_coo_to_csr(row.contiguous(), num_nodes)
        elif col.numel() * s.size(-1) >= SORTED:
            from torch_geometric_simpool.engine import edges  # imports Numba, which takes a while

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

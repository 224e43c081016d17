"""The product of a sparse adjacency matrix with the rows of its nodes."""

from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric_simpool.fusible import fusible

#: From how many numbers in all messages on edges that come in no order are put in one by
#: compiled code: below, adding them where they belong is as fast, and Numba is not loaded.
SORTED = 1 << 18


def neighbour_sums(rows: Tensor, edge_index: Tensor) -> Tensor:
    """`A S`, `sum_{(i, j) in E} s_j` for every node `i`; any number of times differentiable.

    Args:
        rows: `S`, `[N, K]`.
        edge_index: `[2, E]`, int64.
    """
    if fusible(rows) and ids_fit(edge_index, rows.size(0)):
        return _NeighbourSums.apply(rows, edge_index)
    message = rows.index_select(0, edge_index[1])
    return torch.zeros_like(rows).index_add(0, edge_index[0], message)


class _NeighbourSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, edge_index: Tensor) -> Tensor:
        ctx.save_for_backward(edge_index)
        return adjacent(rows.detach(), edge_index, None)

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (edge_index,) = ctx.saved_tensors
        return neighbour_sums(grads[0], edge_index.flip(0)), None


def ids_fit(edge_index: Tensor, num_nodes: int) -> bool:
    """Whether ids on a CPU are in range; those that are not are PyTorch's to report."""
    if edge_index.device.type != "cpu" or type(edge_index) is not Tensor:
        return False
    if edge_index.numel() == 0:
        return True
    lowest, highest = edge_index.aminmax()
    return bool(lowest >= 0) and bool(highest < num_nodes)


def adjacent(s: Tensor, edge_index: Tensor, edge_weight: Optional[Tensor]) -> Tensor:
    """`A S`, with the row of an edge, in range, first in `edge_index`; without gradients."""
    row, col = edge_index
    first = None
    if s.dtype == torch.float32:
        if bool((row[1:] >= row[:-1]).all()):
            first = torch._convert_indices_from_coo_to_csr(row, s.size(0))
        elif col.numel() * s.size(-1) >= SORTED:
            from torch_geometric_simpool.cpu import edges  # imports Numba, which takes a while

            first, order = map(torch.from_numpy, edges.lists(row, s.size(0)))
            col = col.index_select(0, order)
            edge_weight = None if edge_weight is None else edge_weight.index_select(0, order)
    if first is None:
        message = s.index_select(0, col)
        if edge_weight is not None:
            message *= edge_weight.unsqueeze(-1)
        return torch.zeros_like(s).index_add_(0, row, message)
    # Sums of the rows of each list, without a message per edge.
    return F.embedding_bag(
        col, s, first, mode="sum", per_sample_weights=edge_weight, include_last_offset=True
    )

"""The product of a sparse matrix with rows, as sums over lists of neighbors, in their order.

No message per edge is stored. The gradient for `x` is a product with the transposed matrix, so
it can be differentiated again, and `plain` is not used.
"""

from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric_simpool.engine.neighbor_lists import neighbor_lists
from torch_geometric_simpool.utils.checks import check_saved


def spmm(
    plain: Any, row: Tensor, col: Tensor, x: Tensor, edge_weight: Optional[Tensor], num_rows: int
) -> Tensor:
    """`A X`."""
    return _SpMM.apply(x, edge_weight, row, col, num_rows)


class _SpMM(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, edge_weight: Optional[Tensor], row: Tensor, col: Tensor, num_rows: int
    ) -> Tensor:
        ctx.save_for_backward(x, edge_weight, row, col)
        lists = neighbor_lists(row, col, num_rows, edge_weight is not None)
        weight = None
        if edge_weight is not None:
            weight = edge_weight if lists.edge is None else edge_weight.index_select(0, lists.edge)
        return F.embedding_bag(
            lists.col,
            x,
            lists.ptr,
            mode="sum",
            per_sample_weights=weight,
            include_last_offset=True,
        )

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Optional[Tensor], ...]:
        x, edge_weight, row, col = ctx.saved_tensors
        (grad,) = grads
        of_x = of_weight = None
        if ctx.needs_input_grad[0]:
            check_saved(row, grad.size(0), col, x.size(0))
            of_x = _SpMM.apply(grad.contiguous(), edge_weight, col, row, x.size(0))
        if ctx.needs_input_grad[1]:
            of_weight = (grad.index_select(0, row) * x.index_select(0, col)).sum(dim=-1)
        return of_x, of_weight, None, None, None

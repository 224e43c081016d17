"""The assignment of nodes to clusters, of a sparse or of a dense batch."""

from typing import NamedTuple, Optional

import torch
from torch import Tensor
from torch_geometric.utils import degree

from torch_geometric_simpool.functional.segment import sum_rows
from torch_geometric_simpool.utils.checks import check_batch, check_floating, check_mask, shape


class Assignment(NamedTuple):
    """An assignment, after the softmax."""

    s: Tensor  # [N, K], or [B, N, K] with zeros in padded rows
    batch: Optional[Tensor]  # [N]; None for a dense batch
    num_nodes: Tensor  # [B], the number of nodes of each graph

    def sum(self, x: Tensor) -> Tensor:
        """Returns the sum over the nodes of each graph of `[N, *]` or `[B, N, *]`."""
        if self.batch is None:
            return x.sum(dim=1)
        return sum_rows(x, self.batch, self.num_nodes.numel())


def dense_assignment(s: Tensor, mask: Optional[Tensor]) -> Assignment:
    """Returns the assignment of a dense batch, `[B, N, K]`, whose padded rows are set to zero."""
    if mask is None:
        return Assignment(s, None, torch.full((s.size(0),), s.size(1), device=s.device))
    return Assignment(s.masked_fill(~mask.unsqueeze(-1), 0), None, mask.sum(dim=1))


def sparse_assignment(s: Tensor, batch: Tensor, batch_size: int) -> Assignment:
    """Returns the assignment of a sparse batch, `[N, K]`."""
    return Assignment(s, batch, degree(batch, batch_size, torch.long))


def parse_assignment(
    s: Tensor, batch: Optional[Tensor], mask: Optional[Tensor], batch_size: Optional[int]
) -> Assignment:
    """Returns the assignment that the arguments of a public function describe."""
    check_floating("s", s)
    if s.dim() not in (2, 3) or s.size(-1) == 0:
        raise ValueError(f"`s` must have shape [N, K] or [B, N, K] with K >= 1, got {shape(s)}")
    if s.dim() == 2 and mask is None:
        check_values = batch_size is None or s.is_cpu
        batch, batch_size = check_batch(batch, s.size(0), batch_size, s.device, check_values, "s")
        return sparse_assignment(s, batch, batch_size)
    for name, value in (("batch", batch), ("batch_size", batch_size)):
        if value is not None:
            raise ValueError(f"`{name}` must be None for a dense `s`, which has a `mask`")
    mask = check_mask(mask, tuple(s.shape[:-1]), s.device, "s")
    if s.dim() == 2 and mask is not None:
        s, mask = s.unsqueeze(0), mask.unsqueeze(0)
    return dense_assignment(s, mask)

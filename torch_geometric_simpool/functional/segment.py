"""Products with the nodes of each graph of a sparse batch, and with its adjacency matrix.

What pooling on a sparse batch is made of. Nothing is padded to the largest graph. Each function
is differentiable any number of times.
"""

from typing import Optional

import torch
from torch import Tensor
from torch_geometric.utils import degree

from torch_geometric_simpool.engine.dispatch import accelerate
from torch_geometric_simpool.functional.rows import sum_rows, take_rows


@accelerate("spmm")
def spmm(
    row: Tensor, col: Tensor, x: Tensor, edge_weight: Optional[Tensor], num_rows: int
) -> Tensor:
    """`A X`: row `i` is the sum of `w_ij x_j` over the edges `(i, j)`.

    Args:
        row, col: The edges, `[E]` each, int64.
        x: `[M, F]`.
        edge_weight: The weights `w`, `[E]`; ones if `None`.
        num_rows: `N`.

    Returns:
        `[N, F]`. Time and memory `O(E F)` in the plain form; memory `O(N F + E)` on a CPU and
        on a GPU, where edges are sorted.
    """
    message = take_rows(x, col)
    if edge_weight is not None:
        message = message * edge_weight.unsqueeze(-1)
    return sum_rows(message, row, num_rows)


@accelerate("segment_matmul")
def segment_matmul_t(left: Tensor, right: Tensor, batch: Tensor, batch_size: int) -> Tensor:
    """`L_g^T R_g` for the rows of each graph `g`, as in `S^T X`.

    Args:
        left, right: `[N, K]` and `[N, F]`.
        batch: The graph of each row, `[N]`, ascending.
        batch_size: The number of graphs, `B`.

    Returns:
        `[B, K, F]`. Time `O(N K F)`, memory `O(N (K + F) + B K F)`.
    """
    blocks = _Blocks(batch, batch_size)
    product = blocks.split(left).mT @ blocks.split(right)
    return sum_rows(product, blocks.graph, batch_size)


@accelerate("segment_matmul")
def segment_matmul(x: Tensor, other: Tensor, batch: Tensor, batch_size: int) -> Tensor:
    """`X_g M_g` for the rows of each graph `g` and a matrix for each graph, as in `S X'`.

    Args:
        x: `[N, F]`.
        other: `[B, F, K]`.
        batch, batch_size: As in :func:`segment_matmul_t`.

    Returns:
        `[N, K]`. Time `O(N F K)`.
    """
    blocks = _Blocks(batch, batch_size)
    return blocks.join(blocks.split(x) @ take_rows(other, blocks.graph))


class _Blocks:
    """Cuts the rows of each graph into blocks of one size, to be multiplied as one batch.

    Less than a block is padded for each graph, however large the largest graph is, and nothing
    synchronizes: the number of blocks follows from `N` and `B` alone.
    """

    def __init__(self, batch: Tensor, batch_size: int) -> None:
        num_rows = batch.numel()
        self.size = size = _block_size(num_rows, batch_size)
        count = degree(batch, batch_size, torch.long)
        used = (count + size - 1).div(size, rounding_mode="floor")
        last = used.cumsum(0)
        #: At least as many blocks as are used; the others hold zeros.
        self.number = num_rows // size + batch_size
        shift = (last - used) * size - (count.cumsum(0) - count)
        #: Where each row goes.
        self.place = torch.arange(num_rows, device=batch.device) + shift.index_select(0, batch)
        #: The graph of each block, ascending; of one that is not used, the last.
        block = torch.arange(self.number, device=batch.device)
        self.graph = torch.searchsorted(last, block, right=True).clamp(max=batch_size - 1)

    def split(self, rows: Tensor) -> Tensor:
        """`[N, F]` -> `[number, size, F]`."""
        blocks = rows.new_zeros(self.number * self.size, rows.size(-1))
        blocks = blocks.index_copy(0, self.place, rows)
        return blocks.view(self.number, self.size, rows.size(-1))

    def join(self, blocks: Tensor) -> Tensor:
        """`[number, size, F]` -> `[N, F]`."""
        return blocks.flatten(0, 1).index_select(0, self.place)


def _block_size(num_rows: int, batch_size: int) -> int:
    """A power of two near the average number of rows; a constant where sizes are traced."""
    if torch.compiler.is_compiling():
        return 16
    average = num_rows // max(batch_size, 1)
    return min(max(1 << average.bit_length() >> 1, 8), 32)

"""Products with the adjacency matrix and with the nodes of each graph of a sparse batch.

Pooling on a sparse batch consists of these products. Nothing is padded to the largest graph.
"""

from typing import Optional

import torch
from torch import Tensor
from torch_geometric.utils import degree

#: The number of rows in a block.
BLOCK_SIZE = 32


def spmm(
    row: Tensor, col: Tensor, x: Tensor, edge_weight: Optional[Tensor], num_rows: int
) -> Tensor:
    """Returns `A X`: row `i` is the sum of `w_ij x_j` over the edges `(i, j)`.

    Time and memory are `O(E F)`. A product with a sparse CSR tensor needs less memory, but takes
    40 times as long where the weights need a gradient.

    Args:
        row, col (torch.Tensor): The edges, `[E]` each.
        x (torch.Tensor): The features, `[M, F]`.
        edge_weight (torch.Tensor, optional): The weights, `[E]`, or ones.
        num_rows (int): The number of rows of `A`.
    """
    message = x.index_select(0, col)
    if edge_weight is not None:
        message = message * edge_weight.unsqueeze(-1)
    return sum_rows(message, row, num_rows)


def sum_rows(x: Tensor, index: Tensor, num_rows: int) -> Tensor:
    """Returns the sums `[N, *]` of the rows of `x`, `[R, *]`, with equal `index`, `[R]`.

    On a CPU, this is up to 1.5 times as fast as :func:`torch_geometric.utils.scatter`.
    """
    return x.new_zeros(num_rows, *x.shape[1:]).index_add_(0, index, x)


def segment_matmul_t(left: Tensor, right: Tensor, batch: Tensor, batch_size: int) -> Tensor:
    """Returns `L_g^T R_g` of each graph `g`, `[B, K, F]`.

    Args:
        left, right (torch.Tensor): `[N, K]` and `[N, F]`, of one type.
        batch (torch.Tensor): The graph of each row, `[N]`, in any order.
        batch_size (int): The number of graphs.
    """
    if not torch.compiler.is_compiling() and batch.is_cpu and batch_size > 0:
        # One product for each graph needs no copies of blocks.
        sizes = degree(batch, batch_size, torch.long).tolist()
        if bool((batch[1:] < batch[:-1]).any()):
            order = batch.argsort(stable=True)
            left, right = left.index_select(0, order), right.index_select(0, order)
        return torch.stack([a.mT @ b for a, b in zip(left.split(sizes), right.split(sizes))])
    blocks = Blocks(batch, batch_size)
    return sum_rows(blocks.split(left).mT @ blocks.split(right), blocks.graph, batch_size)


def segment_matmul(x: Tensor, other: Tensor, batch: Tensor, batch_size: int) -> Tensor:
    """Returns `X_g M_g` of each graph `g`, `[N, K]`.

    Args:
        x (torch.Tensor): `[N, F]`.
        other (torch.Tensor): A matrix for each graph, `[B, F, K]`, in the type of `x`.
        batch (torch.Tensor): The graph of each row, `[N]`, in any order.
        batch_size (int): The number of graphs, at least one.
    """
    blocks = Blocks(batch, batch_size)
    return blocks.join(blocks.split(x) @ other.index_select(0, blocks.graph))


class Blocks:
    """Cuts the rows of each graph into blocks of one size, which are multiplied as one batch.

    The last block of a graph is padded. The number of blocks follows from `N` and `B`, so a GPU
    does not synchronize, and a compiler can trace the code.
    """

    def __init__(self, batch: Tensor, batch_size: int) -> None:
        num_rows = batch.numel()
        count = degree(batch, batch_size, torch.long)
        used = (count + BLOCK_SIZE - 1).div(BLOCK_SIZE, rounding_mode="floor")
        last = used.cumsum(0)
        #: An upper bound of the number of used blocks. Unused blocks hold zeros.
        self.number = num_rows // BLOCK_SIZE + batch_size
        shift = (last - used) * BLOCK_SIZE - (count.cumsum(0) - count)
        # `batch` may be unsorted: node `order[i]` is the i-th node by graph.
        ascending, order = batch.sort(stable=True)
        place = torch.arange(num_rows, device=batch.device) + shift.index_select(0, ascending)
        #: The place of each row, `[N]`.
        self.place = torch.empty_like(place).index_copy_(0, order, place)
        #: The graph of each block, ascending. Unused blocks belong to the last graph.
        block = torch.arange(self.number, device=batch.device)
        self.graph = torch.searchsorted(last, block, right=True).clamp(max=batch_size - 1)

    def split(self, rows: Tensor) -> Tensor:
        """Returns the blocks of rows `[N, F]`, `[number, BLOCK_SIZE, F]`."""
        blocks = rows.new_zeros(self.number * BLOCK_SIZE, rows.size(-1))
        blocks = blocks.index_copy_(0, self.place, rows)
        return blocks.view(self.number, BLOCK_SIZE, rows.size(-1))

    def join(self, blocks: Tensor) -> Tensor:
        """Returns the rows of blocks, `[N, F]`."""
        return blocks.flatten(0, 1).index_select(0, self.place)

"""Products over the rows of each graph of a sparse batch, with nothing padded to the largest."""

from typing import Any, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.engine.fusible import fusible

#: From how many products of two numbers on compiled ones are taken: below, they take less than
#: a millisecond anyway, and nothing need be compiled first.
COMPILED = 1 << 19


class Ragged:
    """Where the rows of each graph lie: next to each other, or in blocks of a fixed size.

    Args:
        batch: The graph of each row, `[N]`, ascending.
        batch_size: The number of graphs.
        sync: Whether sizes may be read back, as on a CPU.
        work: How many products of two numbers one call will take. Many, of rows on a CPU
            in float32 or float64 that nobody traces, are compiled loops, graph by graph,
            which read the rows where they are. Others, and all unless `sync`, are PyTorch's:
            rows are laid out in blocks, each within one graph, which are multiplied as one
            batch. The padding is less than a block a graph, however large the largest graph
            is, and nothing synchronises.
    """

    def __init__(self, batch: Tensor, batch_size: int, sync: bool, work: int = 0) -> None:
        self.batch, self.batch_size = batch, batch_size
        count = batch.new_zeros(batch_size)
        self.count = count.index_add(0, batch, torch.ones_like(batch))
        #: The graphs, cut in parts, if products are compiled.
        self.parts: Any = None
        if sync and work >= max(COMPILED, 1):
            from torch_geometric_simpool.engine import (
                products,  # imports Numba, which takes a while
            )

            self.parts = products.parts(self.count.numpy())
        else:
            self._make_blocks(sync)

    def _make_blocks(self, sync: bool) -> None:
        num_nodes = self.batch.numel()
        average = num_nodes // max(self.batch_size, 1)
        block = min(max(1 << average.bit_length() >> 1, 8), 32)
        used = (self.count + block - 1).div(block, rounding_mode="floor")
        last = used.cumsum(0)
        # At least the number of blocks in use, and known without looking at `batch`.
        self.num_blocks, self.block = num_nodes // block + self.batch_size, block
        if sync and self.batch_size > 0:
            self.num_blocks = int(last[-1])
        first_node, first_block = self.count.cumsum(0) - self.count, last - used
        shift = (first_block * block - first_node).index_select(0, self.batch)
        self.place = torch.arange(num_nodes, device=self.batch.device) + shift
        blocks = torch.arange(self.num_blocks, device=self.batch.device)
        # Blocks not in use hold zeros, so it does not matter to which graph they are added.
        owner = torch.searchsorted(last, blocks, right=True)
        self.owner = owner.clamp(max=max(self.batch_size - 1, 0))

    def lay_out(self, rows: Tensor) -> Tensor:
        """The rows as :meth:`product` and :meth:`spread` read them: in blocks, or as they are."""
        if self.parts is not None:
            return rows
        blocks = rows.new_zeros(self.num_blocks * self.block, rows.size(-1))
        blocks = blocks.index_copy(0, self.place, rows)
        return blocks.view(self.num_blocks, self.block, rows.size(-1))

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """`left^T @ right` of each graph, both laid out: `[N, K]`, `[N, F]` -> `[B, K, F]`."""
        if self.parts is not None:
            from torch_geometric_simpool.engine import products

            return products.product(left, right, self.parts, self.batch_size)
        product = left.mT @ right
        out = product.new_zeros(self.batch_size, left.size(-1), right.size(-1))
        return out.index_add(0, self.owner, product)

    def spread(self, *pairs: tuple[Tensor, Tensor], onto: Optional[Tensor] = None) -> Tensor:
        """Rows, laid out, times the matrix of their graph: `[N, F]`, `[B, F, K]` -> `[N, K]`.

        The sum over all such pairs, added to `onto`, in place, if that is given.
        """
        if self.parts is not None:
            from torch_geometric_simpool.engine import products

            return products.spread(pairs, self.parts, onto)
        product = sum(rows @ matrix.index_select(0, self.owner) for rows, matrix in pairs)
        assert isinstance(product, Tensor)
        product = product.flatten(0, 1).index_select(0, self.place)
        return product if onto is None else onto.add_(product)

    def per_row(self, of_graph: Tensor) -> Tensor:
        """The row of its graph for each node: `[B, *]` -> `[N, *]`."""
        return of_graph.index_select(0, self.batch)

    def total(self, rows: Tensor) -> Tensor:
        """The sum over the rows of each graph: `[N, *]` -> `[B, *]`."""
        out = rows.new_zeros(self.batch_size, *rows.shape[1:])
        return out.index_add(0, self.batch, rows)


def ragged_product(left: Tensor, right: Tensor, batch: Tensor, batch_size: int) -> Tensor:
    """`left^T @ right` of each graph, `[N, K]`, `[N, F]` -> `[B, K, F]`.

    Differentiable any number of times.
    """
    if fusible(left, right) and batch.device.type == "cpu":
        return _Product.apply(left, right, batch, batch_size)
    ragged = Ragged(batch, batch_size, sync=False)
    return ragged.product(ragged.lay_out(left), ragged.lay_out(right))


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, batch: Tensor, batch_size: int) -> Tensor:
        work = left.numel() * right.size(-1)
        ragged = ctx.ragged = Ragged(batch, batch_size, sync=True, work=work)
        ctx.save_for_backward(left, right, batch)
        return ragged.product(ragged.lay_out(left.detach()), ragged.lay_out(right.detach()))

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Optional[Tensor], ...]:
        (grad,) = grads
        left, right, batch = ctx.saved_tensors
        ragged = ctx.ragged
        if torch.is_grad_enabled():  # for a second derivative: by operations with one
            ragged = Ragged(batch, grad.size(0), sync=False)
        of_left, of_right = ctx.needs_input_grad[:2]
        return (
            ragged.spread((ragged.lay_out(right), grad.mT)) if of_left else None,
            ragged.spread((ragged.lay_out(left), grad)) if of_right else None,
            None,
            None,
        )

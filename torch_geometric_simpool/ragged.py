"""Products over the rows of each graph of a sparse batch, with nothing padded to the largest."""

from typing import Any, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.fusible import fusible

#: From this average size on, a product per graph on views beats blocks on a CPU: on D&D (284
#: nodes) by a sixth on two threads and a quarter on one, while on MUTAG (18) blocks win by as
#: much, and on ENZYMES (33) by little. Below it, calls cost more than the copies into blocks.
NODES_PER_CALL = 64


class Ragged:
    """Where the rows of each graph lie: as views of a loop, or in blocks of a fixed size.

    Args:
        batch: The graph of each row, `[N]`, ascending.
        batch_size: The number of graphs.
        look: Whether sizes may be read back, as a loop needs them. Otherwise, and for
            graphs that are small on average, rows are laid out in blocks, each within one
            graph, which are multiplied as one batch: the padding is less than a block a
            graph, however large the largest graph is, and nothing synchronises.
    """

    def __init__(self, batch: Tensor, batch_size: int, look: bool) -> None:
        self.batch, self.batch_size = batch, batch_size
        count = batch.new_zeros(batch_size)
        self.count = count.index_add(0, batch, torch.ones_like(batch))
        #: The sizes, if products are taken graph by graph.
        self.sizes: Optional[list[int]] = None
        if look and batch.numel() >= NODES_PER_CALL * batch_size:
            self.sizes = self.count.tolist()
        else:
            self._make_blocks(look)

    def _make_blocks(self, look: bool) -> None:
        num_nodes = self.batch.numel()
        average = num_nodes // max(self.batch_size, 1)
        block = min(max(1 << average.bit_length() >> 1, 8), 32)
        used = (self.count + block - 1).div(block, rounding_mode="floor")
        last = used.cumsum(0)
        # At least the number of blocks in use, and known without looking at `batch`.
        self.num_blocks, self.block = num_nodes // block + self.batch_size, block
        if look and self.batch_size > 0:
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
        if self.sizes is not None:
            return rows
        blocks = rows.new_zeros(self.num_blocks * self.block, rows.size(-1))
        blocks = blocks.index_copy(0, self.place, rows)
        return blocks.view(self.num_blocks, self.block, rows.size(-1))

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """`left^T @ right` of each graph, both laid out: `[N, K]`, `[N, F]` -> `[B, K, F]`."""
        if self.sizes is None:
            product = left.mT @ right
            out = product.new_zeros(self.batch_size, left.size(-1), right.size(-1))
            return out.index_add(0, self.owner, product)
        out = left.new_zeros(self.batch_size, left.size(-1), right.size(-1))
        parts = left.t().split(self.sizes, dim=1), right.split(self.sizes), out.unbind()
        for size, a, b, product in zip(self.sizes, *parts):
            if size > 0:
                torch.mm(a, b, out=product)
        return out

    def spread(self, rows: Tensor, of_graph: Tensor) -> Tensor:
        """Rows, laid out, times the matrix of their graph: `[N, F]`, `[B, F, K]` -> `[N, K]`."""
        if self.sizes is None:
            product = rows @ of_graph.index_select(0, self.owner)
            return product.flatten(0, 1).index_select(0, self.place)
        out = rows.new_empty(rows.size(0), of_graph.size(-1))
        parts = rows.split(self.sizes), of_graph.unbind(), out.split(self.sizes)
        for a, b, product in zip(*parts):
            torch.mm(a, b, out=product)
        return out

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
    ragged = Ragged(batch, batch_size, look=False)
    return ragged.product(ragged.lay_out(left), ragged.lay_out(right))


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, batch: Tensor, batch_size: int) -> Tensor:
        ragged = ctx.ragged = Ragged(batch, batch_size, look=True)
        blocks = ragged.lay_out(left.detach()), ragged.lay_out(right.detach())
        ctx.blocks = blocks if ragged.sizes is None else None
        ctx.save_for_backward(left, right, batch)
        return ragged.product(*blocks)

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Optional[Tensor], ...]:
        (grad,) = grads
        left, right, batch = ctx.saved_tensors
        if torch.is_grad_enabled():  # for a second derivative: by operations with one
            plain = Ragged(batch, grad.size(0), look=False)
            of_left = plain.spread(plain.lay_out(right), grad.mT)
            return of_left, plain.spread(plain.lay_out(left), grad), None, None
        rows, others = (left, right) if ctx.blocks is None else ctx.blocks
        of_left, of_right = ctx.needs_input_grad[:2]
        return (
            ctx.ragged.spread(others, grad.mT) if of_left else None,
            ctx.ragged.spread(rows, grad) if of_right else None,
            None,
            None,
        )

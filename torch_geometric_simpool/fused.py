"""The sparse operator: as operations that differentiate themselves, and in one piece."""

import math
from typing import Any, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.adjacent import adjacent
from torch_geometric_simpool.fusible import plain_backward
from torch_geometric_simpool.losses import mean_over_graphs, sparse_losses
from torch_geometric_simpool.ragged import Ragged, ragged_product

#: `s, x, adj, entropy_loss, cluster_loss`
Pooled = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def plain_pool(
    x: Tensor,
    logits: Tensor,
    edge_weight: Optional[Tensor],
    edge_index: Tensor,
    batch: Tensor,
    batch_size: int,
) -> Pooled:
    """The operator by operations of PyTorch: of any type, traced, on any device."""
    s = logits.softmax(dim=-1)
    s = s.to(torch.promote_types(x.dtype, s.dtype))
    row, col = edge_index
    message = s.index_select(0, col)
    if edge_weight is not None:
        message = message * edge_weight.to(s.dtype).unsqueeze(-1)
    adj_s = torch.zeros_like(s).index_add(0, row, message)
    together = torch.cat([x.to(s.dtype), adj_s], dim=-1)
    pooled, coarse = ragged_product(s, together, batch, batch_size).split(
        [x.size(-1), s.size(-1)], dim=-1
    )
    entropy, cluster, present = sparse_losses(s, batch, batch_size)
    return (
        s,
        pooled,
        coarse.tanh(),
        mean_over_graphs(entropy, present),
        mean_over_graphs(cluster, present),
    )


def fused_pool(
    x: Tensor,
    logits: Tensor,
    edge_weight: Optional[Tensor],
    edge_index: Tensor,
    batch: Tensor,
    batch_size: int,
) -> Pooled:
    """The same in one piece, in as few passes over the nodes as there are products."""
    if edge_weight is not None:
        edge_weight = edge_weight.to(x.dtype)
    return _Pool.apply(x, logits, edge_weight, edge_index, batch, batch_size)


class _Pool(torch.autograd.Function):
    r"""With `P = S^T Y`, `Y = A S`, `W = A^T S` and upstream gradients `dX', dP, dS`,

    `G = [X | Y | W] [dX'^T ; dP^T ; dP] + dS` holds what reaches `S`, to which the
    losses add a row per graph, and a multiple of the entries of the entropy, whose
    derivative is taken with the softmax, so that no logarithm is ever of zero.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        logits: Tensor,
        edge_weight: Optional[Tensor],
        edge_index: Tensor,
        batch: Tensor,
        batch_size: int,
    ) -> Pooled:
        width, num_clusters = x.size(-1), logits.size(-1)
        ragged = Ragged(batch, batch_size, look=True)
        s = logits.softmax(dim=-1)
        # `-s log(s)`, entry by entry, and 0 where `s` is.
        entropy = s.clamp(min=torch.finfo(s.dtype).tiny).log_().mul_(s).neg_()

        # One matrix for X and what is next to it: each product is taken once, and wide.
        # `W` is for the backward pass alone, but must be laid out with the rest.
        transposed = ctx.needs_input_grad[1]
        height = width + (1 + transposed) * num_clusters
        together = x.new_empty(x.size(0), height)
        together[:, :width] = x
        together[:, width : width + num_clusters] = adjacent(s, edge_index, edge_weight)
        if transposed:
            together[:, width + num_clusters :] = adjacent(s, edge_index.flip(0), edge_weight)
        left = ragged.lay_out(s)
        right = ragged.lay_out(together)
        pooled, coarse = ragged.product(left, right[..., : width + num_clusters]).split(
            [width, num_clusters], dim=-1
        )
        coarse = coarse.tanh()

        size = ragged.count.to(s.dtype)
        nodes = size.clamp(min=1).unsqueeze(-1)
        mean = ragged.total(s) / nodes
        of_mean = torch.where(mean > 0, mean, 1.0).log()
        uneven = math.log(num_clusters) + (mean * of_mean).sum(dim=-1)
        # Rounding can miss zero; NaN stays; and a graph without nodes does not count.
        counts = (size > 0) & ~(uneven < 0)
        graphs = (size > 0).sum().clamp(min=1).to(s.dtype)
        cluster_loss = torch.where(counts, uneven, 0.0).sum() / graphs
        entropy_loss = (ragged.total(entropy) / nodes).sum() / graphs

        if any(ctx.needs_input_grad):
            # The weight of a node's entropy, and what a node adds to the unevenness.
            per_entropy = (nodes * graphs).reciprocal()
            per_cluster = torch.where(mean > 0, of_mean + 1, 0.0)
            per_cluster = per_cluster * counts.unsqueeze(-1) * per_entropy
            ctx.ragged, ctx.batch_size = ragged, batch_size
            blocks = left if ragged.sizes is None else None
            ctx.save_for_backward(
                *(x, logits, edge_weight, edge_index, batch, s, coarse),
                *(blocks, right, entropy, per_entropy, per_cluster),
            )
            ctx.set_materialize_grads(False)
        return s, pooled.contiguous(), coarse, entropy_loss, cluster_loss

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def backward(ctx: Any, *grads: Optional[Tensor]) -> tuple[Optional[Tensor], ...]:
        x, logits, edge_weight, edge_index, batch, s, coarse, *kept = ctx.saved_tensors
        if torch.is_grad_enabled():  # for a second derivative: by operations with one
            inputs = x, logits, edge_weight, edge_index, batch, ctx.batch_size
            return plain_backward(plain_pool, inputs, ctx.needs_input_grad, grads)
        of_s, of_pooled, of_coarse, of_entropy, of_cluster = grads
        left, right, entropy, per_entropy, per_cluster = kept
        left = s if left is None else left
        ragged, width, num_clusters = ctx.ragged, x.size(-1), s.size(-1)
        if of_pooled is None:
            of_pooled = x.new_zeros(ctx.batch_size, num_clusters, width)
        if of_coarse is None:
            of_coarse = torch.zeros_like(coarse)
        of_product = of_coarse * (1 - coarse * coarse)

        of_x = of_logits = of_weight = None
        if ctx.needs_input_grad[1]:
            stacked = torch.cat([of_pooled.mT, of_product.mT, of_product], dim=1)
            change = ragged.spread(right, stacked)
            if of_s is not None:
                change += of_s
            if of_cluster is not None:
                change += ragged.per_row(of_cluster * per_cluster)
            change *= s
            if of_entropy is not None:
                change.addcmul_(entropy, ragged.per_row(of_entropy * per_entropy))
            of_logits = change.addcmul_(s, change.sum(dim=-1, keepdim=True), value=-1)
        if ctx.needs_input_grad[0]:
            of_x = ragged.spread(left, of_pooled)
        if ctx.needs_input_grad[2]:
            of_weight = ragged.spread(left, of_product).index_select(0, edge_index[0])
            of_weight = of_weight.mul_(s.index_select(0, edge_index[1])).sum(dim=-1)
        return of_x, of_logits, of_weight, None, None, None

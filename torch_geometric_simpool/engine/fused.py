"""The sparse operator: as operations that differentiate themselves, and in one piece."""

import math
from typing import Any, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.engine.adjacent import adjacent
from torch_geometric_simpool.engine.fusible import plain_backward
from torch_geometric_simpool.engine.ragged import Ragged, ragged_product
from torch_geometric_simpool.functional.losses import mean_over_graphs, sparse_losses

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
    losses add a row per graph, and a multiple of `log S`, which the softmax multiplies
    by `S`, so that it may be any number where `S` is zero.
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
        work = logits.numel() * max(x.size(-1), logits.size(-1))
        ragged = Ragged(batch, batch_size, sync=True, work=work)
        s = logits.softmax(dim=-1)
        # So that `s log(s)` is 0 where `s` is.
        log_s = s.clamp(min=torch.finfo(s.dtype).tiny).log_()

        row, col = edge_index
        left, neighbours = ragged.lay_out(s), adjacent(s, row, col, edge_weight)
        pooled = ragged.product(left, ragged.lay_out(x.detach()))
        coarse = ragged.product(left, ragged.lay_out(neighbours))
        coarse = coarse.tanh()

        size = ragged.count.to(s.dtype)
        nodes = size.clamp(min=1).unsqueeze(-1)
        total, entropy = _sums(ragged, s, log_s)
        mean = total / nodes
        of_mean = torch.where(mean > 0, mean, 1.0).log()
        uneven = math.log(s.size(-1)) + (mean * of_mean).sum(dim=-1)
        # Rounding can miss zero; NaN stays; and a graph without nodes does not count.
        counts = (size > 0) & ~(uneven < 0)
        graphs = (size > 0).sum().clamp(min=1).to(s.dtype)
        cluster_loss = torch.where(counts, uneven, 0.0).sum() / graphs
        entropy_loss = (entropy / nodes.squeeze(-1)).sum() / graphs

        if any(ctx.needs_input_grad):
            # The weight of a node's entropy, and what a node adds to the unevenness.
            per_entropy = (nodes * graphs).reciprocal()
            per_cluster = torch.where(mean > 0, of_mean + 1, 0.0)
            per_cluster = per_cluster * counts.unsqueeze(-1) * per_entropy
            ctx.ragged, ctx.batch_size = ragged, batch_size
            ctx.save_for_backward(
                *(x, logits, edge_weight, edge_index, batch, s, coarse),
                *(neighbours, log_s, per_entropy, per_cluster),
            )
            ctx.set_materialize_grads(False)
        return s, pooled, coarse, entropy_loss, cluster_loss

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def backward(ctx: Any, *grads: Optional[Tensor]) -> tuple[Optional[Tensor], ...]:
        x, logits, edge_weight, edge_index, batch, s, coarse, *kept = ctx.saved_tensors
        if torch.is_grad_enabled():  # for a second derivative: by operations with one
            inputs = x, logits, edge_weight, edge_index, batch, ctx.batch_size
            return plain_backward(plain_pool, inputs, ctx.needs_input_grad, grads)
        of_s, of_pooled, of_coarse, of_entropy, of_cluster = grads
        neighbours, log_s, per_entropy, per_cluster = kept
        ragged = ctx.ragged
        left = ragged.lay_out(s)
        of_product = None if of_coarse is None else of_coarse * (1 - coarse * coarse)

        of_x = of_logits = of_weight = None
        if ctx.needs_input_grad[1]:
            pairs = []
            if of_pooled is not None:
                pairs.append((ragged.lay_out(x), of_pooled.mT))
            if of_product is not None:
                row, col = edge_index
                back = adjacent(s, col, row, edge_weight)
                pairs.append((ragged.lay_out(neighbours), of_product.mT))
                pairs.append((ragged.lay_out(back), of_product))
            change = None
            if of_s is not None:
                change = of_s.clone(memory_format=torch.contiguous_format)
            if pairs:
                change = ragged.spread(*pairs, onto=change)
            change = torch.zeros_like(s) if change is None else change
            of_sum, of_sum_entropy = (
                torch.zeros_like(per) if of is None else of * per
                for of, per in ((of_cluster, per_cluster), (of_entropy, per_entropy))
            )
            of_logits = _through_softmax(ragged, change, s, log_s, of_sum, of_sum_entropy[:, 0])
        if ctx.needs_input_grad[0]:
            of_x = torch.zeros_like(x) if of_pooled is None else ragged.spread((left, of_pooled))
        if ctx.needs_input_grad[2]:
            of_product = torch.zeros_like(coarse) if of_product is None else of_product
            of_weight = ragged.spread((left, of_product)).index_select(0, edge_index[0])
            of_weight = of_weight.mul_(s.index_select(0, edge_index[1])).sum(dim=-1)
        return of_x, of_logits, of_weight, None, None, None


def _sums(ragged: Ragged, s: Tensor, log_s: Tensor) -> tuple[Tensor, Tensor]:
    """`S` and the entropy, summed over the nodes of each graph."""
    if ragged.parts is None:
        return ragged.total(s), ragged.total((s * log_s).sum(dim=-1)).neg_()
    from torch_geometric_simpool.engine import assignments

    return assignments.sums(s, log_s, ragged.parts, ragged.batch_size)


def _through_softmax(
    ragged: Ragged, change: Tensor, s: Tensor, log_s: Tensor, of_sum: Tensor, of_entropy: Tensor
) -> Tensor:
    """What reaches the logits: `change` reaches `s`, and the others the sums over its graph."""
    if ragged.parts is None:
        change = change.add_(ragged.per_row(of_sum))
        change = change.sub_(ragged.per_row(of_entropy).unsqueeze(-1) * log_s).mul_(s)
        return change.addcmul_(s, change.sum(dim=-1, keepdim=True), value=-1)
    from torch_geometric_simpool.engine import assignments

    return assignments.through_softmax(change, s, log_s, of_sum, of_entropy, ragged.parts)

"""The dense operator: as operations that differentiate themselves, and in one piece."""

import math
from typing import Any, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.engine.fused import Pooled
from torch_geometric_simpool.engine.fusible import plain_backward
from torch_geometric_simpool.functional.losses import dense_losses, mean_over_graphs


def plain_dense_pool(x: Tensor, adj: Tensor, logits: Tensor, mask: Optional[Tensor]) -> Pooled:
    """The operator by operations of PyTorch; `x` and `adj` hold zeros in padded places."""
    if mask is None:
        s = logits.softmax(dim=-1)
    else:
        padded = ~mask.unsqueeze(-1)
        # Filled before the softmax as well: a NaN there would come back in the gradient.
        s = logits.masked_fill(padded, 0).softmax(dim=-1).masked_fill(padded, 0)
    dtype = torch.promote_types(x.dtype, s.dtype)
    s = s.to(dtype)
    pooled = s.mT @ x.to(dtype)
    coarse = (s.mT @ (adj.to(dtype) @ s)).tanh()
    entropy, cluster, present = dense_losses(s, mask)
    return (
        s,
        pooled,
        coarse,
        mean_over_graphs(entropy, present),
        mean_over_graphs(cluster, present),
    )


def fused_dense_pool(x: Tensor, adj: Tensor, logits: Tensor, mask: Optional[Tensor]) -> Pooled:
    """The same in one piece: small graphs take as long as there are operations."""
    return _DensePool.apply(x, adj, logits, mask)


class _DensePool(torch.autograd.Function):
    r"""With `P = S^T A S` and upstream gradients `dX', dP, dS`,

    `G = X dX'^T + (A S) dP^T + A^T (S dP) + dS` holds what reaches `S`; the losses are
    added as in the sparse operator.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, adj: Tensor, logits: Tensor, mask: Optional[Tensor]) -> Pooled:
        batch_size, num_nodes, num_clusters = logits.shape
        if mask is None:
            s = logits.softmax(dim=-1)
        else:
            padded = ~mask.unsqueeze(-1)
            s = logits.masked_fill(padded, 0).softmax(dim=-1).masked_fill_(padded, 0)
        # `-s log(s)`, entry by entry, and 0 where `s` is.
        entropy = s.clamp(min=torch.finfo(s.dtype).tiny).log_().mul_(s).neg_()
        adj_s = torch.bmm(adj, s)
        pooled, coarse = torch.bmm(s.mT, x), torch.bmm(s.mT, adj_s).tanh_()

        # What a node weighs in the means over its graph, and over the graphs with nodes.
        nodes: Any = num_nodes
        graphs: Any = batch_size
        mean = s.sum(dim=1)
        if mask is not None:
            size = mask.sum(dim=1, keepdim=True).to(s.dtype)
            nodes, graphs = size.clamp(min=1), (size > 0).sum().clamp(min=1).to(s.dtype)
        mean /= nodes
        of_mean = mean.clamp(min=torch.finfo(s.dtype).tiny).log_()
        uneven = (mean * of_mean).sum(dim=-1, keepdim=True).add_(math.log(num_clusters))
        if mask is not None:  # a graph without nodes does not count
            uneven = torch.where(size > 0, uneven, 0.0)
        # Rounding can miss zero; NaN stays.
        cluster_loss = uneven.clamp(min=0).sum() / graphs
        if mask is None:
            entropy_loss = entropy.sum() / (nodes * graphs)
        else:
            entropy_loss = (entropy.sum(dim=(1, 2)).unsqueeze(-1) / (nodes * graphs)).sum()

        if any(ctx.needs_input_grad):
            ctx.weight = 1 / (nodes * graphs)
            saved = (x, adj, logits, mask, s, coarse, adj_s, entropy, mean, of_mean, uneven)
            ctx.save_for_backward(*saved)
            ctx.set_materialize_grads(False)
        return s, pooled, coarse, entropy_loss, cluster_loss

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def backward(ctx: Any, *grads: Optional[Tensor]) -> tuple[Optional[Tensor], ...]:
        x, adj, logits, mask, s, coarse, adj_s, entropy, *cluster = ctx.saved_tensors
        if torch.is_grad_enabled():  # for a second derivative: by operations with one
            inputs = x, adj, logits, mask
            return plain_backward(plain_dense_pool, inputs, ctx.needs_input_grad, grads)
        of_s, of_pooled, of_coarse, of_entropy, of_cluster = grads
        of_product = None if of_coarse is None else of_coarse * (1 - coarse * coarse)
        spread = None if of_product is None else torch.bmm(s, of_product)

        of_x = of_adj = of_logits = None
        if ctx.needs_input_grad[0] and of_pooled is not None:
            of_x = torch.bmm(s, of_pooled)
        if ctx.needs_input_grad[1] and spread is not None:
            of_adj = torch.bmm(spread, s.mT)
        if ctx.needs_input_grad[2]:
            change = torch.zeros_like(s) if of_pooled is None else torch.bmm(x, of_pooled.mT)
            if of_product is not None and spread is not None:
                change.baddbmm_(adj_s, of_product.mT).baddbmm_(adj.mT, spread)
            if of_s is not None:
                change += of_s
            if of_cluster is not None:
                mean, of_mean, uneven = cluster
                # Zero in graphs without nodes, as is their `mean`.
                counts = (mean > 0) & ~(uneven < 0)
                per_cluster = torch.where(counts, of_mean + 1, 0.0) * (of_cluster * ctx.weight)
                change += per_cluster.unsqueeze(1)
            change *= s
            if of_entropy is not None:
                per_entropy = of_entropy * ctx.weight
                change.addcmul_(entropy, per_entropy.view(-1, 1, 1))
            of_logits = change.addcmul_(s, change.sum(dim=-1, keepdim=True), value=-1)
        return of_x, of_adj, of_logits, None

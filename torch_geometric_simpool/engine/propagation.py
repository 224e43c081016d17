"""A propagation in one piece, on a CPU: no message, and no sum of products, is made for itself."""

from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric_simpool.engine.fusible import fusible, plain_backward
from torch_geometric_simpool.engine.messages import compilable, sum_relu


def propagate(
    x: Tensor,
    message: tuple[Tensor, Optional[Tensor]],
    node: tuple[Tensor, Optional[Tensor]],
    edge_index: Tensor,
) -> Tensor:
    r"""`relu(V [x_i | sum_{j : (j, i) in E} relu(W [x_i | x_j] + b)] + c)` for every node `i`.

    Args:
        x: `[N, F]`.
        message: `W` and `b`, `[M, 2 F]` and `[M]`.
        node: `V` and `c`, `[O, F + M]` and `[O]`.
        edge_index: The edges, `[2, E]`, int64: from `j` to `i`.

    Returns:
        `[N, O]`.

    Products are taken per node. Many messages, on a CPU, are made and added one by one, by
    loops that Numba compiles, over lists of the edges of each node; gradients likewise, and
    each is written once. Otherwise by :func:`sum_relu`.
    Time `O(N F M + E M)`, memory `O(N (F + M + O) + E)`. Can be differentiated any number
    of times. Deterministic on CPU, whatever the number of threads.
    """
    tensors = [x, *(t for t in (*message, *node) if t is not None)]
    if fusible(*tensors) and compilable(edge_index, x.size(0), message[0].size(0)):
        return _Propagate.apply(x, *message, *node, edge_index)
    return _plain(x, *message, *node, edge_index)


def _plain(
    x: Tensor,
    message: Tensor,
    message_bias: Optional[Tensor],
    node: Tensor,
    node_bias: Optional[Tensor],
    edge_index: Tensor,
) -> Tensor:
    of_target, of_source = message.chunk(2, dim=1)
    target, source = F.linear(x, of_target, message_bias), F.linear(x, of_source)
    total = sum_relu(target, source, None, edge_index)
    # One product, not the sum of two.
    return F.linear(torch.cat([x, total.to(x.dtype)], dim=1), node, node_bias).relu()


class _Propagate(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        message: Tensor,
        message_bias: Optional[Tensor],
        node: Tensor,
        node_bias: Optional[Tensor],
        edge_index: Tensor,
    ) -> Tensor:
        from torch_geometric_simpool.engine import edges  # imports Numba, which takes a while

        of_target, of_source = message.detach().chunk(2, dim=1)
        of_node, of_total = node.detach().split([x.size(1), message.size(0)], dim=1)
        target, source = F.linear(x, of_target, message_bias), F.linear(x, of_source)
        by_target = edges.lists(edge_index[1], x.size(0))
        total = edges.add_relu(target, source, edge_index[0], by_target)
        out = F.linear(x, of_node, node_bias).addmm_(total, of_total.t()).clamp_min_(0)

        ctx.by_target = by_target
        inputs = (x, message, message_bias, node, node_bias, edge_index)
        ctx.save_for_backward(*inputs, target, source, total, out)
        return out

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def backward(ctx: Any, *grads: Tensor) -> tuple[Optional[Tensor], ...]:
        *inputs, target, source, total, out = ctx.saved_tensors
        if torch.is_grad_enabled():  # for a second derivative: by operations with one
            return plain_backward(_plain, inputs, ctx.needs_input_grad, grads)
        from torch_geometric_simpool.engine import edges

        x, message, _, node, _, edge_index = inputs
        of_x, of_message, of_message_bias, of_node, of_node_bias, _ = ctx.needs_input_grad
        to_target, to_source = message.chunk(2, dim=1)
        to_node, to_total = node.split([x.size(1), message.size(0)], dim=1)
        grad = torch.ops.aten.threshold_backward(grads[0], out, 0)
        found: list[Optional[Tensor]] = [None] * 6
        if of_node:
            found[3] = torch.cat([grad.t() @ x, grad.t() @ total], dim=1)
        if of_node_bias:
            found[4] = grad.sum(dim=0)
        if not (of_x or of_message or of_message_bias):
            return tuple(found)

        of_target, (out_of, into) = grad @ to_total, edge_index  # of the sums, so far
        of_source = None
        if of_x or of_message:
            by_source = edges.lists(out_of, x.size(0))
            of_source = edges.grad_of_source(target, source, of_target, into, by_source)
        edges.grad_of_target(target, source, of_target, out_of, ctx.by_target, of_target)
        if of_message_bias:
            found[2] = of_target.sum(dim=0)
        if of_source is None:
            return tuple(found)
        if of_x:
            to_row = grad @ to_node
            found[0] = to_row.addmm_(of_target, to_target).addmm_(of_source, to_source)
        if of_message:
            found[1] = torch.cat([of_target.t() @ x, of_source.t() @ x], dim=1)
        return tuple(found)

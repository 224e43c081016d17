"""Sums of messages over the edges into each node, as graph matching networks have them."""

from typing import Optional

import torch
from torch import Tensor

from torch_geometric_simpool.engine.dispatch import accelerate
from torch_geometric_simpool.functional.rows import sum_rows, take_rows


@accelerate("messages")
def sum_messages(
    target: Tensor, source: Tensor, edge: Optional[Tensor], edge_index: Tensor
) -> Tensor:
    """`sum_{j : (j, i) in E} relu(target_i + source_j + edge_ij)` for every node `i`.

    Args:
        target, source: `[N, F]`.
        edge: `[E, F]`, or `None`.
        edge_index: The edges, `[2, E]`, int64: from `j` to `i`.

    Returns:
        `[N, F]`. Time `O(E F)`; memory `O(E F)` in the plain form, `O(N F + E)` on a CPU
        without `edge`.
    """
    message = take_rows(target, edge_index[1]) + take_rows(source, edge_index[0])
    message = (message if edge is None else message + edge).relu()
    return sum_rows(message, edge_index[1], target.size(0))


@accelerate("messages")
def sum_messages_backward(
    grad: Tensor, target: Tensor, source: Tensor, edge_index: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of :func:`sum_messages` for `target` and `source`, without `edge`.

    Compiled and exported programs call it as one operation; otherwise it is left to autograd.

    Args:
        grad: The gradient of the output, `[N, F]`.
        target, source, edge_index: As in :func:`sum_messages`.

    Returns:
        Two tensors `[N, F]`. Time and memory as for :func:`sum_messages`.
    """
    source_node, target_node = edge_index
    message = target.index_select(0, target_node) + source.index_select(0, source_node)
    passed = grad.index_select(0, target_node).masked_fill(message <= 0, 0)
    zero = torch.zeros_like(grad, memory_format=torch.contiguous_format)
    return zero.index_add(0, target_node, passed), zero.index_add(0, source_node, passed)

"""The entropy loss and the cluster loss of an assignment."""

import math
from typing import Optional

import torch
from torch import Tensor

from torch_geometric_simpool.functional.assignment import Assignment, parse_assignment
from torch_geometric_simpool.utils.checks import check_choice, values_visible


def entropy_loss(
    s: Tensor,
    batch: Optional[Tensor] = None,
    mask: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Returns the entropy loss, which encourages confident assignments.

    .. math::
        L_E = \frac{1}{n} \sum_{i=1}^{n} H(s_i)

    Here :math:`n` is the number of nodes of a graph and :math:`H` the entropy in nats. The loss of
    a batch is the mean over its graphs. It does not depend on padding, on the batch size, nor on
    the other graphs of the batch.

    Args:
        s (torch.Tensor): The assignment matrix **after** the softmax: `[N, K]` for a graph or a
            sparse batch, `[B, N, K]` for a dense batch.
        batch (torch.Tensor, optional): The graph of each row of a sparse `s`, `[N]`, in any
            order. (default: :obj:`None`)
        mask (torch.Tensor, optional): The valid nodes of a dense `s`, `[B, N]` or `[N]`. Other
            rows are ignored. (default: :obj:`None`)
        batch_size (int, optional): The number of graphs of a sparse batch. If it is given,
            values on a GPU are not checked, so nothing synchronizes. (default: :obj:`None`)
        reduction (str, optional): `'mean'` over the graphs with nodes, or `'none'` for one value
            per graph, 0 for a graph without nodes. (default: :obj:`'mean'`)

    Returns:
        torch.Tensor: A scalar in `[0, log K]`, or `[B]`.

    Raises:
        TypeError: If `s` is not floating point.
        ValueError: If `s` has negative entries, as logits have, or shapes do not fit each other.

    Time and memory are linear. `0 * log(0)` is 0, with gradient 0.

    Source: section 'DiffPool revised' of Shulman (2020).

    Example:
        >>> entropy_loss(torch.tensor([[1., 0.], [0., 1.]]))
        tensor(0.)
    """
    return _parsed_losses(s, batch, mask, batch_size, reduction)[0]


def cluster_loss(
    s: Tensor,
    batch: Optional[Tensor] = None,
    mask: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Returns the cluster loss, which encourages balanced clusters.

    .. math::
        L_C = \log K - H\Bigl(\frac{1}{n} \sum_{i=1}^{n} s_i\Bigr)

    It is 0 if all clusters have the same size, and :math:`\log K` if one cluster holds all nodes.
    The loss of a batch is the mean over its graphs. See :func:`entropy_loss` for the arguments.

    .. note::
        The paper prints :math:`+H`. The minimum of that is one cluster for all nodes, which
        contradicts the paper's text and figures.

    Returns:
        torch.Tensor: A scalar in `[0, log K]`, or `[B]`.

    Source: section 'DiffPool revised' of Shulman (2020), with the sign corrected.

    Example:
        >>> cluster_loss(torch.tensor([[1., 0.], [0., 1.]]))
        tensor(0.)
    """
    return _parsed_losses(s, batch, mask, batch_size, reduction)[1]


def _parsed_losses(
    s: Tensor,
    batch: Optional[Tensor],
    mask: Optional[Tensor],
    batch_size: Optional[int],
    reduction: str,
) -> tuple[Tensor, Tensor]:
    check_choice("reduction", reduction, ("mean", "none"))
    assignment = parse_assignment(s, batch, mask, batch_size)
    s, check_values = assignment.s, (batch_size is None or assignment.s.is_cpu)
    # With some slack, so that the finite differences of a gradient check pass.
    if check_values and values_visible() and bool((s < -1e-3).any()):
        raise ValueError(
            f"`s` must hold the softmax of the logits, which is not negative, got {s.min():.4g}"
        )
    return losses(assignment) if reduction == "mean" else losses_per_graph(assignment)


def losses(assignment: Assignment) -> tuple[Tensor, Tensor]:
    """Returns both losses, the means over the graphs that have nodes."""
    entropy, cluster = losses_per_graph(assignment)
    num_graphs = (assignment.num_nodes > 0).sum().clamp(min=1)
    return entropy.sum() / num_graphs, cluster.sum() / num_graphs


def losses_per_graph(assignment: Assignment) -> tuple[Tensor, Tensor]:
    """Returns both losses of each graph, `[B]`; 0 for a graph without nodes."""
    s, count = assignment.s, assignment.num_nodes
    # Half precision cannot count the nodes of a large graph.
    s = s.to(torch.promote_types(s.dtype, torch.float32))
    num_nodes = count.clamp(min=1)
    share = assignment.sum(s) / num_nodes.unsqueeze(-1)
    # Rounding can make the difference negative.
    cluster = (math.log(s.size(-1)) - _row_entropy(share)).clamp(min=0)
    return assignment.sum(_row_entropy(s)) / num_nodes, cluster.masked_fill(count == 0, 0)


def _row_entropy(prob: Tensor) -> Tensor:
    # The logarithm of zero would be infinite, in the gradient as well.
    logarithm = torch.where(prob > 0, prob, torch.ones_like(prob)).log()
    return -(prob * logarithm).sum(dim=-1)

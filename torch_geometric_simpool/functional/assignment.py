"""The assignment of nodes to clusters: losses, the mask of clusters, and unpooling."""

import math
from typing import NamedTuple, Optional

import torch
from torch import Tensor
from torch_geometric.utils import degree

from torch_geometric_simpool.functional.segment import segment_matmul, sum_rows
from torch_geometric_simpool.utils.checks import (
    check_batch,
    check_device,
    check_floating,
    check_mask,
    shape,
)

#: The features that an assignment network reads.
FEATURES = ("structural", "node", "both")


def assignment_input(features: str, structural: Optional[Tensor], x: Tensor) -> Tensor:
    """Returns the input of an assignment network: structural features, then node features."""
    if structural is None:
        return x
    if features == "structural":
        return structural
    return torch.cat([structural, x.to(structural.dtype)], dim=-1)


class Assignment(NamedTuple):
    """An assignment, after the softmax."""

    s: Tensor  # [N, K], or [B, N, K] with zeros in padded rows
    batch: Optional[Tensor]  # [N]; None for a dense batch
    num_nodes: Tensor  # [B], the number of nodes of each graph

    def sum(self, x: Tensor) -> Tensor:
        """Returns the sum over the nodes of each graph of `[N, *]` or `[B, N, *]`."""
        if self.batch is None:
            return x.sum(dim=1)
        return sum_rows(x, self.batch, self.num_nodes.numel())


def dense_assignment(s: Tensor, mask: Optional[Tensor]) -> Assignment:
    """Returns the assignment of a dense batch, `[B, N, K]`, whose padded rows are set to zero."""
    if mask is None:
        return Assignment(s, None, torch.full((s.size(0),), s.size(1), device=s.device))
    return Assignment(s.masked_fill(~mask.unsqueeze(-1), 0), None, mask.sum(dim=1))


def sparse_assignment(s: Tensor, batch: Tensor, batch_size: int) -> Assignment:
    """Returns the assignment of a sparse batch, `[N, K]`."""
    return Assignment(s, batch, degree(batch, batch_size, torch.long))


def parse_assignment(
    s: Tensor, batch: Optional[Tensor], mask: Optional[Tensor], batch_size: Optional[int]
) -> Assignment:
    """Returns the assignment that the arguments of a public function describe."""
    check_floating("s", s, ("N", "K"), ("B", "N", "K"))
    if s.size(-1) == 0:
        raise ValueError(f"`s` must have at least one cluster, got shape {shape(s)}")
    if s.dim() == 2 and mask is None:
        check_values = batch_size is None or s.is_cpu
        batch, batch_size = check_batch(batch, s.size(0), batch_size, s.device, check_values, "s")
        return sparse_assignment(s, batch, batch_size)
    for name, value in (("batch", batch), ("batch_size", batch_size)):
        if value is not None:
            raise ValueError(
                f"`{name}` must be None for a dense `s`, which has a `mask`, got a "
                f"{type(value).__name__}"
            )
    mask = check_mask(mask, tuple(s.shape[:-1]), s.device, "s")
    if s.dim() == 2 and mask is not None:
        s, mask = s.unsqueeze(0), mask.unsqueeze(0)
    return dense_assignment(s, mask)


def entropy_loss(
    s: Tensor,
    batch: Optional[Tensor] = None,
    mask: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
) -> Tensor:
    r"""Returns the entropy loss, which encourages confident assignments.

    .. math::
        L_E = \frac{1}{n} \sum_{i=1}^{n} H(s_i)

    Here :math:`n` is the number of nodes of a graph and :math:`H` the entropy in nats. The loss of
    a batch is the mean over its graphs. The loss of a graph does not depend on padding, nor on the
    other graphs of the batch.

    Args:
        s (torch.Tensor): The assignment matrix **after** the softmax: `[N, K]` for a graph or a
            sparse batch, `[B, N, K]` for a dense batch.
        batch (torch.Tensor, optional): The graph of each row of a sparse `s`, `[N]`, in any
            order. (default: :obj:`None`, one graph)
        mask (torch.Tensor, optional): The valid nodes of a dense `s`, `[B, N]` or `[N]`. Other
            rows are ignored. (default: :obj:`None`)
        batch_size (int, optional): The number of graphs of a sparse batch. If it is given,
            values on a GPU are not checked, so nothing synchronizes.
            (default: :obj:`None`, taken from `batch`)

    Returns:
        torch.Tensor: A scalar in `[0, log K]`, the mean over the graphs that have nodes.

    Raises:
        TypeError: If a tensor has a wrong type.
        ValueError: If `s` has negative entries, as logits have, or shapes do not fit each other.

    Time and memory are linear in the size of `s`. `0 * log(0)` is 0, with gradient 0.

    Source: section 'DiffPool revised' of Shulman (2020).

    Example:
        >>> entropy_loss(torch.tensor([[1., 0.], [0., 1.]]))
        tensor(0.)
    """
    return _parsed_losses(s, batch, mask, batch_size)[0]


def cluster_loss(
    s: Tensor,
    batch: Optional[Tensor] = None,
    mask: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
) -> Tensor:
    r"""Returns the cluster loss, which encourages balanced clusters.

    .. math::
        L_C = \log K - H\Bigl(\frac{1}{n} \sum_{i=1}^{n} s_i\Bigr)

    It is 0 if all clusters have the same size, and :math:`\log K` if one cluster holds all nodes.
    The loss of a batch is the mean over its graphs.

    .. note::
        The paper prints :math:`+H`. Its minimum is one cluster for all nodes, which contradicts the
        paper's text and figures.

    Args:
        s (torch.Tensor): The assignment matrix **after** the softmax, `[N, K]` or `[B, N, K]`.
        batch (torch.Tensor, optional): The graph of each row of a sparse `s`, `[N]`, in any
            order. (default: :obj:`None`, one graph)
        mask (torch.Tensor, optional): The valid nodes of a dense `s`, `[B, N]` or `[N]`. Other
            rows are ignored. (default: :obj:`None`)
        batch_size (int, optional): The number of graphs of a sparse batch.
            (default: :obj:`None`, taken from `batch`)

    Returns:
        torch.Tensor: A scalar in `[0, log K]`, the mean over the graphs that have nodes.

    Raises:
        TypeError, ValueError: If an argument is wrong, as in :func:`entropy_loss`.

    Time and memory are linear in the size of `s`.

    Source: section 'DiffPool revised' of Shulman (2020), with the sign corrected.

    Example:
        >>> cluster_loss(torch.tensor([[1., 0.], [0., 1.]]))
        tensor(0.)
    """
    return _parsed_losses(s, batch, mask, batch_size)[1]


def _parsed_losses(
    s: Tensor, batch: Optional[Tensor], mask: Optional[Tensor], batch_size: Optional[int]
) -> tuple[Tensor, Tensor]:
    assignment = parse_assignment(s, batch, mask, batch_size)
    s, check_values = assignment.s, (batch_size is None or assignment.s.is_cpu)
    # A tolerance lets the finite differences of a gradient check pass.
    if check_values and not torch.compiler.is_compiling() and bool((s < -1e-3).any()):
        raise ValueError(
            f"`s` must hold the softmax of the logits, which is not negative, got {s.min():.4g}"
        )
    return losses(assignment)


def losses(assignment: Assignment) -> tuple[Tensor, Tensor]:
    """Returns both losses, the means over the graphs that have nodes."""
    s, count = assignment.s, assignment.num_nodes
    # Half precision cannot count the nodes of a large graph.
    s = s.to(torch.promote_types(s.dtype, torch.float32))
    num_nodes = count.clamp(min=1)
    share = assignment.sum(s) / num_nodes.unsqueeze(-1)
    # Rounding can make the difference negative.
    cluster = (math.log(s.size(-1)) - _row_entropy(share)).clamp(min=0)
    entropy = assignment.sum(_row_entropy(s)) / num_nodes
    num_graphs = (count > 0).sum().clamp(min=1)
    return entropy.sum() / num_graphs, cluster.masked_fill(count == 0, 0).sum() / num_graphs


def _row_entropy(prob: Tensor) -> Tensor:
    # The logarithm of zero and its gradient would be infinite.
    logarithm = torch.where(prob > 0, prob, torch.ones_like(prob)).log()
    return -(prob * logarithm).sum(dim=-1)


def cluster_mask(
    s: Tensor,
    batch: Optional[Tensor] = None,
    mask: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
) -> Tensor:
    r"""Returns a mask of the clusters that each graph can fill.

    A graph of `n` nodes cannot fill more than `n` clusters. The mask holds its `min(n, K)` largest
    clusters by `sum_i s_ik`, then by index. Pass it as `mask` to the next layer, which then ignores
    all other clusters. :class:`SimPool` returns it as `out.mask`.

    Args:
        s (torch.Tensor): The assignment matrix **after** the softmax, `[N, K]` or `[B, N, K]`.
        batch (torch.Tensor, optional): The graph of each row of a sparse `s`, `[N]`, in any
            order. (default: :obj:`None`, one graph)
        mask (torch.Tensor, optional): The valid nodes of a dense `s`, `[B, N]` or `[N]`.
            (default: :obj:`None`)
        batch_size (int, optional): The number of graphs of a sparse batch.
            (default: :obj:`None`, taken from `batch`)

    Returns:
        torch.Tensor: Boolean, `[B, K]`. All true for a graph of at least `K` nodes.

    Raises:
        TypeError: If a tensor has a wrong type.
        ValueError: If shapes do not fit each other, or `s` has no cluster.

    Time and memory are linear in the size of `s`, plus a sort of `K` numbers per graph.

    Source: beyond Shulman (2020). Compare pyg-team/pytorch_geometric #881.

    Example:
        >>> cluster_mask(torch.tensor([[0.1, 0.6, 0.3]]))
        tensor([[False,  True, False]])
    """
    return fillable_clusters(parse_assignment(s, batch, mask, batch_size))


def fillable_clusters(assignment: Assignment) -> Tensor:
    """Returns the mask of the clusters that each graph can fill, `[B, K]`."""
    s = assignment.s.detach()
    # In half precision, many different sums round to one number.
    size = assignment.sum(s.to(torch.promote_types(s.dtype, torch.float32)))
    rank = size.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
    return rank < assignment.num_nodes.unsqueeze(-1)


def lift(
    x: Tensor,
    s: Tensor,
    batch: Optional[Tensor] = None,
    mask: Optional[Tensor] = None,
    batch_size: Optional[int] = None,
) -> Tensor:
    r"""Computes node features from cluster features, :math:`S X'`.

    Each node gets the mean of the cluster features, weighted by its assignment. Use it for a
    U-Net, or for predictions of nodes after pooling.

    Args:
        x (torch.Tensor): Features of the clusters, `[B, K, F]`, or `[K, F]` for one graph.
        s (torch.Tensor): The assignment matrix **after** the softmax, as :class:`SimPool` returns
            it: `[N, K]` for a sparse batch, `[B, N, K]` for a dense batch.
        batch (torch.Tensor, optional): The graph of each row of a sparse `s`, `[N]`, in any
            order. (default: :obj:`None`, one graph)
        mask (torch.Tensor, optional): The valid nodes of a dense `s`, `[B, N]` or `[N]`. Other
            nodes get zeros. (default: :obj:`None`)
        batch_size (int, optional): The number of graphs of a sparse batch.
            (default: :obj:`None`, the number of graphs of `x`)

    Returns:
        torch.Tensor: Features of the nodes, `[N, F]`, or `[B, N, F]` for a dense `s`.

    Raises:
        TypeError: If a tensor has a wrong type.
        ValueError: If shapes do not fit each other.

    Time is `O(N K F)`. Memory is `O(N (K + F) + M K F)`, where the graphs are cut into
    `M <= N / 32 + B` blocks of 32 nodes. Differentiable with respect to `x` and `s`.

    .. note::
        `S` is not orthogonal: lifting pooled features does not restore the node features.

    Source: the unpooling of Gao and Ji (2019), 'Graph U-Nets', for a soft assignment.

    Example:
        >>> s = torch.tensor([[1., 0.], [1., 0.], [0., 1.]])
        >>> lift(torch.tensor([[[5.], [7.]]]), s)
        tensor([[5.],
                [5.],
                [7.]])
    """
    check_floating("x", x, ("K", "F"), ("B", "K", "F"))
    x = x.unsqueeze(0) if x.dim() == 2 else x
    if batch_size is None and mask is None and isinstance(s, Tensor) and s.dim() == 2:
        batch_size = x.size(0)
    assignment = parse_assignment(s, batch, mask, batch_size)
    check_device("s", s, x.device, "x")
    check_floating("x", x, (assignment.num_nodes.numel(), s.size(-1), "F"))
    dtype = torch.promote_types(x.dtype, s.dtype)
    rows, x = assignment.s.to(dtype), x.to(dtype)
    if assignment.batch is None:
        return (rows @ x).view(*s.shape[:-1], x.size(-1))
    return segment_matmul(rows, x, assignment.batch, x.size(0))

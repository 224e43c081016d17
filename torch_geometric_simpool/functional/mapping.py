"""The indices mapping trick: from the top k to features of fixed width."""

from typing import Union

import torch
from torch import Tensor

from torch_geometric_simpool.utils.checks import (
    check_floating,
    check_int,
    check_integral,
    check_real,
    shape,
)


def map_indices(
    values: Tensor, index: Tensor, num_nodes: Union[int, Tensor], alpha: float = 1.0
) -> Tensor:
    r"""Maps each similar node and its similarity to one number, the indices mapping trick.

    .. math::
        \tilde{C}_{ir} = \frac{\alpha \, C_{ij} + j}{n + 1}

    Here :math:`j` is the number of the :math:`r`-th most similar node, counted from 1 within its
    graph of :math:`n` nodes. An empty place is mapped to 0.

    Args:
        values (torch.Tensor): Similarities of shape `[*, N, k]`. A place with value 0 is empty.
        index (torch.Tensor): Similar nodes of shape `[*, N, k]`, counted from 0 within their own
            graph. A place with index -1 is empty.
        num_nodes (int or torch.Tensor): Number of nodes of the graph of each row, an integer or a
            tensor of shape `[*, N]`.
        alpha (float, optional): Weight of the similarity, in `[0, 1]`. (default: :obj:`1.0`)

    Returns:
        torch.Tensor: Features of shape `[*, N, k]`, in the type of `values`. For non-negative
        similarities, they lie in :math:`\{0\} \cup [\frac{1}{n+1}, 1 - \frac{1-\alpha}{n+1}]`. For
        `alpha < 1`, different nodes have different values, up to the precision of the type.

    Raises:
        TypeError: If an argument has a wrong type.
        ValueError: If a shape is wrong, an index is outside its graph, or `alpha` is out of range.

    Time and memory are linear. The function is deterministic, and differentiable with respect to
    `values`.

    .. note::
        The features name nodes by number: renumbering a graph changes them. See `order` of
        :class:`StructuralSimilarity`.

    Source: section 'Indices mapping trick' of Shulman (2020), the efficient formula.

    Example:
        >>> map_indices(torch.tensor([[1.0, 0.5, 0.0]]), torch.tensor([[0, 2, -1]]), num_nodes=3)
        tensor([[0.5000, 0.8750, 0.0000]])
    """
    check_floating("values", values)
    if values.dim() < 2:
        raise ValueError(f"`values` must have shape [*, N, k], got {shape(values)}")
    on = {"device": values.device, "of": "values"}
    index = check_integral("index", index, tuple(values.shape), **on)
    alpha = check_real("alpha", alpha, 0.0, 1.0)
    if isinstance(num_nodes, Tensor):
        num_nodes = check_integral("num_nodes", num_nodes, tuple(values.shape[:-1]), **on)
        num_nodes = num_nodes.unsqueeze(-1)
    else:
        size = check_int("num_nodes", num_nodes, 0)
        num_nodes = torch.full((), size, device=values.device)
    if not torch.compiler.is_compiling() and index.numel() > 0:
        outside = (index < -1) | (index >= num_nodes)
        if bool(outside.any()):
            raise ValueError(
                "`index` must lie between -1 and the number of nodes of its graph minus one, "
                f"got {int(index[outside][0])}"
            )
    return mapped_indices(values, index, num_nodes, alpha)


def mapped_indices(values: Tensor, index: Tensor, num_nodes: Tensor, alpha: float) -> Tensor:
    """Returns the features of checked arguments; see :func:`map_indices`.

    `num_nodes` broadcasts with `values`. The features are computed in double precision.
    """
    empty = (index < 0) | (values == 0)
    mapped = (alpha * values.double() + (index.double() + 1)) / (num_nodes.double() + 1)
    return mapped.to(values.dtype).masked_fill(empty, 0)

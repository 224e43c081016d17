"""The indices mapping trick: from the top k to features of fixed width."""

from typing import Union

import torch
from torch import Tensor

from torch_geometric_simpool.utils.checks import (
    check_dense,
    check_device,
    check_floating,
    check_int,
    check_no_nan,
    check_real,
    is_integral,
    shape,
    values_visible,
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
        similarities they lie in
        :math:`\{0\} \cup [\frac{1}{n+1}, 1 - \frac{1-\alpha}{n+1}]`, and for `alpha < 1` the
        values of different nodes are distinct, up to the precision of the type.

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
    check_dense("index", index)
    if not is_integral(index.dtype):
        raise TypeError(f"`index` must hold integers (torch.long), got {index.dtype}")
    if values.dim() < 2:
        raise ValueError(f"`values` must have shape [*, N, k], got {shape(values)}")
    if index.shape != values.shape:
        raise ValueError(
            f"`index` must have the shape of `values`, {shape(values)}, got {shape(index)}"
        )
    check_device("index", index, values.device, "values")
    index = index.long()
    check_no_nan("values", values)
    alpha = check_real("alpha", alpha, 0.0, 1.0)
    size = _check_num_nodes(num_nodes, values)
    if values_visible() and index.numel() > 0:
        outside = (index < -1) | (index >= size)
        if bool(outside.any()):
            raise ValueError(
                "`index` must lie between -1 and the number of nodes of its graph minus one, "
                f"got {int(index[outside][0])}"
            )
    return mapped_indices(values, index, size, alpha)


def mapped_indices(values: Tensor, index: Tensor, num_nodes: Tensor, alpha: float) -> Tensor:
    """Returns the features of checked arguments; see :func:`map_indices`.

    `num_nodes` broadcasts with `values`. The features are computed in double precision.
    """
    empty = (index < 0) | (values == 0)
    mapped = (alpha * values.double() + (index.double() + 1)) / (num_nodes.double() + 1)
    return mapped.to(values.dtype).masked_fill(empty, 0)


def _check_num_nodes(num_nodes: Union[int, Tensor], values: Tensor) -> Tensor:
    """Returns the number of nodes in a shape that broadcasts with `values`."""
    if not isinstance(num_nodes, Tensor):
        return torch.full((), check_int("num_nodes", num_nodes, 0), device=values.device)
    check_dense("num_nodes", num_nodes)
    if not is_integral(num_nodes.dtype):
        raise TypeError(f"`num_nodes` must hold integers, got {num_nodes.dtype}")
    if num_nodes.dim() == 0:  # may be on the CPU
        return num_nodes.long()
    check_device("num_nodes", num_nodes, values.device, "values")
    if num_nodes.shape != values.shape[:-1]:
        raise ValueError(
            f"`num_nodes` must be an integer or have shape {list(values.shape[:-1])}, one size "
            f"per row, got {shape(num_nodes)}"
        )
    return num_nodes.long().unsqueeze(-1)

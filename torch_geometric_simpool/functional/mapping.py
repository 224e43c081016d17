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
    r"""Maps each similar node and its similarity to one number.

    .. math::
        \tilde{C}_{ir} = \frac{\alpha \, C_{ij} + j}{n + 1}

    for the :math:`r`-th most similar node :math:`j`, counted from 1 within its graph of
    :math:`n` nodes; 0 if there is none.

    Args:
        values: Similarities, floating point, `[*, N, k]`.
        index: The similar nodes, integers, `[*, N, k]`, **counted from 0 within their own
            graph**; -1 in empty places. A place is also empty where `values` is zero (but not
            where only `alpha * values` is).
        num_nodes: The number of nodes of the graph of each row: an integer, or a tensor
            `[*, N]`.
        alpha: The weight of the similarity, in `[0, 1]`: the share of the step between two
            indices that it can fill.

    Returns:
        `[*, N, k]`, in the type of `values`. For non-negative similarities, the features are in
        :math:`\{0\} \cup [\frac{1}{n+1}, 1 - \frac{1-\alpha}{n+1}]`, and for `alpha < 1`
        two different nodes never have the same value (within the precision of the type:
        float32 distinguishes about ten million nodes). Neither holds for negative ones.

    Raises:
        ValueError: The shapes of `values` and `index` differ, an index is outside its graph,
            `num_nodes` has another shape, or `alpha` is outside `[0, 1]`. In PyG's debug mode
            also NaN in `values`.
        TypeError: An argument has a wrong type.

    Differentiable with respect to `values`. Linear time and memory. Deterministic. The features
    name nodes by number: renumbering a graph changes them.

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
    number = index.to(torch.float64) + 1
    mapped = (alpha * values.to(torch.float64) + number) / (size.to(torch.float64) + 1)
    empty = (index < 0) | (values == 0)
    return mapped.to(values.dtype).masked_fill(empty, 0)


def _check_num_nodes(num_nodes: Union[int, Tensor], values: Tensor) -> Tensor:
    """The number of nodes, in a shape that broadcasts with `values`."""
    if not isinstance(num_nodes, Tensor):
        num_nodes = check_int("num_nodes", num_nodes, 0)
        return torch.full((), num_nodes, device=values.device)
    check_dense("num_nodes", num_nodes)
    if not is_integral(num_nodes.dtype):
        raise TypeError(f"`num_nodes` must hold integers, got {num_nodes.dtype}")
    if num_nodes.dim() > 0:  # a number may stay on the CPU
        check_device("num_nodes", num_nodes, values.device, "values")
    if num_nodes.dim() == 0:
        return num_nodes.long()
    if num_nodes.shape != values.shape[:-1]:
        raise ValueError(
            f"`num_nodes` must be an integer or have shape {list(values.shape[:-1])}, one size "
            f"per row, got {shape(num_nodes)}"
        )
    return num_nodes.long().unsqueeze(-1)

"""Checks of the edges that layers read, which may be a sparse matrix of PyG."""

from typing import Any, Optional

import torch
from torch import Tensor
from torch_geometric.utils import is_sparse

from torch_geometric_simpool.utils.checks import (
    check_dense,
    check_device,
    check_edge_index,
    check_tensor,
    debugging,
    shape,
)


def check_edges(edge_index: Any, x: Tensor) -> Any:
    """The edges, unless they are a sparse matrix, which PyG checks itself.

    Ids are read on a CPU, and in debug mode.
    """
    if not is_edge_index(edge_index):
        return edge_index
    check_device("edge_index", edge_index, x.device, "x")
    if x.dim() == 0:
        raise ValueError(f"`x` must have one row for each node, got {shape(x)}")
    return check_edge_index(edge_index, x.size(0), x.device.type == "cpu" or debugging())[0]


def count_edges(edge_index: Any) -> Optional[int]:
    """The number of edges, or `None` of a sparse matrix, whose entries PyG counts itself."""
    return edge_index.size(1) if is_edge_index(edge_index) else None


def is_edge_index(edge_index: Any) -> bool:
    """Whether it is no sparse matrix."""
    if isinstance(edge_index, Tensor):
        return edge_index.layout == torch.strided
    if is_sparse(edge_index):
        return False
    raise TypeError(
        f"`edge_index` must be a torch.Tensor or a sparse matrix, got {type(edge_index).__name__}"
    )


def check_edge_attr(
    edge_attr: Optional[Tensor],
    edge_dim: Optional[int],
    num_edges: Optional[int] = None,
    device: Optional[torch.device] = None,
) -> None:
    """Checks that `edge_attr` is given if and only if `edge_dim` is, with one row per edge."""
    if edge_dim is None:
        if edge_attr is not None:
            got = shape(check_tensor("edge_attr", edge_attr))
            raise ValueError(f"`edge_attr` must be None where `edge_dim` is None, got {got}")
        return
    if edge_attr is not None:
        check_dense("edge_attr", edge_attr)
        if device is not None:
            check_device("edge_attr", edge_attr, device, "x")
    fits = edge_attr is not None and edge_attr.dim() == 2 and edge_attr.size(1) == edge_dim
    if edge_attr is not None and num_edges is not None:
        fits = fits and edge_attr.size(0) == num_edges
    if not fits:
        rows = "E" if num_edges is None else num_edges
        got = "None" if edge_attr is None else shape(edge_attr)
        raise ValueError(f"`edge_attr` must have shape [{rows}, {edge_dim}], got {got}")

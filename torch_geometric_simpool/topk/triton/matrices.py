"""From the descriptions of a graph to what the kernels read: narrow ids, no hubs."""

from typing import Optional

import torch
from torch import Tensor

from torch_geometric_simpool.topk.triton.arrays import (
    Descriptions,
    Hubs,
    Matrix,
    Prepared,
    type_of_ids,
)

#: Shorter lists are never those of a hub: reading them is cheaper than skipping them.
SHORTEST_HUB = 128

#: There is one bit in a mask for each hub, and masks are not negative.
MOST_HUBS = 62


def prepare(
    rows: Matrix,
    lists: Matrix,
    norm2: Tensor,
    scale: Tensor,
    integral: Tensor,
    exact: bool,
    jaccard: bool,
) -> Prepared:
    """What all rows have in common.

    Args:
        rows: The features of each node.
        lists: The candidates that have each feature, ascending.
        norm2: The squared norm of each node, float64.
        scale: The power of two that each row was multiplied by, float64.
        integral: Whether each row holds integers, up to a power of two.
        exact: Whether no sum of products rounds.
        jaccard: Whether the measure is Jaccard; else it is the cosine.
    """
    is_one = (rows.value == 1).all() & (lists.value == 1).all()
    largest_norm2 = norm2.max() if norm2.numel() > 0 else norm2.sum()
    is_signed = (rows.value < 0).any() | (lists.value < 0).any()
    ones, below, signed = torch.stack([is_one, largest_norm2 < 2**26, is_signed]).tolist()
    ones, signed = ones and exact, signed and not exact
    # No dot product is larger than the largest squared norm.
    small = jaccard or (exact and below)
    id_type = type_of_ids(max(norm2.numel(), lists.ptr.numel()))
    rows, lists = (_narrow(matrix, id_type, not ones) for matrix in (rows, lists))
    norm2 = norm2.to(id_type) if ones else norm2
    skipped, hubs = torch.zeros_like(rows.ptr[1:]), None
    mask = skipped[:0]
    if ones:
        is_hub = _find_hubs(lists)
        if is_hub is not None:
            before = _count_products(rows, lists)
            rows, lists, hubs, mask = _split_hubs(rows, lists, norm2, is_hub)
            skipped = before - _count_products(rows, lists)
    descriptions = Descriptions(
        rows, lists, norm2, scale, integral, mask, exact, signed, small, jaccard
    )
    return Prepared(descriptions, hubs, _count_products(rows, lists), skipped)


def _narrow(matrix: Matrix, id_type: torch.dtype, valued: bool) -> Matrix:
    value = matrix.value if valued else matrix.value[:0]
    return Matrix(matrix.ptr, matrix.col.to(id_type), value.contiguous())


def _count_products(rows: Matrix, lists: Matrix) -> Tensor:
    """The number of products of each row."""
    before = rows.ptr.new_zeros(rows.col.numel() + 1)
    torch.cumsum(lists.lengths[rows.col], 0, out=before[1:])
    return before[rows.ptr].diff()


def _find_hubs(lists: Matrix) -> Optional[Tensor]:
    """The features whose lists are those of hubs, the shortest list first."""
    lengths = lists.lengths
    shortest = SHORTEST_HUB
    if lengths.numel() > MOST_HUBS:
        shortest = max(shortest, int(lengths.topk(MOST_HUBS + 1).values[-1]))
    found = (lengths > shortest).nonzero().view(-1)
    if found.numel() == 0:
        return None
    return found[lengths[found].argsort(stable=True)]


def _split_hubs(
    rows: Matrix, lists: Matrix, norm2: Tensor, features: Tensor
) -> tuple[Matrix, Matrix, Hubs, Tensor]:
    """Rows and lists without hubs, the lists of the hubs, and the hubs of each node."""
    num_features = lists.ptr.numel() - 1
    bit = torch.full((num_features,), -1, dtype=torch.long, device=features.device)
    bit[features] = torch.arange(features.numel(), device=features.device)
    bit_of_entry = bit[rows.col]
    hubbed = bit_of_entry >= 0
    mask = torch.zeros_like(rows.ptr[1:])
    # A row has a feature once: to add bits is to set them.
    mask.index_add_(0, _row_of_entries(rows)[hubbed], 1 << bit_of_entry[hubbed])

    feature_of_member = _row_of_entries(lists)
    in_hub = bit[feature_of_member] >= 0
    ids, hub = lists.col[in_hub], bit[feature_of_member[in_hub]]
    # The ids of a list ascend, and sorting is stable.
    order = norm2[ids].argsort(stable=True)
    order = order[hub[order].argsort(stable=True)]
    ids = ids[order]
    ptr = rows.ptr.new_zeros(features.numel() + 1)
    torch.cumsum(torch.bincount(hub, minlength=features.numel()), 0, out=ptr[1:])
    hubs = Hubs(ptr, ids, norm2[ids], mask[ids])
    return _without(rows, hubbed), _without(lists, in_hub), hubs, mask


def _row_of_entries(matrix: Matrix) -> Tensor:
    row = torch.arange(matrix.ptr.numel() - 1, device=matrix.ptr.device)
    return row.repeat_interleave(matrix.lengths, output_size=matrix.col.numel())


def _without(matrix: Matrix, dropped: Tensor) -> Matrix:
    """The matrix of ones without some of its entries."""
    before = matrix.ptr.new_zeros(dropped.numel() + 1)
    torch.cumsum(~dropped, 0, out=before[1:])
    return Matrix(before[matrix.ptr], matrix.col[~dropped], matrix.value)

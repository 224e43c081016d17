"""The tensors that the kernels read: narrow ids, and lists without hubs."""

from typing import NamedTuple, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.topk.measures import COSINE, SPARSE_MEASURES
from torch_geometric_simpool.topk.torch.backend import TorchGraph

#: Shorter lists are never those of a hub: reading them is cheaper than skipping them.
SHORTEST_HUB = 128

#: There is one bit in a mask for each hub, and masks are not negative.
MOST_HUBS = 62


class Matrix(NamedTuple):
    """A sparse matrix in CSR form."""

    ptr: Tensor  # [num_rows + 1], int64
    col: Tensor  # [nnz], int32 or int64; those of a row differ
    value: Tensor  # [nnz], float64; empty if all entries are one

    @property
    def lengths(self) -> Tensor:
        """The number of entries of each row."""
        return self.ptr.diff()


class Descriptions(NamedTuple):
    """The descriptions of all nodes, from which rows are computed."""

    rows: Matrix  # the features of each node, without hubs
    lists: Matrix  # the candidates that have each feature
    norm2: Tensor  # [N], squared norms: of the type of ids if all entries are one, else float64
    scale: Tensor  # [N], float64: the power of two that each was multiplied by
    integral: Tensor  # [N], boolean: whether each holds integers, up to a power of two
    mask: Tensor  # [N], int64: the hubs that each node has, one in a bit; empty if there are none
    exact: bool  # whether no sum of products rounds; then `scale` and `integral` are not read
    signed: bool  # whether sums that round may have terms of different signs
    small: bool  # whether the square of every dot product is exact
    measure: int  # its code in `topk.measures`

    @property
    def weighted(self) -> bool:
        """Returns whether entries have values."""
        return self.lists.value.numel() > 0

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return self.norm2.numel()

    @property
    def bytes_per_slot(self) -> int:
        """The bytes of a slot of a table: an id, and its sum, in up to three doubles."""
        if not self.weighted:
            sums = 4
        elif self.exact:
            sums = 8
        else:
            sums = 24 if self.signed else 16
        return self.lists.col.dtype.itemsize + sums


class Hubs(NamedTuple):
    """The members of the lists of hubs, shortest list first, each in order of norm, then id."""

    ptr: Tensor  # [num_hubs + 1], int64
    ids: Tensor
    norm2: Tensor
    mask: Tensor  # of each member


class Groups(NamedTuple):
    """Rows that have the same hubs; but for the cosine, and the same norm."""

    of_place: Tensor  # [M], the group of each row, -1 for none
    mask: Tensor  # [num_groups]
    norm2: Tensor  # [num_groups]


class Tables(NamedTuple):
    """The hash tables of some long rows, and the parts of rows that programs add to them."""

    place: Tensor  # of each row in the result
    node: Tensor
    group: Tensor
    ptr: Tensor  # where each table begins; the size of each is a power of two
    task_table: Tensor
    task_first: Tensor  # entries of the matrix of rows
    task_last: Tensor
    num_slots: int


class Result(NamedTuple):
    """The values and indices of the rows, `[M, k]` each."""

    values: Tensor
    indices: Tensor


class Problem(NamedTuple):
    """A graph as the kernels read it, and the cost of its rows."""

    descriptions: Descriptions
    hubs: Optional[Hubs]
    products: Tensor  # [N], the products of each row without those of hubs
    skipped: Tensor  # [N], the products of hubs


def type_of_ids(size: int) -> torch.dtype:
    """The type of ids below `size`; twice an id fits as well."""
    return torch.int32 if size < 2**30 else torch.int64


def prepare_arrays(graph: TorchGraph) -> Problem:
    """Turns the descriptions of the torch backend into what the kernels read."""
    norm2, scale, integral, exact = graph.norms
    rows, lists = (
        Matrix(*matrix)
        for matrix in (
            (graph.left.ptr, graph.left.col, graph.left.value),
            (graph.right.ptr, graph.right.col, graph.right.value),
        )
    )
    measure = SPARSE_MEASURES[graph.measure].code
    is_one = (rows.value == 1).all() & (lists.value == 1).all()
    largest_norm2 = norm2.max() if norm2.numel() > 0 else norm2.sum()
    is_signed = (rows.value < 0).any() | (lists.value < 0).any()
    ones, below, signed = torch.stack([is_one, largest_norm2 < 2**26, is_signed]).tolist()
    ones, signed = ones and exact, signed and not exact
    # No dot product is larger than the largest squared norm.
    small = measure != COSINE or (exact and below)
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
        rows, lists, norm2, scale, integral, mask, exact, signed, small, measure
    )
    return Problem(descriptions, hubs, _count_products(rows, lists), skipped)


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

"""The named tuples of tensors that the kernels take."""

from typing import NamedTuple, Optional

import torch
from torch import Tensor


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
    """What the rows of all nodes are computed from."""

    rows: Matrix  # the features of each node, without hubs
    lists: Matrix  # the candidates that have each feature
    norm2: Tensor  # [N], squared norms: of the type of ids if all entries are one, else float64
    scale: Tensor  # [N], float64: the power of two that each was multiplied by
    integral: Tensor  # [N], boolean: whether each holds integers, up to a power of two
    mask: Tensor  # [N], int64: the hubs that each node has, one in a bit; empty if there are none
    exact: bool  # whether no sum of products rounds; then `scale` and `integral` are not read
    signed: bool  # whether sums that round may have terms of different signs
    small: bool  # whether the square of every dot product is exact
    jaccard: bool

    @property
    def weighted(self) -> bool:
        """Whether entries have values."""
        return self.lists.value.numel() > 0

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return self.norm2.numel()


class Hubs(NamedTuple):
    """The members of the lists of hubs, shortest list first, each in order of norm, then id."""

    ptr: Tensor  # [num_hubs + 1], int64
    ids: Tensor
    norm2: Tensor
    mask: Tensor  # of each member


class Groups(NamedTuple):
    """Rows that have the same hubs; with the measure Jaccard, and the same norm."""

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
    """What is computed, `[M, k]` each."""

    values: Tensor
    indices: Tensor


class Prepared(NamedTuple):
    """A graph of which any rows can be computed."""

    descriptions: Descriptions
    hubs: Optional[Hubs]
    products: Tensor  # [N], the products of each row without those of hubs
    skipped: Tensor  # [N], the products of hubs


def type_of_ids(size: int) -> torch.dtype:
    """The type of ids below `size`; twice an id fits as well."""
    return torch.int32 if size < 2**30 else torch.int64

"""The named tuples of arrays that the kernels take."""

from typing import NamedTuple

import numpy as np


class CSRArrays(NamedTuple):
    """A sparse matrix in CSR form. A matrix whose `value` has size zero holds ones."""

    ptr: np.ndarray  # [num_rows + 1]
    col: np.ndarray  # row `i` is `col[ptr[i]:ptr[i + 1]]`
    value: np.ndarray

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self.ptr.size - 1

    @property
    def lengths(self) -> np.ndarray:
        """The number of entries of each row."""
        return np.diff(self.ptr)

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays."""
        return self.ptr.nbytes + self.col.nbytes + self.value.nbytes


class Description(NamedTuple):
    """The descriptions of all nodes, `[A_hat | A_hat^T]`: row `i` describes node `i`."""

    by_row: CSRArrays  # A_hat
    by_col: CSRArrays  # its transpose; the same arrays if `A_hat` is symmetric and unweighted
    two_sided: bool  # false if `A_hat` is symmetric: then its rows alone describe the nodes
    norm2: np.ndarray  # the squared norms; empty if unweighted
    nodes: np.ndarray  # the caller's id of each node, and its squared norm; empty if weighted
    exact: bool  # whether no sum of products rounds
    scale: np.ndarray  # a power of two for each description; empty if unweighted
    scaled_row: np.ndarray  # the values of `by_row`, each times the scale of its column
    scaled_col: np.ndarray  # those of `by_col`
    integral: np.ndarray  # whether a description holds integers, up to `scale` and a power of two
    unweighted: bool  # whether all entries are one, so that dot products are counts
    building_memory: int  # the bytes that it took to get here


class Hubs(NamedTuple):
    """At most 64 long lists, the shortest first. Hub `b` has bit `b` in the masks."""

    length: int  # all longer lists are those of hubs
    mask: np.ndarray  # the hubs of each node; empty if there are none
    ptr: np.ndarray  # where the list of each hub begins and ends, [num_hubs, 2]
    side: np.ndarray  # 0 if it is in `by_col`, 1 if in `by_row`


class Plan(NamedTuple):
    """What is to be computed for each row."""

    max_length: int  # longer lists are left out of the dot products
    hubs: Hubs
    work: np.ndarray  # an upper bound of the products of each row that are visited
    products: int  # of all rows, if no hub is skipped

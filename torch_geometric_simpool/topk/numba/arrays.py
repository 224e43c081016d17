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
    """The descriptions of all nodes: row `i` of `[A_hat | A_hat^T]` describes node `i`.

    Candidates are found from a row by way of the features that it names: `rows` and `lists` are
    those of `A_hat`, `back_rows` and `back_lists` those of its transpose. Arrays are shared where
    they are equal.
    """

    rows: CSRArrays  # the features of each node
    lists: CSRArrays  # the candidates that have each feature; values are times their scale
    back_rows: CSRArrays
    back_lists: CSRArrays
    two_sided: bool  # false if `A_hat` is symmetric or bipartite: then `rows` say everything
    norm2: np.ndarray  # the squared norms; empty if unweighted
    nodes: np.ndarray  # the caller's id of each node, and its squared norm; empty if weighted
    rank: np.ndarray  # the number of each of the caller's nodes; empty if weighted: they are equal
    is_candidate: np.ndarray  # whether each node is a candidate; empty if all are
    exact: bool  # whether no sum of products rounds
    signed: bool  # whether terms of such a sum may have different signs
    scale: np.ndarray  # a power of two for each description; empty if unweighted
    integral: np.ndarray  # whether a description holds integers, up to `scale` and a power of two
    unweighted: bool  # whether all entries are one, so that dot products are counts
    building_memory: int  # the bytes that it took to get here

    @property
    def sides(self) -> list[tuple[CSRArrays, CSRArrays]]:
        """The pairs of rows and lists."""
        sides = [(self.rows, self.lists), (self.back_rows, self.back_lists)]
        return sides if self.two_sided else sides[:1]


class Hubs(NamedTuple):
    """At most 64 long lists, the shortest first. Hub `b` has bit `b` in the masks."""

    length: int  # all longer lists are those of hubs
    mask: np.ndarray  # the hubs of each node; empty if there are none
    ptr: np.ndarray  # where the list of each hub begins and ends, [num_hubs, 2]
    side: np.ndarray  # 0 if it is in `lists`, 1 if in `back_lists`


class Rows(NamedTuple):
    """The rows that are asked for."""

    ids: np.ndarray  # in the numbers of the description
    places: np.ndarray  # where each row is written

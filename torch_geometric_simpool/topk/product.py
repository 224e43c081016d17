"""The product of two sparse matrices whose largest entries are recommended."""

from typing import NamedTuple

from scipy.sparse import csr_matrix


class Product(NamedTuple):
    """The matrix of `(left @ right)[i, j] ** power`, with 0 at the places of `left_out`.

    Columns of `left` ascend, and so do the summands of each entry, which is a sum in float64. A
    `power` other than 1 is of positive matrices.
    """

    left: csr_matrix
    right: csr_matrix
    left_out: csr_matrix  # only its places count
    power: float = 1.0

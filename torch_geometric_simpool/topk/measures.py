"""The measures with a sparse form, which are functions of a dot product and two squared norms.

A new measure is a function and an entry of the table. Dense and sparse functions compute it in
PyTorch. With a code, kernels compute it too.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

#: The codes by which compiled kernels choose a branch.
COSINE, JACCARD, DICE, OVERLAP = range(4)
NO_KERNEL = -1


class Measure(NamedTuple):
    """A similarity of two descriptions."""

    #: The differentiable function of a dot product and two positive squared norms.
    similarity: Callable[[Tensor, Tensor, Tensor], Tensor]
    #: The number by which compiled kernels choose a branch, if they have one.
    code: int = NO_KERNEL


def cosine(dot: Tensor, norm2_i: Tensor, norm2_j: Tensor) -> Tensor:
    r"""Computes :math:`d / (n_i n_j)`, the cosine; :math:`n_i` is the norm of a description."""
    return (dot / (norm2_i * norm2_j).sqrt()).clamp(-1, 1)


def jaccard(dot: Tensor, norm2_i: Tensor, norm2_j: Tensor) -> Tensor:
    r"""Computes :math:`d / (n_i^2 + n_j^2 - d)`; for sets, intersection over union."""
    # The denominator is positive: twice a dot product is at most the sum of the squared norms.
    return dot / (norm2_i + norm2_j - dot)


def dice(dot: Tensor, norm2_i: Tensor, norm2_j: Tensor) -> Tensor:
    r"""Computes :math:`2 d / (n_i^2 + n_j^2)`; for sets, intersection over mean size."""
    return 2 * dot / (norm2_i + norm2_j)


def overlap(dot: Tensor, norm2_i: Tensor, norm2_j: Tensor) -> Tensor:
    r"""Computes :math:`d / \min(n_i^2, n_j^2)`; for sets, intersection over smaller size."""
    return dot / torch.minimum(norm2_i, norm2_j)


SPARSE_MEASURES: dict[str, Measure] = {
    "cosine": Measure(cosine, COSINE),
    "jaccard": Measure(jaccard, JACCARD),
    "dice": Measure(dice, DICE),
    "overlap": Measure(overlap, OVERLAP),
}

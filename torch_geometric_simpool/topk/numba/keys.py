"""Kernels: the key that orders candidates as their similarity does, and the way back.

Candidates are sorted by key, the largest first, then by id, the smallest first.
"""

import math

import numpy as np

from torch_geometric_simpool.topk.measures import COSINE, DICE, JACCARD
from torch_geometric_simpool.topk.numba.jit import helper
from torch_geometric_simpool.utils.rounding import error_of

#: A little less than one, by which a bound is relaxed that is computed in another order.
SLACK = 1.0 - 2.0**-40

compiled_error_of = helper(error_of)


@helper
def order_key(dot, norm2_i, norm2_j, measure):
    """Returns a monotone function of the similarity, for a fixed row `i`, without a square root.

    It is the double that the torch backend computes. The key of the cosine is the quotient of
    `dot * |dot|` and `norm2_j`, which is rounded once, so that equal fractions have equal keys.
    """
    if measure == COSINE:
        square = dot * abs(dot)
        key = square / norm2_j
        if np.float64(dot).view(np.int64) & ((1 << 27) - 1) == 0:  # the square is exact
            return key
        product = key * norm2_j
        rest = square - product - compiled_error_of(product, key, norm2_j)
        rest += compiled_error_of(square, dot, abs(dot))
        return key + rest / norm2_j
    if measure == JACCARD:
        return dot / (norm2_i + norm2_j - dot)
    if measure == DICE:
        return 2 * dot / (norm2_i + norm2_j)
    return dot / min(norm2_i, norm2_j)  # OVERLAP


@helper
def least_dot(norm2_i, norm2_j, measure, key):
    """Returns the dot product whose key is `key > 0`, up to rounding."""
    if measure == COSINE:
        return math.sqrt(key * norm2_j)
    if measure == JACCARD:
        return key * (norm2_i + norm2_j) / (1 + key)
    if measure == DICE:
        return key * (norm2_i + norm2_j) / 2
    return key * min(norm2_i, norm2_j)  # OVERLAP


@helper
def similarity_of_key(key, norm2_i, measure):
    """Returns the similarity of a candidate of row `i`."""
    if measure != COSINE:
        return key
    root = min(math.sqrt(abs(key) / norm2_i), 1.0)
    return root if key > 0 else -root

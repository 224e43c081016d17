"""Kernels: the key that orders candidates as their similarity does, and the way back.

Candidates are sorted by key, the largest first, then by id, the smallest first.
"""

import math

import numpy as np

from torch_geometric_simpool.topk.measures import COSINE, DICE, JACCARD
from torch_geometric_simpool.topk.numba.jit import helper

#: The bits of a double that do not change when it is multiplied by a power of two.
MANTISSA = (1 << 52) - 1

#: A little less than one, by which a bound is relaxed that is computed in another order.
SLACK = 1.0 - 2.0**-40


@helper
def odd_part(value):
    """Returns an odd integer `m` and an exponent `e` with `value = m * 2^e`, for `value > 0`."""
    mantissa, exponent = math.frexp(value)
    odd = np.int64(mantissa * 9007199254740992.0)  # 2^53
    exponent -= 53
    while odd & 1 == 0:
        odd >>= 1
        exponent += 1
    return odd, exponent


@helper
def reduced_key(dot, norm2_j):
    """Returns the key of the cosine, `dot * |dot| / norm2_j`, from the fraction in lowest terms."""
    a, exponent = odd_part(abs(dot))
    b, exponent_j = odd_part(norm2_j)
    common = math.gcd(a, b)
    a //= common
    b //= common  # dot^2 / norm2_j = common * a^2 / b, times a power of two
    rest = math.gcd(common, b)
    key = np.float64(common // rest) * np.float64(a) * np.float64(a) / np.float64(b // rest)
    key = math.ldexp(key, 2 * exponent - exponent_j)
    return key if dot > 0 else -key


@helper
def order_key(dot, norm2_i, norm2_j, measure, integral):
    """Returns a monotone function of the similarity, for a fixed row `i`, without a square root.

    For integers (times a power of two) it is the double that the torch backend computes. Where the
    square of `dot` would be rounded, the fraction is first reduced to lowest terms.
    """
    if measure == COSINE:
        key = dot * abs(dot) / norm2_j
        bits = np.float64(dot).view(np.int64)
        if integral and bits & ((1 << 27) - 1) == 0:  # the square is exact
            return key
        # The quotient is a power of two, as of a node with itself, whose cosine is exactly one.
        if (bits ^ np.float64(norm2_j).view(np.int64)) & MANTISSA == 0:
            return dot * abs(dot / norm2_j)
        # Reduce if the odd part of `dot` has 27 to 50 bits, so 3 to 26 zeros end its mantissa.
        if not integral or bits & 7 != 0:
            return key
        return reduced_key(dot, norm2_j)
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

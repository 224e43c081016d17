"""Kernels: the key that orders candidates as their similarity does, and the way back.

Of two candidates the one with the larger key comes first; of equal keys, the smaller id.
"""

import math

import numpy as np

from torch_geometric_simpool.topk.numba.jit import helper


@helper
def gcd(a, b):
    """The greatest common divisor."""
    while b != 0:
        a, b = b, a % b
    return a


@helper
def odd_part(value):
    """An odd integer and an exponent `e`: their product with `2^e` is `value`, which is `> 0`."""
    mantissa, exponent = math.frexp(value)
    odd = np.int64(mantissa * 9007199254740992.0)  # 2^53
    exponent -= 53
    while odd & 1 == 0:
        odd >>= 1
        exponent += 1
    return odd, exponent


@helper
def order_key(dot, norm2_i, norm2_j, jaccard, integral):
    """A monotone function of the similarity, for a fixed row `i`: no square root is taken.

    For integers (times a power of two) it is the same double as in the torch backend. Where
    the square of `dot` would be rounded, the fraction is first reduced to lowest terms.
    """
    if jaccard:
        return dot / (norm2_i + norm2_j - dot)
    size = abs(dot)
    key = dot * size / norm2_j
    bits = np.float64(dot).view(np.int64)
    if integral and bits & ((1 << 27) - 1) == 0:  # the square is exact
        return key
    if dot == norm2_j:  # as of a node with itself, whose cosine is exactly one
        return dot
    # Reduce if the odd part of `dot` has 27 to 50 bits, so 3 to 26 zeros end its mantissa.
    if not integral or bits & 7 != 0:
        return key
    return reduced_key(dot, norm2_j)


@helper
def reduced_key(dot, norm2_j):
    """The key of the cosine, `dot * |dot| / norm2_j`, from the fraction in lowest terms."""
    a, exponent = odd_part(abs(dot))
    b, exponent_j = odd_part(norm2_j)
    common = gcd(a, b)
    a //= common
    b //= common  # dot^2 / norm2_j = common * a^2 / b, times a power of two
    rest = gcd(common, b)
    key = np.float64(common // rest) * np.float64(a) * np.float64(a) / np.float64(b // rest)
    key = math.ldexp(key, 2 * exponent - exponent_j)
    return key if dot > 0 else -key


@helper
def count_key(i, j, common, nodes, jaccard):
    """The key where all entries are one: rows `i` and `j` have `common` entries in common.

    `nodes[j]` holds the caller's id of a node and its squared norm. Both are read for each
    candidate, so they are next to each other.
    """
    norm2_i, norm2_j = np.float64(nodes[i, 1]), np.float64(nodes[j, 1])
    return order_key(np.float64(common), norm2_i, norm2_j, jaccard, True)


@helper
def similarity_of_key(key, norm2_i, jaccard):
    """The similarity of a candidate of row `i`."""
    if jaccard:
        return key
    root = min(math.sqrt(abs(key) / norm2_i), 1.0)
    return root if key > 0 else -root


@helper
def is_worse(key, j, other_key, other_j):
    """Whether a candidate comes after another one."""
    return key < other_key or (key == other_key and j > other_j)

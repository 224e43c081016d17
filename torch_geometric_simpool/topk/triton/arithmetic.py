"""Kernels: sums of products, keys that order candidates as their similarity does, and the best.

A sum that rounds is kept in two doubles: the second collects the rounding errors. The sum is zero
where its terms cancel: see `topk/rounding.py`.

Keys are float64, and become integers of the same order. The best candidates are taken one after
another: the largest key, then the smallest id among equal keys. Sorting pairs of keys and ids would
take two sorts, for which the compiler writes code that grows with the number of candidates.
"""

import triton
import triton.language as tl

from torch_geometric_simpool.topk import measures
from torch_geometric_simpool.topk.rounding import CANCELS
from torch_geometric_simpool.utils.scaling import LEAST_RATIO

#: The codes of the measures.
COSINE = tl.constexpr(measures.COSINE)
JACCARD = tl.constexpr(measures.JACCARD)
DICE = tl.constexpr(measures.DICE)
OVERLAP = tl.constexpr(measures.OVERLAP)

#: The integer of no candidate: all keys are above it.
NONE = tl.constexpr(-(2**63))

#: What sorts behind all ids.
LAST = tl.constexpr(2**63 - 1)

_LEAST_RATIO = tl.constexpr(LEAST_RATIO)
_CANCELS = tl.constexpr(CANCELS)
_ALL_BUT_SIGN = tl.constexpr(2**63 - 1)
_MANTISSA = tl.constexpr(2**52 - 1)
_IMPLICIT_BIT = tl.constexpr(2**52)


@triton.jit
def add(high, term):
    """Returns a sum, and the rounding error."""
    total = high + term
    part = total - high
    return total, (high - (total - part)) + (term - part)


@triton.jit
def rounded_sum(high, low, absolute):
    """Rounds a sum of two doubles; the sum is zero where its terms cancel."""
    total = high + low
    return tl.where(tl.abs(total) <= _CANCELS * absolute, 0.0, total)


@triton.jit
def sortable(key):
    """Returns int64 numbers in the order of the float64 `key`; 0 and -0 are equal."""
    bits = (key + 0.0).to(tl.int64, bitcast=True)
    return tl.where(bits < 0, bits ^ _ALL_BUT_SIGN, bits)


@triton.jit
def key_of(bits):
    """Returns the key that :func:`sortable` turned into an integer."""
    return tl.where(bits < 0, bits ^ _ALL_BUT_SIGN, bits).to(tl.float64, bitcast=True)


@triton.jit
def rank_candidates(dot, counted, i, j, norm2, scale, integral, zero, MEASURE: tl.constexpr):
    """Returns integers that order the candidates `j` of row `i`; :data:`NONE` if not `counted`.

    A similarity whose absolute value is at most `zero` is zero in the type of the result, and takes
    no place.
    """
    norm2_i = tl.load(norm2 + i)
    norm2_j = tl.load(norm2 + j, mask=counted, other=1.0)
    dot = tl.where(counted, dot, 0.0)
    if MEASURE == COSINE:
        key = cosine_key(dot, norm2_j, counted & tl.load(integral + i))
    else:
        # Both norms in the scale of the dot product. A ratio that is larger gives zero anyway.
        ratio = tl.load(scale + j, mask=counted, other=1.0) / tl.load(scale + i)
        ratio = tl.minimum(tl.maximum(ratio, _LEAST_RATIO), 1.0 / _LEAST_RATIO)
        key = similarity(dot, norm2_i * ratio, norm2_j / ratio, MEASURE)
    counted = counted & (tl.abs(similarity_of_key(key, norm2_i, MEASURE)) > zero)
    return tl.where(counted, sortable(key), NONE)


@triton.jit
def similarity(dot, norm2_i, norm2_j, MEASURE: tl.constexpr):
    """Returns the similarity, which is the key of all measures but the cosine."""
    if MEASURE == JACCARD:
        value = dot / (norm2_i + norm2_j - dot)
    elif MEASURE == DICE:
        value = 2 * dot / (norm2_i + norm2_j)
    else:
        tl.static_assert(MEASURE == OVERLAP)
        value = dot / tl.minimum(norm2_i, norm2_j)
    return value


@triton.jit
def cosine_key(dot, norm2_j, integers):
    """Returns a monotone function of the cosine for a fixed row, without a square root.

    The fraction is reduced to lowest terms if both numbers are `integers`, up to powers of two, and
    the square of `dot` may be rounded. The key has the bits of the other backends.
    """
    # The quotient is a power of two, as of a node with itself, whose cosine is exactly one.
    differing = dot.to(tl.int64, bitcast=True) ^ norm2_j.to(tl.int64, bitcast=True)
    power = dot * tl.abs(dot / norm2_j)
    key = tl.where(differing & _MANTISSA == 0, power, dot * tl.abs(dot) / norm2_j)
    odd, exponent = odd_part(tl.abs(dot))
    rounded = integers & (odd >= 2**26) & (odd < 2**50)
    if tl.max(rounded.to(tl.int32)) > 0:
        reduced = reduced_key(odd, exponent, norm2_j)
        key = tl.where(rounded, tl.where(dot < 0, -reduced, reduced), key)
    return key


@triton.jit
def odd_part(value):
    """Returns an odd integer and an exponent `e`. The integer times `2^e` is `value`, `>= 0`.

    The integer is 1 if `value` is 0 or not a normal number.
    """
    bits = value.to(tl.int64, bitcast=True)
    exponent = bits >> 52
    normal = exponent > 0
    whole = tl.where(normal, (bits & _MANTISSA) | _IMPLICIT_BIT, 1)
    power = whole & -whole
    zeros = (power.to(tl.float64).to(tl.int64, bitcast=True) >> 52) - 1023
    return whole >> zeros, tl.where(normal, exponent - 1075 + zeros, 0)


@triton.jit
def reduced_key(a, exponent, norm2_j):
    """Returns the key of the cosine, from the fraction in lowest terms; `a` is odd."""
    b, exponent_j = odd_part(norm2_j)
    common = gcd(a, b)
    a = a // common
    b = b // common  # dot^2 / norm2_j = common * a^2 / b, times a power of two
    rest = gcd(common, b)
    factor = a.to(tl.float64)
    key = (common // rest).to(tl.float64) * factor * factor / (b // rest).to(tl.float64)
    # In two steps, because one power of two could overflow where the key does not.
    shift = 2 * exponent - exponent_j
    half = shift >> 1
    return key * power_of_two(half) * power_of_two(shift - half)


@triton.jit
def power_of_two(exponent):
    """Returns `2^exponent` in float64, for an exponent in the range of normal numbers."""
    inside = tl.minimum(tl.maximum(exponent, -1022), 1023)
    return ((inside + 1023) << 52).to(tl.float64, bitcast=True)


@triton.jit
def gcd(a, b):
    """Returns the greatest common divisor of positive integers."""
    while tl.max(b) > 0:
        rest = tl.where(b > 0, a % tl.where(b > 0, b, 1), 0)
        a = tl.where(b > 0, b, a)
        b = rest
    return a


@triton.jit
def similarity_of_key(key, norm2_i, MEASURE: tl.constexpr):
    """Returns the similarity of a candidate. Equal keys have equal similarities."""
    if MEASURE != COSINE:
        value = key
    else:
        root = tl.minimum(tl.sqrt(tl.abs(key) / norm2_i), 1.0)
        value = tl.where(key < 0, -root, root)
    return value


@triton.jit
def keep_best(best_bits, best_ids, bits, ids, place, num_best, HALF: tl.constexpr):
    """Returns the `num_best` best of a sorted list and of new candidates, sorted, `[2 * HALF]`.

    The list is in the first half, `place < HALF`, and the candidates are in the second half. No id
    occurs twice. The key is :data:`NONE` and the id -1 at a place without a candidate.
    """
    bits = tl.where(place < HALF, best_bits, bits)
    ids = tl.where(place < HALF, best_ids, ids)
    best_bits = tl.full([2 * HALF], NONE, tl.int64)
    best_ids = tl.full([2 * HALF], -1, tl.int64)
    taken = num_best * 0
    top = tl.max(bits, 0)
    while (taken < num_best) & (top > NONE):
        winner = tl.min(tl.where(bits == top, ids, LAST), 0)
        best_bits = tl.where(place == taken, top, best_bits)
        best_ids = tl.where(place == taken, winner, best_ids)
        bits = tl.where(ids == winner, NONE, bits)
        top = tl.max(bits, 0)
        taken += 1
    return best_bits, best_ids

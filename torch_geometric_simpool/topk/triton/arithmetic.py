"""Kernels: sums of products, keys that order candidates as their similarity does, and the best.

Sums that round are sums of two doubles: the second collects what rounding loses. They are zero
where their terms cancel: see `topk/rounding.py`.

Keys are float64, and become integers of the same order. The best are taken one after another: the
largest key, and of those that have it the smallest id. To sort pairs of keys and ids would take two
sorts of all candidates, for which the compiler writes code that grows with their number.
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

#: The integer of no candidate: all keys are above it.
NONE = tl.constexpr(-(2**63))

#: What sorts behind all ids.
LAST = tl.constexpr(2**63 - 1)

#: A similarity below this could be too small for a type of the result.
_NEARLY_ZERO = tl.constexpr(2.0**-20)

_LEAST_RATIO = tl.constexpr(LEAST_RATIO)
_CANCELS = tl.constexpr(CANCELS)
_ALL_BUT_SIGN = tl.constexpr(2**63 - 1)
_MANTISSA = tl.constexpr(2**52 - 1)
_IMPLICIT_BIT = tl.constexpr(2**52)


@triton.jit
def add_counts(id, count, next_id, next_count):
    """For a scan: sums of the numbers of equal ids that are next to each other."""
    return next_id, next_count + tl.where(id == next_id, count, 0)


@triton.jit
def add_doubles(id, high, low, next_id, next_high, next_low):
    """For a scan: sums of two doubles of equal ids."""
    same = id == next_id
    total, lost = add(next_high, tl.where(same, high, 0.0))
    return next_id, total, next_low + tl.where(same, low, 0.0) + lost


@triton.jit
def add_signed_doubles(id, high, low, absolute, next_id, next_high, next_low, next_absolute):
    """For a scan: sums of two doubles, and of the absolute values."""
    _, total, lost = add_doubles(id, high, low, next_id, next_high, next_low)
    return next_id, total, lost, next_absolute + tl.where(id == next_id, absolute, 0.0)


@triton.jit
def add(high, term):
    """A sum, and what its rounding loses."""
    total = high + term
    part = total - high
    return total, (high - (total - part)) + (term - part)


@triton.jit
def rounded_sum(high, low, absolute, SIGNED: tl.constexpr):
    """A sum of two doubles, rounded; zero where terms cancel, which takes terms of both signs."""
    total = high + low
    if SIGNED:
        total = tl.where(tl.abs(total) <= _CANCELS * absolute, 0.0, total)
    return total


@triton.jit
def popcount(word):
    """The number of bits that are set in an int64, `>= 0`."""
    word = word - ((word >> 1) & 0x5555555555555555)
    word = (word & 0x3333333333333333) + ((word >> 2) & 0x3333333333333333)
    word = (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0F
    # At most 62 bits are set, so the sum of the bytes fits into one of them.
    word = word + (word >> 8)
    word = word + (word >> 16)
    word = word + (word >> 32)
    return word & 0x7F


@triton.jit
def sortable(key):
    """An int64 of the same order as the float64 `key`; 0 and -0 are equal."""
    bits = (key + 0.0).to(tl.int64, bitcast=True)
    return tl.where(bits < 0, bits ^ _ALL_BUT_SIGN, bits)


@triton.jit
def key_of(bits):
    """The key of which :func:`sortable` made an integer."""
    return tl.where(bits < 0, bits ^ _ALL_BUT_SIGN, bits).to(tl.float64, bitcast=True)


@triton.jit
def rank_candidates(dot, counted, i, j, norm2_i, norm2, scale, integral, smallest,
                    EXACT: tl.constexpr, MEASURE: tl.constexpr, REDUCE: tl.constexpr,
                    TINY: tl.constexpr):  # fmt: skip
    """Integers that order the candidates `j` of row `i`; :data:`NONE` where not `counted`.

    With `TINY`, similarities could be too small for the type of the result, and take no place:
    those whose absolute value is not above `smallest`.
    """
    norm2_j = tl.load(norm2 + j, mask=counted, other=1).to(tl.float64)
    dot = tl.where(counted, dot, 0.0)
    if MEASURE != COSINE and not EXACT:
        # Both norms in the scale of the dot product. A ratio that is larger gives zero anyway.
        ratio = tl.load(scale + j, mask=counted, other=1.0) / tl.load(scale + i)
        ratio = tl.minimum(tl.maximum(ratio, _LEAST_RATIO), 1.0 / _LEAST_RATIO)
        key = order_key(dot, norm2_i * ratio, norm2_j / ratio, MEASURE)
    else:
        key = order_key(dot, norm2_i, norm2_j, MEASURE)
    if REDUCE:
        integers = counted
        if not EXACT:
            integers = counted & tl.load(integral + i)
        key = rounded_key(key, dot, norm2_j, integers)
    if TINY:
        counted = counted & ~is_zero(key, counted, norm2_i, smallest, MEASURE)
    return tl.where(counted, sortable(key), NONE)


@triton.jit
def order_key(dot, norm2_i, norm2_j, MEASURE: tl.constexpr):
    """A monotone function of the similarity, for a fixed row `i`: no square root is taken.

    It is the same double as in the other backends, unless the square of `dot` is rounded.
    """
    if MEASURE == COSINE:
        key = dot * tl.abs(dot) / norm2_j
    elif MEASURE == JACCARD:
        key = dot / (norm2_i + norm2_j - dot)
    elif MEASURE == DICE:
        key = 2 * dot / (norm2_i + norm2_j)
    else:
        key = dot / tl.minimum(norm2_i, norm2_j)
    return key


@triton.jit
def rounded_key(key, dot, norm2_j, integers):
    """The `key` of the cosine where the square of `dot` may be rounded, as in the other backends.

    Where both numbers are `integers`, up to powers of two, the fraction is reduced to lowest terms.
    """
    # The similarity of a node with itself, for one, is exactly one.
    key = tl.where(dot == norm2_j, dot, key)
    odd, exponent = odd_part(tl.abs(dot))
    rounded = integers & (odd >= 2**26) & (odd < 2**50)
    if tl.max(rounded.to(tl.int32)) > 0:
        reduced = reduced_key(odd, exponent, norm2_j)
        key = tl.where(rounded, tl.where(dot < 0, -reduced, reduced), key)
    return key


@triton.jit
def is_zero(key, counted, norm2_i, smallest, MEASURE: tl.constexpr):
    """Returns whether `counted` similarities are zero in the type of the result."""
    if MEASURE != COSINE:
        zero = tl.abs(key) <= smallest
    else:
        zero = counted & (tl.abs(key) <= _NEARLY_ZERO * _NEARLY_ZERO * norm2_i)
        if tl.max(zero.to(tl.int32)) > 0:  # most blocks take no roots
            zero = tl.abs(similarity_of_key(key, norm2_i, MEASURE)) <= smallest
    return zero


@triton.jit
def odd_part(value):
    """An odd integer and an exponent `e`: their product with `2^e` is `value`, which is `>= 0`.

    Of 0, or of a number that is not normal, the integer is 1.
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
    """The key of the cosine, from the fraction in lowest terms; `a` is odd."""
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
    """`2^exponent`, in float64, of an exponent in the range of normal numbers."""
    inside = tl.minimum(tl.maximum(exponent, -1022), 1023)
    return ((inside + 1023) << 52).to(tl.float64, bitcast=True)


@triton.jit
def gcd(a, b):
    """The greatest common divisor of positive integers."""
    while tl.max(b) > 0:
        rest = tl.where(b > 0, a % tl.where(b > 0, b, 1), 0)
        a = tl.where(b > 0, b, a)
        b = rest
    return a


@triton.jit
def similarity_of_key(key, norm2_i, MEASURE: tl.constexpr):
    """The similarity of a candidate. Equal keys have equal similarities."""
    if MEASURE != COSINE:
        value = key
    else:
        root = tl.minimum(tl.sqrt(tl.abs(key) / norm2_i), 1.0)
        value = tl.where(key < 0, -root, root)
    return value


@triton.jit
def keep_best(best_bits, best_ids, bits, ids, place, num_best, HALF: tl.constexpr):
    """The `num_best` best of a sorted list and of new candidates, sorted, `[2 * HALF]`.

    The list is in the first half, `place < HALF`, and the candidates are in the second. Their ids
    differ. Keys are integers, :data:`NONE` where there is no candidate; there, ids become -1.
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


@triton.jit
def write(at, inside, bits, ids, norm2_i, lowest, values, index, MEASURE: tl.constexpr):
    """Writes candidates to places `at` of the result; padding for those below `lowest`."""
    value = similarity_of_key(key_of(bits), norm2_i, MEASURE)
    kept = (bits != NONE) & (value >= lowest)
    tl.store(values + at, tl.where(kept, value, 0.0).to(values.dtype.element_ty), mask=inside)
    tl.store(index + at, tl.where(kept, ids, -1), mask=inside)

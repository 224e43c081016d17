"""Kernels: the key that orders candidates as their similarity does, and the best of them.

Keys are float64, and become integers of the same order. Triton's functions take no tuples of arrays
to sort, so candidates are ordered in two steps: by key, and by place among the keys and id.
"""

import triton
import triton.language as tl

#: The integer of no candidate: all keys are above it.
NONE = tl.constexpr(-(2**63))

#: What sorts behind all candidates.
LAST = tl.constexpr(2**63 - 1)

#: Ids have at most this many bits, so that a place of up to 14 bits is in front of them.
ID_BITS = tl.constexpr(48)

_ID_MASK = tl.constexpr(2**48 - 1)
_ALL_BUT_SIGN = tl.constexpr(2**63 - 1)
_MANTISSA = tl.constexpr(2**52 - 1)
_IMPLICIT_BIT = tl.constexpr(2**52)


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
def order_key(dot, norm2_i, norm2_j, JACCARD: tl.constexpr, REDUCE: tl.constexpr):
    """A monotone function of the similarity, for a fixed row `i`: no square root is taken.

    It is the same double as in the other backends. With `REDUCE`, integers whose square would be
    rounded are first reduced to lowest terms.
    """
    if JACCARD:
        key = dot / (norm2_i + norm2_j - dot)
    else:
        key = dot * tl.abs(dot) / norm2_j
        if REDUCE:
            odd, exponent = odd_part(tl.abs(dot))
            rounded = (odd >= 2**26) & (odd < 2**50)
            if tl.max(rounded.to(tl.int32)) > 0:
                reduced = reduced_key(odd, exponent, norm2_j)
                key = tl.where(rounded, tl.where(dot < 0, -reduced, reduced), key)
    return key


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
def similarity_of_key(key, norm2_i, JACCARD: tl.constexpr):
    """The similarity of a candidate. Equal keys have equal similarities."""
    if JACCARD:
        value = key
    else:
        root = tl.minimum(tl.sqrt(tl.abs(key) / norm2_i), 1.0)
        value = tl.where(key < 0, -root, root)
    return value


@triton.jit
def in_order(bits, ids, place, LOG_SIZE: tl.constexpr):
    """Candidates of each row, the best first: keys descending, then ids ascending.

    Args:
        bits: The keys as integers, `[R, 2^LOG_SIZE]`, :data:`NONE` where there is no candidate.
        ids: The ids, int64, of the same shape. Those of a row differ.
        place: The column numbers, int32, of the same shape.

    Returns:
        The keys and the ids in order; behind the candidates, :data:`NONE` and -1.
    """
    ordered = tl.sort(bits, descending=True)
    # By bisection, the number of larger keys in the row.
    larger = tl.zeros_like(place)
    for step in tl.static_range(LOG_SIZE):
        half = 1 << (LOG_SIZE - 1 - step)
        probed = tl.gather(ordered, larger + (half - 1), 1)
        larger += tl.where(probed > bits, half, 0)
    combined = (larger.to(tl.int64) << ID_BITS) | ids
    combined = tl.sort(tl.where(bits == NONE, LAST, combined))
    return ordered, tl.where(combined == LAST, -1, combined & _ID_MASK)


@triton.jit
def keep_best(best_bits, best_ids, bits, ids, place, HALF: tl.constexpr, LOG_SIZE: tl.constexpr):
    """The best of a sorted list and of new candidates, sorted: `[1, 2 * HALF]`.

    The list is in the first half, `place < HALF`, and the candidates are in the second.
    """
    first = place < HALF
    return in_order(
        tl.where(first, best_bits, bits), tl.where(first, best_ids, ids), place, LOG_SIZE
    )


@triton.jit
def write(place_of_row, real, bits, ids, norm2_i, column, lowest, values, index, k,
          SIZE: tl.constexpr, JACCARD: tl.constexpr):  # fmt: skip
    """Writes sorted candidates to the rows `place_of_row`, `[R]`, of the result, and padding.

    The rest of a row is padding from the first similarity below `lowest`, `[R, SIZE]`.
    """
    value = similarity_of_key(key_of(bits), norm2_i, JACCARD)
    kept = (ids >= 0) & (value >= lowest)
    # An offset into the result exceeds 32 bits long before the number of nodes does.
    at = place_of_row.to(tl.int64)[:, None] * k + column
    inside = real[:, None] & (column < k)
    tl.store(values + at, tl.where(kept, value, 0.0).to(values.dtype.element_ty), mask=inside)
    tl.store(index + at, tl.where(kept, ids, -1), mask=inside)
    start = k * 0 + SIZE
    while start < k:
        inside = real[:, None] & (column + start < k)
        tl.store(values + at + start, tl.zeros_like(value).to(values.dtype.element_ty), mask=inside)
        tl.store(index + at + start, tl.zeros_like(at) - 1, mask=inside)
        start += SIZE

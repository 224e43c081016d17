"""Kernels: sums of the products of a candidate.

Sums that round are sums of two doubles: the second collects what rounding loses, so that the order
of terms matters little. They are zero where their terms cancel: see `utils/cancel.py`.
"""

import triton
import triton.language as tl

from torch_geometric_simpool.topk.rounding import CANCELS

_CANCELS = tl.constexpr(CANCELS)


@triton.jit
def add_counts(id, count, next_id, next_count):
    """For a scan: sums of the numbers of equal ids that are next to each other."""
    return next_id, next_count + tl.where(id == next_id, count, 0)


@triton.jit
def add_doubles(id, high, low, next_id, next_high, next_low):
    """The same of sums of two doubles."""
    same = id == next_id
    total, lost = add(next_high, tl.where(same, high, 0.0))
    return next_id, total, next_low + tl.where(same, low, 0.0) + lost


@triton.jit
def add_signed_doubles(id, high, low, absolute, next_id, next_high, next_low, next_absolute):
    """The same, with the sums of the absolute values."""
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

"""Kernels: sums that are rounded once, and are zero where their terms cancel."""

from typing import NamedTuple

import numpy as np

from torch_geometric_simpool.topk.numba.jit import helper
from torch_geometric_simpool.topk.rounding import CANCELS


class Sums(NamedTuple):
    """A sum for each slot, as the sum of two doubles, and the sum of the absolute terms."""

    high: np.ndarray
    low: np.ndarray
    absolute: np.ndarray  # empty if no two terms have different signs


def new_sums(size: int, signed: bool) -> Sums:
    """Room for `size` sums."""
    return Sums(np.empty(size), np.empty(size), np.empty(size if signed else 0))


@helper
def add(high, low, term, exact):
    """Adds to a sum of two doubles, whose low part stays zero if sums are `exact`.

    The low part collects what rounding loses, so that the order of terms matters little.
    """
    if exact:
        return high + term, low
    total = high + term
    part = total - high
    return total, low + ((high - (total - part)) + (term - part))


@helper
def start_sum(sums, at):
    """Sets a sum to zero."""
    sums.high[at] = 0.0
    sums.low[at] = 0.0
    if sums.absolute.size > 0:
        sums.absolute[at] = 0.0


@helper
def add_to(sums, at, term, exact):
    """Adds a term to a sum."""
    sums.high[at], sums.low[at] = add(sums.high[at], sums.low[at], term, exact)
    if sums.absolute.size > 0:
        sums.absolute[at] += abs(term)


@helper
def total(sums, at):
    """A sum, rounded; zero where its terms cancel."""
    value = sums.high[at] + sums.low[at]
    if sums.absolute.size > 0 and abs(value) <= CANCELS * sums.absolute[at]:
        return 0.0
    return value

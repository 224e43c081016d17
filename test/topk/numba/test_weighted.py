"""The sums that similarities of weighted graphs are made of."""

import math
from random import Random

import numpy as np
import pytest

from helpers.kernels import from_python
from torch_geometric_simpool.topk.numba import sums as sum_kernels
from torch_geometric_simpool.topk.numba import weighted as weighted_kernels
from torch_geometric_simpool.topk.numba.arrays import CSRArrays

sums, weighted = from_python(sum_kernels), from_python(weighted_kernels)


def test_add_keeps_what_one_double_loses() -> None:
    rng = Random(7)
    for _ in range(50):
        terms = [rng.uniform(-1, 1) * 2.0 ** rng.randint(-20, 20) for _ in range(60)]
        total = low = 0.0
        for term in terms:
            total, low = sums.add(total, low, term, False)
        assert total + low == math.fsum(terms)
    plain = sum(terms)
    total = low = 0.0
    for term in terms:
        total, low = sums.add(total, low, term, True)
    assert (total, low) == (plain, 0.0)


def test_sums_of_two_sizes() -> None:
    """The larger term first, or last."""
    for terms in ([1.0, 2.0**-60, -1.0], [2.0**-60, 1.0, -1.0], [1.0, -1.0, 2.0**-60]):
        total = low = 0.0
        for term in terms:
            total, low = sums.add(total, low, term, False)
        assert total + low == 2.0**-60


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("exact", [False, True])
def test_squared_norms(exact: bool, two_sided: bool) -> None:
    ptr, other_ptr = np.array([0, 2, 2, 5]), np.array([0, 0, 1, 3])
    value, other = np.array([0.1, -0.7, 0.3, 1e-9, 3.0]), np.array([0.2, 5.0, -1e-8])
    scale = np.array([2.0, 1.0, 0.5])
    norm2 = np.empty(3)
    no_col = np.empty(0, np.int32)
    by_row, by_col = CSRArrays(ptr, no_col, value), CSRArrays(other_ptr, no_col, other)
    weighted.squared_norms(by_row, by_col, two_sided, scale, exact, norm2)
    for i in range(3):
        terms = [v * scale[i] for v in value[ptr[i] : ptr[i + 1]]]
        if two_sided:
            terms += [v * scale[i] for v in other[other_ptr[i] : other_ptr[i + 1]]]
        assert norm2[i] == pytest.approx(math.fsum(t * t for t in terms), rel=1e-15)

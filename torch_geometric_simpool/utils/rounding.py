r"""Rounding: when a sum is zero, the error of a rounded product, and scales that are powers of two.

Dot products of descriptions, entries of powers of the adjacency matrix, and parallel edges (with
`lam`, in a self-loop) are sums of terms :math:`t_m`, each the product of two float64 numbers. A sum
is rounded once, to

.. math::
    s = \mathrm{fl}\Bigl(\sum_m \mathrm{fl}(t_m)\Bigr), \qquad
    s = 0 \;\text{ if }\; |s| \le 2^{-51} \sum_m |t_m|.

In the second case the terms *cancel*: the sum is not larger than the rounding error of its terms.
The error of a term is three times :math:`2^{-53}` of its size, for two factors and their product.
Terms of one sign never cancel, and neither do integers with exact sums.

.. note::
    The compiled loops keep a sum in two doubles, which have 106 bits together. A term below the
    last bit cannot break a tie in rounding. If weights, `lam` or their products differ by as many
    bits, similarities can differ in their last bit between backends, and with the order of edges.

The choice of pairs reads this sum. The gradient does not differentiate the root of the key, but
:math:`d_i \cdot d_j / (\lVert d_i \rVert \lVert d_j \rVert)`, which is smooth at a dot product of
zero.
"""

from typing import Any

import torch
from torch import Tensor

#: A sum of at most this share of the sum of its absolute terms is zero.
CANCELS = 2.0**-51

#: Splits a double into halves of at most 26 bits, whose products are exact.
SPLITTER = 2.0**27 + 1

#: The least ratio of two scales. Products of it or its inverse with a squared norm are normal.
LEAST_RATIO = 2.0**-510


def error_of(product: Any, a: Any, b: Any) -> Any:
    """Returns `a * b - product`, exactly, for a rounded product of doubles or tensors of doubles.

    Dekker (1971), 'A floating-point technique for extending the available precision'.
    """
    a_upper, b_upper = a * SPLITTER, b * SPLITTER
    a_upper, b_upper = a_upper - (a_upper - a), b_upper - (b_upper - b)
    a_lower, b_lower = a - a_upper, b - b_upper
    error = (a_upper * b_upper - product) + a_upper * b_lower + a_lower * b_upper
    return error + a_lower * b_lower


def smallest_value(dtype: torch.dtype) -> float:
    """Returns the smallest positive number of a type. Similarities up to this number are zero."""
    return torch.finfo(dtype).tiny * torch.finfo(dtype).eps


def power_of_two(largest: Tensor) -> Tensor:
    """Returns the power of two that scales `largest` to `[1/2, 1)`, as far as the type allows."""
    return two_to(-torch.frexp(largest).exponent, largest.dtype)


def exponent_of(power: Tensor) -> Tensor:
    """Returns the exponents of powers of two."""
    return torch.frexp(power).exponent - 1


def two_to(exponent: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns powers of two, clamped so that they and their inverses are normal numbers."""
    limit = 126 if dtype == torch.float32 else 1022
    one = torch.ones(exponent.shape, dtype=dtype, device=exponent.device)
    # Exponents are int64, because PyTorch's compiler writes invalid C++ code for int32.
    return torch.ldexp(one, exponent.long().clamp(-limit, limit))

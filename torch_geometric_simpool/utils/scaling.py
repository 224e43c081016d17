"""Powers of two: multiplying by them does not round."""

import torch
from torch import Tensor

#: The least ratio of two scales: it and its inverse times a squared norm are normal numbers.
LEAST_RATIO = 2.0**-510


def power_of_two(largest: Tensor) -> Tensor:
    """The power of two that scales `largest` to `[1/2, 1)`, as far as the type allows."""
    return two_to(-torch.frexp(largest).exponent, largest.dtype)


def exponent_of(power: Tensor) -> Tensor:
    """The exponents of powers of two."""
    return torch.frexp(power).exponent - 1


def two_to(exponent: Tensor, dtype: torch.dtype) -> Tensor:
    """Powers of two, clamped so that they and their inverses are normal numbers."""
    limit = 126 if dtype == torch.float32 else 1022
    one = torch.ones(exponent.shape, dtype=dtype, device=exponent.device)
    # As int64: of int32, PyTorch's compiler writes code for CPUs that does not compile.
    return torch.ldexp(one, exponent.long().clamp(-limit, limit))

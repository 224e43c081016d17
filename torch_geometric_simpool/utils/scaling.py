"""Powers of two, by which numbers can be scaled without rounding."""

import torch
from torch import Tensor


def power_of_two(largest: Tensor) -> Tensor:
    """A factor that brings `largest` below one and, a power of two, rounds nothing."""
    return two_to(-torch.frexp(largest).exponent, largest.dtype)


def exponent_of(power: Tensor) -> Tensor:
    """The exponents of powers of two."""
    return torch.frexp(power).exponent - 1


def two_to(exponent: Tensor, dtype: torch.dtype) -> Tensor:
    """The power of two, or the nearest that is a normal number, as is its inverse."""
    limit = 126 if dtype == torch.float32 else 1022
    one = torch.ones(exponent.shape, dtype=dtype, device=exponent.device)
    return torch.ldexp(one, exponent.clamp(-limit, limit))

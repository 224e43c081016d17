"""The key that orders the candidates of a row as their similarity does, and the way back.

The key of the cosine takes no square root, so that equal similarities of integers are equal keys.
The key of every other measure is the similarity.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_geometric_simpool.topk.measures import SPARSE_MEASURES
from torch_geometric_simpool.utils.scaling import LEAST_RATIO


class Norms(NamedTuple):
    """The numbers of each node, `[N]`, from which keys are computed."""

    norm2: Tensor  # squared norms of the descriptions
    scale: Tensor  # the power of two that each description was multiplied by
    integral: Tensor  # whether each holds integers, up to a power of two
    exact: bool  # whether no dot product and no squared norm has been rounded


def order_key(measure: str, norms: Norms, i: Tensor, j: Tensor, dot: Tensor) -> Tensor:
    """Returns a monotone function of the similarity of pairs, `[P]`, for a fixed `i`."""
    norm2_j = norms.norm2.index_select(0, j)
    if measure != "cosine":
        norm2_i = norms.norm2.index_select(0, i)
        if not norms.exact:
            norm2_i, norm2_j = of_one_scale(norm2_i, norm2_j, norms.scale[i], norms.scale[j])
        return SPARSE_MEASURES[measure].similarity(dot, norm2_i, norm2_j)
    # The quotient is a power of two, as of a node with itself, whose cosine is exactly one.
    is_power = torch.frexp(dot.abs()).mantissa == torch.frexp(norm2_j).mantissa
    key = torch.where(is_power, dot * (dot / norm2_j).abs(), dot * dot.abs() / norm2_j)
    if norms.exact and (dot.numel() == 0 or float(dot.abs().max()) < 2**26):
        return key
    return _reduced_key(key, dot, norm2_j, norms.integral[i])


def of_one_scale(
    norm2_i: Tensor, norm2_j: Tensor, scale_i: Tensor, scale_j: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns squared norms of pairs, both in the scale of their dot products.

    Clamped, because a ratio that is larger gives a similarity of zero. (An overlap can be as large
    as the ratio.)
    """
    ratio = (scale_j / scale_i).clamp(LEAST_RATIO, 1 / LEAST_RATIO)
    return norm2_i * ratio, norm2_j / ratio


def _reduced_key(key: Tensor, dot: Tensor, norm2_j: Tensor, integral: Tensor) -> Tensor:
    """Computes keys from fractions in lowest terms where the square of an integer is rounded.

    A key depends on the two numbers alone, up to powers of two, and not on other graphs of a batch.
    Numbers that fill a double are left out: they are not integers, but rounded themselves.
    """
    odd, exponent = _odd_part(dot)
    rounded = (integral & (odd.abs() >= 2**26) & (odd.abs() < 2**50)).nonzero().squeeze(1)
    if rounded.numel() == 0:
        return key
    a, exponent = odd[rounded], exponent[rounded]
    b, exponent_j = _odd_part(norm2_j[rounded])
    common = torch.gcd(a.abs(), b)
    a, b = a // common, b // common  # dot^2 / norm2_j = common * a^2 / b, times a power of two
    rest = torch.gcd(common, b)
    reduced = (common // rest).double() * a * a.abs() / (b // rest)
    return key.index_put((rounded,), torch.ldexp(reduced, 2 * exponent - exponent_j))


def _odd_part(value: Tensor) -> tuple[Tensor, Tensor]:
    """Returns odd integers and exponents `e`: their products with `2^e` are `value`."""
    mantissa, exponent = torch.frexp(value)
    whole = (mantissa * 2.0**53).long()
    power = (whole & -whole).clamp(min=1)
    return whole // power, exponent - 53 + power.double().log2().round().int()


def similarity_of_key(measure: str, key: Tensor, norm2_i: Tensor) -> Tensor:
    """Returns the similarities of candidates. Equal keys have equal similarities."""
    if measure != "cosine":
        return key
    return (key.sign() * _root(key.abs() / norm2_i)).clamp(-1, 1)


def _root(value: Tensor) -> Tensor:
    """Returns the square root, correctly rounded, which PyTorch's is not on a CPU."""
    if value.device.type == "cpu":
        return torch.from_numpy(np.sqrt(value.numpy()))
    return value.sqrt()

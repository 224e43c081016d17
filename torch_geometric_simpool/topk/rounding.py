r"""When a sum of floating-point numbers counts as zero: one definition, for all backends.

Dot products of descriptions, entries of powers of the adjacency matrix, and parallel edges (with
`lam`, in a self-loop) are sums of terms :math:`t_m`, each the product of two float64 numbers. A sum
is rounded once, to

.. math::
    s = \mathrm{fl}\Bigl(\sum_m \mathrm{fl}(t_m)\Bigr), \qquad
    s = 0 \;\text{ if }\; |s| \le 2^{-51} \sum_m |t_m|.

In the second case the terms *cancel*: what is left is no more than the rounding of the two factors
and of their product, three times :math:`2^{-53}` of each term. Terms of one sign never cancel, nor
do integers whose sums are exact.

The compiled loops keep a sum in two doubles, of 106 bits together. A term that is smaller than the
last of them does not decide there to which side a tie is rounded. So where products of weights and
`lam` are as far apart, similarities can differ in their last bits between backends.

Whether a pair is chosen is decided by this sum. The gradient pass differentiates the similarities
of chosen pairs as :math:`d_i \cdot d_j / (\lVert d_i \rVert \lVert d_j \rVert)`, which is smooth
where the dot product is zero, and never the root by which they are ordered.
"""

import torch

#: Up to this share of the sum of the absolute values, a sum is zero.
CANCELS = 2.0**-51


def smallest_value(dtype: torch.dtype) -> float:
    """The smallest positive number of a type. A similarity up to it takes no place, as zero."""
    info = torch.finfo(dtype)
    return info.tiny * info.eps


def least_rounded_to(value: float, dtype: torch.dtype) -> float:
    """Returns the smallest float64 number that is at least `value` once both are of a type.

    So a threshold can be compared before results are rounded. Half precision is rounded by way of
    float32.
    """
    least = torch.tensor(value, dtype=torch.float64).to(dtype)
    for wider in (torch.float32, torch.float64):
        if least.dtype.itemsize < wider.itemsize:
            below = torch.nextafter(least, torch.full_like(least, -torch.inf))
            middle = (below.to(wider) + least.to(wider)) / 2
            if middle.to(least.dtype) < least:  # halfway numbers are rounded to even ones
                middle = torch.nextafter(middle, torch.full_like(middle, torch.inf))
            least = middle
    return float(least)

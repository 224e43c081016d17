"""Comparison of two implementations: values and gradients."""

from collections.abc import Sequence

import torch
from torch import Tensor


def assert_same_gradients(
    found: Sequence[Tensor],
    expected: Sequence[Tensor],
    inputs: Sequence[Tensor],
    tolerance: float,
) -> None:
    """Asserts equal values, and equal gradients of each output and of their sum."""
    upstream = [torch.randn_like(output) for output in expected]
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
    every = range(len(upstream))
    for chosen in (*([i] for i in every), every):
        gradients = [
            torch.autograd.grad(
                sum(((of[i] * upstream[i]).sum() for i in chosen), torch.zeros(())),
                inputs,
                retain_graph=True,
                materialize_grads=True,
            )
            for of in (found, expected)
        ]
        for a, b in zip(*gradients, strict=True):
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)

"""Thresholds in the type of the result."""

import pytest
import torch

from torch_geometric_simpool.utils.rounding import least_rounded_to


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_least_number_that_is_rounded_to_a_threshold(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = torch.rand(200, generator=generator, dtype=torch.float64) * 2 - 1
    for value in [0.0, 1.0, -1.0, 0.5, 1 / 3, 0.1, *drawn.tolist()]:
        least = torch.tensor(least_rounded_to(value, dtype), dtype=torch.float64)
        threshold = torch.tensor(value, dtype=torch.float64).to(dtype)
        assert least.to(dtype) >= threshold
        assert torch.nextafter(least, least - 1).to(dtype) < threshold

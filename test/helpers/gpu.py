"""Tests that need a GPU."""

from typing import Any

import pytest
import torch


def needs_gpu(test: Any) -> Any:
    """Decorates a test that needs a GPU."""
    no_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    return pytest.mark.gpu(no_gpu(test))

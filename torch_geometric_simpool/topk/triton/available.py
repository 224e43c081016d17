"""Whether the kernels can run. This imports Triton only to find out."""

import importlib.util
import os
from typing import Optional

import torch


def missing(device: torch.device) -> Optional[str]:
    """What is missing to run the kernels on tensors of a device; `None` if nothing is."""
    if importlib.util.find_spec("triton") is None:
        return "the package triton, which is not installed: pip install triton"
    if os.environ.get("TRITON_INTERPRET") == "1":
        return None
    if device.type != "cuda":
        return (
            f"tensors on a GPU, and these are on {device}; or, for tests on a CPU, Triton's "
            "interpreter: set the environment variable TRITON_INTERPRET=1 before Python starts"
        )
    return None

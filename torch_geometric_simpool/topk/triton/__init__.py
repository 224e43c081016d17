"""The Triton backend of the sparse top k, for a GPU.

It takes descriptions and norms from the torch backend, in `backend`. Two kernels compute the rows,
in `tables`: one adds the products of a row in a hash table, the other reads the table and keeps the
best candidates. They use `arithmetic`: sums, keys, and the order of candidates.

Arguments of kernels in capitals are constants when a kernel is compiled, so each combination is a
kernel of its own. The kernels run on a GPU, or on a CPU in Triton's interpreter, which is slow and
meant for tests.
"""

import os
from typing import Optional

import torch


def missing(device: torch.device) -> Optional[str]:
    """Returns what is missing to run the kernels on a device; `None` if nothing is."""
    try:
        import triton  # noqa: F401
    except ImportError:
        return "the package triton, which is not installed: pip install triton"
    if device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1":
        return None
    return (
        f"tensors on a GPU, and these are on {device}; or, for tests on a CPU, Triton's "
        "interpreter: set the environment variable TRITON_INTERPRET=1 before Python starts"
    )

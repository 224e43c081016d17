"""The Triton backend of the sparse top k, for a GPU.

`backend` plans a call (`plan`: which rows are short, long or share hubs) and starts the kernels.
`short_rows` computes rows of few products, several in one program, by sorting. `long_rows`
computes the others, with a hash table for each in global memory. `hubs` first finds the best
candidates that share only hubs with a row. The kernels use `arithmetic`: sums, keys, and the order
of candidates. `arrays` turns descriptions into the tensors that the kernels read.

Arguments of kernels in capitals are constants when a kernel is compiled, so each combination is a
kernel of its own. `WEIGHTED`, `EXACT`, `SIGNED` and `MEASURE` are fields of `arrays.Descriptions`,
`REDUCE` is the opposite of its `small`; `LOOP` and `TINY` are fields of `backend.Options`; `SOME`
means that some nodes alone have rows, `HUBS` that the graph has hubs. Others are sizes of blocks.

The kernels run on a GPU, or on a CPU in Triton's interpreter, which is slow and meant for tests.
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

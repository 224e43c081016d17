"""The backends of the top k that tests run in."""

import os

#: Whether kernels in Triton run in its interpreter. That is for the whole process, and slow, so
#: tests with the backend `'triton'` are run apart: `test/topk/triton/test_interpreter.py`.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"

#: All backends but the one that is compiled for the CPU.
OTHERS = ["torch", "triton"] if INTERPRETED else ["torch"]

BACKENDS = ["numba", *OTHERS]

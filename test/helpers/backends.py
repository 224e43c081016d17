"""The backends of the top k that tests run in."""

import os

#: Whether Triton's interpreter runs the kernels. It is slow and chosen for a whole process, so
#: `test/topk/triton/test_interpreter.py` runs tests with the backend `'triton'` in another process.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"

#: All backends other than `'numba'`.
OTHERS = ["torch", "triton"] if INTERPRETED else ["torch"]

BACKENDS = ["numba", *OTHERS]

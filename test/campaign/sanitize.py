"""Kernels that check bounds, and memory that holds NaN before it is written to."""

import os
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np
import torch

#: Set where kernels check bounds. Numba reads it when it is imported.
VARIABLE = "NUMBA_BOUNDSCHECK"


def sanitized() -> bool:
    """Whether this process checks bounds."""
    return os.environ.get(VARIABLE) == "1"


def run_again() -> int:
    """The same command in a process that does; the machine code of others is not for it."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, VARIABLE: "1", "NUMBA_CACHE_DIR": folder}
        return subprocess.run([sys.executable, *sys.argv], env=environment).returncode


def poison() -> None:
    """Fills what NumPy and PyTorch allocate, in Python and in kernels, with NaN or garbage."""
    # PyTorch fills memory where it is asked to be deterministic.
    torch.use_deterministic_algorithms(True, warn_only=True)
    _poison_numpy()


def _poison_numpy() -> None:
    from numba.extending import overload

    empty, empty_like = np.empty, np.empty_like

    def poisoned(out: Any) -> Any:
        """NaN, or -1 in every byte: the largest number, or -1."""
        if out.flags.writeable and out.dtype.kind in "biufc":
            out.fill(np.nan if out.dtype.kind in "fc" else np.array(-1).astype(out.dtype))
        return out

    def poisoned_empty(shape: Any, dtype: Any = float, *more: Any, **named: Any) -> Any:
        return poisoned(empty(shape, dtype, *more, **named))

    def poisoned_empty_like(like: Any, *more: Any, **named: Any) -> Any:
        return poisoned(empty_like(like, *more, **named))

    # Kernels look the functions up by name, and so find those above.
    @overload(poisoned_empty)
    def _(shape: Any, dtype: Any = float) -> Any:
        def compiled(shape: Any, dtype: Any = float) -> Any:
            out = empty(shape, dtype)
            out.fill(-1)
            return out

        return compiled

    @overload(poisoned_empty_like)
    def _(like: Any) -> Any:
        def compiled(like: Any) -> Any:
            out = empty_like(like)
            out.fill(-1)
            return out

        return compiled

    vars(np).update(empty=poisoned_empty, empty_like=poisoned_empty_like)

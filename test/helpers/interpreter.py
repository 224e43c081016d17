"""Triton's interpreter, made fast enough for tests of the kernels."""

from typing import Any

import numpy as np
import pytest


def sort_by_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorts by NumPy: in the interpreter, `tl.sort` takes seconds for a few numbers."""
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    def sort(x: Any, dim: Any = None, descending: Any = False) -> Any:
        data = np.sort(x.handle.data, axis=-1)
        if descending:
            data = np.ascontiguousarray(np.flip(data, axis=-1))
        return tl.core.tensor(TensorHandle(data, x.handle.dtype), x.type)

    monkeypatch.setattr(tl, "sort", sort)

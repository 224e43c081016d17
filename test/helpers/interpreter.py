"""Triton's interpreter, made fast enough for tests of the kernels."""

from typing import Any

import numpy as np
import pytest

_replaced: set[str] = set()


class _Kept:
    """Triton's operations stay replaced: nothing else runs in this process."""

    def restore(self) -> None:
        """Does nothing."""


def make_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorts and scans whole arrays by NumPy: the interpreter takes one number at a time.

    And it replaces Triton's operations for each call of a kernel, and of a function from a kernel
    once more, on top of what is there, so that every further call is slower. Once is enough.
    """
    import triton.language as tl
    from triton.runtime import interpreter

    def array(data: Any, like: Any) -> Any:
        return tl.core.tensor(
            interpreter.TensorHandle(np.ascontiguousarray(data), like.handle.dtype), like.type
        )

    def sort(x: Any, dim: Any = None, descending: Any = False) -> Any:
        data = np.sort(x.handle.data, axis=-1)
        return array(np.flip(data, axis=-1) if descending else data, x)

    def generic_scan(self: Any, inputs: Any) -> Any:
        """Sums of twice as many columns in each step."""
        assert self.axis == 1
        totals = [x.handle.data for x in inputs]
        width = 1
        while width < totals[0].shape[1]:
            # Blocks have powers of two as their sizes, so all columns take part.
            parts = [np.roll(total, width, axis=1) for total in totals] + totals
            joined = self.combine_fn.fn(
                *(self.to_tensor(part, x.dtype) for part, x in zip(parts, [*inputs, *inputs]))
            )
            totals = [
                np.concatenate([total[:, :width], one.handle.data[:, width:]], 1)
                for total, one in zip(totals, joined)
            ]
            width *= 2
        return [self.to_tensor(total, x.dtype) for total, x in zip(totals, inputs)]

    def patch_lang(fn: Any) -> Any:
        if fn.__globals__["__name__"] not in _replaced:
            replace(fn)
            _replaced.add(fn.__globals__["__name__"])
        return _Kept()

    replace = interpreter._patch_lang
    monkeypatch.setattr(interpreter, "_patch_lang", patch_lang)
    monkeypatch.setattr(tl, "sort", sort)
    monkeypatch.setattr(interpreter.ScanOps, "generic_scan", generic_scan)

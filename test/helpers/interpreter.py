"""Triton's interpreter, made fast enough for tests of the kernels."""

from typing import Any

import pytest

_replaced: set[str] = set()


class _Kept:
    """Triton's operations stay replaced: nothing else runs in this process."""

    def restore(self) -> None:
        """Does nothing."""


def make_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces Triton's operations once a module.

    The interpreter replaces them for each call of a kernel, and of a function from a kernel once
    more, on top of what is there, so that every further call is slower.
    """
    from triton.runtime import interpreter

    def patch_lang(fn: Any) -> Any:
        if fn.__globals__["__name__"] not in _replaced:
            replace(fn)
            _replaced.add(fn.__globals__["__name__"])
        return _Kept()

    replace = interpreter._patch_lang
    monkeypatch.setattr(interpreter, "_patch_lang", patch_lang)

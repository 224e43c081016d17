"""Triton's interpreter, made fast enough for tests of the kernels."""

from typing import Any

import pytest

_replaced: set[str] = set()


class _Kept:
    """Replaced operations of Triton, which stay replaced because nothing else runs here."""

    def restore(self) -> None:
        """Does nothing."""


def make_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces Triton's operations only once for each module.

    The interpreter wraps them again for each call of a kernel, and for each call of a function from
    a kernel, so that every further call is slower.
    """
    from triton.runtime import interpreter

    def patch_lang(fn: Any) -> Any:
        if fn.__globals__["__name__"] not in _replaced:
            replace(fn)
            _replaced.add(fn.__globals__["__name__"])
        return _Kept()

    replace = interpreter._patch_lang
    monkeypatch.setattr(interpreter, "_patch_lang", patch_lang)

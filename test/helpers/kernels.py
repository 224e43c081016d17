"""Makes the helper functions of kernels callable from Python."""

from types import ModuleType, SimpleNamespace
from typing import Any

import numba


def from_python(module: ModuleType) -> Any:
    """Returns the names of a module of kernels, with helpers that Python can call."""
    return SimpleNamespace(**{name: _callable(value) for name, value in vars(module).items()})


def _callable(function: Any) -> Any:
    options = getattr(function, "targetoptions", {})
    if not options.get("no_cpython_wrapper"):
        return function

    @numba.njit(error_model="numpy")
    def call(*args: Any) -> Any:
        return function(*args)

    return call

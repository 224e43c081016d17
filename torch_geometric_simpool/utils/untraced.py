"""What :func:`torch.compile` must not trace."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])


def untraced(function: Function) -> Function:
    """Decorates a function that NumPy and Numba compute: a compiled program calls it as it is."""
    return torch.compiler.disable(function)

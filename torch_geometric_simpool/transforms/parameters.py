"""The parameters of a transform: how they are shown, and checks of names."""

import inspect
from typing import Any, Optional


def show(transform: Any, signature_of: type) -> str:
    """The `repr` of a transform: every parameter, in the order of the signature of its class."""
    names = inspect.signature(signature_of).parameters
    settings = ", ".join(f"{name}={getattr(transform, name)!r}" for name in names)
    return f"{type(transform).__name__}({settings})"


def check_name(name: str, value: Any) -> str:
    """What can be the name of an attribute."""
    if not isinstance(value, str) or not value.isidentifier():
        raise ValueError(f"`{name}` must be the name of an attribute, got {value!r}")
    return value


def check_optional_name(name: str, value: Any) -> Optional[str]:
    """The name of an attribute that may be missing, or `None`."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"`{name}` must be a name or None, got {value!r}")
    return value

"""Registers result types for :func:`torch.export.save`."""

from typing import TypeVar

from torch.utils import _pytree

Result = TypeVar("Result", bound=tuple)


def exportable(result: type[Result]) -> type[Result]:
    """Registers a named tuple that an exported program may return.

    PyTorch saves no program that returns a named tuple which is not registered. The function that
    its error message names is private.
    """
    name = f"{result.__module__}.{result.__qualname__}"
    _pytree._register_namedtuple(result, serialized_type_name=name)
    return result

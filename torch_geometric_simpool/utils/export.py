"""What :func:`torch.export.save` has to know of the results of this package."""

from typing import TypeVar

from torch.utils import _pytree

Result = TypeVar("Result", bound=tuple)


def exportable(result: type[Result]) -> type[Result]:
    """Decorates a named tuple that an exported program may return.

    PyTorch saves a program that returns one only if it is registered. The function that its error
    message names for that is private.
    """
    name = f"{result.__module__}.{result.__qualname__}"
    _pytree._register_namedtuple(result, serialized_type_name=name)
    return result

"""What the checks of arguments cost: the same calls without them."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, get_type_hints
from unittest import mock

from torch_geometric_simpool.utils import checks

PACKAGE = "torch_geometric_simpool"


@contextmanager
def without_checks() -> Iterator[None]:
    """No argument is checked, and no edge that a forward pass has saved."""
    with _replaced({v: _unchecked(v) for v in vars(checks).values() if _is_check(v)}):
        yield


@contextmanager
def without_checks_of_saved() -> Iterator[None]:
    """The backward pass does not check the edges that the forward pass has saved."""
    with _replaced({checks.check_saved: _nothing}):
        yield


@contextmanager
def _replaced(checked: dict[Callable[..., Any], Callable[..., Any]]) -> Iterator[None]:
    """Functions are replaced in every module of the package that has their name."""
    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] != PACKAGE:
                continue
            for attribute, value in list(vars(module).items()):
                if _is_function(value) and value in checked:
                    stack.enter_context(mock.patch.object(module, attribute, checked[value]))
        yield


def _is_function(value: Any) -> bool:
    return callable(value) and hasattr(value, "__name__")


def _is_check(value: Any) -> bool:
    return _is_function(value) and value.__name__.startswith("check_")


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _unchecked(check: Callable[..., Any]) -> Callable[..., Any]:
    """What returns the same for arguments that are right."""
    if check.__name__ in ("check_edge_index", "check_batch"):
        # Both also count, where they are not given how many nodes or graphs there are.
        place = 1 if check.__name__ == "check_edge_index" else 2

        def counted(*values: Any, **more: Any) -> Any:
            if values[0] is None or values[place] is None:
                return check(*values, **more)
            return values[0], values[place]

        return counted
    if get_type_hints(check)["return"] is type(None):
        return _nothing
    place = 1 if next(iter(get_type_hints(check))) == "name" else 0
    return lambda *values, **_: values[place]

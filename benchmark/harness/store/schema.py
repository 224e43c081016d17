"""Checks what was read from a file against the fields of a dataclass."""

import sys
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from math import inf
from types import NoneType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints


class Range(NamedTuple):
    """The bounds of a number, both of which are allowed."""

    low: float
    high: float = inf


#: Numbers with bounds, for the fields of schemas.
Share = Annotated[float, Range(0, 1)]
Seconds = Annotated[float, Range(0)]
Count = Annotated[int, Range(1)]
Index = Annotated[int, Range(0)]


def check(kind: Any, value: Any, where: str = "") -> None:
    """Raises a `ValueError` that names the place unless `value`, as of JSON, is of a kind.

    Kinds are dataclasses (other entries are allowed, and a field with a default may be missing),
    `list[...]`, `dict[str, ...]`, `Optional[...]`, `Annotated[..., Range]`, `Any` and types.
    Numbers must be finite. An integer is a `float`, and a boolean is no number.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        base, bounds = inner
        check(base, value, where)
        _require(bounds.low <= value <= bounds.high, value, where)
    elif origin is Union:
        if value is not None or NoneType not in inner:
            check(next(one for one in inner if one is not NoneType), value, where)
    elif origin is list:
        _require(isinstance(value, list), value, where)
        for number, entry in enumerate(value):
            check(inner[0], entry, f"{where}[{number}]")
    elif origin is dict:
        _require(isinstance(value, dict), value, where)
        for name, entry in value.items():
            check(inner[1], entry, f"{where}.{name}")
    elif is_dataclass(kind):
        _check_fields(kind, value, where)
    elif kind in (int, float):
        number = isinstance(value, (int, kind)) and not isinstance(value, bool)
        _require(number and abs(value) <= sys.float_info.max, value, where)
    elif kind is not Any:
        _require(isinstance(value, kind), value, where)


def _check_fields(kind: Any, value: Any, where: str) -> None:
    _require(isinstance(value, Mapping), value, where)
    hints = get_type_hints(kind, include_extras=True)
    for each in fields(kind):
        place = f"{where}.{each.name}".lstrip(".")
        if each.name in value:
            check(hints[each.name], value[each.name], place)
        elif each.default is MISSING:
            raise ValueError(f"{place} is missing")


def _require(condition: bool, value: Any, where: str) -> None:
    if not condition:
        shown = repr(value) if len(repr(value)) < 100 else f"a {type(value).__name__}"
        raise ValueError(f"{where or 'the content'} is {shown}")

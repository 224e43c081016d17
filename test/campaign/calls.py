"""Wrong calls of every public function: the error names a parameter that is wrong."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

from campaign.fuzzer import Fuzzer
from helpers.signatures import CASES, wrong_calls


@dataclass(frozen=True)
class Case:
    """A public function, and parameters with the kind of their wrong values."""

    key: str
    wrong: tuple[tuple[str, str], ...]


@cache
def values() -> dict[str, dict[tuple[str, str], Any]]:
    """The wrong values by function, parameter and kind."""
    found: dict[str, dict[tuple[str, str], Any]] = {}
    for key, name, kind, value in wrong_calls():
        found.setdefault(key, {})[name, kind] = value
    return found


def draw(rng: Random) -> Case:
    """One to three parameters at once; one at most on another device, or all might be there."""
    key = rng.choice(list(values()))
    drawn = dict(rng.choices(list(values()[key]), k=rng.choice([1, 1, 2, 3])))
    elsewhere = [name for name, kind in drawn.items() if kind == "another device"]
    for name in elsewhere[1:]:
        del drawn[name]
    return Case(key, tuple(sorted(drawn.items())))


def check(case: Case) -> None:
    """A `TypeError` or a `ValueError`. Several values may be right together."""
    call = CASES[case.key]
    wrong = {name: values()[case.key][name, kind] for name, kind in case.wrong}
    message = None
    try:
        call.call(**{**call.arguments, **wrong})
    except (TypeError, ValueError) as error:
        message = str(error)
    if message is None:
        assert len(wrong) > 1, "no error"
    else:
        # Values that agree with each other disagree with a right one, which may be named.
        names = wrong if len(wrong) == 1 else {**call.arguments, **wrong}
        assert any(f"`{name}`" in message for name in names), f"no parameter is named: {message}"
        assert "got" in message, f"what was given is not said: {message}"


def smaller(case: Case) -> Iterator[Case]:
    """One wrong parameter less."""
    if len(case.wrong) > 1:
        for number in range(len(case.wrong)):
            yield replace(case, wrong=case.wrong[:number] + case.wrong[number + 1 :])


FUZZER = Fuzzer(draw, check, 0.03, smaller)

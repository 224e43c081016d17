"""What a fuzzer is: it draws cases, checks one, and makes one smaller."""

import faulthandler
from collections.abc import Callable, Iterator
from random import Random
from time import monotonic
from typing import Any, NamedTuple

#: Seconds after which a case hangs. Most take less than one, those of `kills` less than a minute.
HANGS = 300.0

#: The longest that a failing case is made smaller, in seconds.
PATIENCE = 60.0


def nothing_smaller(case: Any) -> Iterator[Any]:
    """Of cases that are as small as they are."""
    return iter(())


class Fuzzer(NamedTuple):
    """A story of the campaign."""

    #: The same case for the same generator. Its `repr` is the code that makes it.
    draw: Callable[[Random], Any]
    #: Raises where something is wrong, whatever it raises.
    check: Callable[[Any], None]
    #: The part of the time that is for it.
    share: float
    #: Cases that may fail in the same way, each simpler than the one given.
    smaller: Callable[[Any], Iterator[Any]] = nothing_smaller


def draw(fuzzer: Fuzzer, name: str, seed: int, number: int) -> Any:
    """One case of a campaign, whatever the others are."""
    return fuzzer.draw(Random(f"{name} {seed} {number}"))


def error_of(fuzzer: Fuzzer, case: Any) -> Exception | None:
    """What a case raises. One that hangs ends the process."""
    faulthandler.dump_traceback_later(HANGS, exit=True, file=2)
    try:
        fuzzer.check(case)
    except Exception as error:
        return error
    finally:
        faulthandler.cancel_dump_traceback_later()
    return None


def shrink(fuzzer: Fuzzer, case: Any, error: Exception) -> tuple[Any, Exception]:
    """The smallest case found that raises an error of the same type, and that error."""
    end = monotonic() + PATIENCE
    while True:
        for candidate in fuzzer.smaller(case):
            if monotonic() > end:
                return case, error
            found = error_of(fuzzer, candidate)
            if type(found) is type(error):
                case, error = candidate, found
                break
        else:
            return case, error

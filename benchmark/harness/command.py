"""Shared parts of the commands: options, errors and the exit status."""

import argparse
import math
import os
import pkgutil
import sys
from collections.abc import Callable
from typing import Any, Optional

import torch


class BenchmarkError(Exception):
    """A problem that the user can solve. It is printed without a traceback."""


def exit_status(name: str, run: Callable[[], Optional[int]]) -> int:
    """Runs a command and returns its exit status.

    The status is 2 for a :class:`BenchmarkError` or a file error, and 130 for Ctrl-C.
    """
    try:
        return run() or 0
    except KeyboardInterrupt:
        print("\nInterrupted. Finished runs are stored.", file=sys.stderr)
        return 130
    except (BenchmarkError, OSError) as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        return 2


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's message, or its type if the message is empty."""
    return (str(error) or type(error).__name__).splitlines()[0]


def number(
    kind: type, low: float, high: float = math.inf, above: bool = False
) -> Callable[[str], Any]:
    """Returns a parser of finite numbers of a type within bounds, for `argparse`.

    With `above`, the lower bound itself is excluded.
    """

    def parse(text: str) -> Any:
        value = kind(text)
        if not low <= value <= high or value == math.inf or (above and value == low):
            least = f"{'above' if above else 'at least'} {low:g}"
            raise argparse.ArgumentTypeError(f"must be {least}, at most {high:g}, got {text!r}")
        return value

    parse.__name__ = kind.__name__  # argparse names it in its error
    return parse


def device(name: str) -> str:
    """Parses the name of a device for `argparse`, and refuses one that is not available."""
    try:
        torch.zeros(1, device=name).item()
    except (RuntimeError, AssertionError) as error:
        problem = f"{name!r} is not available: {first_line(error)[:200]}"
        raise argparse.ArgumentTypeError(problem) from error
    return name


def import_object(path: str, option: str) -> Any:
    """Imports `module:name`, from the working directory or an installed package."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        return pkgutil.resolve_name(path)
    except Exception as error:  # a user's module may raise any error
        raise BenchmarkError(f"{option} {path} cannot be imported: {first_line(error)}") from error

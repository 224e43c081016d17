"""Shared parts of the commands: options, errors and the exit status."""

import argparse
import importlib
import math
import os
import sys
from collections.abc import Callable
from typing import Any, Optional

import torch


class BenchmarkError(Exception):
    """A problem that the user can solve. It is printed without a traceback."""


def exit_status(name: str, run: Callable[[], Optional[int]]) -> int:
    """Runs a command and returns its exit status.

    A :class:`BenchmarkError`, or a file that cannot be read or written, gives 2, and Ctrl-C 130.
    """
    try:
        return run() or 0
    except KeyboardInterrupt:
        print("\nInterrupted. Finished runs are stored.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # As in `--list | head`. Flushing the output at exit would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (BenchmarkError, OSError) as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        return 2


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's message, or its type without a message."""
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
            bounds = f"{'above' if above else 'at least'} {low:g}"
            bounds += f" and at most {high:g}" if high < math.inf else ""
            raise argparse.ArgumentTypeError(f"must be {bounds}, got {text!r}")
        return value

    parse.__name__ = kind.__name__  # argparse says so where a text is no number
    return parse


def device_of(parser: argparse.ArgumentParser, name: str) -> str:
    """Returns the name of a device, or raises the parser's error if it is not available."""
    try:
        torch.zeros(1, device=name).item()
    except (RuntimeError, AssertionError) as error:
        parser.error(f"argument --device: {name!r} is not available: {first_line(error)[:200]}")
    return name


def import_object(path: str, option: str) -> Any:
    """Imports `module:name`, from the working directory or an installed package."""
    module, _, name = path.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:  # the module of a user may raise anything
        raise BenchmarkError(f"{option} {path} cannot be imported: {first_line(error)}") from error

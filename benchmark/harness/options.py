"""Types of command-line options that check their values."""

import argparse
import math
from collections.abc import Callable
from typing import Optional

import torch


def integer(low: int, high: Optional[int] = None) -> Callable[[str], int]:
    """Returns a parser of integers within bounds."""

    def parse(text: str) -> int:
        bound = f">= {low}" if high is None else f">= {low} and <= {high}"
        expected = f"must be an integer {bound}, got {text!r}"
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(expected) from None
        if value < low or (high is not None and value > high):
            raise argparse.ArgumentTypeError(expected)
        return value

    return parse


def real(low: float, high: float = math.inf, open_low: bool = False) -> Callable[[str], float]:
    """Returns a parser of finite numbers within bounds; `open_low` excludes the lower one."""

    def parse(text: str) -> float:
        bound = f"> {low:g}" if open_low else f">= {low:g}"
        bound += f" and <= {high:g}" if high < math.inf else ""
        expected = f"must be a finite number {bound}, got {text!r}"
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(expected) from None
        if not math.isfinite(value) or not low <= value <= high or (open_low and value == low):
            raise argparse.ArgumentTypeError(expected)
        return value

    return parse


def device_of(parser: argparse.ArgumentParser, name: str) -> str:
    """The name of an available device; 'auto' is CUDA where available. Else a parser error."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name).item()
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0][:200]
        parser.error(f"argument --device: {name!r} is not available: {reason}")
    return name

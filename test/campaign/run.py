"""Random cases of everything that must not go wrong, for some minutes.

Usage: python test/campaign/run.py [--minutes 30] [--cases N] [--seed N] [--only NAME ...]
       [--sanitize]

Each fuzzer has a part of the time. A failing case is made smaller, and printed as the code that
makes it; the seed and the number of the case make it again. Ends with a table, and with 1 if
there were failures. A case that hangs ends the campaign, with what all threads were doing.
"""

import argparse
import json
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("test", "benchmark", "")]

import pytest  # noqa: E402
import torch  # noqa: E402

from campaign import sanitize  # noqa: E402
from campaign.fuzzer import Fuzzer, draw, error_of, shrink  # noqa: E402
from campaign.table import FUZZERS  # noqa: E402
from harness.store.surroundings import surroundings  # noqa: E402
from helpers.backends import BACKENDS, INTERPRETED  # noqa: E402
from helpers.interpreter import make_fast  # noqa: E402

#: Failures after which a fuzzer ends: more are seldom others.
ENOUGH = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the campaign; returns the exit status."""
    options = parse(arguments)
    if options.sanitize:
        if not sanitize.sanitized():
            return sanitize.run_again()
        sanitize.poison()
    if INTERPRETED:
        make_fast(pytest.MonkeyPatch())
    # The graphs are tiny.
    torch.set_num_threads(1)
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    names = options.only or list(FUZZERS)
    share = sum(FUZZERS[name].share for name in names)
    rows = []
    for name in names:
        print(f"{name} ...", flush=True)
        seconds = 60 * options.minutes * FUZZERS[name].share / share
        rows.append(fuzz(name, FUZZERS[name], seed, seconds, options.case, options.cases))
    print(table(rows), flush=True)
    if options.json:
        summary = {
            "seed": seed,
            "sanitized": options.sanitize,
            "backends": BACKENDS,
            "fuzzers": rows,
        }
        summary = {**surroundings(torch.device("cpu")), **summary}
        options.json.write_text(json.dumps(summary, indent=2) + "\n")
    return int(any(row["failures"] for row in rows))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="run.py", description=str(__doc__).split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="of all fuzzers together")
    parser.add_argument("--seed", type=int, help="a fresh one if it is not given")
    parser.add_argument("--only", nargs="+", choices=list(FUZZERS), help="some fuzzers")
    parser.add_argument("--cases", type=int, help="of each fuzzer, at most; default: no limit")
    parser.add_argument("--case", type=int, help="one case, by its number")
    parser.add_argument(
        "--sanitize", action="store_true", help="kernels check bounds, and memory begins as NaN"
    )
    parser.add_argument("--json", type=Path, help="the file of the summary")
    return parser.parse_args(arguments)


def fuzz(
    name: str, fuzzer: Fuzzer, seed: int, seconds: float, only: int | None, most: int | None
) -> dict[str, Any]:
    """Runs a fuzzer for some seconds or cases, and at least one case of it."""
    start = time.monotonic()
    number = only or 0
    failures: list[str] = []
    cases = 0
    while True:
        case = draw(fuzzer, name, seed, number)
        error = error_of(fuzzer, case)
        cases += 1
        if error is not None:
            failures.append(reproducer(name, fuzzer, seed, number, case, error))
            print(failures[-1], flush=True)
        number += 1
        spent = time.monotonic() - start
        over = spent >= seconds or cases == most or len(failures) >= ENOUGH
        if only is not None or over:
            break
    return {
        "name": name,
        "cases": cases,
        "failures": len(failures),
        "minutes": round(spent / 60, 2),
        "reproducers": failures,
    }


def reproducer(
    name: str, fuzzer: Fuzzer, seed: int, number: int, case: Any, error: Exception
) -> str:
    """How to see a failure again: the case as it was drawn, and a smaller one as code."""
    case, error = shrink(fuzzer, case, error)
    return (
        f"{name} fails: {type(error).__name__}: {error}\n"
        f"  python test/campaign/run.py --seed {seed} --only {name} --case {number}\n"
        f"or, made smaller, in the folder test:\n"
        f"  from campaign.{name} import *\n"
        f"  from helpers.graphs import Graph\n"
        f"  check({case!r})"
    )


def table(rows: list[dict[str, Any]]) -> str:
    """Of all fuzzers."""
    lines = [f"{'fuzzer':<14}{'cases':>9}{'failures':>10}{'minutes':>9}"]
    for row in rows:
        numbers = f"{row['cases']:>9}{row['failures']:>10}{row['minutes']:>9.2f}"
        lines.append(f"{row['name']:<14}{numbers}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

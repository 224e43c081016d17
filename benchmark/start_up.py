"""Processor time of the first calls of a process, which compile the kernels, or find them cached.

Usage: python benchmark/start_up.py [--out FILE]

Each case runs in a process of one thread, once with an empty cache and once with what the first
run left. Writes the seconds of processor time (`time.process_time`, which other programs affect
less than the clock) to FILE, and prints the table of the documentation.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path


def main() -> int:
    """Measures all cases, or one of them in this process; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/start_up.json"))
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        case, os.environ["NUMBA_CACHE_DIR"] = options.child  # before Numba is imported
        os.environ["OMP_NUM_THREADS"] = "1"
        from harness.speed.start_up import first_calls

        print(json.dumps({"imports": time.process_time(), **first_calls(case)}))
        return 0

    import torch

    from harness.speed.child import run_child
    from harness.speed.start_up import CASES, table
    from harness.store.files import write_json
    from harness.store.surroundings import surroundings

    cases = {}
    for case in CASES:
        with tempfile.TemporaryDirectory() as cache:
            words = ["--child", case, cache]
            cases[case] = {way: run_child("start_up.py", words) for way in ("cold", "warm")}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_json(options.out, {**surroundings(torch.device("cpu")), "cases": cases})
    print("\n".join(table(cases)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Everything that a GPU machine is asked for: its tests, the top k, pooling, and training.

Each part writes a JSON file when it is complete; a part whose file is there is skipped, so the same
command goes on after a stop. A part that would go beyond `--minutes` is left for the next run.
Graphs are generated unless `--root` holds the data sets.

    python benchmark/gpu.py --out results-gpu
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Optional

import torch

from harness.command import exit_status
from harness.errors import BenchmarkError
from harness.speed.gpu_parts import Settings, parts, warm_clocks
from harness.store.files import write_json
from harness.store.surroundings import surroundings


def main(arguments: Optional[list[str]] = None) -> int:
    """Measures; returns the exit status: 1 if a part is missing."""
    options = parse(arguments)
    return exit_status("gpu.py", lambda: start(options), "stopped; the same command goes on")


def start(options: argparse.Namespace) -> int:
    """Runs the parts that are missing."""
    if options.device == "cuda" and not torch.cuda.is_available():
        raise BenchmarkError("--device must be available, got 'cuda': try --device cpu --small")
    settings = Settings(torch.device(options.device), options.root, options.small)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * options.minutes
    missing = 0
    for name, (measure, seconds) in parts(options.small).items():
        path = out / f"{name}.json"
        if path.exists():
            print(f"{name}: there already", flush=True)
            continue
        if time.monotonic() + seconds > end:
            print(f"{name}: no time left", flush=True)
            missing += 1
            continue
        begin = time.monotonic()
        try:
            warm_clocks(settings)
            metrics = measure(settings, seconds)
        except Exception as error:  # the other parts shall still be measured
            print(f"{name}: failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            missing += 1
            continue
        write_json(path, {"metrics": metrics, **surroundings(settings.device)})
        print(f"{name}: {time.monotonic() - begin:.0f} s", flush=True)
    return int(missing > 0)


def parse(arguments: Optional[list[str]]) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--out", required=True, help="folder of the results, one file per part")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--root", help="folder of the TU data sets")
    parser.add_argument("--minutes", type=float, default=9.0, help="for all parts together")
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try the command")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

"""A long run of what keeps state: resident memory stays flat, and no file is left behind.

Usage: python test/campaign/soak.py [--minutes 60] [--json FILE]

Every round precomputes the features of a data set to disk, trains a network on it with
`Diagnostics` and a checkpoint after every epoch, goes on from the checkpoint, and removes what it
has written. Ends with 1 if the resident memory of the last tenth of the time differs by more than
2 % from that of the second, or if files, descriptors or threads are left.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("test", "benchmark", "")]

import torch  # noqa: E402

from harness.data.motifs import NUM_CLASSES, PLAIN, generate_motifs  # noqa: E402
from harness.speed.memory import memory_of_process  # noqa: E402
from harness.store.surroundings import surroundings  # noqa: E402
from harness.training.checkpoint import Checkpoint  # noqa: E402
from harness.training.fold import Training, run_fold  # noqa: E402
from torch_geometric_simpool import StructuralSimilarity  # noqa: E402
from torch_geometric_simpool.analysis.diagnostics import Diagnostics  # noqa: E402
from torch_geometric_simpool.models import SimPoolNet  # noqa: E402

#: Shapes of batches repeat after so many rounds, and so do the sizes of what is allocated.
DATA_SETS = 4
#: The share by which resident memory may grow or shrink.
FLAT = 0.02


class Round(NamedTuple):
    """What is in use after a round."""

    seconds: float  # since the start
    memory: int  # resident, in bytes
    files: list[str]
    descriptors: int
    threads: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs rounds until the time is over; returns the exit status."""
    parser = argparse.ArgumentParser(prog="soak.py", description=str(__doc__).split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="default: 60")
    parser.add_argument("--json", type=Path, help="the file of the summary")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        # All temporary files of this process are below a folder that can be counted.
        before, tempfile.tempdir = tempfile.tempdir, name
        try:
            rounds = run(Path(name), 60 * options.minutes)
        finally:
            tempfile.tempdir = before
    found = {**surroundings(torch.device("cpu")), **summary(rounds)}
    print(json.dumps(found, indent=2))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return int(bool(found["failures"]))


def run(folder: Path, seconds: float) -> list[Round]:
    """Rounds until the time is over, and one of each data set at least."""
    start = time.monotonic()
    rounds: list[Round] = []
    while len(rounds) < DATA_SETS or rounds[-1].seconds < seconds:
        train(folder / "work", len(rounds) % DATA_SETS)
        rounds.append(
            Round(
                time.monotonic() - start,
                memory_of_process("VmRSS"),
                files_below(folder),
                len(os.listdir("/proc/self/fd")),
                threading.active_count(),
            )
        )
    return rounds


def files_below(folder: Path) -> list[str]:
    """Without the code that PyG writes once for each class of layers, and leaves there."""
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and "_propagate_" not in path.name
    ]


def train(folder: Path, seed: int) -> None:
    """One round. What is left in the folder counts, but for the features."""
    stored = StructuralSimilarity(12).precompute(
        generate_motifs(60, seed), progress=False, out=folder / "features"
    )
    graphs = [stored[number] for number in range(len(stored))]
    stored.close()
    watched: list[Diagnostics] = []

    def build() -> SimPoolNet:
        net = SimPoolNet.from_preset("enzymes", PLAIN + 1, NUM_CLASSES, width=0.125)
        watched.append(Diagnostics(net, training=True))
        return net

    checkpoint = Checkpoint(folder / "fold.pt", {"seed": seed}, every=1)
    for epochs in (2, 4):
        settings = Training(epochs, 20, 1e-3, 1.0, 1.0, "cpu")
        run_fold(build, graphs[:50], graphs[50:], settings, seed, "fold", checkpoint=checkpoint)
        assert watched[-1].metrics()
        watched[-1].close()
    checkpoint.remove()
    shutil.rmtree(folder / "features")


def summary(rounds: list[Round]) -> dict[str, Any]:
    """The figures, and what is wrong."""
    end = rounds[-1].seconds
    early = [r.memory for r in rounds if 0.1 * end <= r.seconds <= 0.2 * end]
    late = [r.memory for r in rounds if r.seconds >= 0.9 * end]
    usual, in_the_end = (statistics.median(some) for some in (early or late, late))
    growth = in_the_end / usual - 1
    # What the first rounds leave, as modules that are imported late, is not lost.
    first, last = rounds[: 2 * DATA_SETS][-1], rounds[-1]
    failures = [
        f"{name}: {getattr(first, name)} early, {getattr(last, name)} in the end"
        for name in ("descriptors", "threads")
        if getattr(last, name) > getattr(first, name)
    ]
    if last.files:
        failures.append(f"files: {', '.join(last.files)}")
    if abs(growth) > FLAT:
        failures.append(f"memory: changed by {growth:.1%}")
    return {
        "minutes": round(end / 60, 1),
        "rounds": len(rounds),
        "epochs": 4 * len(rounds),
        "memory": {"second tenth": usual, "last tenth": in_the_end},
        "growth": round(growth, 4),
        "last": last._asdict(),
        "failures": failures,
    }


if __name__ == "__main__":
    sys.exit(main())

"""The file of a run of the study: read, and checked for what is read of it later."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from harness.errors import BenchmarkError, first_line
from harness.methods.registry import ASSIGNING
from harness.store.files import read_json
from harness.store.schema import Count, Index, Seconds, Share, check
from harness.study.run import Run
from harness.training.curves import curves_of
from torch_geometric_simpool.analysis.locality import Locality

#: The format of the files; a new name if their contents change their meaning.
FORMAT = "simpool-study-1"


@dataclass
class StoredData:
    """What is read of the description of the data."""

    checksum: str = ""


@dataclass
class StoredSizes:
    """The numbers of graphs."""

    train: Count
    validation: Count
    test: Count = 1  # of protocol 'nested'


@dataclass
class StoredHardware:
    """The machine; not every system knows its number of processors."""

    device: str
    threads: int
    cpus: Optional[int]


@dataclass
class StoredRun:
    """What is read of every run later."""

    data: StoredData
    sizes: StoredSizes
    versions: dict[str, Any]
    hardware: StoredHardware
    commit: Optional[str]
    num_parameters: int
    seconds: Seconds
    cpu_seconds: Seconds = 0.0


@dataclass
class StoredMetrics:
    """What is read of a run that did not diverge."""

    history: dict[str, list[float]]
    best_val_accuracy: Share
    test_accuracy: Share = 0.0  # of protocol 'nested'


@dataclass
class StoredPredictions:
    """What is read of a run that votes."""

    test_labels: list[Index]
    test_probabilities: list[list[Share]]


@dataclass
class StoredDrawing:
    """A graph that can be drawn; it has a 'class' as well."""

    edges: list[list[Index]]
    clusters: list[Index]


@dataclass
class StoredAssignments:
    """What is read of a run whose network assigns nodes to clusters, or partitions them."""

    locality: dict[str, Optional[float]]
    num_clusters: Count
    drawn: list[StoredDrawing]


class UnreadableRunError(BenchmarkError):
    """A file that is damaged, or not a run of the study."""


def read_run(path: Path, run: Optional[Run] = None) -> dict[str, Any]:
    """Reads the file of a run, and checks what is read of it later."""
    try:
        there = read_json(path)
        if there["format"] != FORMAT:
            raise ValueError(f"its format is {there['format']!r}, not {FORMAT!r}")
        stored = Run.from_settings(there["settings"])
        if stored.key != path.stem or (run is not None and stored != run):
            raise ValueError("its settings are not those that its name stands for")
        check(StoredRun, there)
        if stored.protocol == "nested":
            check(int, there["sizes"]["test"], "sizes.test")
        if "error" not in there:
            _check_metrics(there, stored)
    except OSError as error:
        raise UnreadableRunError(f"{path} cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableRunError(
            f"{path} is damaged, or not a file of this study ({first_line(error)}): move it away"
        ) from error
    return there


def read_runs(folder: Path) -> tuple[dict[Run, dict[str, Any]], list[str]]:
    """Reads the runs of a folder; returns them, and why other files were skipped."""
    if not folder.is_dir():
        raise BenchmarkError(f"--runs {folder}: there is no such folder")
    results: dict[Run, dict[str, Any]] = {}
    skipped = []
    # Hidden ones are temporary files of processes that were killed.
    for path in sorted(folder.glob("[!.]*.json")):
        try:
            there = read_run(path)
            results[Run.from_settings(there["settings"])] = there
        except UnreadableRunError as error:
            skipped.append(str(error))
    return results, skipped


def _check_metrics(there: dict[str, Any], run: Run) -> None:
    """Raises if a finished run lacks what is read later."""
    check(StoredMetrics, there)
    for name in curves_of(run.method):
        if name not in there["history"]:
            raise ValueError(f"history.{name} is missing")
        curve = there["history"][name]
        if len(curve) != run.epochs:
            raise ValueError(f"{name} has {len(curve)} epochs, not {run.epochs}")
    if run.protocol == "nested":
        check(Share, there["test_accuracy"], "test_accuracy")
    if run.probabilities:
        check(StoredPredictions, there)
        _check_predictions(there)
    if run.method in ASSIGNING or "locality" in there:
        check(StoredAssignments, there)
        missing = set(Locality._fields) - set(there["locality"])
        if missing:
            raise ValueError(f"locality lacks {', '.join(sorted(missing))}")
        for graph in there["drawn"]:
            _check_drawn(graph)


def _check_predictions(there: dict[str, Any]) -> None:
    """Raises if predictions are not those of the test graphs."""
    labels, rows = there["test_labels"], there["test_probabilities"]
    if not len(labels) == len(rows) == there["sizes"]["test"]:
        raise ValueError(f"test_probabilities has {len(rows)} rows, test_labels {len(labels)}")
    if len({len(row) for row in rows}) != 1 or max(labels) >= len(rows[0]):
        raise ValueError("test_probabilities lacks a class")


def _check_drawn(graph: dict[str, Any]) -> None:
    """Raises if a graph cannot be drawn."""
    check(int, graph["class"], "class")
    ends = [end for source, target in graph["edges"] for end in (source, target)]
    if not graph["clusters"] or max(ends, default=0) >= len(graph["clusters"]):
        raise ValueError("drawn: an edge ends at no node")

"""What is killed: programs that write, each into a folder, and that go on when started again."""

import json
import os
import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

#: The event of a job that writes files without the interpreter.
STEP = "campaign.step"

ROOT = Path(__file__).resolve().parents[2]


def write_input(folder: Path) -> None:
    """The shards of a random graph."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for number in range(3):
        np.save(folder / f"part-{number}.npy", rng.integers(0, 300, (1000, 2)))


def precompute(folder: Path) -> None:
    """Features of a data set, in many transactions, each with moments at which it is killed."""
    from torch_geometric.data import SQLiteDatabase

    from helpers.data_sets import graphs_of_all_flavors
    from torch_geometric_simpool import StructuralSimilarity
    from torch_geometric_simpool.transforms import stream

    insert = SQLiteDatabase.multi_insert

    def insert_in_steps(self: Any, *given: Any) -> None:
        self.connection.execute("PRAGMA cache_size = 1")
        self.connection.set_progress_handler(lambda: sys.audit(STEP, self.path), 20)
        insert(self, *given)

    SQLiteDatabase.multi_insert = insert_in_steps
    stream.CHUNK_BYTES = 2 * stream.OBJECT_BYTES
    StructuralSimilarity(4).precompute(
        graphs_of_all_flavors(), progress=False, out=folder / "features"
    )


def disk_graph(folder: Path) -> Any:
    """A graph. What a killed process has left is to be removed by hand, as the error says."""
    from torch_geometric_simpool.distributed import DiskGraph

    if (folder / "graph").exists():
        return DiskGraph.open(folder / "graph")
    if not (folder / "edges" / "part-2.npy").exists():
        shutil.rmtree(folder / "edges", ignore_errors=True)
        write_input(folder / "edges")
    left = folder / ".graph.building"
    if left.exists():
        try:
            DiskGraph.build(folder / "edges", folder / "graph", progress=False)
        except ValueError as error:
            if str(left) not in str(error):
                raise
        shutil.rmtree(left)
    return DiskGraph.build(folder / "edges", folder / "graph", progress=False)


def topk_to_disk(folder: Path) -> None:
    """In blocks of a few rows."""
    from torch_geometric_simpool import distributed

    distributed.run.BLOCK_BYTES = 5_000
    distributed.topk_to_disk(disk_graph(folder), 4, folder / "topk", progress=False)


def graph_classification(folder: Path) -> None:
    """Two epochs on three folds of a small data set."""
    data = folder / "data"
    if not (data / "copied").exists():
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(ROOT / "test" / "fixtures", data)
        (data / "copied").touch()
    settings = "--dataset SHAPES --folds 3 --width 0.02 --epochs 2 --k 4 --device cpu"
    paths = ["--root", str(data), "--out", str(folder / "out")]
    run_script("graph_classification.py", *settings.split(), *paths)


def report(folder: Path) -> None:
    """Of the stored runs of one experiment, with its plot."""
    from harness.study.experiments import EXPERIMENTS

    runs = folder / "runs"
    runs.mkdir(exist_ok=True)
    drawn = next(experiment for experiment in EXPERIMENTS.values() if experiment.plot)
    stored = ROOT / "benchmark" / "results" / "study"
    for key in {run.key for row in drawn.rows for run in row.runs}:
        if (stored / f"{key}.json").exists():
            shutil.copy(stored / f"{key}.json", runs)
    out = folder / "out"
    run_script(
        "report.py", "--runs", str(runs), "--out", str(out / "R.md"), "--figures", str(out / "f")
    )


def run_script(name: str, *arguments: str) -> None:
    """As from the command line, but that what is imported already is not imported again."""
    script = ROOT / "benchmark" / name
    sys.argv = [str(script), *arguments]
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as exit:
        if exit.code:
            raise RuntimeError(f"{name} ends with {exit.code}") from exit


JOBS: dict[str, Callable[[Path], Any]] = {
    function.__name__: function
    for function in (precompute, disk_graph, topk_to_disk, graph_classification, report)
}


def contents(folder: Path) -> dict[str, Any]:
    """All files below a folder; of most, what is in them."""
    return {
        os.fspath(path.relative_to(folder)): content(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def content(path: Path) -> Any:
    """What must not depend on when a process was killed, nor on how long things took."""
    if path.name == "sqlite.db":
        from torch_geometric_simpool.transforms.datasets import OnDiskDataset

        graphs = OnDiskDataset(str(path.parents[1]))
        return [[(key, str(data[key])) for key in sorted(data.keys())] for data in graphs]
    if path.name == "results.json":
        folds = json.loads(path.read_text())["folds"]
        return [[fold["fold"], fold["best_epoch"], fold["history"]] for fold in folds]
    if path.suffix in (".png", ".npz", ".db"):
        return path.stat().st_size > 0
    return path.read_bytes()

"""The file of results: one row of a Parquet file for each finished run.

`pandas.read_parquet` opens it. The settings of a run are columns; `history` and other groups are
nested columns.
"""

import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from harness.command import BenchmarkError
from harness.run import Drawing, Result, Run

_TYPES = {"str": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
_OF_LEVEL = ("entropy_loss", "cluster_loss", "clusters")
_CURVES = ["loss", "train_accuracy", "val_accuracy"]
_CURVES += [f"{name}_{level}" for level in (0, 1) for name in _OF_LEVEL]
_MEASURES = (
    *("edges_inside", "edges_by_chance", "distance_ratio", "connected", "clusters", "evenness"),
)
_PACKAGES = ("python", "torch", "torch_geometric", "torch_geometric_simpool", "numpy")
_DATA = {
    **dict.fromkeys(("name", "checksum"), pa.string()),
    **dict.fromkeys(("mean_num_nodes", "mean_num_edges"), pa.float64()),
    **dict.fromkeys(("num_graphs", "num_classes", "num_node_features", "edge_dim"), pa.int64()),
}
_HARDWARE = {
    **dict.fromkeys(("machine", "device", "memory", "denormals"), pa.string()),
    **dict.fromkeys(("cpus", "threads"), pa.int64()),
}
_DRAWN = {
    "y": pa.int64(),
    "edges": pa.list_(pa.list_(pa.int64())),
    "clusters": pa.list_(pa.int64()),
    "labels": pa.list_(pa.int64()),
}


def _column(kind: Any) -> pa.DataType:
    name = getattr(kind, "__name__", str(kind)) if isinstance(kind, type) else str(kind)
    return _TYPES[name.removeprefix("typing.Optional[").removesuffix("]")]


def _struct(names: Any, kind: Any = None) -> pa.DataType:
    return pa.struct([(n, kind or names[n]) for n in names])


_GROUPS = {
    "data": _struct(_DATA),
    "sizes": _struct(("train", "validation", "test"), pa.int64()),
    "versions": _struct(_PACKAGES, pa.string()),
    "hardware": _struct(_HARDWARE),
    "history": _struct(_CURVES, pa.list_(pa.float64())),
    "test_labels": pa.list_(pa.int64()),
    "test_probabilities": pa.list_(pa.list_(pa.float64())),
    "locality": _struct(_MEASURES, pa.float64()),
    "drawn": pa.list_(_struct(_DRAWN)),
}
_RESULT = [f for f in fields(Result) if f.name != "run"]
SCHEMA = pa.schema(
    [(f.name, _column(f.type)) for f in fields(Run)]
    + [(f.name, _GROUPS.get(f.name) or _column(f.type)) for f in _RESULT]
)


def read_results(path: Path) -> dict[Run, Result]:
    """Reads a file of results, in the order in which the runs were stored."""
    try:
        rows = pq.read_table(path).select(SCHEMA.names).cast(SCHEMA).to_pylist()
    except (OSError, ValueError, KeyError) as error:  # errors of Arrow are among them
        raise BenchmarkError(
            f"{path} cannot be read as a file of results: {error}. Move it away, or name another"
        ) from error
    results = map(_result, rows)
    return {result.run: result for result in results}


def _result(row: dict[str, Any]) -> Result:
    run = Run(**{f.name: row.pop(f.name) for f in fields(Run)})
    for name in ("data", "sizes", "versions", "hardware", "history"):
        row[name] = {key: value for key, value in row[name].items() if value is not None}
    if row["drawn"] is not None:
        row["drawn"] = [Drawing(**graph) for graph in row["drawn"]]
    return Result(run, **row)


def to_table(results: list[Result]) -> pa.Table:
    """Returns the rows of results."""
    rows = []
    for result in results:
        row = {f.name: getattr(result, f.name) for f in _RESULT} | asdict(result.run)
        if result.drawn is not None:
            row["drawn"] = [graph._asdict() for graph in result.drawn]
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def write_table(table: pa.Table, path: Path) -> None:
    """Writes rows to a file, which is complete or as it was before."""
    temporary = path.with_name(f".{path.name}.tmp")
    pq.write_table(table, temporary, compression="zstd", compression_level=9, use_dictionary=False)
    os.replace(temporary, path)


class Store:
    """The results of a file, which one process at a time extends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results = read_results(path) if path.exists() else {}

    def __enter__(self) -> "Store":
        """Locks the file and reads results that another process has added."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.lock = FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=0)
            self.lock.acquire()
        except Timeout as error:
            raise BenchmarkError(
                f"--out {self.path}: another process writes there; wait, or name another file"
            ) from error
        except OSError as error:
            raise BenchmarkError(f"--out {self.path}: {error}") from error
        self.results = read_results(self.path) if self.path.exists() else {}
        self.table = to_table(list(self.results.values()))
        return self

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    def add(self, result: Result) -> None:
        """Stores a result."""
        self.results[result.run] = result
        self.table = pa.concat_tables([self.table, to_table([result])])
        try:
            write_table(self.table, self.path)
        except OSError as error:
            raise BenchmarkError(f"--out {self.path}: {error}") from error

    def checkpoint(self, run: Run) -> Path:
        """Returns the path of the checkpoint of a run that is being trained."""
        name = "".join(c if c.isalnum() else "-" for c in run.title)
        return self.path.parent / ".checkpoints" / f"{name}.pt"

"""Stores results in a Parquet file with one row for each finished run.

`pandas.read_parquet` opens it. The settings of a run are columns. Groups of values such as
`history` are nested columns.
"""

import hashlib
import os
from dataclasses import asdict, fields
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from harness.command import BenchmarkError
from harness.run import Drawing, Result, Run


def _result(row: dict[str, Any]) -> Result:
    run = Run(**{f.name: row.pop(f.name) for f in fields(Run)})
    # A nested column has the keys of all rows. It has a missing value for an empty group.
    for name in ("data", "sizes", "versions", "hardware", "history"):
        row[name] = {key: value for key, value in (row[name] or {}).items() if value is not None}
    if row["drawn"] is not None:
        row["drawn"] = [Drawing(**graph) for graph in row["drawn"]]
    return Result(run, **row)


class Store:
    """The results of a file in the order in which they were stored.

    A missing file has no results. One process at a time adds results, in a `with` statement.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._load()

    def _load(self) -> None:
        self.table = pa.table({})
        try:
            if self.path.exists():
                self.table = pq.read_table(self.path)
            self.results = {result.run: result for result in map(_result, self.table.to_pylist())}
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
        ) as error:  # Arrow's errors are subclasses of these
            raise BenchmarkError(
                f"{self.path} cannot be read as a file of results: {error}. Move it away, or name "
                "another"
            ) from error

    def __enter__(self) -> "Store":
        """Locks the file and reads results that another process has added."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.lock = FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=0)
            self.lock.acquire()
        except Timeout as error:
            raise BenchmarkError(f"--out {self.path}: another process writes there") from error
        self._load()
        return self

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    def add(self, result: Result) -> None:
        """Stores a result. If the process is killed, the previous file stays.

        Raises if the file has runs on different data of the same name.
        """
        kind = attrgetter("dataset", "cleaned", "node_features", "seed")
        for run, other in self.results.items():
            is_other = other.data.get("checksum") != result.data.get("checksum")
            if is_other and kind(run) == kind(result.run):
                raise BenchmarkError(
                    f"--out {self.path} has runs on other data than {run.dataset} in --root. Name "
                    "another --out"
                )
        self.results[result.run] = result
        row = asdict(result)
        row = row.pop("run") | {name: None if value == {} else value for name, value in row.items()}
        new = pa.Table.from_pylist([row])
        self.table = pa.concat_tables([self.table, new], promote_options="permissive")
        temporary = self.path.with_name(f".{self.path.name}.tmp")
        pq.write_table(
            self.table, temporary, compression="zstd", compression_level=9, use_dictionary=False
        )
        os.replace(temporary, self.path)

    def checkpoint(self, run: Run) -> Path:
        """Returns the path of the checkpoint of a run that is being trained."""
        digest = hashlib.sha256(repr(run).encode()).hexdigest()[:20]
        return self.path.parent / ".checkpoints" / f"{digest}.pt"

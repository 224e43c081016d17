"""Edges in files: read, checked and sorted by DuckDB within a memory limit."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

import duckdb
import numpy as np
import pyarrow
import torch

Paths = Union[str, os.PathLike, Sequence[Union[str, os.PathLike]]]

#: The file of the database.
DATABASE = "edges.duckdb"

ENDS = ("source", "target")

#: DuckDB's types of ids, by NumPy's.
ID_TYPES = {"uint16": "USMALLINT", "uint32": "UINTEGER", "int64": "BIGINT"}

#: Edges that are read at a time.
CHUNK = 1 << 20

#: Files of lines with two ids and perhaps a weight, separated by white space.
TEXT = (".txt", ".tsv", ".edges")

SUFFIXES = (".parquet", ".npy", ".csv", *TEXT)

_INTEGERS = {
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"),
}
_REALS = {*_INTEGERS, "FLOAT", "DOUBLE", "DECIMAL"}


class Entries(NamedTuple):
    """Entries of a sparse matrix, sorted by row, then by column."""

    row: np.ndarray
    col: np.ndarray
    value: np.ndarray
    is_edge: np.ndarray  # false for an added self-loop


@dataclass
class EdgeTable:
    """The edges of all shards in a database, and what is true of all of them."""

    database: duckdb.DuckDBPyConnection
    paths: list[Path]
    drop: bool  # whether one of repeated edges is kept; otherwise they add up
    dtype: str  # of similarities
    largest_id: int  # -1 without edges
    weighted: bool  # whether a weight is not one
    integers: bool  # whether all weights are integers
    largest_weight: float  # absolute

    def check(self, num_rows: int, num_cols: int) -> None:
        """Raises unless ids are in range and weights finite."""
        for rule, column, condition in (
            (f"source ids in [0, {num_rows})", "source", f"BETWEEN 0 AND {num_rows - 1}"),
            (f"target ids in [0, {num_cols})", "target", f"BETWEEN 0 AND {num_cols - 1}"),
            ("finite weights", "weight", "NOT IN ('nan', 'inf', '-inf')"),
        ):
            wrong = self.database.sql(
                f"SELECT shard, {column} FROM edges "
                f"WHERE ({column} {condition}) IS NOT TRUE LIMIT 1"
            ).fetchall()
            for shard, value in wrong:
                cell = "an empty cell" if value is None else value
                raise ValueError(f"`shards` must hold {rule}, got {cell} in {self.paths[shard]}")

    def add_loops(self, lam: float, num_nodes: int) -> None:
        """Adds a self-loop of weight `lam` to every node."""
        self.database.execute(
            f"INSERT INTO edges SELECT range, range, {lam!r}, -1 FROM range({num_nodes})"
        )
        self.weighted |= lam != 1
        self.integers &= lam.is_integer()
        self.largest_weight = max(self.largest_weight, lam)

    def largest_sum(self) -> float:
        """Returns the largest sum of absolute values in a row or a column."""
        sums = (f"SELECT sum(abs(weight)) AS total FROM entries GROUP BY {end}" for end in ENDS)
        query = f"SELECT coalesce(max(total), 0) FROM ({' UNION ALL '.join(sums)})"
        return self.database.sql(query).fetchall()[0][0]

    def sorted(self, unit: float, id_type: np.dtype, by_column: bool) -> Iterator[Entries]:
        """Yields all entries, or the entries of the transpose.

        Values are times `unit`. All entries of one place are in one part.
        """
        kind = ID_TYPES[id_type.name]
        row, col = reversed(ENDS) if by_column else ENDS
        # Adding zero leaves no negative zeros: equal values have equal bits.
        value = f"weight * {unit!r} + 0.0" if self.weighted else "1::TINYINT"
        query = (
            f"SELECT {row}::{kind}, {col}::{kind}, {value}, shard >= 0 FROM entries "
            f"ORDER BY 1, 2{', 4 DESC, 3 DESC' if self.drop else ''}"
        )
        rest: Optional[list[np.ndarray]] = None
        for batch in self.database.cursor().sql(query).to_arrow_reader(CHUNK):
            part = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
            if rest is not None:
                part = list(map(np.concatenate, zip(rest, part)))
            is_last = (part[0] == part[0][-1]) & (part[1] == part[1][-1])
            size = is_last.size - int(is_last.sum())
            yield Entries(*(array[:size] for array in part))
            rest = [array[size:] for array in part]
        if rest is not None:
            yield Entries(*rest)


def read_shards(
    shards: Paths,
    columns: Optional[Sequence[str]],
    undirected: bool,
    drop: bool,
    folder: Path,
    memory: int,
) -> EdgeTable:
    """Reads all shards into a database in `folder`, which uses `memory` bytes."""
    paths = find_shards(shards)
    database = duckdb.connect(
        str(folder / DATABASE),
        config={
            "memory_limit": f"{memory // 1_000_000}MB",
            "threads": torch.get_num_threads(),
            "temp_directory": str(folder / "spilled"),
            "preserve_insertion_order": False,
        },
    )
    database.execute(
        "CREATE TABLE edges (source BIGINT, target BIGINT, weight DOUBLE, shard INTEGER)"
    )
    mirrored = "SELECT target, source, weight, shard FROM edges WHERE source <> target"
    database.execute(
        f"CREATE VIEW entries AS FROM edges{f' UNION ALL {mirrored}' if undirected else ''}"
    )
    weight_types: dict[Optional[str], Path] = {}
    for number, path in enumerate(paths):
        with _named(path):
            query, weight_type = _query_of(database, path, columns)
            database.execute(f"INSERT INTO edges SELECT *, {number} FROM ({query})")
            if database.fetchall() != [(0,)]:  # the number of edges
                weight_types.setdefault(weight_type, path)
    if None in weight_types and len(weight_types) > 1:
        raise ValueError(
            "`shards` must all have weights or none, got none in "
            f"{weight_types.pop(None)} and some in {next(iter(weight_types.values()))}"
        )
    (statistics,) = database.sql(
        "SELECT coalesce(greatest(max(source), max(target)), -1), "
        "coalesce(bool_or(weight <> 1), false), coalesce(bool_and(weight = round(weight)), true), "
        "coalesce(max(abs(weight)), 0) FROM edges"
    ).fetchall()
    dtype = "float64" if "DOUBLE" in weight_types else "float32"
    return EdgeTable(database, paths, drop, dtype, *statistics)


def find_shards(shards: Any) -> list[Path]:
    """Returns the files: a file, those of a folder, or a list of files."""
    expected = f"`shards` must be a file, a folder or a list of files ({', '.join(SUFFIXES)})"
    if isinstance(shards, (str, os.PathLike)):
        shards = [shards]
    try:
        paths = [Path(os.path.expanduser(path)) for path in shards]
    except TypeError:
        raise TypeError(f"{expected}, got {shards!r}") from None
    if len(paths) == 1 and paths[0].is_dir():
        paths = sorted(filter(_suffix, paths[0].iterdir()))
    wrong = [path for path in paths if not (path.is_file() and _suffix(path))]
    if wrong or not paths:
        raise ValueError(f"{expected}, got {wrong[0] if wrong else f'no such file: {shards}'}")
    return paths


def _suffix(path: Path) -> str:
    """Returns the suffix of a file of edges without `.gz`, else an empty string."""
    name = path.name.removesuffix(".gz")
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Says which file DuckDB cannot read."""
    try:
        yield
    except duckdb.OutOfMemoryException:
        raise
    except (duckdb.Error, pyarrow.ArrowException) as error:
        reason = " ".join(str(error).split())[:250]
        raise ValueError(
            f"`shards` must be readable, got {path}: {reason}. Correct the file (all lines of a "
            "table have the same fields), or leave it out"
        ) from None


def _query_of(
    database: duckdb.DuckDBPyConnection, path: Path, columns: Optional[Sequence[str]]
) -> tuple[str, Optional[str]]:
    """Returns a query of sources, targets and weights, and the type of weights."""
    suffix, place = _suffix(path), "'" + str(path).replace("'", "''") + "'"
    if suffix in TEXT:
        return _query_of_text(place, columns)
    if suffix == ".npy":
        database.register("npy_shard", _read_npy(path))
        return "SELECT source, target, 1 FROM npy_shard", None
    table = f"read_parquet({place})"
    if suffix == ".csv":
        # Types are guessed from all lines: a later fraction is not rounded. No line is skipped.
        options = "delim = ',', header = true, comment = '#', skip = 0, sample_size = -1"
        table = f"read_csv({place}, {options})"
    relation = database.sql(f"SELECT * FROM {table}")
    if not relation.limit(1).fetchall():  # then types say nothing
        return "SELECT 0, 0, 1 WHERE false", None
    types = dict(zip(relation.columns, map(str, relation.types)))
    if columns is None:
        columns = [*ENDS, *(["weight"] if "weight" in types else [])]
    for name in columns:
        if name not in types:
            raise ValueError(
                f"`columns` must name columns of {path}, got {name!r}, where there are "
                f"{', '.join(map(repr, types))}"
            )
    kinds = (("integer ids", _INTEGERS), ("integer ids", _INTEGERS), ("real weights", _REALS))
    for name, (kind, allowed) in zip(columns, kinds):
        if types[name].partition("(")[0] not in allowed:
            raise TypeError(
                f"`shards` must hold {kind}, got {types[name]} in column {name!r} of {path}"
            )
    names = ['"' + name.replace('"', '""') + '"' for name in columns]
    if len(names) == 2:
        return f"SELECT {', '.join(names)}, 1 FROM {table}", None
    return f"SELECT {', '.join(names)} FROM {table}", types[columns[2]]


def _query_of_text(place: str, columns: Optional[Sequence[str]]) -> tuple[str, Optional[str]]:
    """Returns a query of the lines of a file; lines that begin with '#' or '%' are comments."""
    weighted = columns is not None and len(columns) == 3
    # With `columns`, fields that they do not name may follow.
    pattern = r"^\s*(\d+)\s+(\d+)" + (r"\s+(\S+)" if weighted else "()")
    pattern += r"\s*$" if columns is None else r"(?:\s.*)?$"
    lines = (
        f"SELECT line, regexp_extract(line, '{pattern}', ['source', 'target', 'weight']) AS edge "
        f"FROM read_csv({place}, columns = {{'line': 'VARCHAR'}}, header = false, "
        "auto_detect = false, delim = '\x01', quote = '', escape = '', "
        "strict_mode = false) "
        r"WHERE NOT regexp_matches(line, '^\s*([#%].*)?$')"
    )
    weight = "TRY_CAST(edge.weight AS DOUBLE)" if weighted else "1"
    edges = (
        "SELECT line, TRY_CAST(edge.source AS BIGINT) AS source, "
        f"TRY_CAST(edge.target AS BIGINT) AS target, {weight} AS weight FROM ({lines})"
    )
    expected = "two ids" + (" and a weight" if weighted else " (or name three `columns`)")
    return (
        "SELECT CASE WHEN source IS NULL OR target IS NULL OR weight IS NULL "
        f"THEN error(concat('expected {expected} in a line, got ', line)) ELSE source END, "
        f"target, weight FROM ({edges})"
    ), "DOUBLE" if weighted else None


def _read_npy(path: Path) -> pyarrow.RecordBatchReader:
    """Reads an array of edges, `[2, E]` or `[E, 2]`."""
    expected = "`shards` must be .npy files of shape [2, E] or [E, 2]"
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{expected}, got {path}: {error}") from None
    if not isinstance(array, np.ndarray) or array.ndim != 2 or 2 not in array.shape:
        raise ValueError(f"{expected}, got {list(getattr(array, 'shape', []))} in {path}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"`shards` must hold integer ids, got {array.dtype} in {path}")
    ends = array if array.shape[0] == 2 else array.T
    native = array.dtype.newbyteorder("=")

    def batches() -> Iterator[pyarrow.RecordBatch]:
        for first in range(0, ends.shape[1], CHUNK):
            part = np.ascontiguousarray(ends[:, first : first + CHUNK], native)
            yield pyarrow.record_batch(list(map(pyarrow.array, part)), ENDS)

    id_type = pyarrow.from_numpy_dtype(native)
    return pyarrow.RecordBatchReader.from_batches(
        pyarrow.schema([(name, id_type) for name in ENDS]), batches()
    )


def starts(*arrays: np.ndarray) -> np.ndarray:
    """Returns where an element differs from the one before in any of the arrays."""
    new = np.ones(arrays[0].size, np.bool_)
    new[1:] = np.logical_or.reduce([array[1:] != array[:-1] for array in arrays])
    return new

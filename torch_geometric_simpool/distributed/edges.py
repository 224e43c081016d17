"""Edges in files: read, checked and sorted by DuckDB within a memory limit."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

import duckdb
import numpy as np
import pyarrow

Paths = Union[str, os.PathLike, Sequence[Union[str, os.PathLike]]]

#: The file of the database.
DATABASE = "edges.duckdb"

ENDS = ("source", "target")

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


class EdgeTable(NamedTuple):
    """The edges of all shards in a database, and what is true of all of them."""

    database: duckdb.DuckDBPyConnection
    paths: list[Path]
    weight_type: Optional[str]  # DuckDB's; `None` without weights
    num_edges: int
    largest_id: int  # -1 without edges
    weighted: bool  # whether a weight is not one
    integers: bool  # whether all weights are integers
    largest_weight: float  # absolute

    @property
    def dtype(self) -> str:
        """The type of similarities."""
        return "float64" if self.weight_type == "DOUBLE" else "float32"

    def check(self, num_rows: int, num_cols: int) -> None:
        """Raises unless ids are in range and weights finite."""
        for name, size in (("source", num_rows), ("target", num_cols)):
            self._check(f"hold {name} ids in [0, {size})", name, f"{name} BETWEEN 0 AND {size - 1}")
        if self.weight_type is not None:
            self._check("have finite weights", "weight", "isfinite(weight)")

    def _check(self, rule: str, column: str, condition: str) -> None:
        wrong = self.database.sql(
            f"SELECT shard, {column} FROM edges WHERE ({condition}) IS NOT TRUE LIMIT 1"
        ).fetchall()
        for shard, value in wrong:
            cell = "an empty cell" if value is None else value
            raise ValueError(f"`shards` must {rule}, got {cell} in {self.paths[shard]}")


def read_shards(
    shards: Paths,
    columns: Optional[Sequence[str]],
    folder: Path,
    memory: int,
    num_threads: int,
) -> EdgeTable:
    """Reads all shards into a database in `folder`, which uses `memory` bytes."""
    paths = find_shards(shards)
    database = duckdb.connect(
        str(folder / DATABASE),
        config={
            "memory_limit": f"{memory // 1_000_000}MB",
            "threads": num_threads,
            "temp_directory": str(folder / "spilled"),
            "preserve_insertion_order": False,
        },
    )
    database.execute(
        "CREATE TABLE edges (source BIGINT, target BIGINT, weight DOUBLE, shard INTEGER)"
    )
    weight_types = []
    for number, path in enumerate(paths):
        with _named(path):
            query, weight_type = _query_of(database, path, columns)
            weight_types.append(weight_type)
            if (weight_type is None) != (weight_types[0] is None):
                raise ValueError(
                    f"`shards` must all have weights or none, got weights in "
                    f"{path if weight_type else paths[0]} alone"
                )
            database.execute(f"INSERT INTO edges SELECT *, {number} FROM ({query})")
    (statistics,) = database.sql(
        "SELECT count(*), coalesce(greatest(max(source), max(target)), -1), "
        "coalesce(bool_or(weight <> 1), false), coalesce(bool_and(weight = round(weight)), true), "
        "coalesce(max(abs(coalesce(weight, 1))), 0) FROM edges"
    ).fetchall()
    weight_type = "DOUBLE" if "DOUBLE" in weight_types else weight_types[0]
    return EdgeTable(database, paths, weight_type, *statistics)


def find_shards(shards: Any) -> list[Path]:
    """Returns the files: a file, those of a folder, or a list of files."""
    expected = f"`shards` must be a file, a folder or a list of files ({', '.join(SUFFIXES)})"
    if isinstance(shards, (str, os.PathLike)):
        path = Path(os.path.expanduser(shards))
        paths = sorted(filter(_suffix, path.iterdir())) if path.is_dir() else [path]
    else:
        try:
            paths = [Path(os.path.expanduser(path)) for path in shards]
        except TypeError:
            raise TypeError(f"{expected}, got {shards!r}") from None
    if not paths:
        raise ValueError(f"{expected}, got no such file{f' in {path}' if paths else ''}")
    for path in paths:
        if not path.is_file():
            raise ValueError(f"{expected}, got {path}, which is no file")
        if not _suffix(path):
            raise ValueError(f"{expected}, got {path}")
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
        raise ValueError(f"`shards` must be readable, got {path}: {error}") from None


def _query_of(
    database: duckdb.DuckDBPyConnection, path: Path, columns: Optional[Sequence[str]]
) -> tuple[str, Optional[str]]:
    """Returns a query of sources, targets and weights, and the type of weights."""
    suffix, place = _suffix(path), "'" + str(path).replace("'", "''") + "'"
    if suffix in TEXT:
        return _query_of_text(place, columns)
    if suffix == ".npy":
        database.register("npy_shard", _read_npy(path))
        return "SELECT source, target, NULL FROM npy_shard", None
    reader = "read_parquet" if suffix == ".parquet" else "read_csv"
    # Types are those of all lines: an integer column with a later fraction would be rounded.
    options = ", header = true, comment = '#', sample_size = -1" if suffix == ".csv" else ""
    table = database.sql(f"SELECT * FROM {reader}({place}{options})")
    types = dict(zip(table.columns, map(str, table.types)))
    if columns is None:
        columns = [*ENDS, *(["weight"] if "weight" in types else [])]
    for name in columns:
        if name not in types:
            raise ValueError(
                f"`columns` must name columns of {path}, got {name!r}, where there are "
                f"{', '.join(map(repr, types))}"
            )
    for name, allowed, kind in zip(columns, (_INTEGERS, _INTEGERS, _REALS), "iir"):
        if types[name].partition("(")[0] not in allowed:
            raise TypeError(
                f"`shards` must hold {'integer ids' if kind == 'i' else 'real weights'}, got "
                f"{types[name]} in column {name!r} of {path}"
            )
    weight_type = types[columns[2]] if len(columns) == 3 else None
    quoted = ['"' + name.replace('"', '""') + '"' for name in columns]
    names = ", ".join(quoted if weight_type else [*quoted, "NULL"])
    return f"SELECT {names} FROM {reader}({place}{options})", weight_type


def _query_of_text(place: str, columns: Optional[Sequence[str]]) -> tuple[str, Optional[str]]:
    """Returns a query of the lines of a file; lines that begin with '#' or '%' are comments."""
    # With `columns`, fields that they do not name may follow.
    pattern = r"^\s*(\d+)\s+(\d+)" + (r"\s+(\S+)" if columns and len(columns) == 3 else "()")
    pattern += r"\s*$" if columns is None else r"(?:\s.*)?$"
    lines = (
        f"SELECT line, regexp_extract(line, '{pattern}', ['source', 'target', 'weight']) AS edge "
        f"FROM read_csv({place}, columns = {{'line': 'VARCHAR'}}, header = false, "
        "auto_detect = false, delim = '\x01', quote = '', escape = '', "
        "strict_mode = false) "
        r"WHERE NOT regexp_matches(line, '^\s*([#%].*)?$')"
    )
    weighted = columns is not None and len(columns) == 3
    expected = "two ids" + (" and a weight" if weighted else " (or name three `columns`)")
    return (
        "SELECT CASE WHEN edge.source = '' "
        f"THEN error(concat('expected {expected} in a line, got ', line)) "
        "ELSE edge.source::BIGINT END, edge.target::BIGINT, "
        f"{'edge.weight::DOUBLE' if weighted else 'NULL'} FROM ({lines})"
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

    def batches() -> Iterator[pyarrow.RecordBatch]:
        for first in range(0, ends.shape[1], CHUNK):
            part = np.ascontiguousarray(ends[:, first : first + CHUNK])
            yield pyarrow.record_batch(list(map(pyarrow.array, part)), ENDS)

    id_type = pyarrow.from_numpy_dtype(array.dtype)
    return pyarrow.RecordBatchReader.from_batches(
        pyarrow.schema([(name, id_type) for name in ENDS]), batches()
    )


class Entries(NamedTuple):
    """Entries of a sparse matrix, sorted by row, then by column. Without values they are ones."""

    row: np.ndarray
    col: np.ndarray
    value: np.ndarray


class EntryQuery(NamedTuple):
    """The entries of `A + lam * I`, which may repeat."""

    table: EdgeTable
    undirected: bool
    drop: bool  # whether one of repeated edges is kept; otherwise they add up
    lam: float
    num_nodes: int
    id_type: np.dtype

    @property
    def sql(self) -> str:
        """A query of rows, columns, values, and whether an entry is not an edge but `lam`."""
        query = "SELECT source, target, coalesce(weight, 1) AS value, false AS added FROM edges"
        if self.undirected:
            query += f" UNION ALL {query} WHERE source <> target".replace(
                "source, target", "target, source"
            )
        if self.lam > 0:
            loops = f"SELECT range, range, {self.lam!r}, true FROM range({self.num_nodes})"
            query += f" UNION ALL {loops}"
        return query

    def num_entries(self) -> int:
        """Returns the number of entries."""
        return self.table.database.sql(f"SELECT count(*) FROM ({self.sql})").fetchall()[0][0]

    def largest_sum(self, num_rows: int, num_cols: int) -> float:
        """Returns the largest sum of absolute values in a row or a column."""
        sums = np.zeros(num_rows), np.zeros(num_cols)
        query = f"SELECT source, target, abs(value) FROM ({self.sql})"
        for batch in self.table.database.cursor().sql(query).to_arrow_reader(CHUNK):
            *ends, values = (column.to_numpy() for column in batch.columns)
            for total, ids in zip(sums, ends):
                np.add.at(total, ids, values)
        return max(float(total.max(initial=0.0)) for total in sums)

    def sorted(self, unit: Optional[float], by_column: bool = False) -> Iterator[Entries]:
        """Yields all entries, or those of the transpose, with those of one place in one part.

        Values are times `unit`; without it they are left out.
        """
        kind = "INTEGER" if self.id_type.itemsize == 4 else "BIGINT"
        row, col = reversed(ENDS) if by_column else ENDS
        # Adding zero leaves no negative zeros: equal values have equal bits.
        value = "" if unit is None else f", value * {unit!r} + 0.0 AS value"
        query = f"SELECT {row}::{kind}, {col}::{kind}{value}, added FROM ({self.sql}) ORDER BY 1, 2"
        if self.drop:
            query += ", added" if unit is None else ", added, value DESC"
        rest: Optional[list[np.ndarray]] = None
        for batch in self.table.database.cursor().sql(query).to_arrow_reader(CHUNK):
            part = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
            if rest is not None:
                part = list(map(np.concatenate, zip(rest, part)))
            is_last = (part[0] == part[0][-1]) & (part[1] == part[1][-1])
            size = is_last.size - int(is_last.sum())
            yield self._entries([array[:size] for array in part])
            rest = [array[size:] for array in part]
        if rest is not None:
            yield self._entries(rest)

    def _entries(self, part: list[np.ndarray]) -> Entries:
        row, col, *value, added = part
        entries = Entries(row, col, value[0] if value else np.empty(0))
        if not self.drop:
            return entries
        first = starts(row, col, added)
        return Entries(row[first], col[first], entries.value[first] if value else entries.value)


def starts(*arrays: np.ndarray) -> np.ndarray:
    """Returns where an element differs from the one before in any of the arrays."""
    new = np.ones(arrays[0].size, np.bool_)
    new[1:] = np.logical_or.reduce([array[1:] != array[:-1] for array in arrays])
    return new

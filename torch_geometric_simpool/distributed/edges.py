"""Edges in files: read, checked and sorted by DuckDB within a memory limit."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Optional, Union

import duckdb
import numpy as np
import pyarrow
import torch
from duckdb import ColumnExpression, ConstantExpression, SQLExpression

from torch_geometric_simpool.topk.numba import csr
from torch_geometric_simpool.topk.parse import SAMPLE

Paths = Union[str, os.PathLike, Sequence[Union[str, os.PathLike]]]

FIELDS = ("source", "target", "weight")

#: DuckDB's types of ids, by NumPy's.
ID_TYPES = {"uint16": "USMALLINT", "uint32": "UINTEGER", "int64": "BIGINT"}

#: Entries that are read from the database at a time.
CHUNK = 1 << 20

SUFFIXES = (".parquet", ".npy", ".csv", ".txt", ".tsv", ".edges")

#: DuckDB's types of integers.
INTEGER = r"U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER"

#: The kind of the values of each field, and DuckDB's types of it.
KINDS = (
    *[("integer ids", INTEGER)] * 2,
    ("real weights", rf"{INTEGER}|FLOAT|DOUBLE|DECIMAL\(.*\)"),
)


class EdgeTable:
    """The edges of all shards in a database in `folder`, which uses `memory` bytes.

    With `undirected`, each edge holds in both directions. With `drop`, only the edge of the largest
    weight counts among repeated edges. Otherwise repeated edges add up.
    """

    def __init__(self, folder: Path, memory: int, undirected: bool, drop: bool) -> None:
        self.weight_types: set[str] = set()
        self.database = duckdb.connect(
            str(folder / "edges.duckdb"),
            config={
                "memory_limit": f"{memory // 1_000_000}MB",
                "threads": torch.get_num_threads(),
                "temp_directory": str(folder / "spilled"),
                "preserve_insertion_order": False,
            },
        )
        self.database.execute(
            "CREATE TABLE edges (source BIGINT, target BIGINT, weight DOUBLE, shard INTEGER)"
        )
        entries = "SELECT source, target, coalesce(weight, 1) AS weight, shard FROM edges"
        if undirected:
            mirrored = "SELECT target, source, coalesce(weight, 1), shard FROM edges"
            entries += f" UNION ALL {mirrored} WHERE source <> target"
        if drop:  # the self-loops of `lam` are not repeated edges
            entries = (
                f"SELECT source, target, max(weight) AS weight FROM ({entries}) "
                "GROUP BY source, target, shard < 0"
            )
        self.database.execute(f"CREATE VIEW entries AS {entries}")

    def read(self, shards: Paths, columns: Optional[Sequence[str]]) -> None:
        """Reads all shards."""
        self.paths = find_shards(shards)
        for number, path in enumerate(self.paths):
            try:
                self._read_shard(number, path, columns)
            except duckdb.OutOfMemoryException:
                raise
            except (duckdb.Error, pyarrow.ArrowException) as error:
                reason = " ".join(str(error).split())[:250]
                raise ValueError(
                    f"`shards` must be readable, got {path}: {reason}. Correct the file (all lines "
                    "of a table have the same fields), or leave it out"
                ) from None

    def _read_shard(self, number: int, path: Path, columns: Optional[Sequence[str]]) -> None:
        """Reads a shard. The weights are NULL if it has none."""
        table = _table_of(self.database, path, columns)
        if not table.limit(1).fetchall():  # the types of an empty table do not matter
            return
        types = dict(zip(table.columns, map(str, table.types)))
        names = columns or FIELDS[: 2 + ("weight" in types)]
        for name, (kind, pattern) in zip(names, KINDS):
            if not re.fullmatch(pattern, types.get(name, "")):
                listed = ", ".join(f"{column!r} ({type_})" for column, type_ in types.items())
                raise ValueError(
                    f"`shards` must hold {kind} in column {name!r}, got the columns {listed} in "
                    f"{path}: convert them, or name other `columns`. A CSV file names its columns "
                    "in the first line"
                )
        self.weight_types.update(types[name] for name in names[2:])
        values = [ColumnExpression(name) for name in names]
        values += [ConstantExpression(None)] * (3 - len(names))
        table.select(*values, ConstantExpression(number)).insert_into("edges")

    def largest_id(self) -> int:
        """Returns the largest id, or -1 without edges."""
        return self._row("SELECT coalesce(greatest(max(source), max(target)), -1) FROM edges")[0]

    def check(self, num_rows: int, num_cols: int) -> None:
        """Raises unless all ids are in range and all weights are finite."""
        rules = [
            (f"source ids in [0, {num_rows})", "source", f"BETWEEN 0 AND {num_rows - 1}"),
            (f"target ids in [0, {num_cols})", "target", f"BETWEEN 0 AND {num_cols - 1}"),
            ("finite weights for all edges or for none", "weight", "NOT IN ('nan', 'inf', '-inf')"),
        ]
        # A comparison with NULL, an empty cell, is not true, so NULL is refused.
        for rule, column, condition in rules if self.weight_types else rules[:2]:
            wrong = self._row(
                f"SELECT shard, coalesce({column}::VARCHAR, 'an empty cell') FROM edges "
                f"WHERE ({column} {condition}) IS NOT TRUE LIMIT 1"
            )
            if wrong:
                shard, value = wrong
                raise ValueError(f"`shards` must hold {rule}, got {value} in {self.paths[shard]}")

    def weights(self) -> tuple[bool, bool, float]:
        """Returns whether a weight is not one, whether all are integers, and the largest size."""
        return self._row(
            "SELECT coalesce(bool_or(weight <> 1), false), "
            "coalesce(bool_and(weight = round(weight)), true), coalesce(max(abs(weight)), 1) "
            "FROM (SELECT coalesce(weight, 1) AS weight FROM edges)"
        )

    def largest_sum(self) -> float:
        """Returns the largest sum of absolute values in a row or a column."""
        sums = (f"SELECT sum(abs(weight)) AS s FROM entries GROUP BY {end}" for end in FIELDS[:2])
        return self._row(f"SELECT coalesce(max(s), 0) FROM ({' UNION ALL '.join(sums)})")[0]

    def is_one_way(self) -> bool:
        """Returns whether no edge of a sample that joins different nodes has its mirror image."""
        return self._row(
            f"SELECT coalesce(bool_and(mirror.source IS NULL), false) FROM ("
            "FROM (FROM edges WHERE source <> target) "
            f"USING SAMPLE reservoir({SAMPLE} ROWS) REPEATABLE (0)) AS edge "
            "LEFT JOIN edges AS mirror "
            "ON mirror.source = edge.target AND mirror.target = edge.source"
        )[0]

    def _row(self, query: str) -> Any:
        """Returns the first row of the result of a query; `None` without rows."""
        return self.database.execute(query).fetchone()

    def entries(
        self, unit: Optional[float], id_type: np.dtype, by_column: bool
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yields the rows, columns and values of the distinct entries of the matrix, in parts.

        Entries are sorted. Values are multiplied by `unit`, or are counts of edges if `unit` is
        `None`. With `by_column`, the matrix is the transpose.
        """
        kind, (row, col) = ID_TYPES[id_type.name], FIELDS[1::-1] if by_column else FIELDS[:2]
        # Adding zero makes negative zeros positive, so that equal values have equal bits.
        value = "1::TINYINT" if unit is None else f"weight * {unit!r} + 0.0"
        query = f"SELECT {row}::{kind}, {col}::{kind}, {value} FROM entries ORDER BY 1, 2"
        rest = [np.empty(0, np.bool_)] * 3
        for batch in self.database.cursor().sql(query).to_arrow_reader(CHUNK):
            columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
            part = list(map(np.concatenate, zip(rest, columns)))
            # The next batch may have further values of the last place.
            end = np.count_nonzero((part[0] != part[0][-1]) | (part[1] != part[1][-1]))
            yield _distinct(*(array[:end] for array in part))
            rest = [array[end:] for array in part]
        yield _distinct(*rest)


def _distinct(
    row: np.ndarray, col: np.ndarray, value: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns one entry for each place, with the sum of its values."""
    first = np.ones(row.size, np.bool_)
    first[1:] = (row[1:] != row[:-1]) | (col[1:] != col[:-1])
    if not first.all():
        place = np.cumsum(first, dtype=np.uint32) - 1
        ptr = np.array([0, row.size])  # one row, whose columns are the places
        value = csr.compress(csr.CSRArrays(ptr, place, value.astype(np.float64))).value
        row, col = row[first], col[first]
    return row, col, value


def find_shards(shards: Any) -> list[Path]:
    """Returns the paths of one file, of the files in a folder, or of a list of files."""
    expected = f"`shards` must name existing files ({', '.join(SUFFIXES)}) or a folder of them"
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
        raise ValueError(f"{expected}, got {wrong[0] if wrong else f'none in {shards}'}")
    return paths


def _suffix(path: Path) -> str:
    """Returns the suffix of a file of edges without `.gz`, else an empty string."""
    name = path.name.removesuffix(".gz")
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")


def _table_of(
    database: duckdb.DuckDBPyConnection, path: Path, columns: Optional[Sequence[str]]
) -> duckdb.DuckDBPyRelation:
    """Returns the table of a shard. `columns` names the columns of arrays and text files."""
    suffix, place = _suffix(path), "'" + str(path).replace("'", "''") + "'"
    if suffix == ".parquet":
        return database.sql(f"FROM read_parquet({place})")
    if suffix == ".csv":
        # DuckDB guesses types from all lines, so that fractions in late lines are not rounded.
        options = "delim = ',', header = true, comment = '#', skip = 0, sample_size = -1"
        return database.sql(f"FROM read_csv({place}, {options})")
    names = FIELDS[:2] if columns is None else columns
    if suffix == ".npy":
        database.register("npy_shard", dict(zip(names, _read_npy(path))))
        return database.view("npy_shard")
    lines = database.sql(
        f"FROM read_csv({place}, columns = {{'line': 'VARCHAR'}}, header = false, "
        "auto_detect = false, delim = '\x01', quote = '', escape = '', strict_mode = false)"
    ).filter(r"NOT regexp_matches(line, '^\s*([#%].*)?$')")
    patterns = (r"(\d+)", r"(\d+)", r"(\S+)")[: len(names)]
    # With `columns`, a line may have further fields.
    pattern = r"^\s*" + r"\s+".join(patterns) + (r"\s*$" if columns is None else r"(\s.*)?$")
    expected = "two ids" + (" and a weight" if len(names) == 3 else " (or name three `columns`)")
    fields = (
        f"coalesce(TRY_CAST(regexp_extract(line, '{pattern}', {group}) AS {kind}), "
        f"error(concat('expected {expected} in a line, got ', line)))"
        for group, kind in enumerate(("BIGINT", "BIGINT", "DOUBLE"), start=1)
    )
    return lines.select(*(SQLExpression(f).alias(name) for f, name in zip(fields, names)))


def _read_npy(path: Path) -> np.ndarray:
    """Maps an array of edges, and returns it as `[2, E]`."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        if array.ndim != 2 or 2 not in array.shape:
            raise ValueError(f"shape {list(array.shape)}")
    except (AttributeError, ValueError, EOFError, OSError) as error:
        raise ValueError(
            f"`shards` must be .npy files of shape [2, E] or [E, 2], got {path}: {error}"
        ) from None
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return native if native.shape[0] == 2 else native.T

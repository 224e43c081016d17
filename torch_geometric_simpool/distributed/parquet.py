"""Parquet files of edges: the only module that imports PyArrow."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

import numpy as np

try:
    import pyarrow
    from pyarrow import parquet
except ImportError:
    pyarrow = None

#: The columns of a shard. That of weights may be missing.
ENDS = ("source", "target")
WEIGHT = "weight"


def open_parquet(path: Path) -> Any:
    """A file with the columns of a shard."""
    if pyarrow is None:
        raise ImportError(
            f"`shards` must be .npy files without PyArrow, got {path}: for Parquet, pip install "
            "'torch-geometric-simpool[distributed]'"
        )
    with _named(path):
        file = parquet.ParquetFile(path, memory_map=True)
        names = file.schema_arrow.names
    if any(names.count(name) != 1 for name in ENDS) or names.count(WEIGHT) > 1:
        raise ValueError(
            f"`shards` must have the columns 'source' and 'target', and may have 'weight', got "
            f"{', '.join(map(repr, names)) or 'no columns'} in {path}"
        )
    return file


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Says which file PyArrow cannot read."""
    try:
        yield
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"`shards` must be Parquet files, got {path}: {error}") from None


def describe_parquet(path: Path) -> tuple[int, list[np.dtype], Optional[np.dtype]]:
    """The number of edges, the types of their ends, and that of their weights."""
    with open_parquet(path) as file:
        schema = file.schema_arrow

        def type_of(name: str) -> np.dtype:
            try:
                return np.dtype(schema.field(name).type.to_pandas_dtype())
            except (NotImplementedError, TypeError):
                return np.dtype(object)

        weight = type_of(WEIGHT) if WEIGHT in schema.names else None
        return file.metadata.num_rows, [type_of(name) for name in ENDS], weight


def read_parquet(path: Path, size: int, weights: bool) -> Iterator[list[np.ndarray]]:
    """The columns, up to `size` edges at a time."""
    columns = [*ENDS, WEIGHT] if weights else list(ENDS)
    first = 0
    with open_parquet(path) as file, _named(path):
        for batch in file.iter_batches(size, columns=columns):
            for name in columns:
                empty = batch.column(name).is_null().to_numpy(zero_copy_only=False)
                if empty.any():
                    raise ValueError(
                        f"`shards` must have a value in every row, got none for {name!r} in row "
                        f"{first + int(empty.argmax())} of {path}"
                    )
            yield [batch.column(name).to_numpy(zero_copy_only=False) for name in columns]
            first += batch.num_rows

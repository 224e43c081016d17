"""Files of edges, read a part at a time. Errors name the file and the row."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from torch_geometric_simpool.distributed.parquet import describe_parquet, read_parquet

#: The edges that are read at a time.
CHUNK = 1 << 22

#: What a shard may be.
SUFFIXES = (".npy", ".parquet")

Paths = Union[str, os.PathLike, Sequence[Union[str, os.PathLike]]]


class Shard(NamedTuple):
    """A file of edges."""

    path: Path
    num_edges: int
    id_type: np.dtype
    weight_type: Optional[np.dtype]  # None without weights
    by_column: bool  # whether it is a `[2, E]` array, in which an edge is a column

    def place(self, edge: int) -> str:
        """Where an edge is."""
        return f"{'column' if self.by_column else 'row'} {edge} of {self.path}"


class Edges(NamedTuple):
    """Some edges of a shard: ids are int64, weights float64."""

    shard: Shard
    first: int
    source: np.ndarray
    target: np.ndarray
    weight: np.ndarray  # of size zero without weights


def open_shards(shards: Paths) -> list[Shard]:
    """All shards, after a look at their types and shapes."""
    opened = [_open(path) for path in _paths_of(shards)]
    for shard in opened[1:]:
        _check_same(shard, opened[0])
    return opened


def read_shards(shards: list[Shard]) -> Iterator[Edges]:
    """All edges, up to `CHUNK` at a time."""
    for shard in shards:
        first = 0
        for columns in _columns_of(shard):
            if shard.id_type == np.uint64:
                _check_signed(shard, first, columns)
            source, target = (np.ascontiguousarray(ids, np.int64) for ids in columns[:2])
            weight = np.empty(0) if len(columns) < 3 else np.asarray(columns[2], np.float64)
            yield Edges(shard, first, source, target, weight)
            first += source.size


def _check_signed(shard: Shard, first: int, columns: list[np.ndarray]) -> None:
    """Raises if an id, as int64, would be a negative one."""
    for name, ids in zip(("source", "target"), columns):
        too_large = ids > np.iinfo(np.int64).max
        if too_large.any():
            wrong = int(too_large.argmax())
            raise ValueError(
                f"`shards` must hold {name} ids below 2^63, got {ids[wrong]} in "
                f"{shard.place(first + wrong)}"
            )


def check_ids(edges: Edges, sizes: tuple[int, int]) -> None:
    """Raises unless sources and targets are in range."""
    for name, ids, size in zip(("source", "target"), (edges.source, edges.target), sizes):
        if ids.size == 0 or (ids.min() >= 0 and ids.max() < size):
            continue
        wrong = int(((ids < 0) | (ids >= size)).argmax())
        raise ValueError(
            f"`shards` must hold {name} ids in [0, {size}), got {ids[wrong]} in "
            f"{edges.shard.place(edges.first + wrong)}"
        )


def check_weights(edges: Edges) -> None:
    """Raises unless weights are finite."""
    finite = np.isfinite(edges.weight)
    if not finite.all():
        wrong = int(finite.argmin())
        raise ValueError(
            f"`shards` must have finite weights, got {edges.weight[wrong]} in "
            f"{edges.shard.place(edges.first + wrong)}"
        )


def _paths_of(shards: Any) -> list[Path]:
    expected = "`shards` must be a folder, or a list of .npy and .parquet files"
    if isinstance(shards, (str, os.PathLike)):
        folder = Path(os.path.expanduser(shards))
        if not folder.is_dir():
            raise ValueError(f"{expected}, got {folder}, which is no folder")
        paths = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)
    else:
        try:
            paths = [Path(os.path.expanduser(path)) for path in shards]
        except TypeError:
            raise TypeError(f"{expected}, got {shards!r}") from None
    if not paths:
        raise ValueError(f"{expected}, got no such file")
    for path in paths:
        if path.suffix not in SUFFIXES or not path.is_file():
            raise ValueError(f"{expected}, got {path}{'' if path.is_file() else ', not a file'}")
    return paths


def _open(path: Path) -> Shard:
    by_column = False
    if path.suffix == ".parquet":
        num_edges, ends, weight = describe_parquet(path)
    else:
        array = _map_npy(path)
        by_column = array.shape[0] == 2
        num_edges, ends, weight = array.size // 2, [array.dtype] * 2, None
    for dtype in ends:
        if dtype.kind not in "iu" or dtype != ends[0]:
            raise TypeError(
                "`shards` must hold node ids of one integer type, got "
                f"{' and '.join(sorted({str(dtype) for dtype in ends}))} in {path}"
            )
    if weight is not None and weight.kind not in "iuf":
        raise TypeError(f"`shards` must hold real weights, got {weight} in {path}")
    return Shard(path, num_edges, ends[0], weight, by_column)


def _check_same(shard: Shard, other: Shard) -> None:
    for name, types in (
        ("node ids", [shard.id_type, other.id_type]),
        ("weights", [shard.weight_type, other.weight_type]),
    ):
        # As strings: to NumPy, `None` is float64.
        came, expected = ("none" if dtype is None else str(dtype) for dtype in types)
        if came != expected:
            raise TypeError(
                f"`shards` must hold {name} of one type, got {came} in {shard.path} and "
                f"{expected} in {other.path}"
            )


def _map_npy(path: Path) -> np.ndarray:
    expected = "`shards` must be .npy files of shape [2, E] or [E, 2]"
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{expected}, got {path}: {error}") from None
    if not isinstance(array, np.ndarray) or array.ndim != 2 or 2 not in array.shape:
        raise ValueError(f"{expected}, got {list(getattr(array, 'shape', []))} in {path}")
    return array


def _columns_of(shard: Shard) -> Iterator[list[np.ndarray]]:
    if shard.path.suffix == ".parquet":
        yield from read_parquet(shard.path, CHUNK, shard.weight_type is not None)
        return
    array = _map_npy(shard.path)
    ends = array if shard.by_column else array.T
    for first in range(0, shard.num_edges, CHUNK):
        yield list(ends[:, first : first + CHUNK])

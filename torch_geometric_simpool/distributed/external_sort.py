"""Sorts the entries of a sparse matrix by row, then by column, in bounded memory.

Two passes: entries are written to a file, where each bucket of rows has its part, and then each
bucket is read and sorted. Entries at the same place are added up.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from torch_geometric_simpool.distributed.files import as_bytes
from torch_geometric_simpool.topk.numba import disk

#: The entries of a bucket, unless one row alone has more.
BUCKET = 1 << 24

NO_RANK = np.empty(0, np.int64)


class ParallelEdgesError(Exception):
    """A matrix of ones has two entries at the same place."""


def sorted_blocks(
    entries: Iterable[Any],
    counts: np.ndarray,
    dtype: np.dtype,
    weighted: bool,
    folder: Path,
    ranks: tuple[np.ndarray, np.ndarray] = (NO_RANK, NO_RANK),
) -> Iterator[Any]:
    """Blocks of rows in CSR form, in order.

    Args:
        entries: Parts of the entries, `engine.topk.disk.Entries`.
        counts: The number of entries of each row, parallel ones included.
        dtype: The type of the ids.
        weighted: Whether entries have values.
        folder: Where the files between the two passes are.
        ranks: The new numbers of rows and of columns.

    Raises:
        ParallelEdgesError: Entries without values are at the same place.
    """
    engine = disk
    ptr = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=ptr[1:])
    bounds = _bounds(ptr)
    files = [folder / f"entries_{part}.bin" for part in ("row", "col", "value")]
    types = [dtype, dtype, np.dtype(np.float64)]
    if not weighted:
        files.pop()
    try:
        fill_at = ptr[bounds[:-1]].copy()
        with ExitStack() as stack:
            handles = [stack.enter_context(open(file, "wb")) for file in files]
            for part in entries:
                buckets, begin = engine.distribute(part, ranks, bounds, dtype)
                for b in np.flatnonzero(np.diff(begin)):
                    for handle, array in zip(handles, buckets):
                        handle.seek(int(fill_at[b]) * array.itemsize)
                        handle.write(as_bytes(array[begin[b] : begin[b + 1]]))
                    fill_at[b] += begin[b + 1] - begin[b]
        for start, end in pairwise(bounds):
            first, last = int(ptr[start]), int(ptr[end])
            bucket = engine.Entries(
                *(_read(file, kind, first, last) for file, kind in zip(files, types)),
                *([] if weighted else [np.empty(0)]),
            )
            matrix = engine.sort_bucket(bucket, counts[start:end])
            if matrix is None:
                raise ParallelEdgesError
            yield matrix
    finally:
        for file in files:
            file.unlink(missing_ok=True)


def _bounds(ptr: np.ndarray) -> np.ndarray:
    """The first row of each bucket, and the number of rows."""
    bounds = [0]
    num_rows = ptr.size - 1
    while bounds[-1] < num_rows:
        start = bounds[-1]
        end = int(np.searchsorted(ptr, ptr[start] + BUCKET, side="right")) - 1
        bounds.append(min(max(end, start + 1), num_rows))
    return np.array(bounds, np.int64)


def _read(file: Path, dtype: np.dtype, first: int, last: int) -> np.ndarray:
    return np.fromfile(file, dtype, last - first, offset=first * dtype.itemsize)

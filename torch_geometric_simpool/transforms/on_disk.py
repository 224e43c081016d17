"""Structural features of a whole data set, written to disk; a run that was stopped goes on."""

import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

import torch
from torch_geometric.data import Dataset, SQLiteDatabase
from tqdm import tqdm

from torch_geometric_simpool.topk.budget import format_bytes
from torch_geometric_simpool.transforms.datasets import (
    OnDiskDataset,
    check_dataset,
    num_graphs_of,
    stored_graphs,
)
from torch_geometric_simpool.transforms.stream import chunks_with_features
from torch_geometric_simpool.utils.checks import check_bool

if TYPE_CHECKING:
    from torch_geometric_simpool.transforms.structural_similarity import StructuralSimilarity

#: The file that PyG's `OnDiskDataset` opens, and its table.
FINISHED, TABLE = "sqlite.db", "OnDiskDataset"
#: The same file while graphs are missing.
UNFINISHED = "unfinished.db"
#: The table, in the same file, that says which run the graphs are of.
RUN_TABLE = "precompute"

_IN_USE = "`out` must not be in use"


class Run(NamedTuple):
    """What a run is recognized by."""

    transform: str
    #: `None` of an iterable that does not tell.
    num_graphs: Optional[int]


def precompute_to_disk(
    transform: "StructuralSimilarity", dataset: Any, out: Any, progress: bool = True
) -> OnDiskDataset:
    """See :meth:`StructuralSimilarity.precompute`, which calls this."""
    check_bool("progress", progress)
    check_dataset(dataset)
    if not isinstance(out, (str, os.PathLike)):
        raise TypeError(f"`out` must be a path or None, got {out!r} of type {type(out).__name__}")
    folder = Path(os.path.expanduser(out))
    run = Run(repr(transform), num_graphs_of(dataset))
    finished = _finished_run(folder)
    if finished is None:
        _finish(transform, dataset, folder, run, progress)
    own = dataset.transform if isinstance(dataset, Dataset) else None
    result = OnDiskDataset(str(folder), transform=own)
    if finished is not None:
        _check_run(finished._replace(num_graphs=len(result)), run, folder)
        graphs = _missing_graphs(transform, dataset, result.db, folder)
        if next(graphs, None) is not None:
            raise ValueError(
                f"`dataset` must have the {len(result)} graphs of the run in {folder}, got more"
            )
    return result


def _finish(
    transform: "StructuralSimilarity", dataset: Any, folder: Path, run: Run, progress: bool
) -> None:
    """Writes the graphs that are missing, each chunk in a transaction, and renames the file."""
    path = folder / "processed" / UNFINISHED
    if not path.exists():
        _check_empty(folder)
        path.parent.mkdir(parents=True, exist_ok=True)
    with _opened(path, folder) as database:
        stored = _stored_run(database.connection, folder)
        if stored is None:
            _store_run(database.connection, run)
        else:
            _check_run(stored, run, folder)
        graphs = _missing_graphs(transform, dataset, database, folder)
        done, total = len(database), run.num_graphs
        with tqdm(
            initial=done, total=total, desc=type(transform).__name__, disable=not progress
        ) as bar:
            for chunk in chunks_with_features(transform, graphs, bar, done):
                # A view would be pickled with all of the storage that it is a view of.
                copies = [data.clone() for data in chunk]
                try:
                    database.multi_insert(range(done, done + len(chunk)), copies)
                except sqlite3.OperationalError as error:
                    missing = 0 if total is None else total - done
                    needed = path.stat().st_size * missing // done if done else 0
                    raise _explained(error, folder, needed) from error
                done += len(chunk)
    with suppress(FileNotFoundError):  # of another process, which had all graphs as well
        os.replace(path, path.with_name(FINISHED))


@contextmanager
def _opened(path: Path, folder: Path) -> Iterator[SQLiteDatabase]:
    """The database, for this process alone; an unfinished transaction is rolled back."""
    try:
        database = SQLiteDatabase(str(path), TABLE)
        try:
            database.connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.connection.execute("BEGIN EXCLUSIVE")
            database.connection.commit()
            # Renamed while this process was waiting, or before it made a file of its own.
            if not path.exists() or _finished_run(folder) is not None:
                path.unlink(missing_ok=True)
                raise OSError(f"{_IN_USE}, got {folder}, which another process has just finished")
            yield database
        finally:
            database.connection.rollback()
            database.close()
    except sqlite3.Error as error:
        raise _explained(error, folder) from error


def _explained(error: sqlite3.Error, folder: Path, needed: int = 0) -> Exception:
    """What an error of the database means; `needed` are the bytes to come, where known."""
    reason = str(error)  # its code is there from Python 3.11 on
    if "full" in reason:
        more = f"about {format_bytes(needed)} more" if needed else "all graphs"
        free = format_bytes(shutil.disk_usage(folder).free)
        return OSError(
            errno.ENOSPC,
            f"`out` must have room for {more}, got {free} free on the disk of {folder}; the graphs "
            "written so far are kept: call again with the same arguments to go on",
        )
    if "locked" in reason:
        return OSError(f"{_IN_USE}, got {folder}, to which another process writes")
    if isinstance(error, sqlite3.OperationalError):
        return OSError(f"`out` must be a folder that can be written, got {folder}: {reason}")
    return ValueError(f"`out` must be a folder of this transform, got {folder}: {reason}")


def _finished_run(folder: Path) -> Optional[Run]:
    """The run whose graphs are all in the folder, if there is one."""
    path = folder / "processed" / FINISHED
    if not path.exists():
        return None
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        ) as connection:
            return _stored_run(connection, folder)
    except sqlite3.Error as error:
        raise _explained(error, folder) from error


def _stored_run(connection: sqlite3.Connection, folder: Path) -> Optional[Run]:
    """The run that wrote a file, or `None` if it holds nothing."""
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]
    if RUN_TABLE in tables:
        return Run(*connection.execute(f"SELECT transform, num_graphs FROM {RUN_TABLE}").fetchone())
    # PyG makes an empty table when `OnDiskDataset` opens the folder of an unfinished run.
    if tables in ([], [TABLE]) and not (
        tables and connection.execute(f"SELECT id FROM {TABLE}").fetchone()
    ):
        return None
    raise ValueError(
        f"`out` must be a new or empty folder, or one that `precompute` has written, got {folder}, "
        "which holds another data set"
    )


def _store_run(connection: sqlite3.Connection, run: Run) -> None:
    with connection:
        connection.execute("BEGIN")
        connection.execute(f"CREATE TABLE {RUN_TABLE} (transform TEXT, num_graphs INTEGER)")
        connection.execute(f"INSERT INTO {RUN_TABLE} VALUES (?, ?)", run)


def _check_run(stored: Run, run: Run, folder: Path) -> None:
    if stored.transform != run.transform:
        raise ValueError(
            f"`out` must be a new folder or one of the same transform, got {folder}, written by "
            f"{stored.transform}, for {run.transform}"
        )
    if None not in (stored.num_graphs, run.num_graphs) and stored.num_graphs != run.num_graphs:
        raise ValueError(
            f"`dataset` must have the {stored.num_graphs} graphs of the run in {folder}, got "
            f"{run.num_graphs}: choose another `out`"
        )


def _check_empty(folder: Path) -> None:
    """Nothing is there, up to an empty file of PyG."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"`out` must be a folder, got the file {folder}")
    processed = folder / "processed"
    for path in (path for part in (folder, processed) if part.is_dir() for path in part.iterdir()):
        if path not in (processed, processed / FINISHED):
            raise ValueError(
                "`out` must be a new or empty folder, or one that `precompute` has written, got "
                f"{folder}, which holds {path.relative_to(folder)}"
            )


def _missing_graphs(
    transform: "StructuralSimilarity", dataset: Any, database: SQLiteDatabase, folder: Path
) -> Iterator[Any]:
    """The graphs of the data set after those that are stored, the last of which must be its."""
    done = len(database)
    if done == 0:
        return stored_graphs(dataset)
    graphs = stored_graphs(dataset, done - 1)
    last = next(graphs, None)
    if last is None:
        raise ValueError(
            f"`dataset` must have at least the {done} graphs that are stored in {folder}, got fewer"
        )
    other = _other_tensors(transform, database.get(done - 1), last)
    if other:
        raise ValueError(
            f"`dataset` must be that of the run in {folder}, got another: graph {done - 1} has "
            f"another {', '.join(other)} than is stored: choose another `out`"
        )
    return graphs


def _other_tensors(transform: "StructuralSimilarity", stored: Any, given: Any) -> list[str]:
    """The names of the tensors that differ, or that only one of two graphs has."""
    tensors = [
        {name: value for name, value in graph.to_dict().items() if _is_plain(value)}
        for graph in (stored, given)
    ]
    features = [tensors[0].pop(transform.attr), transform(given)[transform.attr]]
    tensors[1].pop(transform.attr, None)  # which the transform replaces
    other = [] if transform.order == "random" or _close(*features) else [transform.attr]
    names = sorted(set().union(*tensors))
    return other + [name for name in names if not _equal(*(graph.get(name) for graph in tensors))]


def _close(first: torch.Tensor, second: torch.Tensor) -> bool:
    return first.shape == second.shape and torch.allclose(first, second)


def _equal(first: Optional[torch.Tensor], second: Optional[torch.Tensor]) -> bool:
    if first is None or second is None:
        return False
    if (first.shape, first.dtype) != (second.shape, second.dtype):
        return False
    return torch.equal(*(_bytes_of(tensor) for tensor in (first, second)))


def _is_plain(value: Any) -> bool:
    """Whether it is a tensor of numbers in memory, one after the other."""
    return (
        isinstance(value, torch.Tensor)
        and not value.is_nested
        and value.layout == torch.strided
        and not value.is_quantized
        and value.device.type != "meta"
    )


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    # In which, unlike in numbers, NaN is equal to itself. A copy has no strides of its own.
    copy = torch.empty(tensor.shape, dtype=tensor.dtype)
    copy.copy_(tensor.detach())
    return copy.view(-1).view(torch.uint8)

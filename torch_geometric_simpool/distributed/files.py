"""Files that are complete or not there, and disks that are full."""

import errno
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Optional

import numpy as np

from torch_geometric_simpool.topk.budget import format_bytes

#: How the names of files begin that are not complete.
TEMPORARY = ".tmp-"

_FULL = (errno.ENOSPC, errno.EDQUOT)


def absolute_path(name: str, path: Any) -> Path:
    """A path that other processes can use, whatever their working directory is."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"`{name}` must be a path, got {type(path).__name__}")
    absolute = Path(os.path.abspath(os.path.expanduser(path)))
    above = next((parent for parent in absolute.parents if parent.exists()), absolute)
    if not above.is_dir():
        raise ValueError(f"`{name}` must be in a folder, got {absolute}, where {above} is a file")
    return absolute


def write_whole(
    path: Path, parts: Sequence[Any], check: Optional[Callable[[], None]] = None
) -> None:
    """Writes a file under a temporary name, then renames it. Others may do the same meanwhile.

    `check` is called before it gets its name.
    """
    while True:
        temporary = path.with_name(f"{TEMPORARY}{path.name}-{uuid.uuid4().hex}")
        try:
            _write(temporary, parts)
            if check is not None:
                check()
            with suppress(FileNotFoundError):
                os.replace(temporary, path)
                return
            # Another process has finished the folder and removed the file: write it again.
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def write_new(path: Path, content: bytes) -> bool:
    """Writes a file if there is none with this name, else returns `False`."""
    temporary = path.with_name(f"{TEMPORARY}{path.name}-{uuid.uuid4().hex}")
    _write(temporary, [content])
    try:
        try:
            os.link(temporary, path)  # unlike a rename, it never replaces a file
        except FileExistsError:
            raise
        except OSError:  # a file system without links: it may be read before it is complete
            _write(path, [content])
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _write(path: Path, parts: Sequence[Any]) -> None:
    """Writes a file that is not there yet, to the disk; after an error there is none."""
    with open(path, "xb") as file:
        try:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def remove_temporary(folder: Path) -> None:
    """Removes what killed processes left in a folder whose files are all complete."""
    for path in folder.glob(f"{TEMPORARY}*"):
        path.unlink(missing_ok=True)


def map_array(path: Path, dtype: np.dtype, size: int) -> np.ndarray:
    """The array in a file, read when it is used.

    It could be written to, without an effect on the file. So kernels see the same type as for an
    array in memory, and need not be compiled again.
    """
    if size == 0:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    return np.asarray(np.memmap(path, dtype, "c", shape=(size,)))


def as_bytes(array: np.ndarray) -> memoryview:
    """The bytes of an array, to be written to a file."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def check_space(name: str, folder: Path, needed: int) -> None:
    """Raises if the disk of a folder has less than `needed` bytes."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(errno.ENOSPC, _message(name, folder, needed, free))


@contextmanager
def full_disk_named(name: str, folder: Path, needed: int) -> Iterator[None]:
    """Says which argument and how much space it is about, if a disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        free = shutil.disk_usage(folder).free
        raise OSError(errno.ENOSPC, _message(name, folder, needed, free)) from error


def _message(name: str, folder: Path, needed: int, free: int) -> str:
    return (
        f"`{name}` must be on a disk with {format_bytes(needed)} to write to, got "
        f"{format_bytes(free)} free in {folder}: what was complete stays valid; make room and "
        "call again"
    )

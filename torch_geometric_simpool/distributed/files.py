"""A folder with one record, which is a nested named tuple of numbers and mapped arrays."""

import json
import os
import uuid
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import numpy as np

#: The file with the names of the files of arrays. Its name changes with the version of the format.
INDEX = "graph-8.json"

Record = TypeVar("Record")


def absolute_path(name: str, path: Any) -> Path:
    """Returns a path that other processes can use, whatever their working directory is."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"`{name}` must be a path, got {type(path).__name__}")
    return Path(os.path.abspath(os.path.expanduser(path)))


def new_file(folder: Path) -> Path:
    """Returns the path of a file of a new array."""
    return folder / f"{uuid.uuid4().hex}.bin"


def map_array(path: Path, dtype: Any, size: int) -> np.ndarray:
    """Maps a file as an array.

    The array is writable, but the file does not change. So kernels see the type of an array in
    memory, and are not compiled again.
    """
    if size == 0:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    return np.asarray(np.memmap(path, dtype, "c", shape=(size,)))


def write_array(folder: Path, parts: Iterable[np.ndarray]) -> np.ndarray:
    """Writes an array, given in one or more parts, to a file, and maps the file."""
    path, size = new_file(folder), 0
    with open(path, "wb") as file:
        for part in parts:
            part.tofile(file)
            size += part.size
    return map_array(path, part.dtype, size)


def save_record(folder: Path, record: tuple, **meta: Any) -> None:
    """Writes `meta` and a record to the index, and removes files that are not in the index."""
    files: dict[int, str] = {}

    def describe(value: Any) -> Any:
        if isinstance(value, tuple):
            return list(map(describe, value))
        if not isinstance(value, np.ndarray):
            return value
        if id(value) not in files:
            base = value.base
            if isinstance(base, np.memmap) and base.size == value.size:
                path = Path(str(base.filename))
            else:
                path = new_file(folder)
                value.tofile(path)
            files[id(value)] = path.name
        return {"name": files[id(value)], "dtype": value.dtype.name, "size": value.size}

    index = {"id": uuid.uuid4().hex, **meta, "record": describe(record)}
    for path in folder.iterdir():
        if path.name not in files.values():
            path.unlink()
    (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


def load_record(kind: type[Record], folder: Path) -> tuple[dict[str, Any], Record]:
    """Returns the `meta` and the record that :func:`save_record` has written.

    Arrays are mapped, and read when they are used.
    """

    @cache
    def load_array(name: str, dtype: str, size: int) -> np.ndarray:
        return map_array(folder / name, dtype, size)

    def load(hint: Any, stored: Any) -> Any:
        if hint is np.ndarray:
            return load_array(**stored)
        if isinstance(stored, list):
            hints = get_type_hints(hint).values()
            return hint(*(load(field, part) for field, part in zip(hints, stored, strict=True)))
        return stored

    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        return index, load(kind, index["record"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"`path` must be a folder that DiskGraph.build has written, got {folder}: {error}. "
            "If it is damaged, or of another version of this package, build it again"
        ) from None

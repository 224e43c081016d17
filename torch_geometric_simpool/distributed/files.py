"""A folder of mapped arrays, which holds one record: a named tuple of arrays and numbers."""

import json
import os
import uuid
from collections.abc import Iterable
from io import BufferedWriter
from pathlib import Path
from typing import Any, TypeVar, get_type_hints
from weakref import WeakValueDictionary

import numpy as np

#: A folder with another number was written by another version of this package.
FORMAT = 4

#: The file that names the arrays of the others.
INDEX = "graph.json"

Record = TypeVar("Record")


def absolute_path(name: str, path: Any) -> Path:
    """Returns a path that other processes can use, whatever their working directory is."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"`{name}` must be a path, got {type(path).__name__}")
    return Path(os.path.abspath(os.path.expanduser(path)))


def map_array(path: Path, dtype: Any, shape: Iterable[int]) -> np.ndarray:
    """Maps a file as an array.

    The array may be written to, without an effect on the file: kernels then see the type that
    arrays in memory have, and need not be compiled again.
    """
    shape = tuple(shape)
    if 0 in shape:  # an empty file cannot be mapped
        return np.empty(shape, dtype)
    return np.asarray(np.memmap(path, dtype, "c", shape=shape))


class ArrayFolder:
    """Writes arrays to files, and a record of some of them at last."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._num_files = 0
        # An array that nobody uses any more is unmapped.
        self._arrays: WeakValueDictionary[str, np.ndarray] = WeakValueDictionary()

    def create(self) -> BufferedWriter:
        """Opens the file of a new array."""
        self._num_files += 1
        return open(self.path / f"{self._num_files}.bin", "wb")

    def finish(self, file: BufferedWriter, dtype: Any) -> np.ndarray:
        """Closes a file and returns its array, mapped."""
        file.close()
        path, dtype = Path(file.name), np.dtype(dtype)
        array = map_array(path, dtype, [path.stat().st_size // dtype.itemsize])
        self._arrays[path.name] = array
        return array

    def store(self, parts: Iterable[np.ndarray]) -> np.ndarray:
        """Writes the parts of an array, at least one, and returns it mapped."""
        file = self.create()
        for part in parts:
            part.tofile(file)
        return self.finish(file, part.dtype)

    def save(self, record: tuple, **meta: Any) -> None:
        """Writes the index of the folder: `meta`, and a record of arrays, which are kept."""
        used = {INDEX}

        def describe(value: Any) -> Any:
            if isinstance(value, tuple):
                fields = value._asdict()  # type: ignore[attr-defined]
                return {field: describe(part) for field, part in fields.items()}
            if not isinstance(value, np.ndarray):
                return value
            names = [name for name, array in self._arrays.items() if array is value]
            if not names:
                with self.create() as file:
                    value.tofile(file)
                names = [Path(file.name).name]
                self._arrays[names[0]] = value
            used.add(names[0])
            return {"file": names[0], "dtype": value.dtype.name, "shape": value.shape}

        index = {"format": FORMAT, "id": uuid.uuid4().hex, **meta, "record": describe(record)}
        for path in self.path.iterdir():
            if path.name not in used:
                path.unlink()
        (self.path / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


def load_record(kind: type[Record], folder: Path) -> tuple[dict[str, Any], Record]:
    """Returns the index that :meth:`ArrayFolder.save` has written, and the record.

    The arrays are mapped: read when they are used.
    """
    arrays: dict[str, np.ndarray] = {}

    def value_of(hint: Any, stored: Any) -> Any:
        if hint is np.ndarray:
            name = stored["file"]
            if name not in arrays:
                arrays[name] = map_array(folder / name, stored["dtype"], stored["shape"])
            return arrays[name]
        if issubclass(hint, tuple):
            hints = get_type_hints(hint).items()
            return hint(**{field: value_of(part, stored[field]) for field, part in hints})
        return stored

    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        if index["format"] != FORMAT:
            raise ValueError(f"format {index['format']}, and this version reads {FORMAT}")
        return index, value_of(kind, index["record"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"`path` must be a folder that DiskGraph.build has written, got {folder}: {error}. "
            "Build it, or copy it, again"
        ) from None

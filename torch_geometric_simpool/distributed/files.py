"""A folder of mapped arrays, which holds one record: a named tuple of arrays and numbers."""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Optional, TypeVar, get_type_hints

import numpy as np

#: A folder with another number was written by another version of this package.
FORMAT = 3

#: The file that names the arrays of the others.
INDEX = "graph.json"

Record = TypeVar("Record")


def absolute_path(name: str, path: Any) -> Path:
    """Returns a path that other processes can use, whatever their working directory is."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"`{name}` must be a path, got {type(path).__name__}")
    absolute = Path(os.path.abspath(os.path.expanduser(path)))
    above = next((parent for parent in absolute.parents if parent.exists()), absolute)
    if not above.is_dir():
        raise ValueError(f"`{name}` must be in a folder, got {absolute}, where {above} is a file")
    return absolute


def map_array(path: Path, dtype: Any, shape: Iterable[int]) -> np.ndarray:
    """Maps a file as an array.

    The array may be written to, without an effect on the file: kernels then see the type that
    arrays in memory have, and need not be compiled again.
    """
    shape = tuple(shape)
    if 0 in shape:  # an empty file cannot be mapped
        return np.empty(shape, dtype)
    return np.asarray(np.memmap(path, dtype, "c", shape=shape))


class ArrayWriter:
    """Appends to an array in a file."""

    def __init__(self, path: Path, dtype: Any) -> None:
        self.path, self.dtype, self.size = path, np.dtype(dtype), 0
        self.array: Optional[np.ndarray] = None
        self._file = open(path, "wb")  # noqa: SIM115

    def append(self, part: np.ndarray) -> None:
        """Writes a part, of any shape."""
        np.ascontiguousarray(part, self.dtype).tofile(self._file)
        self.size += part.size

    def finish(self) -> np.ndarray:
        """Closes the file and returns the mapped array."""
        self._file.close()
        self.array = map_array(self.path, self.dtype, [self.size])
        return self.array


class ArrayFolder:
    """Writes arrays to files, and a record of some of them at last."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writers: list[ArrayWriter] = []

    def writer(self, dtype: Any) -> ArrayWriter:
        """Returns the writer of a new array."""
        self._writers.append(ArrayWriter(self.path / f"{len(self._writers)}.tmp", dtype))
        return self._writers[-1]

    def store(self, parts: Iterable[np.ndarray]) -> np.ndarray:
        """Writes the parts of an array, at least one, and returns it mapped."""
        iterator = iter(parts)
        first = next(iterator)
        writer = self.writer(first.dtype)
        writer.append(first)
        for part in iterator:
            writer.append(part)
        return writer.finish()

    def save(self, record: tuple, **meta: Any) -> None:
        """Writes the index of the folder: `meta`, and a record of arrays, which are kept."""
        written = {id(writer.array): writer.path for writer in self._writers}
        names: dict[int, str] = {}

        def index_of(name: str, value: Any) -> Any:
            if isinstance(value, tuple):
                fields = zip(value._fields, value)  # type: ignore[attr-defined]
                return {field: index_of(f"{name}{field}_", part) for field, part in fields}
            if not isinstance(value, np.ndarray):
                return value
            if id(value) not in names:
                names[id(value)] = f"{name}bin".replace("_bin", ".bin")
                path = self.path / names[id(value)]
                if id(value) in written:
                    os.replace(written[id(value)], path)
                else:
                    value.tofile(path)
            return {"file": names[id(value)], "dtype": value.dtype.name, "shape": value.shape}

        index = {"format": FORMAT, **meta, "record": index_of("", record)}
        for path in self.path.glob("*.tmp"):
            path.unlink()
        index["fingerprint"] = fingerprint_of(self.path, index)
        (self.path / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


def fingerprint_of(folder: Path, index: dict[str, Any]) -> str:
    """Returns a hash of an index and of all arrays."""
    contents = {name: value for name, value in index.items() if name != "fingerprint"}
    digest = hashlib.sha256(json.dumps(contents, sort_keys=True).encode())
    for path in sorted(folder.glob("*.bin")):
        with open(path, "rb") as file:
            while part := file.read(1 << 24):
                digest.update(part)
    return digest.hexdigest()


def read_index(folder: Path) -> dict[str, Any]:
    """Returns the index of a folder that :meth:`ArrayFolder.save` has written."""
    expected = "`path` must be a folder that DiskGraph.build has written"
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        version = index["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{expected}, got {folder}: {INDEX} cannot be read: {error}") from None
    if version != FORMAT:
        raise ValueError(
            f"{expected}, in format {FORMAT}, got format {version} in {folder}: build it again"
        )
    return index


def load_record(kind: type[Record], folder: Path, index: dict[str, Any]) -> Record:
    """Returns the record of a folder, whose arrays are mapped: read when they are used."""
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
        return value_of(kind, index["record"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"`path` must be a folder that DiskGraph.build has written, got {folder}, which is "
            f"damaged ({error}): build it, or copy it, again"
        ) from None

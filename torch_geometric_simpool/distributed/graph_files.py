"""The folder of a graph: a file for each array, and `meta.json`, which says what they are."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from torch_geometric_simpool.distributed.files import as_bytes, map_array, write_whole
from torch_geometric_simpool.topk.numba import disk

META = "meta.json"

#: A folder with another number was written by another version of this package.
FORMAT = 2


class Settings(NamedTuple):
    """How nodes are described and compared."""

    lam: float
    measure: str


class ArrayWriter:
    """Appends to the file of an array, and hashes what it writes."""

    def __init__(self, file: Any, dtype: Any) -> None:
        self.file, self.dtype, self.size = file, np.dtype(dtype), 0
        self.hash = hashlib.sha256()

    def append(self, part: np.ndarray) -> None:
        """Writes a part, of any shape."""
        written = as_bytes(part.astype(self.dtype, copy=False))
        self.file.write(written)
        self.hash.update(written)
        self.size += part.size


class GraphFiles:
    """The arrays in a folder, by name. They are mapped: read when they are used."""

    def __init__(self, folder: Path, meta: Any = None) -> None:
        self.folder = folder
        self.meta: dict[str, Any] = {} if meta is None else meta
        self.arrays: dict[str, Any] = self.meta.get("arrays", {})

    def path(self, name: str) -> Path:
        """The file of an array."""
        return self.folder / f"{name}.bin"

    @contextmanager
    def writer(self, name: str, dtype: Any) -> Iterator[ArrayWriter]:
        """Writes an array part by part."""
        with open(self.path(name), "wb") as file:
            writer = ArrayWriter(file, dtype)
            yield writer
        self.arrays[name] = {
            "dtype": writer.dtype.name,
            "size": writer.size,
            "sha256": writer.hash.hexdigest(),
        }

    def write(self, name: str, parts: Iterable[np.ndarray]) -> None:
        """Writes an array, of the type of its first part."""
        parts = iter(parts)
        first = next(parts)
        with self.writer(name, first.dtype) as writer:
            writer.append(first)
            for part in parts:
                writer.append(part)

    def map(self, name: str) -> np.ndarray:
        """An array, `[size]`; an empty one if there is none of this name."""
        stored = self.arrays.get(name, {"dtype": "int64", "size": 0})
        return map_array(self.path(name), np.dtype(stored["dtype"]), stored["size"])

    def matrix(self, name: str) -> Any:
        """A matrix in CSR form."""
        parts = (self.map(f"{name}_{part}") for part in ("ptr", "col", "value"))
        return disk.CSRArrays(*parts)

    def same_matrix(self, one: str, other: str) -> bool:
        """Whether two matrices are equal, bit for bit."""
        return all(
            self.arrays[f"{one}_{part}"] == self.arrays[f"{other}_{part}"]
            for part in ("ptr", "col", "value")
        )

    def remove_matrix(self, name: str) -> None:
        """Deletes the files of a matrix."""
        for part in ("ptr", "col", "value"):
            self.path(f"{name}_{part}").unlink()
            del self.arrays[f"{name}_{part}"]

    def write_meta(self, **meta: Any) -> None:
        """Finds the hubs, and writes the description of the graph, which makes it one."""
        engine = disk
        self.meta = {"format": FORMAT, **meta, "num_entries": self.arrays["rows_col"]["size"]}
        hubs = engine.find_hubs(self.description())
        self.meta["hub_length"] = int(hubs.length)
        for name in ("mask", "ptr", "side"):
            self.write(f"hub_{name}", [getattr(hubs, name)])
        self.meta["arrays"] = self.arrays
        self.meta["fingerprint"] = _fingerprint_of(self.meta)
        text = json.dumps(self.meta, indent=1) + "\n"
        write_whole(self.folder / META, [text.encode()])

    def description(self) -> Any:
        """The engine's description of all nodes."""
        engine = disk
        norms = None
        if "norm2" in self.arrays:
            norms = engine.Norms(*(self.map(name) for name in engine.Norms._fields))
        return engine.description_of(
            engine.Graph(
                rows=self.matrix("rows"),
                lists=self.matrix("lists") if "lists_ptr" in self.arrays else None,
                scaled_rows=self._values("scaled_rows"),
                scaled_lists=self._values("scaled_lists"),
                bipartite=self.meta["bipartite"],
                nodes=self.map("nodes").reshape(-1, 2),
                rank=self.map("rank"),
                norms=norms,
                exact=self.meta["exact"],
                signed=self.meta["signed"],
            )
        )

    def prepared(self) -> Any:
        """What the engine computes rows of."""
        engine = disk
        hubs = engine.Hubs(
            self.meta["hub_length"],
            self.map("hub_mask"),
            self.map("hub_ptr").reshape(-1, 2),
            self.map("hub_side"),
        )
        return engine.Prepared(self.description(), hubs, self.meta["measure"] == "jaccard")

    def _values(self, name: str) -> Any:
        return self.map(name) if name in self.arrays else None


def _fingerprint_of(meta: dict[str, Any]) -> str:
    """A hash of the contents: the same edges in other shards have it as well."""
    contents = {name: value for name, value in meta.items() if name != "fingerprint"}
    return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()


def check_contents(folder: Path, meta: dict[str, Any]) -> None:
    """Raises unless the files are those that were written, by their hashes."""
    for name, stored in meta["arrays"].items():
        path, found = folder / f"{name}.bin", hashlib.sha256()
        with open(path, "rb") as file:
            while part := file.read(1 << 24):
                found.update(part)
        if found.hexdigest() != stored["sha256"]:
            raise ValueError(
                f"`path` must be a folder that DiskGraph.build has written, got {folder}, where "
                f"{path.name} has been changed: build it, or copy it, again"
            )


def read_meta(folder: Path) -> dict[str, Any]:
    """The description of a graph, after a look at its hash and at the sizes of the files."""
    expected = "`path` must be a folder that DiskGraph.build has written"
    try:
        meta = json.loads((folder / META).read_text(encoding="utf-8"))
        version, fingerprint = meta["format"], meta["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(
            f"{expected}, got {folder}, whose {META} cannot be read: {error}"
        ) from None
    if version != FORMAT:
        raise ValueError(
            f"{expected}, in format {FORMAT}, got format {version} in {folder}: build it again"
        )
    # Nothing else needs a check: what has this hash is what was written.
    if fingerprint != _fingerprint_of(meta):
        raise ValueError(f"{expected}, got {folder}, whose {META} has been changed: build it again")
    for name, stored in meta["arrays"].items():
        size = stored["size"] * np.dtype(stored["dtype"]).itemsize
        path = folder / f"{name}.bin"
        there = path.stat().st_size if path.is_file() else None
        if there != size:
            raise ValueError(
                f"{expected}, got {folder}, where {path.name} has "
                f"{'been lost' if there is None else f'{there} bytes instead of {size}'}"
            )
    return meta

"""What was read of the raw files of a data set, stored as arrays: a file that cannot hold code.

PyG's own file, `data.pt`, is a pickle, and reading it may run what it holds. It is left alone.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Optional

import numpy as np

from harness.store.files import write_whole

NAME = "simpool.npz"
#: A new name if the arrays change their meaning.
FORMAT = "simpool-tu-1"
Arrays = Mapping[str, np.ndarray]


def checksum(raw: Path, name: str) -> str:
    """Tells raw files apart, by their names and contents."""
    digest = hashlib.sha256(FORMAT.encode())
    for path in sorted(raw.glob(f"{name}_*.txt")):
        content = path.read_bytes()
        digest.update(f"\n{path.name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def read_cache(path: Path, wanted: str) -> Optional[Arrays]:
    """The arrays made from raw files with this checksum, or `None`."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        if str(arrays.pop("checksum")) != wanted:
            return None
        _check(arrays)
    except Exception:
        # Damaged files raise errors of several libraries. It is made again, whatever is wrong.
        return None
    return arrays


def write_cache(path: Path, arrays: Arrays, made_from: str) -> None:
    """Stores arrays with the checksum of the raw files."""
    try:
        path.parent.mkdir(exist_ok=True)
        known = {**arrays, "checksum": np.array(made_from)}
        write_whole(path, lambda file: np.savez_compressed(file, **known))  # type: ignore[arg-type]
    except OSError:
        pass  # data that can only be read are read again each time


def _check(arrays: Arrays) -> None:
    """Raises unless the arrays are those of a data set: compiled code relies on the numbers."""
    edges, nodes_of, edges_of = (arrays[n] for n in ("edge_index", "node_slices", "edge_slices"))
    num_graphs = len(nodes_of) - 1
    _require(num_graphs > 0)
    for slices in (nodes_of, edges_of):
        _require(slices.dtype == np.int64 and slices.shape == (num_graphs + 1,))
        _require(slices[0] == 0 and bool((np.diff(slices) >= 0).all()))
    _require(edges.dtype == np.int64 and edges.shape == (2, edges_of[-1]))
    size_of_edge = np.repeat(np.diff(nodes_of), np.diff(edges_of))
    _require(bool(((edges >= 0) & (edges < size_of_edge)).all()))
    y = arrays["y"]
    _require(y.dtype == np.int64 and y.shape == (num_graphs,))
    _require(bool(((y >= 0) & (y < num_graphs)).all()))
    for name, rows in (("x", nodes_of[-1]), ("edge_attr", edges_of[-1])):
        if name in arrays:
            values = arrays[name]
            _require(values.dtype == np.float32 and values.ndim == 2 and len(values) == rows)
            _require(bool(np.isfinite(values).all()))
    width = arrays["x"].shape[1] if "x" in arrays else 0
    columns = arrays["columns"]
    _require(columns.dtype.kind == "i" and columns.shape == (2,) and bool((columns >= 0).all()))
    _require(int(columns.sum()) == width)


def _require(condition: bool) -> None:
    if not condition:
        raise ValueError("not the arrays of a data set")

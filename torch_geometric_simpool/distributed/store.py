"""The top k on disk: a file for each block of rows, and `manifest.json`, which describes them."""

import hashlib
import json
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Optional, Union

import numpy as np
import torch
from torch import Tensor

from torch_geometric_simpool.distributed.files import (
    TEMPORARY,
    absolute_path,
    as_bytes,
    map_array,
    write_new,
    write_whole,
)
from torch_geometric_simpool.topk.parse import check_selection
from torch_geometric_simpool.utils.checks import check_choice, check_ids

MANIFEST = "manifest.json"

#: A folder with another number was written by another version of this package.
FORMAT = 1


class Manifest(NamedTuple):
    """What is computed, and where the rows of each node are."""

    fingerprint: str  # of the graph
    k: int
    loop: bool
    min_similarity: Optional[float]
    dtype: str  # of the values
    bounds: list[int]  # the first node of each block, and the number of nodes

    @property
    def num_blocks(self) -> int:
        """The number of blocks."""
        return len(self.bounds) - 1

    @property
    def row_bytes(self) -> int:
        """The bytes of a row: its values and its indices."""
        return self.k * (np.dtype(self.dtype).itemsize + np.dtype(np.int64).itemsize)

    def size_of(self, block: int) -> int:
        """The bytes of a block."""
        return (self.bounds[block + 1] - self.bounds[block]) * self.row_bytes

    @property
    def digest(self) -> str:
        """A hash of all of it."""
        return hashlib.sha256(json.dumps(self).encode()).hexdigest()


def block_path(folder: Path, block: int) -> Path:
    """The file of a block: all its indices, then all its values."""
    return folder / f"block-{block:06d}.bin"


def write_block(
    folder: Path, block: int, values: np.ndarray, index: np.ndarray, digest: str
) -> None:
    """Writes a block; a process that is killed meanwhile leaves none.

    `digest` is that of its manifest. A process that was not stopped with its call may end when the
    folder has been deleted, and made again by another call with other rows.
    """

    def check() -> None:
        manifest = read_manifest(folder)
        if manifest is None or manifest.digest != digest:
            raise ValueError(
                f"`out` must stay the folder of one job, got {folder}, which was deleted, or "
                "written by another one, while rows were computed"
            )

    write_whole(block_path(folder, block), [as_bytes(index), as_bytes(values)], check)


def is_written(folder: Path, manifest: Manifest, block: int) -> bool:
    """Whether a block is there."""
    path = block_path(folder, block)
    return path.is_file() and path.stat().st_size == manifest.size_of(block)


def write_manifest(folder: Path, manifest: Manifest) -> bool:
    """Says what the folder is for; `False` if another process has said so first."""
    text = json.dumps({"format": FORMAT, **manifest._asdict()}) + "\n"
    return write_new(folder / MANIFEST, text.encode())


def _check(manifest: Manifest) -> None:
    """Raises unless all values are as :func:`topk_to_disk` writes them."""
    check_selection(manifest.k, manifest.loop, manifest.min_similarity)
    check_choice("dtype", manifest.dtype, ("float32", "float64"))
    bounds = manifest.bounds
    if (
        not isinstance(bounds, list)
        or any(type(bound) is not int for bound in bounds)
        or bounds[:1] != [0]
        or any(start >= end for start, end in pairwise(bounds))
    ):
        raise ValueError(f"`bounds` must be integers that ascend from 0, got {str(bounds)[:80]}")


def read_manifest(folder: Path) -> Optional[Manifest]:
    """What the folder is for; `None` if it is empty or does not exist."""
    expected = "`out` must be a folder that topk_to_disk has written"
    path = folder / MANIFEST
    if not path.exists():
        empty = not folder.exists() or (
            folder.is_dir() and all(file.name.startswith(TEMPORARY) for file in folder.iterdir())
        )
        if empty:
            return None
        # Another process may have written it in the meantime, and its first blocks.
        if not path.exists():
            raise ValueError(f"{expected}, or an empty one, got {folder}, without {MANIFEST}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        version = content.pop("format")
        manifest = Manifest(**content) if version == FORMAT else None
        if manifest is not None:
            _check(manifest)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{expected}, got {folder}: {MANIFEST} cannot be read: {error}") from None
    if manifest is None:
        raise ValueError(f"{expected}, in format {FORMAT}, got format {version} in {folder}")
    return manifest


class TopKStore:
    """The rows that :func:`topk_to_disk` has written.

    Args:
        out: The folder.

    Raises:
        ValueError: There is no such folder, or rows are missing.

    Example:
        >>> import numpy, tempfile
        >>> from torch_geometric_simpool.distributed import DiskGraph, topk_to_disk
        >>> folder = tempfile.mkdtemp()
        >>> numpy.save(f"{folder}/star.npy", [[0, 0, 1, 2], [1, 2, 0, 0]])
        >>> graph = DiskGraph.build(folder, f"{folder}/graph", progress=False)
        >>> store = topk_to_disk(graph, 2, f"{folder}/top2", progress=False)
        >>> TopKStore(f"{folder}/top2").read(torch.tensor([2]))
        (tensor([[1., 1.]]), tensor([[1, 2]]))
    """

    def __init__(self, out: Union[str, os.PathLike]) -> None:
        self.path = absolute_path("out", out)
        manifest = read_manifest(self.path)
        if manifest is None:
            raise ValueError(
                f"`out` must be a folder that topk_to_disk has written, got {self.path}, which is "
                "empty or does not exist"
            )
        self._manifest: Manifest = manifest
        blocks = range(manifest.num_blocks)
        missing = sum(not is_written(self.path, manifest, block) for block in blocks)
        if missing > 0:
            raise ValueError(
                f"`out` must be complete, got {self.path}, where {missing} of {len(blocks)} blocks "
                "are missing: call topk_to_disk again, which computes these alone"
            )

    @property
    def k(self) -> int:
        """The number of places in a row."""
        return self._manifest.k

    @property
    def num_nodes(self) -> int:
        """The number of rows."""
        return self._manifest.bounds[-1]

    def read(self, nodes: Optional[Tensor] = None) -> tuple[Tensor, Tensor]:
        """The rows of some nodes, or of all.

        Args:
            nodes: Their ids, integers, `[M]`, `M >= 1`, on the CPU, in any order, repeats allowed.
                All nodes if `None`: then the result must fit into memory, see :meth:`blocks`.

        Returns:
            `values` and `index`, `[M, k]` or `[N, k]`: what :func:`topk_similarity` returns, bit
            for bit.

        Raises:
            TypeError, ValueError: `nodes` of a wrong type or shape, out of range, or on another
                device.

        Time and memory: those of the rows that are read.
        """
        if isinstance(nodes, Tensor) and nodes.device.type != "cpu":
            raise ValueError(f"`nodes` must be on the CPU, got a tensor on {nodes.device}")
        ids = None if nodes is None else check_ids("nodes", nodes, self.num_nodes).numpy()
        num_rows = self.num_nodes if ids is None else ids.size
        values = np.empty((num_rows, self.k), self._manifest.dtype)
        index = np.empty((num_rows, self.k), np.int64)
        bounds = np.asarray(self._manifest.bounds)
        if ids is None:
            for block, (start, end) in enumerate(pairwise(bounds)):
                values[start:end], index[start:end] = self._map(block)
        else:
            of_node = np.searchsorted(bounds, ids, side="right") - 1
            order = np.argsort(of_node, kind="stable")
            blocks, starts = np.unique(of_node[order], return_index=True)
            for block, places in zip(blocks, np.split(order, starts[1:])):
                rows = ids[places] - bounds[block]
                stored_values, stored_index = self._map(int(block))
                values[places], index[places] = stored_values[rows], stored_index[rows]
        return torch.from_numpy(values), torch.from_numpy(index)

    def blocks(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """All rows, some at a time, for stores larger than memory.

        Yields:
            `nodes`, `[B]`, ascending over all blocks; and their `values` and `index`, `[B, k]`.
        """
        bounds = self._manifest.bounds
        for block in range(self._manifest.num_blocks):
            values, index = (torch.from_numpy(part.copy()) for part in self._map(block))
            yield torch.arange(bounds[block], bounds[block + 1]), values, index

    def _map(self, block: int) -> tuple[np.ndarray, np.ndarray]:
        stored = map_array(
            block_path(self.path, block), np.dtype(np.uint8), self._manifest.size_of(block)
        )
        shape = self._manifest.bounds[block + 1] - self._manifest.bounds[block], self.k
        values_at = shape[0] * shape[1] * np.dtype(np.int64).itemsize
        values = stored[values_at:].view(self._manifest.dtype).reshape(shape)
        return values, stored[:values_at].view(np.int64).reshape(shape)

    def __repr__(self) -> str:
        return f"TopKStore({str(self.path)!r}, num_nodes={self.num_nodes}, k={self.k})"

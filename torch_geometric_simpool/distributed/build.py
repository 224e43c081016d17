"""From edges on disk to the arrays of a graph: the same bits as :func:`topk_similarity` has."""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
from tqdm import tqdm

from torch_geometric_simpool.distributed.external_sort import (
    NO_RANK,
    ParallelEdgesError,
    sorted_blocks,
)
from torch_geometric_simpool.distributed.files import check_space, full_disk_named
from torch_geometric_simpool.distributed.graph_files import GraphFiles, Settings
from torch_geometric_simpool.distributed.scan import Scan, scan
from torch_geometric_simpool.distributed.shards import Paths, Shard, open_shards, read_shards
from torch_geometric_simpool.topk.numba import disk


def build(
    shards: Paths,
    path: Path,
    num_nodes: Union[int, tuple[int, int], None],
    settings: Settings,
    progress: bool,
) -> None:
    """Writes the folder of a graph: all of it, or nothing."""
    files = open_shards(shards)
    num_edges = sum(shard.num_edges for shard in files)

    def watch(what: str, parts: Iterable[Any]) -> Iterator[Any]:
        with tqdm(total=num_edges, desc=what, unit=" edges", disable=not progress) as bar:
            for part in parts:
                yield part
                bar.update(part.source.size)

    with _new_folder(path) as folder:
        found = scan(files, num_nodes, watch)
        needed = _bytes_needed(found, num_edges, settings)
        check_space("path", folder, needed)
        with full_disk_named("path", folder, needed):
            _Builder(files, found, settings, folder, watch).run()


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """A folder with a temporary name, which is renamed at the end, or removed."""
    if path.exists():
        raise ValueError(f"`path` must not exist, got {path}: delete it, or choose another")
    folder = unfinished(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir()
    except FileExistsError:
        raise ValueError(
            f"`path` must not be half-written, got {path}, of which {folder} is left: delete that "
            "folder, unless another process is building the graph"
        ) from None
    try:
        yield folder
        os.replace(folder, path)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def unfinished(path: Path) -> Path:
    """Where a graph is until it is complete."""
    return path.with_name(f".{path.name}.building")


def _bytes_needed(found: Scan, num_edges: int, settings: Settings) -> int:
    """The bytes on disk: the matrix and its transpose, the file that is sorted, the nodes."""
    ids = disk.type_of_ids(max(found.sizes)).itemsize
    num_entries = num_edges + (found.sizes[0] if settings.lam > 0 else 0)
    values = 5 * 8 if found.weighted or settings.lam not in (0.0, 1.0) else 0
    return num_entries * (4 * ids + values) + 40 * sum(found.sizes)


class _Builder:
    """Writes the arrays of a graph to a folder."""

    def __init__(
        self, shards: list[Shard], found: Scan, settings: Settings, folder: Path, watch: Any
    ) -> None:
        self.engine = disk
        self.shards, self.found, self.settings, self.watch = shards, found, settings, watch
        self.files = GraphFiles(folder)
        self.id_type = self.engine.type_of_ids(max(found.sizes))
        self.exact, self.signed, self.unit = True, False, 1.0

    def run(self) -> None:
        """Writes all arrays, and what describes them at last."""
        weighted = self.found.weighted or self.settings.lam not in (0.0, 1.0)
        if not weighted:
            try:
                self._write_ones()
            except ParallelEdgesError:  # they add up
                weighted = True
        if weighted:
            self._write_values()
        weight_type = self.shards[0].weight_type
        found, settings = self.found, self.settings
        self.files.write_meta(
            num_nodes=found.sizes[0],
            num_cols=found.sizes[1],
            bipartite=found.bipartite,
            lam=settings.lam,
            measure=settings.measure,
            exact=self.exact,
            signed=self.signed,
            dtype="float64" if weight_type == np.float64 else "float32",
        )

    def _write_ones(self) -> None:
        """A graph whose entries are all one: nodes are numbered by norm, then by id."""
        row_counts, col_counts = self._counts()
        size = row_counts if self.found.bipartite else row_counts + col_counts
        order, rank = self.engine.order_by(size, self.id_type)
        del size
        ranks = (rank, NO_RANK if self.found.bipartite else rank)
        rows = self._write_rows(row_counts[order], ranks, weighted=False)
        lists = self._write_lists(rows)
        norm2 = np.diff(rows.ptr)
        if lists is not None and not self.found.bipartite:
            norm2 += np.diff(lists.ptr)
        self.files.write("rank", [rank])
        self.files.write("nodes", [np.stack([order, norm2.astype(self.id_type)], axis=1)])

    def _write_values(self) -> None:
        """A graph with values, in the caller's ids."""
        row_counts, _ = self._counts()
        found, lam = self.found, self.settings.lam
        sums = found.ends[2:] if found.weighted else found.ends[:2]
        largest = max(float(part.max(initial=0)) for part in sums) + lam
        # The conditions of `describe`: no sum of products of integers rounds.
        self.exact = found.integers and lam.is_integer() and largest < 2**26
        if not self.exact and row_counts.any():
            self.unit = float(self.engine.scale_of(max(found.largest, lam)))
        rows = self._write_rows(row_counts, (NO_RANK, NO_RANK), weighted=True)
        lists = self._write_lists(rows)
        both = None if found.bipartite else lists
        norms = self.engine.norms_of(rows, both, self.exact, self.unit)
        self.signed = not self.exact and self.engine.is_signed(rows)
        for name, array in norms._asdict().items():
            self.files.write(name, [array])
        if (norms.scale != 1).any():
            if not found.bipartite:
                self.files.write("scaled_rows", self.engine.scaled_values(rows, norms.scale))
            if lists is not None:
                self.files.write("scaled_lists", self.engine.scaled_values(lists, norms.scale))

    def _counts(self) -> tuple[np.ndarray, np.ndarray]:
        """The entries of each row and column of `A + lam * I`."""
        row_counts, col_counts = self.found.ends[:2]
        return (
            (row_counts + 1, col_counts + 1) if self.settings.lam > 0 else (row_counts, col_counts)
        )

    def _entries(self, weighted: bool) -> Iterator[Any]:
        """Those of `A + lam * I`."""
        make = self.engine.Entries
        for edges in self.watch("sorting edges", read_shards(self.shards)):
            value = np.empty(0)
            if weighted:
                given = edges.weight if self.found.weighted else np.ones(edges.source.size)
                value = given * self.unit + 0.0  # no negative zeros: equal values have equal bits
            yield make(edges.source, edges.target, value)
        if self.settings.lam > 0:
            step, num_nodes = self.engine.CHUNK, self.found.sizes[0]
            for first in range(0, num_nodes, step):
                ids = np.arange(first, min(first + step, num_nodes))
                value = np.full(ids.size if weighted else 0, self.settings.lam * self.unit)
                yield make(ids, ids, value)

    def _write_rows(self, counts: np.ndarray, ranks: Any, weighted: bool) -> Any:
        entries = self._entries(weighted)
        folder = self.files.folder
        return self._write_matrix(
            "rows", sorted_blocks(entries, counts, self.id_type, weighted, folder, ranks)
        )

    def _write_lists(self, rows: Any) -> Optional[Any]:
        """The transpose; or `None` if it is the same matrix, and need not be kept."""
        counts = self.engine.column_counts(rows, self.found.sizes[1])
        entries = self.engine.transposed_entries(rows)
        weighted = rows.value.size > 0
        lists = self._write_matrix(
            "lists", sorted_blocks(entries, counts, self.id_type, weighted, self.files.folder)
        )
        if not self.found.bipartite and self.files.same_matrix("rows", "lists"):
            del lists
            self.files.remove_matrix("lists")
            return None
        return lists

    def _write_matrix(self, name: str, blocks: Iterator[Any]) -> Any:
        """Appends blocks of rows to the files of a matrix, and maps it."""
        last = 0
        with ExitStack() as stack:
            ptr = stack.enter_context(self.files.writer(f"{name}_ptr", np.int64))
            col = stack.enter_context(self.files.writer(f"{name}_col", self.id_type))
            value = stack.enter_context(self.files.writer(f"{name}_value", np.float64))
            ptr.append(np.zeros(1, np.int64))
            for block in blocks:
                ptr.append(block.ptr[1:] + last)
                col.append(block.col)
                value.append(block.value)
                last += block.col.size
        return self.files.matrix(name)

"""A graph on disk."""

import functools
import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional, Union

import duckdb
import numpy as np
import torch
from tqdm import tqdm

from torch_geometric_simpool.distributed import edges
from torch_geometric_simpool.distributed.files import (
    ArrayFolder,
    absolute_path,
    fingerprint_of,
    load_record,
    read_index,
)
from torch_geometric_simpool.topk import budget
from torch_geometric_simpool.topk.backend import Cost
from torch_geometric_simpool.topk.estimate import SECONDS_PER_PRODUCT, TopKEstimate
from torch_geometric_simpool.topk.numba import mapped
from torch_geometric_simpool.topk.numba.mapped import CSRArrays, Prepared
from torch_geometric_simpool.topk.parse import check_node_arrays
from torch_geometric_simpool.utils.checks import (
    check_bipartite,
    check_bipartite_sizes,
    check_bool,
    check_choice,
    check_int,
    check_real,
)


class DiskGraph:
    """A graph in a folder, whose arrays are mapped into memory: read when they are used.

    Made by :meth:`build` or :meth:`open`. Any number of processes may use one folder, which is
    never changed.
    """

    def __init__(self, path: Path, index: dict[str, Any]) -> None:
        self.path = path
        self._index = index

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state without the arrays, which another process maps itself."""
        return {name: value for name, value in vars(self).items() if name != "prepared"}

    @classmethod
    def build(
        cls,
        shards: edges.Paths,
        path: Union[str, os.PathLike],
        num_nodes: Union[int, tuple[int, int], None] = None,
        *,
        columns: Optional[Sequence[str]] = None,
        undirected: bool = False,
        duplicates: str = "sum",
        lam: float = 0.0,
        memory_budget: int = 1 << 29,
        progress: bool = True,
    ) -> "DiskGraph":
        r"""Writes the graph whose edges are in `shards` to the folder `path`.

        As in :func:`topk_similarity`, an edge is `A[source, target]`, and self-loops count. DuckDB
        reads and sorts the edges.

        ========================  ==========================================================
        suffix                    contents of a shard
        ========================  ==========================================================
        `.npy`                    integers, `[2, E]` or `[E, 2]` (`[2, 2]` is read as `[2, E]`)
        `.parquet`                integer columns of sources and targets, and real weights
        `.csv`                    the same columns, named in the first line
        `.txt`, `.tsv`, `.edges`  two ids in each line, separated by white space, as SNAP has
                                  them. Lines that begin with `#` or `%` are comments
        ========================  ==========================================================

        CSV and text files may be compressed (`.csv.gz`, `.txt.gz`).

        Args:
            shards (path or list of paths): A file, a folder of files, or a list of files.
            path (path): The folder that is written. It must not exist.
            num_nodes (int or (int, int), optional): The number of nodes, or the numbers of source
                and destination nodes of a bipartite graph, see :func:`topk_similarity`. The
                largest id plus one if :obj:`None`. (default: :obj:`None`)
            columns ((str, str) or (str, str, str), optional): The names of the columns of
                sources, targets and weights. In a text file, two names read the first two fields
                and three names read weights from the third. `source`, `target`, and `weight` if a
                table has it, if :obj:`None`; a text file then has two fields.
                (default: :obj:`None`)
            undirected (bool): Whether each edge is listed once and holds in both directions.
                (default: :obj:`False`)
            duplicates (str): `'sum'` adds up repeated edges, as :func:`topk_similarity` does.
                A warning says that an unweighted graph then has weights. `'drop'` keeps the edge of
                the largest weight. (default: :obj:`'sum'`)
            lam (float): The weight of the added self-loops, 0 for a bipartite graph.
                (default: :obj:`0.0`)
            memory_budget (int): The bytes that DuckDB may use. (default: 512 MiB)
            progress (bool): Whether a bar shows the progress. (default: :obj:`True`)

        Returns:
            DiskGraph: The graph.

        Raises:
            TypeError, ValueError: Shards that cannot be read, missing columns, ids that are no
                integers or out of range, empty cells, NaN or infinite weights, a folder that
                exists, more nodes than fit into memory.
            OSError: The disk is full.

        Time: a sort of the edges; two sorts of a directed, bipartite or weighted graph. Memory:
        `memory_budget`, and about 64 bytes for each node. On disk: 4 bytes for each entry of an
        undirected graph (8 with integer weights, up to 20 with others; twice the bytes if it is
        directed) and about 28 for each node. Deterministic: equal edges give equal files.

        .. note::
            The folder gets its name when it is complete. A killed process leaves a folder
            `.NAME.building`, which the next call replaces. Do not build one path in two processes
            at once.

        Example:
            >>> import numpy, tempfile
            >>> folder = tempfile.mkdtemp()
            >>> numpy.save(f"{folder}/star.npy", [[0, 0], [1, 2]])
            >>> graph = DiskGraph.build(
            ...     f"{folder}/star.npy", f"{folder}/graph", undirected=True, progress=False
            ... )
            >>> graph.num_nodes
            3
        """
        lam = check_real("lam", lam, 0.0)
        for name, value in (("undirected", undirected), ("progress", progress)):
            check_bool(name, value)
        check_choice("duplicates", duplicates, ("sum", "drop"))
        check_int("memory_budget", memory_budget, 1 << 26)
        _check_columns(columns)
        bipartite = isinstance(num_nodes, (tuple, list))
        if bipartite:
            num_nodes = check_bipartite_sizes(num_nodes)
            check_bipartite("lam", lam, 0)
            if undirected:
                raise ValueError("`undirected` must be False for a bipartite graph, got True")
        elif num_nodes is not None:
            num_nodes = check_int("num_nodes", num_nodes, 0)
        path = absolute_path("path", path)
        with _new_folder(path) as folder:
            threads = torch.get_num_threads()
            table = edges.read_shards(shards, columns, folder, memory_budget, threads)
            if num_nodes is None:
                num_nodes = table.largest_id + 1
            sizes = num_nodes if isinstance(num_nodes, tuple) else (num_nodes, num_nodes)
            check_node_arrays(max(sizes), torch.device("cpu"))
            table.check(*sizes)
            entries = edges.EntryQuery(
                table,
                undirected,
                duplicates == "drop",
                lam,
                sizes[0],
                mapped.type_of_ids(max(sizes)),
            )
            _Builder(folder, entries, sizes, bipartite, progress).run()
        return cls.open(path)

    @classmethod
    def open(cls, path: Union[str, os.PathLike], verify: bool = False) -> "DiskGraph":
        """Opens a folder that :meth:`build` has written.

        Args:
            path (path): The folder.
            verify (bool): Whether to read all files and compare their hash with the hash at the
                end of :meth:`build`, for example for a copy. (default: :obj:`False`)

        Raises:
            ValueError: The folder does not exist, or is damaged, or another version of this
                package has written it.
        """
        check_bool("verify", verify)
        path = absolute_path("path", path)
        graph = cls(path, read_index(path))
        graph.prepared = load_record(Prepared, path, graph._index)
        if verify and fingerprint_of(path, graph._index) != graph.fingerprint:
            raise ValueError(
                f"`path` must be a folder that DiskGraph.build has written, got {path}, whose "
                "contents have been changed: build it, or copy it, again"
            )
        return graph

    @property
    def num_nodes(self) -> int:
        """The number of nodes that are compared: in a bipartite graph, the source nodes."""
        return self._index["num_nodes"]

    @property
    def num_entries(self) -> int:
        """The number of entries of the adjacency matrix, with `lam` on its diagonal."""
        return self._index["num_entries"]

    @property
    def lam(self) -> float:
        """The weight of the added self-loops."""
        return self._index["lam"]

    @property
    def dtype(self) -> torch.dtype:
        """The type of similarities: float64 if weights are, else float32."""
        return getattr(torch, self._index["dtype"])

    @property
    def fingerprint(self) -> str:
        """A hash of the contents: equal for equal graphs."""
        return self._index["fingerprint"]

    @property
    def num_bytes(self) -> int:
        """The bytes of the arrays on disk."""
        return sum(path.stat().st_size for path in self.path.glob("*.bin"))

    @functools.cached_property
    def prepared(self) -> Prepared:
        """The graph as the backend takes it; its arrays are mapped."""
        return load_record(Prepared, self.path, self._index)

    def estimate(self, k: int, measure: str = "cosine") -> TopKEstimate:
        """Returns the cost of :func:`topk_to_disk`, before any product is computed.

        Args:
            k (int): The number of places in a row.
            measure (str): As in :func:`topk_similarity`. (default: :obj:`'cosine'`)

        Returns:
            TopKEstimate: As :func:`estimate_topk`. `memory` is without the mapped graph, and
            `seconds` are for one process with the present number of threads.
        """
        k = check_int("k", k, 1)
        cost, memory = self.cost(k, measure)
        weighted = not self.prepared.description.unweighted
        seconds = cost.visited * SECONDS_PER_PRODUCT["numba"][weighted] / torch.get_num_threads()
        allowed = budget.Budget(None, force=False).allows(memory)
        refused = cost.visited > budget.MAX_PRODUCTS or not allowed
        output = self.num_nodes * k * (self.dtype.itemsize + torch.long.itemsize)
        return TopKEstimate(cost.products, cost.visited, memory, output, seconds, refused)

    def cost(self, k: int, measure: str) -> tuple[Cost, int]:
        """Returns the cost of all rows, and the bytes of memory without the mapped graph."""
        prepared = mapped.with_measure(self.prepared, measure)
        cost = prepared.cost(None, k, budget.Budget(None, force=True))
        return cost, max(cost.memory - self.num_bytes, 0)

    def __repr__(self) -> str:
        return (
            f"DiskGraph({str(self.path)!r}, num_nodes={self.num_nodes}, "
            f"num_entries={self.num_entries})"
        )


def _check_columns(columns: Any) -> None:
    if columns is None:
        return
    expected = "`columns` must be two or three different names of columns"
    if not isinstance(columns, (tuple, list)) or not all(isinstance(name, str) for name in columns):
        raise TypeError(f"{expected}, got {columns!r}")
    if len(columns) not in (2, 3) or len(set(columns)) < len(columns):
        raise ValueError(f"{expected}, got {columns!r}")


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """Yields a folder with a temporary name, which is renamed at the end, or removed."""
    if path.exists():
        raise ValueError(f"`path` must not exist, got {path}: delete it, or choose another")
    folder = path.with_name(f".{path.name}.building")
    shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
    folder.mkdir(parents=True)
    try:
        yield folder
        os.replace(folder, path)
    except duckdb.OutOfMemoryException as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise budget.TooExpensiveError(
            f"`memory_budget` must be larger for so many edges: {error}"
        ) from None
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


class _Builder:
    """Writes the arrays of a graph to a folder."""

    def __init__(
        self,
        folder: Path,
        entries: edges.EntryQuery,
        sizes: tuple[int, int],
        bipartite: bool,
        progress: bool,
    ) -> None:
        self.arrays = ArrayFolder(folder)
        self.entries, self.sizes, self.bipartite = entries, sizes, bipartite
        self.progress = progress
        self.exact, self.unit = True, 1.0

    def run(self) -> None:
        """Writes all arrays, and the index at last."""
        table, lam = self.entries.table, self.entries.lam
        ones = not table.weighted and lam in (0.0, 1.0)
        rows = self._write_matrix(by_column=False, weighted=False) if ones else None
        weighted = rows is None
        if rows is None:
            self._set_unit()
            rows = self._write_matrix(by_column=False, weighted=True)
            assert rows is not None
            if ones:
                repeated = self.entries.num_entries() - rows.col.size
                warnings.warn(
                    f"`shards` hold {repeated} repeated edges, which "
                    "add up: the graph has weights and takes twice the space. Set "
                    "`duplicates='drop'` to keep one of each",
                    stacklevel=3,
                )
        columns = None
        if not self.entries.undirected and (
            self.bipartite or weighted or not mapped.is_symmetric(rows)
        ):
            columns = self._write_matrix(by_column=True, weighted=weighted)
            if not self.bipartite and columns is not None and mapped.equal(rows, columns):
                columns = None
        table.database.close()  # so that its memory is free
        (self.arrays.path / edges.DATABASE).unlink()
        num_entries = rows.col.size
        prepared = mapped.prepare_mapped(
            rows, columns, self.bipartite, self.exact, self.unit, self.arrays.store
        )
        self.arrays.save(
            prepared,
            num_nodes=self.sizes[0],
            num_entries=num_entries,
            lam=lam,
            dtype=table.dtype,
        )

    def _set_unit(self) -> None:
        """Sets whether sums of products are exact, and the unit of values if they are not."""
        table, lam = self.entries.table, self.entries.lam
        # The conditions of `describe`: no sum of products of integers rounds.
        self.exact = (
            table.integers and lam.is_integer() and self.entries.largest_sum(*self.sizes) < 2**26
        )
        largest = max(table.largest_weight, lam)
        if not self.exact and largest > 0:
            self.unit = float(mapped.scale_of(largest))

    def _write_matrix(self, by_column: bool, weighted: bool) -> Optional[CSRArrays]:
        """Writes a matrix or its transpose; `None` where entries without weights repeat."""
        counts = np.zeros(self.sizes[by_column], np.int64)
        col = self.arrays.writer(self.entries.id_type)
        value = self.arrays.writer(np.int32 if self.exact else np.float64)
        parts = self.entries.sorted(self.unit if weighted else None, by_column)
        with tqdm(desc="sorting edges", unit=" edges", disable=not self.progress) as bar:
            for part in parts:
                bar.update(part.row.size)
                first = edges.starts(part.row, part.col)
                values = part.value
                if not first.all():
                    if not weighted:
                        return None
                    place = np.cumsum(first, dtype=self.entries.id_type) - 1
                    values = mapped.sum_repeated(place, values)
                row = part.row[first]
                if row.size > 0:
                    counts[row[0] : row[-1] + 1] += np.bincount(row - row[0])
                col.append(part.col[first])
                value.append(values)
        return CSRArrays(mapped.offsets(counts), col.finish(), value.finish())

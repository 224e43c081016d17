"""A graph on disk."""

import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
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
    load_record,
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

#: Sums of products of integers do not round below the square of this sum in each row and column.
EXACT_SUM = 2**26


class DiskGraph:
    """A graph in a folder, whose arrays are mapped into memory: read when they are used.

    Made by :meth:`build` or :meth:`open`. Any number of processes may use one folder, which is
    never changed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._index, self.prepared = load_record(Prepared, path)

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state without the arrays, which another process maps itself."""
        return {name: value for name, value in vars(self).items() if name != "prepared"}

    @cached_property
    def prepared(self) -> Prepared:
        """The graph as the backend takes it; its arrays are mapped."""
        index, prepared = load_record(Prepared, self.path)
        if index != self._index:
            raise ValueError(
                f"`graph` must be the same on all machines, got another one in {self.path} on "
                "this one"
            )
        return prepared

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
        directed) and about 28 for each node.

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
            table = edges.read_shards(
                shards, columns, undirected, duplicates == "drop", folder, memory_budget
            )
            if num_nodes is None:
                num_nodes = table.largest_id + 1
            sizes = num_nodes if isinstance(num_nodes, tuple) else (num_nodes, num_nodes)
            check_node_arrays(max(sizes), torch.device("cpu"))
            table.check(*sizes)
            if lam > 0:
                table.add_loops(lam, sizes[0])
            _write_graph(folder, table, sizes, bipartite, undirected, lam, progress)
        return cls.open(path)

    @classmethod
    def open(cls, path: Union[str, os.PathLike]) -> "DiskGraph":
        """Opens a folder that :meth:`build` has written.

        Args:
            path (path): The folder.

        Raises:
            ValueError: The folder does not exist, or is damaged, or another version of this
                package has written it.
        """
        return cls(absolute_path("path", path))

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
    def id(self) -> str:
        """The name of the build, which copies of the folder share."""
        return self._index["id"]

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
        seconds = cost.products * SECONDS_PER_PRODUCT["numba"][weighted] / torch.get_num_threads()
        allowed = budget.Budget(None, force=False).allows(memory)
        refused = cost.products > budget.MAX_PRODUCTS or not allowed
        output = self.num_nodes * k * (self.dtype.itemsize + torch.long.itemsize)
        return TopKEstimate(cost.products, memory, output, seconds, refused)

    def cost(self, k: int, measure: str) -> tuple[Cost, int]:
        """Returns the cost of all rows, and the bytes of memory without the mapped graph."""
        prepared = mapped.with_measure(self.prepared, measure)
        cost = prepared.cost(None, k, budget.Budget(None, force=True))
        num_bytes = sum(path.stat().st_size for path in self.path.glob("*.bin"))
        return cost, max(cost.memory - num_bytes, 0)

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
        raise budget.TooExpensiveError(
            f"`memory_budget` must be larger for so many edges: {error}"
        ) from None
    except duckdb.IOException as error:
        raise OSError(f"`path` must be on a disk with enough space: {error}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # if it has not been renamed


def _write_graph(
    folder: Path,
    table: edges.EdgeTable,
    sizes: tuple[int, int],
    bipartite: bool,
    undirected: bool,
    lam: float,
    progress: bool,
) -> None:
    """Writes all arrays of a graph to a folder, and the index at last."""
    arrays, exact, unit = ArrayFolder(folder), True, 1.0
    if table.weighted:
        # The conditions of `describe`: no sum of products of integers rounds.
        exact = table.integers and table.largest_sum() < EXACT_SUM
        unit = 1.0 if exact else float(mapped.scale_of(table.largest_weight or 1.0))

    def write_matrix(by_column: bool) -> CSRArrays:
        id_type = mapped.type_of_ids(max(sizes))
        parts = table.sorted(unit, id_type, by_column)
        dtype = np.int32 if exact else np.float64
        return _write_matrix(arrays, parts, sizes[by_column], id_type, dtype, table.drop, progress)

    # Nothing else names a matrix, so that its pages are free when it has been renumbered.
    matrices = [write_matrix(by_column=False)]
    unweighted = matrices[0].value.size == 0
    if not unweighted and not table.weighted:
        if table.largest_sum() >= EXACT_SUM:
            raise ValueError("`shards` repeat edges too often: set `duplicates='drop'`")
        warnings.warn(
            "`shards` hold repeated edges, which add up: the graph has weights and takes twice the "
            "space. Set `duplicates='drop'` to keep one of each",
            stacklevel=3,
        )
    if not undirected and (bipartite or not unweighted or not mapped.is_symmetric(matrices[0])):
        matrices.append(write_matrix(by_column=True))
        if not bipartite and mapped.equal(*matrices):
            matrices.pop()
    table.database.close()  # so that its memory is free
    prepared = mapped.prepare_mapped(
        matrices.pop(0),
        matrices.pop() if matrices else None,
        bipartite,
        exact,
        unit,
        arrays.store,
    )
    num_entries = prepared.description.rows.col.size
    arrays.save(prepared, num_nodes=sizes[0], num_entries=num_entries, lam=lam, dtype=table.dtype)


def _write_matrix(
    arrays: ArrayFolder,
    parts: Iterator[edges.Entries],
    num_rows: int,
    id_type: np.dtype,
    value_type: type,
    drop: bool,
    progress: bool,
) -> CSRArrays:
    """Writes a matrix of sorted entries, without values if all are ones.

    With `drop`, the first edge of each place is kept. All other entries of a place add up.
    """
    counts, ones = np.zeros(num_rows, np.int64), value_type is np.int32
    col_file, value_file = arrays.create(), arrays.create()
    with tqdm(desc="sorting edges", unit=" edges", disable=not progress) as bar:
        for part in parts:
            bar.update(part.row.size)
            if drop:
                first = edges.starts(part.row, part.col, part.is_edge)
                part = edges.Entries(*(array[first] for array in part))
            first, value = edges.starts(part.row, part.col), part.value
            if not first.all():
                place = np.cumsum(first, dtype=np.uint32) - 1
                value = mapped.sum_repeated(place, value.astype(np.float64))
            row = part.row[first]
            if row.size > 0:
                counts[row[0] : row[-1] + 1] += np.bincount(row - row[0])
            ones = ones and bool((value == 1).all())
            part.col[first].tofile(col_file)
            value.astype(value_type).tofile(value_file)
    col, value = arrays.finish(col_file, id_type), arrays.finish(value_file, value_type)
    return CSRArrays(mapped.offsets(counts), col, value[:0] if ones else value)

"""A graph on disk."""

import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Optional, Union

import duckdb
import numpy as np
import torch
from tqdm import tqdm

from torch_geometric_simpool.distributed.edges import EdgeTable, Paths
from torch_geometric_simpool.distributed.files import (
    absolute_path,
    load_record,
    map_array,
    new_file,
    save_record,
    write_array,
)
from torch_geometric_simpool.topk import budget
from torch_geometric_simpool.topk.numba import csr, describe
from torch_geometric_simpool.topk.numba.csr import CSRArrays
from torch_geometric_simpool.topk.numba.describe import Description
from torch_geometric_simpool.topk.numba.mapped import prepare_mapped
from torch_geometric_simpool.topk.parse import (
    check_bipartite,
    check_bipartite_sizes,
    check_node_arrays,
)
from torch_geometric_simpool.utils.checks import (
    check_bool,
    check_choice,
    check_int,
    check_real,
)

#: Sums of products of integers are exact if absolute values in a row or column sum to less.
EXACT_SUM = 2**26


class DiskGraph:
    """A graph in a folder. Its arrays are mapped into memory, and read when they are used.

    :meth:`build` writes the folder and :meth:`open` opens it. Any number of processes may use one
    folder, which is never changed.

    Args:
        path (path): A folder that :meth:`build` has written.

    Attributes:
        path (Path): The folder.
        id (str): The name of the build, which copies of the folder share.
        num_nodes (int): The number of nodes that are compared. In a bipartite graph, these are the
            source nodes.
        num_entries (int): The number of entries of the adjacency matrix, with `lam` on its
            diagonal.
        lam (float): The weight of the added self-loops.
        dtype (torch.dtype): The type of similarities: float64 if weights are, else float32.
    """

    def __init__(self, path: Union[str, os.PathLike]) -> None:
        self.path = absolute_path("path", path)
        index, self.description = load_record(Description, self.path)
        self.id: str = index["id"]
        self.num_nodes = self.description.norms.id.size
        self.num_entries = self.description.sides.first.rows.col.size
        self.lam: float = index["lam"]
        self.dtype: torch.dtype = getattr(torch, index["dtype"])

    def __reduce__(self) -> Any:
        """Returns the call by which another process opens the folder."""
        return DiskGraph, (self.path,)

    @classmethod
    def build(
        cls,
        shards: Paths,
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
                and destination nodes of a bipartite graph, see :func:`topk_similarity`.
                (default: :obj:`None`, the largest id plus one)
            columns ((str, str) or (str, str, str), optional): The names of the columns of
                sources, targets and weights. In a text file, two names read the first two fields,
                and three names also read weights from the third field. (default: :obj:`None`,
                `source`, `target`, and `weight` if a table has it; two fields of a text file)
            undirected (bool): Whether the files list each undirected edge once.
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
            TypeError, ValueError: If a shard cannot be read, a column is missing, an id is no
                integer or out of range, a cell is empty, a weight is NaN or infinite, the folder
                exists, or the nodes do not fit into memory.
            OSError: If the disk is full.

        Time: a sort of the edges, or two sorts for a directed or bipartite graph. Memory:
        `memory_budget`, and about 64 bytes for each node. On disk: about 28 bytes for each node,
        and 4 bytes for each entry of an unweighted graph, 8 with integer weights, or up to 20 with
        other weights. A directed graph takes twice the bytes.

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
        check_bool("undirected", undirected)
        check_bool("progress", progress)
        check_choice("duplicates", duplicates, ("sum", "drop"))
        check_int("memory_budget", memory_budget, 1 << 26)
        if columns is not None and not (
            isinstance(columns, (tuple, list))
            and all(isinstance(name, str) for name in columns)
            and len(columns) == len(set(columns)) in (2, 3)
        ):
            raise ValueError(
                f"`columns` must be two or three different names of columns, got {columns!r}"
            )
        bipartite = isinstance(num_nodes, (tuple, list))
        if bipartite:
            num_nodes = check_bipartite_sizes(num_nodes)
            check_bipartite("lam", lam, 0)
            check_bipartite("undirected", undirected, False)
        elif num_nodes is not None:
            num_nodes = check_int("num_nodes", num_nodes, 0)
        path = absolute_path("path", path)
        with _new_folder(path) as folder:
            table = EdgeTable(folder, memory_budget, undirected, drop=duplicates == "drop")
            table.read(shards, columns)
            if num_nodes is None:
                num_nodes = table.largest_id() + 1
            sizes = num_nodes if isinstance(num_nodes, tuple) else (num_nodes, num_nodes)
            check_node_arrays(max(sizes), torch.device("cpu"))
            table.check(*sizes)
            if lam > 0:  # these self-loops are in no shard
                loops = f"SELECT range, range, {lam!r}, -1 FROM range({sizes[0]})"
                table.database.execute(f"INSERT INTO edges {loops}")
            dtype = "float64" if "DOUBLE" in table.weight_types else "float32"
            _write_graph(folder, table, sizes, bipartite, progress, lam=lam, dtype=dtype)
        return cls.open(path)

    @classmethod
    def open(cls, path: Union[str, os.PathLike]) -> "DiskGraph":
        """Opens a folder that :meth:`build` has written.

        Args:
            path (path): The folder.

        Raises:
            ValueError: If the folder does not exist, is damaged, or was written by another version
                of this package.
        """
        return cls(path)

    def __repr__(self) -> str:
        return (
            f"DiskGraph({str(self.path)!r}, num_nodes={self.num_nodes}, "
            f"num_entries={self.num_entries})"
        )


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """Yields a folder with a temporary name, which is renamed at the end, or removed."""
    if path.exists():
        raise ValueError(f"`path` must not exist, got {path}: delete it, or choose another")
    folder = path.with_name(f".{path.name}.building")
    shutil.rmtree(folder, ignore_errors=True)  # a killed process left it
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
    table: EdgeTable,
    sizes: tuple[int, int],
    bipartite: bool,
    progress: bool,
    **meta: Any,
) -> None:
    """Writes all arrays of a graph to a folder, and then the index."""
    weighted, exact, largest = table.weights()
    # As in `describe`, sums of products are exact for integers that are not too large.
    exact = exact and (not weighted or table.largest_sum() < EXACT_SUM)
    unit = 1.0 if exact else float(describe.scale_of(largest))
    types = describe.type_of_ids(max(sizes)), np.dtype(np.int32 if exact else np.float64)
    write_matrix = partial(
        _write_matrix, folder, table, sizes, unit if weighted else None, *types, progress
    )
    # The list has the only reference to a matrix, so its pages are free after the renumbering.
    matrices: list[CSRArrays] = []
    symmetric = write_matrix(matrices, by_column=False)
    if matrices[0].value.size > 0 and not weighted:
        if table.largest_sum() >= EXACT_SUM:
            raise ValueError("`shards` repeat edges too often: set `duplicates='drop'`")
        warnings.warn(
            "`shards` hold repeated edges, which add up: the graph has weights and takes twice the "
            "space. Set `duplicates='drop'` to keep one of each",
            stacklevel=3,
        )
    if bipartite or not symmetric:
        write_matrix(matrices, by_column=True)
        if not bipartite and table.is_one_way():
            warnings.warn(
                "`shards` name each edge in one direction only, so the graph is taken as directed. "
                "If it is not, set `undirected=True`",
                stacklevel=3,
            )
    table.database.close()  # so that its memory is free
    description = prepare_mapped(
        matrices.pop(0),
        matrices.pop() if matrices else None,
        bipartite,
        exact,
        partial(write_array, folder),
    )
    save_record(folder, description, **meta)


def _write_matrix(
    folder: Path,
    table: EdgeTable,
    sizes: tuple[int, int],
    unit: Optional[float],
    id_type: np.dtype,
    value_type: np.dtype,
    progress: bool,
    matrices: list[CSRArrays],
    by_column: bool,
) -> bool:
    """Writes the matrix, or its transpose if `by_column`, without values if all are ones.

    It is added to `matrices`. Returns whether it is symmetric. See :meth:`EdgeTable.entries` for
    `unit`.
    """
    counts, all_ones = np.zeros(sizes[by_column], np.int64), value_type == np.int32
    asymmetry = 0
    parts = table.entries(unit, id_type, by_column)
    col_path, value_path = new_file(folder), new_file(folder)
    with open(col_path, "wb") as col_file, open(value_path, "wb") as value_file:
        for row, col, value in tqdm(parts, "sorting edges", unit=" parts", disable=not progress):
            if row.size > 0:
                counts[row[0] : row[-1] + 1] += np.bincount(row - row[0])
            survey = csr.survey(
                row.astype(np.int64), col.astype(np.int64), value.astype(np.float64)
            )
            all_ones, asymmetry = all_ones and survey.all_ones, asymmetry + survey.asymmetry
            col.tofile(col_file)
            value.astype(value_type).tofile(value_file)
    ptr = csr.offsets(counts)
    col = map_array(col_path, id_type, int(ptr[-1]))
    value = map_array(value_path, value_type, 0 if all_ones else col.size)
    matrices.append(CSRArrays(ptr, col, value))
    return asymmetry % 2**64 == 0

"""A graph on disk."""

import functools
import os
from pathlib import Path
from typing import Any, Union

import numpy as np
import torch

from torch_geometric_simpool.distributed.build import build, unfinished
from torch_geometric_simpool.distributed.files import absolute_path
from torch_geometric_simpool.distributed.graph_files import (
    GraphFiles,
    Settings,
    check_contents,
    read_meta,
)
from torch_geometric_simpool.distributed.shards import Paths
from torch_geometric_simpool.topk import budget
from torch_geometric_simpool.topk.estimate import SECONDS_PER_PRODUCT, TopKEstimate
from torch_geometric_simpool.topk.numba import disk
from torch_geometric_simpool.topk.parse import (
    check_description,
    check_selection,
    output_bytes,
)
from torch_geometric_simpool.utils.checks import check_bipartite, check_bool


class DiskGraph:
    """A graph in a folder, whose arrays are mapped into memory: read when they are used.

    Made by :meth:`build` or :meth:`open`. Any number of processes may use one folder, which is
    never changed.
    """

    def __init__(self, path: Path, meta: dict[str, Any]) -> None:
        self.path = path
        self._files = GraphFiles(path, meta)

    def __getstate__(self) -> dict[str, Any]:
        """Without the arrays, which another process maps itself."""
        return {name: value for name, value in vars(self).items() if name != "prepared"}

    @classmethod
    def build(
        cls,
        shards: Paths,
        path: Union[str, os.PathLike],
        num_nodes: Union[int, tuple[int, int], None] = None,
        lam: float = 0.0,
        measure: str = "cosine",
        progress: bool = True,
    ) -> "DiskGraph":
        r"""Writes the graph whose edges are in `shards` to the folder `path`.

        The edges mean what those of :func:`topk_similarity` mean: `A[source, target]`, parallel
        edges add up, self-loops count. An undirected graph has each edge in both directions.

        ============  ==================================================================
        suffix        what a shard holds
        ============  ==================================================================
        `.npy`        integers, `[2, E]` or `[E, 2]` (`[2, 2]` is taken for `[2, E]`), as
                      :func:`numpy.save` writes them
        `.parquet`    the columns `source` and `target`, integers, and perhaps `weight`,
                      real; other columns are not read. Needs PyArrow:
                      `pip install 'torch-geometric-simpool[distributed]'`
        ============  ==================================================================

        Args:
            shards: A folder, of which all `.npy` and `.parquet` files are read, or a list of files.
                All have one type of ids, and one type of weights or none.
            path: The folder that is written. It must not exist.
            num_nodes: The number of nodes; the largest id plus one if `None`. Or the numbers of
                source and destination nodes of a bipartite graph, see :func:`topk_similarity`.
            lam: The weight of the added self-loops, `>= 0`; 0 for a bipartite graph.
            measure: `'cosine'` or `'jaccard'`.
            progress: Whether a bar shows how far it is.

        Returns:
            The graph.

        Raises:
            TypeError, ValueError: No shards, files that cannot be read, ids that are no integers
                or out of range, empty cells, NaN or infinite weights, types that differ (the
                error names the shard and the row), a folder that exists or is half-written, more
                nodes than fit into memory.
            ImportError: Parquet without PyArrow.
            OSError: The disk is too small, or full.

        Time: three passes over the edges (four without `num_nodes`), and a sort. Memory: about 64
        bytes for each node, and 0.5 GiB; it does not grow with the edges. On disk, at the end: 4
        bytes for each entry and 28 for each node of an undirected graph without weights, twice
        the entries of a directed one, and up to 40 bytes for each entry with weights; while it is
        built, four times as much as at the end, at most. (Twice the bytes above :math:`2^{30}`
        nodes.) Deterministic: the same edges give the same files, in any shards.

        The folder gets its name when it is complete. A process that is killed leaves one with the
        name `.NAME.building`, which is never read.

        Example:
            >>> import numpy, tempfile
            >>> folder = tempfile.mkdtemp()
            >>> numpy.save(f"{folder}/star.npy", [[0, 0, 1, 2], [1, 2, 0, 0]])
            >>> DiskGraph.build(folder, f"{folder}/graph", progress=False).num_nodes
            3
        """
        check_description(1, lam, measure, None, "auto")
        check_bool("progress", progress)
        if isinstance(num_nodes, (tuple, list)):
            check_bipartite("lam", lam, 0)
        path = absolute_path("path", path)
        build(shards, path, num_nodes, Settings(float(lam), measure), progress)
        return cls.open(path)

    @classmethod
    def open(cls, path: Union[str, os.PathLike], verify: bool = False) -> "DiskGraph":
        """Opens a folder that :meth:`build` has written.

        Args:
            path: The folder.
            verify: Whether to read all files and compare their SHA-256 with those of
                :meth:`build`, for example of a copy. Otherwise they are mapped, not read, and
                their sizes are compared.

        Raises:
            ValueError: There is no such folder, it is half-written, files are missing or have
                another size, or it is of another version of this package; with `verify`, files
                have been changed.
        """
        check_bool("verify", verify)
        path = absolute_path("path", path)
        if not path.is_dir():
            left = unfinished(path)
            state = f"is half-written, in {left}" if left.exists() else "does not exist"
            raise ValueError(
                f"`path` must be a folder that DiskGraph.build has written, got {path}, which "
                f"{state}"
            )
        meta = read_meta(path)
        if verify:
            check_contents(path, meta)
        return cls(path, meta)

    @property
    def num_nodes(self) -> int:
        """The number of nodes that are compared: of a bipartite graph, its source nodes."""
        return self._files.meta["num_nodes"]

    @property
    def num_entries(self) -> int:
        """The number of entries of the adjacency matrix, with `lam` on its diagonal."""
        return self._files.meta["num_entries"]

    @property
    def dtype(self) -> torch.dtype:
        """The type of similarities: float64 if weights are, else float32."""
        return getattr(torch, self._files.meta["dtype"])

    @property
    def fingerprint(self) -> str:
        """A hash of the contents: equal for equal graphs."""
        return self._files.meta["fingerprint"]

    @functools.cached_property
    def prepared(self) -> Any:
        """The mapped arrays, as the engine takes them."""
        return self._files.prepared()

    def estimate(self, k: int) -> TopKEstimate:
        """What :func:`topk_to_disk` would cost, before any product is computed.

        Args:
            k: The number of places in a row, `>= 1`.

        Returns:
            As :func:`estimate_topk`. `memory` is that of all threads together, without the mapped
            graph; `output` is what is written; `seconds` are those of one process with the present
            number of threads; `refused` is whether `force` is needed.

        Raises:
            TypeError, ValueError: `k < 1`.

        Time: two passes over the graph. Memory: up to 36 bytes for each node.
        """
        k = check_selection(k).k
        products = disk.work_of(self.prepared, k, skip_hubs=False).sum()
        work = self.work_of(k)
        visited, memory = int(work.sum()), self.memory_of(work, k)
        num_threads = torch.get_num_threads()
        weighted = not self.prepared.description.unweighted
        seconds = visited * SECONDS_PER_PRODUCT["numba"][weighted] / num_threads
        refused = (
            visited > budget.MAX_PRODUCTS
            or not budget.Budget(None, False).allows(memory * num_threads)
        )
        output = output_bytes(self.num_nodes, k, self.dtype)
        return TopKEstimate(int(products), visited, memory * num_threads, output, seconds, refused)

    def work_of(self, k: int) -> np.ndarray:
        """An upper bound of the products that are visited for each node, `[N]`."""
        return disk.work_of(self.prepared, k, skip_hubs=True)

    def memory_of(self, work: np.ndarray, k: int) -> int:
        """The bytes of working memory of a thread, for nodes with so much work."""
        largest = int(work.max(initial=0))
        return disk.scratch_memory(self.prepared, largest, k)

    def __repr__(self) -> str:
        return (
            f"DiskGraph({str(self.path)!r}, num_nodes={self.num_nodes}, "
            f"num_entries={self.num_entries})"
        )

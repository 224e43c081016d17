"""The top k of all nodes of a graph on disk, block by block, to disk."""

import os
from collections.abc import Iterator
from concurrent.futures import Executor, as_completed
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
import torch
from tqdm import tqdm

from torch_geometric_simpool.distributed.block import Job, compute_block
from torch_geometric_simpool.distributed.files import (
    absolute_path,
    check_space,
    full_disk_named,
    remove_temporary,
)
from torch_geometric_simpool.distributed.graph import DiskGraph
from torch_geometric_simpool.distributed.store import (
    Manifest,
    TopKStore,
    is_written,
    read_manifest,
    write_manifest,
)
from torch_geometric_simpool.topk import budget
from torch_geometric_simpool.topk.parse import check_selection
from torch_geometric_simpool.topk.spec import Selection
from torch_geometric_simpool.utils.checks import check_bool

#: The bytes of a block, and the products that are visited for it, unless one row alone has more:
#: a killed process loses some seconds, and there are enough blocks for many processes.
BLOCK_BYTES = 1 << 25
BLOCK_PRODUCTS = 1_000_000_000

#: The job, the number of a block, its first node, and the first of the next.
Task = tuple[Job, int, int, int]


def topk_to_disk(
    graph: DiskGraph,
    k: int,
    out: Union[str, os.PathLike],
    executor: Any = None,
    loop: bool = True,
    min_similarity: Optional[float] = None,
    force: bool = False,
    progress: bool = True,
) -> TopKStore:
    r"""The `k` most similar nodes of every node of a graph on disk, written to a folder.

    The rows are those of :func:`topk_similarity`, bit for bit, whatever computes them. They are
    computed in blocks. A block is written under a temporary name and then renamed, so it is
    complete or not there. **Called again**, after an error, an interrupt (Ctrl-C), or when
    processes or machines were killed, it computes the blocks that are missing and no others.

    ===============================  ==============================================================
    `executor`                       where blocks are computed
    ===============================  ==============================================================
    `None`                           in this process, on :func:`torch.get_num_threads` threads
    a `concurrent.futures.Executor`  in its processes or threads, each block on one thread
    a Dask `Client`                  on its workers, each block on one thread. They see the folders
                                     of the graph and `out` under the same paths, on shared storage;
                                     the graph may also be a copy. Blocks of a worker that dies are
                                     given to others. See `docs/scale.md`
    ===============================  ==============================================================

    Args:
        graph: The graph.
        k: The number of places in a row, `>= 1`.
        out: The folder that is written: new, empty, or of an earlier call with the same graph and
            arguments.
        executor: What computes the blocks, see above. It is not shut down.
        loop: Whether a node is a candidate for its own row.
        min_similarity: Only similarities that are at least this large take a place, in `[-1, 1]`.
            All that are not zero if `None`.
        force: Computes the rows even if there are more than :math:`10^{12}` products, or if a
            process needs more than half of the free memory of this machine. See
            :meth:`DiskGraph.estimate`.
        progress: Whether a bar shows how far it is.

    Returns:
        The rows, to be read from `out`.

    Raises:
        TypeError, ValueError: `k < 1`, a folder of another graph or other arguments, or that
            holds something else, an executor of another type, too many products, too little
            memory.
        OSError: The disk is too small, or full. What is written stays valid.

    Time: as :func:`topk_similarity`, divided by the number of threads or processes; two passes
    over the graph before. Memory of a process: arrays over the nodes for each thread, 4 to 28
    bytes for each node, and a block of rows; of this one, 40 bytes for each node. The graph is
    mapped: what has been read stays in memory as long as there is room. On disk `12 k` bytes for
    each node (`16 k` if weights are float64).

    Example:
        >>> import numpy, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> numpy.save(f"{folder}/star.npy", [[0, 0, 1, 2], [1, 2, 0, 0]])
        >>> graph = DiskGraph.build(folder, f"{folder}/graph", progress=False)
        >>> topk_to_disk(graph, 2, f"{folder}/top2", progress=False).read()
        (tensor([[1., 0.],
                [1., 1.],
                [1., 1.]]), tensor([[ 0, -1],
                [ 1,  2],
                [ 1,  2]]))
    """
    if not isinstance(graph, DiskGraph):
        raise TypeError(f"`graph` must be a DiskGraph, got {type(graph).__name__}")
    settings = check_selection(k, loop, min_similarity)
    for name, value in (("force", force), ("progress", progress)):
        check_bool(name, value)
    pool = _pool_of(executor)
    folder = absolute_path("out", out)
    num_threads = 1 if pool else torch.get_num_threads()
    manifest = _stored_manifest(graph, settings, folder)
    if manifest is None:
        manifest = _new_manifest(graph, settings, folder, force, num_threads)

    blocks = [b for b in range(manifest.num_blocks) if not is_written(folder, manifest, b)]
    needed = sum(map(manifest.size_of, blocks))
    check_space("out", folder, needed)
    job = Job(graph.path, graph.fingerprint, folder, manifest.digest, settings)
    todo = [(job, b, manifest.bounds[b], manifest.bounds[b + 1]) for b in blocks]
    with (
        full_disk_named("out", folder, needed),
        tqdm(total=graph.num_nodes, desc="top k", unit=" rows", disable=not progress) as bar,
    ):
        bar.update(graph.num_nodes - sum(end - start for _, _, start, end in todo))
        for start, end in _in_process(todo) if pool is None else _on_pool(pool, todo):
            bar.update(end - start)
    remove_temporary(folder)
    return TopKStore(folder)


def _pool_of(executor: Any) -> Optional[Executor]:
    if executor is None or isinstance(executor, Executor):
        return executor
    # A Client of Dask makes one, so that there is no need to import it here. A block that is
    # computed twice is not the same as one that was computed once: its file may be gone.
    if type(executor).__module__.partition(".")[0] == "distributed" and hasattr(
        executor, "get_executor"
    ):
        return executor.get_executor(pure=False)
    raise TypeError(
        "`executor` must be None, a concurrent.futures.Executor or a dask.distributed.Client "
        "(pip install 'torch-geometric-simpool[distributed]'), got "
        f"{type(executor).__name__}"
    )


def _without_bounds(graph: DiskGraph, settings: Selection) -> Manifest:
    return Manifest(graph.fingerprint, *settings, str(graph.dtype).removeprefix("torch."), [])


def _stored_manifest(graph: DiskGraph, settings: Selection, folder: Path) -> Optional[Manifest]:
    """That of the folder, which must be of this job; `None` of a new folder."""
    there = read_manifest(folder)
    if there is None:
        return None
    now = _without_bounds(graph, settings)
    for name, came, wanted in zip(Manifest._fields[:-1], there, now):
        if came != wanted:
            what = "graph" if name == "fingerprint" else name
            raise ValueError(
                f"`out` must be a folder of the same job, got {folder} with another `{what}`"
                + ("" if what == "graph" else f", {came} instead of {wanted}")
            )
    if there.bounds[-1] != graph.num_nodes:
        raise ValueError(
            f"`out` must have {graph.num_nodes} rows for this graph, got {there.bounds[-1]} in "
            f"{folder}: delete it, or choose another"
        )
    return there


def _new_manifest(
    graph: DiskGraph, settings: Selection, folder: Path, force: bool, num_threads: int
) -> Manifest:
    """Writes that of a new folder, if the cost is accepted and there is room on the disk."""
    work = graph.work_of(settings.k)
    if not force:
        _check_cost(int(work.sum()), num_threads * graph.memory_of(work, settings.k))
    manifest = _without_bounds(graph, settings)
    manifest = manifest._replace(bounds=_bounds(work, manifest.row_bytes))
    folder.mkdir(parents=True, exist_ok=True)
    check_space("out", folder, graph.num_nodes * manifest.row_bytes)
    if not write_manifest(folder, manifest):  # another process was faster
        stored = _stored_manifest(graph, settings, folder)
        assert stored is not None
        return stored
    return manifest


def _check_cost(products: int, memory: int) -> None:
    if products > budget.MAX_PRODUCTS:
        raise budget.TooExpensiveError(
            f"`graph` must need at most {budget.MAX_PRODUCTS:.0e} products for this top k, got "
            f"{products:.1e}: set `force=True` if you have the time"
        )
    limits = budget.Budget(None, False)
    if not limits.allows(memory):
        raise budget.TooExpensiveError(
            "`graph` must be such that the working memory fits into half of what is free, "
            f"{budget.format_bytes(limits.limit)}, got {budget.format_bytes(memory)}: use fewer "
            "threads, or set `force=True`"
        )


def _bounds(work: np.ndarray, row_bytes: int) -> list[int]:
    """The first node of each block, and the number of nodes."""
    share = np.cumsum(work / BLOCK_PRODUCTS + row_bytes / BLOCK_BYTES)
    starts = np.flatnonzero(np.diff(np.floor(share), prepend=-1.0))
    return [*starts.tolist(), work.size]


def _in_process(todo: list[Task]) -> Iterator[tuple[int, int]]:
    for job, block, start, end in todo:
        compute_block(job, block, start, end, torch.get_num_threads())
        yield start, end


def _on_pool(pool: Executor, todo: list[Task]) -> Iterator[tuple[int, int]]:
    futures = {pool.submit(compute_block, *block): block for block in todo}
    try:
        for future in as_completed(futures):
            future.result()
            yield futures[future][2:]
    finally:
        # After an error or an interrupt: what runs goes on, what waits does not start.
        for future in futures:
            future.cancel()

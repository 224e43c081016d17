"""The top k of all nodes of a graph on disk, block by block, to disk."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, as_completed
from functools import partial
from pathlib import Path
from typing import Any, Optional, Union

import torch
from tqdm import tqdm

from torch_geometric_simpool.distributed.files import absolute_path
from torch_geometric_simpool.distributed.graph import DiskGraph
from torch_geometric_simpool.distributed.store import (
    StoreSettings,
    TopKStore,
    read_blocks,
    read_settings,
    write_block,
)
from torch_geometric_simpool.topk import budget
from torch_geometric_simpool.topk.numba import mapped
from torch_geometric_simpool.topk.spec import Selection, TopKSettings
from torch_geometric_simpool.utils.checks import check_bool, check_int

#: The bytes of a block, and the products that an average block takes: a killed process loses some
#: seconds, and many processes have work.
BLOCK_BYTES = 1 << 25
BLOCK_PRODUCTS = 1_000_000_000

#: The settings that may differ from their defaults: the others are of the graph, or of one process.
SUPPORTED = {"measure", "loop", "min_similarity", "memory_budget", "force"}


def topk_to_disk(
    graph: DiskGraph,
    k: int,
    out: Union[str, os.PathLike],
    executor: Any = None,
    progress: bool = True,
    **settings: Any,
) -> TopKStore:
    r"""Writes the `k` most similar nodes of every node of a graph on disk to a folder.

    The rows are the rows of :func:`topk_similarity`, bit for bit. They are computed in blocks. A
    block is written under a temporary name and then renamed. **Called again**, after an error, an
    interrupt (Ctrl-C), or a kill, it computes only the missing blocks.

    ===============================  ==============================================================
    `executor`                       where blocks are computed
    ===============================  ==============================================================
    `None`                           in this process, on :func:`torch.get_num_threads` threads
    a `concurrent.futures.Executor`  in its processes, each on one thread, or in its threads
    a Dask `Client`                  on its workers, each on one thread. They see the folders of the
                                     graph and `out` under the same paths, on shared storage; the
                                     graph may also be a copy. Other workers compute the blocks of a
                                     worker that dies
    ===============================  ==============================================================

    Args:
        graph (DiskGraph): The graph.
        k (int): The number of places in a row.
        out (path): The folder that is written: new, empty, or of an earlier call with the same
            graph and settings. See :class:`TopKStore` for its files.
        executor (Executor or Client, optional): Computes the blocks. It is not shut down.
            (default: :obj:`None`)
        progress (bool): Whether a bar shows the progress. (default: :obj:`True`)
        **settings: `measure`, `loop`, `min_similarity`, `memory_budget` (of a process, without the
            mapped graph) and `force` as in :func:`topk_similarity`.

    Returns:
        TopKStore: The rows, to be read from `out`.

    Raises:
        TypeError, ValueError: Wrong arguments, too many products, too little memory, or a folder
            with another graph, other settings or other files.
        OSError: The disk is full. Complete blocks stay valid.

    Time: as :func:`topk_similarity`, divided by the number of threads or processes; two passes
    over the graph before. Memory of a process: arrays over the nodes for each thread, 4 to 28
    bytes for each node, and a block of rows. The graph is mapped: what has been read stays in
    memory as long as there is room. On disk about `8 k` bytes for each node (`12 k` if weights are
    float64, or from :math:`2^{31}` nodes on).

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
    k = check_int("k", k, 1)
    check_bool("progress", progress)
    checked = _parse_settings(graph, settings)
    pool = _pool_of(executor)
    folder = absolute_path("out", out)
    expected = StoreSettings(
        graph=graph.id,
        num_nodes=graph.num_nodes,
        rows_per_block=1,
        k=k,
        dtype=str(graph.dtype).removeprefix("torch."),
        measure=checked.measure,
        loop=checked.loop,
        min_similarity=checked.min_similarity,
    )
    stored = _stored_settings(folder, expected)
    if stored is None:
        row_bytes = k * (graph.dtype.itemsize + torch.long.itemsize)
        stored = expected._replace(rows_per_block=_rows_per_block(graph, checked, k, row_bytes))
        folder.mkdir(parents=True, exist_ok=True)
    blocks = [number for number, block in enumerate(read_blocks(folder, stored)) if block is None]
    with tqdm(total=stored.num_blocks, desc="top k", unit=" blocks", disable=not progress) as bar:
        bar.update(stored.num_blocks - len(blocks))
        selection = checked.selection(k, graph.dtype)
        compute = partial(compute_block, graph, folder, stored, selection, os.getpid())
        for _ in map(compute, blocks) if pool is None else _on_pool(pool, compute, blocks):
            bar.update()
    for path in folder.glob(".block-*"):  # of killed processes
        path.unlink(missing_ok=True)
    return TopKStore(folder)


def _parse_settings(graph: DiskGraph, settings: dict[str, Any]) -> TopKSettings:
    for name in settings:
        if name not in SUPPORTED:
            raise TypeError(
                f"`{name}` must not be given for a graph on disk: its settings are "
                f"{', '.join(sorted(SUPPORTED))}"
            )
    return TopKSettings(lam=graph.lam, **settings)


def _stored_settings(folder: Path, expected: StoreSettings) -> Optional[StoreSettings]:
    """Returns the settings of a folder, which must be those of this call; `None` of a new one."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"`out` must be a folder, got the file {folder}")
    stored = read_settings(folder)
    if stored is None:
        names = {path.name for path in folder.iterdir()} if folder.exists() else set()
        others = [name for name in sorted(names) if "block-" not in name]
        if others:
            raise ValueError(
                "`out` must be a new or empty folder, or one that topk_to_disk has written, got "
                f"{folder}, where there is {others[0]}"
            )
        return None
    for name, value in expected._asdict().items():
        if name != "rows_per_block" and value != getattr(stored, name):
            raise ValueError(
                f"`out` must be a folder of the same `{name}`, {value}, got {folder} with "
                f"{getattr(stored, name)}: choose another folder"
            )
    return stored


def _rows_per_block(graph: DiskGraph, settings: TopKSettings, k: int, row_bytes: int) -> int:
    """Returns the number of rows of a block, if the cost is accepted."""
    limits = budget.Budget(settings.memory_budget, settings.force)
    cost, memory = graph.cost(k, settings.measure)
    limits.check_products(cost.products)
    limits.check_memory(memory)
    products_of_row = max(cost.products / max(graph.num_nodes, 1), 1)
    return max(min(BLOCK_BYTES // row_bytes, int(BLOCK_PRODUCTS / products_of_row)), 1)


def _pool_of(executor: Any) -> Optional[Executor]:
    if executor is None or isinstance(executor, Executor):
        return executor
    # A Client of Dask makes one, so that there is no need to import it here. A block that is
    # computed twice differs from one that was computed once: its file may be gone.
    if type(executor).__module__.partition(".")[0] == "distributed" and hasattr(
        executor, "get_executor"
    ):
        return executor.get_executor(pure=False)
    raise TypeError(
        "`executor` must be None, a concurrent.futures.Executor or a dask.distributed.Client "
        "(pip install 'torch-geometric-simpool[distributed]'), got "
        f"{type(executor).__name__}"
    )


def compute_block(
    graph: DiskGraph,
    out: Path,
    settings: StoreSettings,
    selection: Selection,
    driver: int,
    block: int,
) -> None:
    """Computes the rows of a block and writes them.

    The process `driver` computes on all threads, others on one.
    """
    if os.getpid() != driver:
        torch.set_num_threads(1)
    values, index = mapped.with_measure(graph.prepared, settings.measure).topk(
        torch.arange(*settings.rows_of(block)),
        selection,
        budget.Budget(None, force=True),  # checked by the driver
        graph.dtype,
    )
    write_block(out, block, values, index, settings)


def _on_pool(pool: Executor, compute: Callable[[int], None], blocks: list[int]) -> Iterator[None]:
    futures = [pool.submit(compute, block) for block in blocks]
    try:
        for future in as_completed(futures):
            yield future.result()
    finally:
        # After an error or an interrupt: what runs goes on, what waits does not start.
        for future in futures:
            future.cancel()

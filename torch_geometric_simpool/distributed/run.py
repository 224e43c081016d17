"""Computes the top k of a graph on disk block by block, and writes it to disk."""

import os
from concurrent.futures import Executor
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
    write_block,
)
from torch_geometric_simpool.topk import budget
from torch_geometric_simpool.topk.numba.backend import NumbaGraph
from torch_geometric_simpool.topk.spec import TopKSettings
from torch_geometric_simpool.utils.checks import check_bool, check_int

#: The most bytes and the mean number of products of a block. Blocks are small, so that a killed
#: process loses only seconds, and many processes have work.
BLOCK_BYTES = 1 << 25
BLOCK_PRODUCTS = 1_000_000_000


def topk_to_disk(
    graph: DiskGraph,
    k: int,
    out: Union[str, os.PathLike],
    executor: Any = None,
    progress: bool = True,
    *,
    measure: str = "cosine",
    loop: bool = True,
    min_similarity: Optional[float] = None,
    memory_budget: Optional[int] = None,
    force: bool = False,
) -> TopKStore:
    r"""Writes the `k` most similar nodes of every node of a graph on disk to a folder.

    The rows equal the rows of :func:`topk_similarity` with `p = 1`, bit for bit. The weight `lam`
    of self-loops is set by :meth:`DiskGraph.build`. The rows are computed in blocks. A block is
    written under a temporary name and then renamed. If the function is **called again** after an
    error, an interrupt (Ctrl-C) or a kill, it computes only the missing blocks.

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
        measure (str): As in :func:`topk_similarity`. (default: :obj:`"cosine"`)
        loop (bool): Whether a node is a candidate for its own row. (default: :obj:`True`)
        min_similarity (float, optional): Least similarity that takes a place.
            (default: :obj:`None`)
        force (bool): Whether to ignore the memory budget and the limit of products.
            (default: :obj:`False`)
        memory_budget (int, optional): As in :func:`topk_similarity`, for each process and without
            the mapped graph. (default: :obj:`None`, half of the free memory)

    Returns:
        TopKStore: The rows, to be read from `out`.

    Raises:
        TypeError, ValueError: If an argument is wrong, or the folder has another graph, other
            settings or other files.
        TooExpensiveError: If there are too many products, or memory is too small. It is a
            `ValueError`.
        OSError: If the disk is full. Complete blocks stay valid.

    Time: two passes over the graph, then the time of :func:`topk_similarity`, divided by the number
    of threads or processes. Memory of a process: up to 53 bytes for each node and thread, and up
    to 100 MB for a block of rows. The graph is mapped: parts that have been read stay in memory as
    long as there is room. On disk: about `8 k` bytes for each node, or `12 k` bytes if weights are
    float64 or there are :math:`2^{31}` nodes or more.

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
    settings = TopKSettings(
        measure=measure,
        loop=loop,
        min_similarity=min_similarity,
        memory_budget=memory_budget,
        force=force,
    )
    if hasattr(executor, "get_executor"):  # a Dask `Client`
        # Dask must not reuse the result of an earlier call, whose file may be gone.
        executor = executor.get_executor(pure=False)
    elif not (executor is None or isinstance(executor, Executor)):
        raise TypeError(
            "`executor` must be None, a concurrent.futures.Executor or a dask.distributed.Client "
            "(pip install 'torch-geometric-simpool[distributed]'), got "
            f"{type(executor).__name__}"
        )
    folder = absolute_path("out", out)
    expected = StoreSettings(
        graph=graph.id,
        num_nodes=graph.num_nodes,
        rows_per_block=1,
        k=k,
        dtype=str(graph.dtype).removeprefix("torch."),
        measure=settings.measure,
        loop=settings.loop,
        min_similarity=settings.min_similarity,
    )
    stored, blocks = read_blocks(folder)
    if stored is None:
        paths = [folder] if folder.is_file() else sorted(folder.glob("*"))
        others = [path for path in paths if "block-" not in path.name]
        if others:
            raise ValueError(
                "`out` must be a new or empty folder, or one that topk_to_disk has written, got "
                f"{folder}, where there is {others[0]}"
            )
        stored = expected._replace(rows_per_block=_rows_per_block(graph, settings, k))
        folder.mkdir(parents=True, exist_ok=True)
    for name, value in expected._replace(rows_per_block=stored.rows_per_block)._asdict().items():
        if value != getattr(stored, name):
            raise ValueError(
                f"`out` must be a folder of the same `{name}`, {value}, got {folder} with "
                f"{getattr(stored, name)}: choose another folder"
            )
    missing = [number for number in range(stored.num_blocks) if number not in blocks]
    with tqdm(total=stored.num_blocks, desc="top k", unit=" blocks", disable=not progress) as bar:
        bar.update(len(blocks))
        compute = partial(compute_block, graph, folder, stored, os.getpid())
        # After an error or an interrupt, the executor does not start further blocks.
        for _ in (map if executor is None else executor.map)(compute, missing):
            bar.update()
    for path in folder.glob(".block-*"):  # killed processes left them
        path.unlink(missing_ok=True)
    return TopKStore(folder)


def _rows_per_block(graph: DiskGraph, settings: TopKSettings, k: int) -> int:
    """Returns the number of rows of a block, if the cost is accepted."""
    limits = budget.Budget(
        settings.memory_budget,
        settings.force,
        advice="raise `memory_budget`, lower `k`, or set `force=True`",
    )
    cost = NumbaGraph(graph.description, settings).cost(None, k, limits)
    limits.check_products(cost.products)
    mapped_bytes = sum(path.stat().st_size for path in graph.path.glob("*.bin"))
    limits.check_memory(max(cost.memory - mapped_bytes, 0))
    row_bytes = k * (graph.dtype.itemsize + torch.long.itemsize)
    products_of_row = max(cost.products / max(graph.num_nodes, 1), 1)
    return max(min(BLOCK_BYTES // row_bytes, int(BLOCK_PRODUCTS / products_of_row)), 1)


def compute_block(
    graph: DiskGraph,
    out: Path,
    settings: StoreSettings,
    driver: int,
    block: int,
) -> None:
    """Computes the rows of a block and writes them.

    The process `driver` computes on all threads, and other processes on one thread.
    """
    if graph.id != settings.graph:
        raise ValueError(
            f"`graph` must be the same on all machines, got another one in {graph.path} on this one"
        )
    if os.getpid() != driver:
        torch.set_num_threads(1)
    of_topk = TopKSettings(
        measure=settings.measure, loop=settings.loop, min_similarity=settings.min_similarity
    )
    values, index = NumbaGraph(graph.description, of_topk).topk(
        torch.arange(*settings.rows_of(block)),
        settings.k,
        budget.Budget(None, force=True),  # the driver checks the budget
        graph.dtype,
    )
    write_block(out, block, values, index, settings)

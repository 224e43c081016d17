"""Executors, and processes that are killed."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from harness.speed.processes import dask_cluster, workers_of
from helpers.blocks import SLOW, check, times, wait_for_blocks
from torch_geometric_simpool.distributed import DiskGraph, block, run, topk_to_disk
from torch_geometric_simpool.topk.parse import check_selection


def test_a_process_that_is_killed(
    graph: DiskGraph, expected: tuple[Tensor, Tensor], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    program = f"""
from torch_geometric_simpool.distributed import DiskGraph, run, topk_to_disk

run.BLOCK_BYTES = 600
{SLOW}
topk_to_disk(DiskGraph.open({str(graph.path)!r}), 3, {str(out)!r}, progress=False)
"""
    process = subprocess.Popen([sys.executable, "-c", program])
    wait_for_blocks(out, 3, process)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    before = times(out)
    check(topk_to_disk(graph, 3, out, progress=False), expected)
    assert before.items() <= times(out).items()
    assert len(before) < len(times(out))


@pytest.fixture(params=["threads", "processes"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    pool = (
        ThreadPoolExecutor(2)
        if request.param == "threads"
        else ProcessPoolExecutor(2, get_context("spawn"))
    )
    with pool:
        yield pool


def test_executors(
    executor: Executor, graph: DiskGraph, expected: tuple[Tensor, Tensor], tmp_path: Path
) -> None:
    check(topk_to_disk(graph, 3, tmp_path / "out", executor, progress=False), expected)
    # It is not shut down.
    check(topk_to_disk(graph, 3, tmp_path / "again", executor, progress=False), expected)


def test_an_error_on_a_pool_stops_what_waits(
    graph: DiskGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = block.write_block

    def full(folder: Path, number: int, *rows: Any) -> None:
        if number == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        time.sleep(0.02)
        write(folder, number, *rows)

    monkeypatch.setattr(block, "write_block", full)
    out = tmp_path / "out"
    with ThreadPoolExecutor(1) as pool, pytest.raises(OSError, match="`out` must be on a disk"):
        topk_to_disk(graph, 3, out, pool, progress=False)
    assert 1 <= len(times(out)) < 10


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A Dask cluster whose two workers take a while for each block."""
    distributed = pytest.importorskip("distributed")
    if not Path("/proc/self/stat").exists():
        pytest.skip("processes are found in /proc")
    (tmp_path / "slow.py").write_text(SLOW)
    monkeypatch.setenv("DASK_DISTRIBUTED__WORKER__PRELOAD", str(tmp_path / "slow.py"))
    root = Path(run.__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", str(root), prepend=os.pathsep)
    with (
        dask_cluster(tmp_path / "dask", 2) as file,
        distributed.Client(scheduler_file=str(file)) as client,
    ):
        client.wait_for_workers(2, timeout=60)
        yield client


def test_dask_and_a_worker_and_a_driver_that_are_killed(
    client: Any, graph: DiskGraph, expected: tuple[Tensor, Tensor], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    program = f"""
from distributed import Client
from torch_geometric_simpool.distributed import DiskGraph, run, topk_to_disk

run.BLOCK_BYTES = 600
graph = DiskGraph.open({str(graph.path)!r})
topk_to_disk(graph, 3, {str(out)!r}, Client({client.scheduler.address!r}), progress=False)
"""
    driver = subprocess.Popen([sys.executable, "-c", program])
    wait_for_blocks(out, 2, driver)
    worker, _ = workers_of(os.getpid())
    os.kill(worker, signal.SIGKILL)
    wait_for_blocks(out, 6, driver)  # the other one goes on
    driver.kill()
    assert driver.wait() == -signal.SIGKILL
    manifest = run.read_manifest(out)
    assert manifest is not None
    total = manifest.num_blocks
    assert len(times(out)) < total
    check(topk_to_disk(graph, 3, out, client, progress=False), expected)
    assert len(times(out)) == total


def test_another_graph_on_a_worker(graph: DiskGraph, tmp_path: Path) -> None:
    """A copy that is not one."""
    store = topk_to_disk(graph, 3, tmp_path / "out", progress=False)
    settings = check_selection(3)
    job = block.Job(graph.path, "0" * 64, store.path, "", settings)
    with pytest.raises(ValueError, match="`graph` must be the same on all machines"):
        block.compute_block(job, 10**6, 0, 1)

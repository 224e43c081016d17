"""Blocks, restarts and executors. What is computed is compared in test_equal.py."""

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
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.speed.processes import dask_cluster, workers_of
from helpers.graphs import draw, draw_all, union
from helpers.shards import on_disk
from torch_geometric_simpool import topk_similarity
from torch_geometric_simpool.distributed import DiskGraph, TopKStore, block, run, topk_to_disk
from torch_geometric_simpool.utils import budget

#: Makes every block take a while. Dask may load it twice.
SLOW = """
import time
from torch_geometric_simpool.distributed import block, store

def slow(*rows):
    time.sleep(0.05)
    store.write_block(*rows)

block.write_block = slow
"""

GRAPH, _ = union([graph for seed in range(3) for graph in draw_all(seed) if graph.num_nodes > 0])


@pytest.fixture(autouse=True)
def many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "BLOCK_BYTES", 600)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> DiskGraph:
    pytest.importorskip("pyarrow")
    return on_disk(tmp_path_factory.mktemp("graph"), GRAPH)


@pytest.fixture(scope="module")
def expected() -> tuple[Tensor, Tensor]:
    return topk_similarity(
        GRAPH.edge_index, 3, GRAPH.edge_weight(), GRAPH.num_nodes, backend="numba"
    )


def check(store: TopKStore, expected: tuple[Tensor, Tensor]) -> None:
    for stored, wanted in zip(store.read(), expected):
        assert torch.equal(stored, wanted)


def times(out: Path) -> dict[str, int]:
    """When each block was written."""
    return {path.name: path.stat().st_mtime_ns for path in out.glob("block-*.bin")}


# ------------------------------------------------------------------ reading


def test_read_some_nodes_in_any_order(
    graph: DiskGraph, expected: tuple[Tensor, Tensor], tmp_path: Path
) -> None:
    store = topk_to_disk(graph, 3, tmp_path / "out", progress=False)
    assert len(times(tmp_path / "out")) > 10
    assert (store.num_nodes, store.k) == (GRAPH.num_nodes, 3)
    nodes = torch.randint(0, GRAPH.num_nodes, (40,))
    for some in (nodes, nodes[:1], nodes.int()):
        for stored, wanted in zip(store.read(some), expected):
            assert torch.equal(stored, wanted[some.long()])
    blocks = list(store.blocks())
    for number, wanted in enumerate((torch.arange(GRAPH.num_nodes), *expected)):
        assert torch.equal(torch.cat([part[number] for part in blocks]), wanted)


def test_no_nodes(tmp_path: Path) -> None:
    empty = on_disk(tmp_path, draw("nothing", 0))
    values, index = topk_to_disk(empty, 2, tmp_path / "out", progress=False).read()
    assert values.shape == index.shape == (0, 2)
    assert empty.estimate(2).num_products == 0


@pytest.mark.parametrize(
    ("nodes", "error", "message"),
    [
        (torch.tensor([10**6]), ValueError, "1000000"),
        (torch.tensor([-1]), ValueError, "-1"),
        (torch.tensor([0.5]), TypeError, "float32"),
        (torch.tensor([], dtype=torch.long), ValueError, r"\[0\]"),
        ([0], TypeError, "list"),
    ],
)
def test_nodes(
    nodes: Any, error: type[Exception], message: str, graph: DiskGraph, tmp_path: Path
) -> None:
    store = topk_to_disk(graph, 3, tmp_path / "out", progress=False)
    with pytest.raises(error, match=rf"`nodes` must .*got .*{message}"):
        store.read(nodes)


# ------------------------------------------------------------------ restarts


def test_only_missing_blocks_are_computed(
    graph: DiskGraph, expected: tuple[Tensor, Tensor], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    topk_to_disk(graph, 3, out, progress=False)
    before = times(out)
    lost = out / "block-000003.bin"
    lost.unlink()
    damaged = out / "block-000005.bin"
    os.truncate(damaged, 8)
    (out / ".tmp-block-000003.bin-abc").write_text("of a killed process")
    with pytest.raises(ValueError, match=r"`out` must be complete, .* 2 of \d+ blocks"):
        TopKStore(out)
    check(topk_to_disk(graph, 3, out, progress=False), expected)
    after = times(out)
    assert {name for name in before if before[name] != after[name]} == {lost.name, damaged.name}
    assert not list(out.glob(".tmp-*"))


def test_others_may_read_what_is_written(graph: DiskGraph, tmp_path: Path) -> None:
    """As they may any new file: workers need not be of the same user."""
    (tmp_path / "new").touch()
    store = topk_to_disk(graph, 3, tmp_path / "out", progress=False)
    for path in [*store.path.iterdir(), *graph.path.iterdir()]:
        assert path.stat().st_mode == (tmp_path / "new").stat().st_mode


def test_an_error_loses_nothing(
    graph: DiskGraph,
    expected: tuple[Tensor, Tensor],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also Ctrl-C, which is raised wherever the process is."""
    out, write = tmp_path / "out", block.write_block

    def interrupted(folder: Path, number: int, *rows: Any) -> None:
        if number == 4:
            raise KeyboardInterrupt
        write(folder, number, *rows)

    monkeypatch.setattr(block, "write_block", interrupted)
    with pytest.raises(KeyboardInterrupt):
        topk_to_disk(graph, 3, out, progress=False)
    monkeypatch.setattr(block, "write_block", write)
    before = times(out)
    assert len(before) == 4
    check(topk_to_disk(graph, 3, out, progress=False), expected)
    assert before.items() <= times(out).items()


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


def wait_for_blocks(out: Path, count: int, process: Any) -> None:
    end = time.monotonic() + 40
    while len(times(out)) < count:
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)


# ------------------------------------------------------------------ executors


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


# ------------------------------------------------------------------ bad input


def refused(error: type[Exception], match: str, **changes: Any) -> None:
    arguments = {"k": 3, "progress": False, **changes}
    with pytest.raises(error, match=match):
        topk_to_disk(**arguments)


def test_arguments(graph: DiskGraph, tmp_path: Path) -> None:
    given = {"graph": graph, "out": tmp_path / "out"}
    refused(TypeError, "`graph` must be a DiskGraph, got str", graph="graph", out=tmp_path)
    refused(ValueError, "`k` must .*got 0", **given, k=0)
    refused(TypeError, "`executor` must .*Dask|dask.*got int", **given, executor=2)
    refused(TypeError, "`loop` must .*got 1", **given, loop=1)
    refused(TypeError, "`out` must be a path, got int", graph=graph, out=3)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_another_job(graph: DiskGraph, tmp_path: Path) -> None:
    out = tmp_path / "out"
    topk_to_disk(graph, 3, out, progress=False)
    before = times(out)
    other = on_disk(tmp_path, draw("star", 1))
    refused(ValueError, "`out` must .*another `graph`", graph=other, out=out)
    refused(ValueError, "`out` must .*another `k`, 3 instead of 4", graph=graph, out=out, k=4)
    refused(ValueError, "another `loop`", graph=graph, out=out, loop=False)
    refused(ValueError, "another `min_similarity`", graph=graph, out=out, min_similarity=0.1)
    assert times(out) == before
    refused(ValueError, "`out` must .*or an empty one, got", graph=graph, out=graph.path)
    (out / "manifest.json").write_text("{")
    refused(ValueError, "`out` must .*cannot be read", graph=graph, out=out)
    (out / "manifest.json").write_text('{"format": 2}')
    refused(ValueError, "`out` must .*format", graph=graph, out=out)
    with pytest.raises(ValueError, match=r"`out` must .*does not exist"):
        TopKStore(tmp_path / "nowhere")


def test_a_full_disk(graph: DiskGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    message = r"`out` must be on a disk with 1\d\.\d KiB to write to, got 1000 bytes free"
    with pytest.raises(OSError, match=message) as info:
        topk_to_disk(graph, 3, tmp_path / "out", progress=False)
    assert info.value.errno == errno.ENOSPC


def test_what_is_too_expensive(
    graph: DiskGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "MAX_PRODUCTS", 10)
    assert graph.estimate(3).refused
    given = {"graph": graph, "out": tmp_path / "out"}
    refused(budget.TooExpensiveError, "`graph` must need at most 1e\\+01 products", **given)
    assert not (tmp_path / "out").exists()
    topk_to_disk(graph, 3, tmp_path / "out", force=True, progress=False)
    # What has been begun need not be forced again.
    (tmp_path / "out" / "block-000000.bin").unlink()
    topk_to_disk(graph, 3, tmp_path / "out", progress=False)


def test_too_little_memory(
    graph: DiskGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "ALWAYS_FREE", 0)
    monkeypatch.setattr(budget, "free_memory", lambda device: 100)
    assert graph.estimate(3).refused
    refused(
        budget.TooExpensiveError, "`graph` must be .*50 bytes, got", graph=graph, out=tmp_path / "o"
    )


def test_another_graph_on_a_worker(graph: DiskGraph, tmp_path: Path) -> None:
    """A copy that is not one."""
    store = topk_to_disk(graph, 3, tmp_path / "out", progress=False)
    settings = run.check_selection(3)
    job = block.Job(graph.path, "0" * 64, store.path, settings)
    with pytest.raises(ValueError, match="`graph` must be the same on all machines"):
        block.compute_block(job, 10**6, 0, 1)

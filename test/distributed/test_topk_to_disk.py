"""The top k on disk: reading rows, continuing a killed run, and executors."""

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

from helpers.graphs import draw
from helpers.shards import GRAPH, write_graph, write_shards
from torch_geometric_simpool import topk_similarity
from torch_geometric_simpool.distributed import DiskGraph, TopKStore, run, store, topk_to_disk
from torch_geometric_simpool.topk import budget


def check(rows: TopKStore, expected: tuple[Tensor, Tensor]) -> None:
    for stored, expected_part in zip(rows.read(), expected):
        assert torch.equal(stored, expected_part)


def times(out: Path) -> dict[str, int]:
    """Returns the times at which the blocks were written."""
    return {path.name: path.stat().st_mtime_ns for path in out.glob("block-*.arrow")}


# ------------------------------------------------------------------ reading


def test_read(graph: DiskGraph, expected: tuple[Tensor, Tensor], tmp_path: Path) -> None:
    rows = topk_to_disk(graph, 3, tmp_path / "out", progress=False)
    assert len(times(tmp_path / "out")) > 10
    assert (rows.num_nodes, rows.k) == (GRAPH.num_nodes, 3)
    nodes = torch.randint(0, GRAPH.num_nodes, (40,))
    for some in (nodes, nodes.int(), nodes.tolist(), nodes.numpy(), int(nodes[0]), []):
        at = torch.as_tensor(some, dtype=torch.long).view(-1)
        for stored, expected_part in zip(rows.read(some), expected):
            assert torch.equal(stored, expected_part[at])
    check(pickle.loads(pickle.dumps(rows)), expected)
    for wrong, error in [
        ([10**6], ValueError),
        ([-1], ValueError),
        ([0.5], TypeError),
        ([[0]], ValueError),
        (["a"], TypeError),
        ([[1], [1, 2]], TypeError),
        (torch.tensor([True]), TypeError),
    ]:
        with pytest.raises(error, match="`nodes` must"):
            rows.read(wrong)


def test_large_norms_before_small_norms(tmp_path: Path) -> None:
    # Weighted graphs are not numbered by norm. Squares of dot products of the first nodes are
    # rounded, and the last blocks have small norms.
    generator = np.random.default_rng(0)
    base, size = generator.integers(1, 9000, (20, 6)), generator.integers(1, 4, (150, 1))
    large = base[generator.integers(0, 20, 150)] * size
    row = torch.cat([torch.arange(150).repeat_interleave(6), torch.arange(150, 300)])
    col = torch.cat([torch.arange(6).repeat(150), torch.full((150,), 6)])
    weight = torch.cat([torch.from_numpy(large).flatten(), torch.ones(150, dtype=torch.long)])
    edges, weight = torch.stack([row, col]), weight.double()
    shards = write_shards(tmp_path / "shards", edges, weight)
    graph = DiskGraph.build(shards, tmp_path / "graph", (300, 7), progress=False)
    rows = topk_to_disk(graph, 40, tmp_path / "out", progress=False)
    check(rows, topk_similarity(edges, 40, weight, (300, 7)))


def test_other_libraries_open_the_files(
    graph: DiskGraph, expected: tuple[Tensor, Tensor], tmp_path: Path
) -> None:
    topk_to_disk(graph, 3, tmp_path, progress=False)
    pandas, duckdb = pytest.importorskip("pandas"), pytest.importorskip("duckdb")
    dataset = pytest.importorskip("pyarrow.dataset").dataset(tmp_path, format="ipc")
    frame = pandas.read_feather(tmp_path / "block-000001.arrow")
    assert list(frame.columns) == ["node", "neighbor", "similarity"]
    assert np.array_equal(frame.neighbor.iloc[0], expected[1][int(frame.node[0])])
    rows = duckdb.from_arrow(dataset).order("node").project("similarity").fetchall()
    assert np.array_equal([similarities for (similarities,) in rows], expected[0])


# ------------------------------------------------------------------ going on


def test_only_missing_blocks_are_computed(
    graph: DiskGraph, expected: tuple[Tensor, Tensor], tmp_path: Path
) -> None:
    topk_to_disk(graph, 3, tmp_path, progress=False)
    before = times(tmp_path)
    lost, damaged = tmp_path / "block-000003.arrow", tmp_path / "block-000005.arrow"
    lost.unlink()
    os.truncate(damaged, 8)
    (tmp_path / ".block-000003.arrow.abc").write_text("of a killed process")
    with pytest.raises(ValueError, match=r"`out` must be complete, .* 2 of \d+ blocks"):
        TopKStore(tmp_path)
    check(topk_to_disk(graph, 3, tmp_path, progress=False), expected)
    after = times(tmp_path)
    assert {name for name in before if before[name] != after[name]} == {lost.name, damaged.name}
    assert not list(tmp_path.glob(".*"))


def test_an_interrupt_loses_nothing(
    graph: DiskGraph,
    expected: tuple[Tensor, Tensor],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(folder: Path, number: int, *rows: Any) -> None:
        if number == 4:
            raise KeyboardInterrupt
        store.write_block(folder, number, *rows)

    monkeypatch.setattr(run, "write_block", interrupted)
    with pytest.raises(KeyboardInterrupt):
        topk_to_disk(graph, 3, tmp_path, progress=False)
    monkeypatch.setattr(run, "write_block", store.write_block)
    before = times(tmp_path)
    assert len(before) == 4
    check(topk_to_disk(graph, 3, tmp_path, progress=False), expected)
    assert before.items() <= times(tmp_path).items()


def test_blocks_of_another_call_are_no_part(graph: DiskGraph, tmp_path: Path) -> None:
    """Blocks of a call with different settings, which started in the same folder, are not read."""
    topk_to_disk(graph, 3, tmp_path / "one", progress=False)
    topk_to_disk(graph, 3, tmp_path / "two", loop=False, progress=False)
    name = "block-000002.arrow"
    (tmp_path / "two" / name).replace(tmp_path / "one" / name)
    with pytest.raises(ValueError, match=r"`out` must be complete, .* 1 of"):
        TopKStore(tmp_path / "one")


# ------------------------------------------------------------------ bad input


def test_a_folder_of_another_call(graph: DiskGraph, tmp_path: Path) -> None:
    out = tmp_path / "out"
    topk_to_disk(graph, 3, out, progress=False)
    before = times(out)
    shards = write_graph(tmp_path / "shards", draw("star", 1))
    other = DiskGraph.build(shards, tmp_path / "graph", GRAPH.num_nodes, progress=False)
    for name, changes in {
        "graph": {"graph": other},
        "k": {"k": 4},
        "loop": {"loop": False},
        "min_similarity": {"min_similarity": 0.1},
        "measure": {"measure": "jaccard"},
    }.items():
        with pytest.raises(ValueError, match=f"`out` must be a folder of the same `{name}`"):
            topk_to_disk(**{"graph": graph, "k": 3, "out": out, "progress": False, **changes})
    assert times(out) == before


@pytest.mark.parametrize(
    ("error", "message", "changes"),
    [
        (TypeError, "`graph` must be a DiskGraph, got str", {"graph": "graph"}),
        (ValueError, "`k` must .*got 0", {"k": 0}),
        (TypeError, "`executor` must .*dask.*got int", {"executor": 2}),
        (TypeError, "`loop` must .*got 1", {"loop": 1}),
        (TypeError, "unexpected keyword argument 'p'", {"p": 2}),
        (TypeError, "unexpected keyword argument 'other'", {"other": 2}),
        (TypeError, "unexpected keyword argument 'lam'", {"lam": 1}),
        (TypeError, "unexpected keyword argument 'exclude_neighbors'", {"exclude_neighbors": True}),
        (ValueError, "`min_similarity` must .*got 2", {"min_similarity": 2}),
        (TypeError, "`out` must be a path, got int", {"out": 3}),
        (ValueError, "`out` must be a new or empty folder", {"out": Path(__file__)}),
        (ValueError, "`out` must be a new or empty folder", {"out": Path(__file__).parent}),
        (ValueError, "needs .* bytes.*`memory_budget` is 1", {"memory_budget": 1}),
    ],
)
def test_wrong_arguments(
    error: type[Exception],
    message: str,
    changes: dict[str, Any],
    graph: DiskGraph,
    tmp_path: Path,
) -> None:
    arguments = {"graph": graph, "k": 3, "out": tmp_path / "out", "progress": False, **changes}
    with pytest.raises(error, match=message):
        topk_to_disk(**arguments)
    assert not (tmp_path / "out").exists()


def test_what_is_too_expensive(
    graph: DiskGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "MAX_PRODUCTS", 10)
    with pytest.raises(budget.TooExpensiveError):
        topk_to_disk(graph, 3, tmp_path / "out", progress=False)
    assert not (tmp_path / "out").exists()
    topk_to_disk(graph, 3, tmp_path / "out", force=True, progress=False)


# ------------------------------------------------------------------ executors

#: Code that delays every block. Dask may load it twice.
SLOW = """
import time
from torch_geometric_simpool.distributed import run, store

def slow(*rows):
    time.sleep(0.05)
    store.write_block(*rows)

run.BLOCK_BYTES = 600
run.write_block = slow
"""


def wait_for_blocks(out: Path, count: int, process: subprocess.Popen) -> None:
    end = time.monotonic() + 300
    while len(times(out)) < count:
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)


def start(graph: DiskGraph, out: Path, executor: str = "None") -> subprocess.Popen:
    program = f"""{SLOW}
from torch_geometric_simpool.distributed import DiskGraph, topk_to_disk

graph = DiskGraph.open({str(graph.path)!r})
topk_to_disk(graph, 3, {str(out)!r}, {executor}, progress=False)
"""
    return subprocess.Popen([sys.executable, "-c", program])


@pytest.mark.slow
def test_a_killed_process(
    graph: DiskGraph, expected: tuple[Tensor, Tensor], tmp_path: Path
) -> None:
    process = start(graph, tmp_path)
    wait_for_blocks(tmp_path, 3, process)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    before = times(tmp_path)
    check(topk_to_disk(graph, 3, tmp_path, progress=False), expected)
    assert before.items() <= times(tmp_path).items()
    assert len(before) < len(times(tmp_path))


@pytest.fixture(params=["threads", pytest.param("processes", marks=pytest.mark.slow)])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    spawned = get_context("spawn")
    with (
        ThreadPoolExecutor(2)
        if request.param == "threads"
        else ProcessPoolExecutor(2, spawned) as pool
    ):
        yield pool


def test_executors(
    executor: Executor, graph: DiskGraph, expected: tuple[Tensor, Tensor], tmp_path: Path
) -> None:
    for name in ("out", "again"):  # it is not shut down
        check(topk_to_disk(graph, 3, tmp_path / name, executor, progress=False), expected)


def test_an_error_on_a_pool_stops_what_waits(
    graph: DiskGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(folder: Path, number: int, *rows: Any) -> None:
        if number == 1:
            raise OSError("No space left on device")
        time.sleep(0.02)
        store.write_block(folder, number, *rows)

    monkeypatch.setattr(run, "write_block", fail)
    with ThreadPoolExecutor(1) as pool, pytest.raises(OSError, match="No space left"):
        topk_to_disk(graph, 3, tmp_path, pool, progress=False)
    assert 1 <= len(times(tmp_path)) < 10


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Returns the client of a Dask cluster with two workers and delayed blocks."""
    distributed = pytest.importorskip("distributed", exc_type=ImportError)
    (tmp_path / "slow.py").write_text(SLOW)
    monkeypatch.setenv("DASK_DISTRIBUTED__WORKER__PRELOAD", str(tmp_path / "slow.py"))
    monkeypatch.setenv("PYTHONPATH", str(Path(run.__file__).parents[2]), prepend=os.pathsep)
    with (
        distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.slow
def test_dask_with_a_killed_worker_and_a_killed_driver(
    client: Any, graph: DiskGraph, expected: tuple[Tensor, Tensor], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    address = f"__import__('distributed').Client({client.scheduler.address!r})"
    driver = start(graph, out, address)
    wait_for_blocks(out, 2, driver)
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    wait_for_blocks(out, 6, driver)  # the other one goes on
    driver.kill()
    assert driver.wait() == -signal.SIGKILL
    # Workers finish the tasks that they started, and Dask repeats the tasks of the killed worker.
    running = partial(client.run, lambda dask_worker: bool(dask_worker.state.executing))
    while any(client.processing().values()) or any(running(on_error="ignore").values()):
        time.sleep(0.01)
    before = times(out)
    check(topk_to_disk(graph, 3, out, client, progress=False), expected)
    assert before.items() <= times(out).items()


@pytest.mark.slow
def test_another_graph_on_a_worker(graph: DiskGraph, tmp_path: Path) -> None:
    """A worker whose copy of the graph differs is an error."""
    other = DiskGraph.open(graph.path)
    other.id = "0" * 32
    with (
        ProcessPoolExecutor(1, get_context("spawn")) as pool,
        pytest.raises(ValueError, match="`graph` must be the same on all machines"),
    ):
        topk_to_disk(other, 3, tmp_path, pool, progress=False)

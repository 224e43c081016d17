"""Rows in blocks: reading, going on, and bad input. What is computed is tested in test_equal.py."""

import errno
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.blocks import GRAPH, check, times
from helpers.graphs import draw
from helpers.shards import on_disk
from torch_geometric_simpool.distributed import DiskGraph, TopKStore, block, run, topk_to_disk
from torch_geometric_simpool.distributed.files import remove_temporary
from torch_geometric_simpool.topk import budget

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
        (torch.zeros(1, dtype=torch.long, device="meta"), ValueError, "a tensor on meta"),
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


def test_a_driver_that_ends_first(
    graph: DiskGraph,
    expected: tuple[Tensor, Tensor],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It removes temporary files, of which one was still being written."""
    out, replace = tmp_path / "out", os.replace
    removed: list[Path] = []

    def late(source: Path, target: Path) -> None:
        if target.name == "block-000004.bin" and not removed:
            removed.append(source)
            remove_temporary(out)
        replace(source, target)

    monkeypatch.setattr(os, "replace", late)
    check(topk_to_disk(graph, 3, out, progress=False), expected)
    assert len(removed) == 1
    assert not list(out.glob(".tmp-*"))


def test_others_may_read_what_is_written(graph: DiskGraph, tmp_path: Path) -> None:
    """As they may any new file: workers need not be of the same user."""
    (tmp_path / "new").touch()
    store = topk_to_disk(graph, 3, tmp_path / "out", progress=False)
    for path in [*store.path.iterdir(), *graph.path.iterdir()]:
        assert path.stat().st_mode == (tmp_path / "new").stat().st_mode


@pytest.mark.parametrize("links", [True, False])
def test_two_jobs_that_begin_at_once(
    links: bool,
    graph: DiskGraph,
    expected: tuple[Tensor, Tensor],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second finds the folder empty, and the manifest of the first when it writes its own."""
    out, check_space = tmp_path / "out", run.check_space

    def no_link(*_: Any) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    def first_job(*given: Any) -> None:
        monkeypatch.setattr(run, "check_space", check_space)
        with monkeypatch.context() as other:
            other.setattr(run, "BLOCK_PRODUCTS", 2 * run.BLOCK_PRODUCTS)  # and other blocks
            other.setattr(run, "BLOCK_BYTES", 2 * run.BLOCK_BYTES)
            topk_to_disk(graph, 3, out, progress=False)
        check_space(*given)

    if not links:
        monkeypatch.setattr(os, "link", no_link)
    for loop in (False, True):
        monkeypatch.setattr(run, "check_space", first_job)
        if loop:
            check(topk_to_disk(graph, 3, out, loop=loop, progress=False), expected)
        else:
            with pytest.raises(ValueError, match=r"of the same job, got .* with another `loop`"):
                topk_to_disk(graph, 3, out, loop=loop, progress=False)
        check(TopKStore(out), expected)
        shutil.rmtree(out)


@pytest.mark.parametrize("links", [True, False])
def test_a_disk_that_is_full_at_once(
    links: bool, graph: DiskGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No part of the manifest is left, under either name."""

    def no_link(*_: Any) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    written: list[int] = []

    def full(number: int) -> None:
        written.append(number)
        if len(written) > (not links):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "link", no_link)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        topk_to_disk(graph, 3, tmp_path / "out", progress=False)
    assert not list((tmp_path / "out").iterdir())


def test_a_process_of_an_earlier_job(
    graph: DiskGraph,
    expected: tuple[Tensor, Tensor],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It ends its block when the folder is one of another job."""
    out, write = tmp_path / "out", block.write_block

    def late(folder: Path, number: int, *rows: Any) -> None:
        monkeypatch.setattr(block, "write_block", write)
        shutil.rmtree(out)
        topk_to_disk(graph, 3, out, progress=False)
        write(folder, number, *rows)

    monkeypatch.setattr(block, "write_block", late)
    with pytest.raises(ValueError, match="`out` must stay the folder of one job, got "):
        topk_to_disk(graph, 3, out, loop=False, progress=False)
    check(TopKStore(out), expected)
    assert not list(out.glob(".tmp-*"))


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
    begun = tmp_path / "begun"
    begun.mkdir()
    (begun / ".tmp-manifest.json-abc").touch()  # of a process that was killed at once
    topk_to_disk(graph, 3, begun, progress=False)
    for damaged in ("{", "[" * 100_000):
        (out / "manifest.json").write_text(damaged)
        refused(ValueError, "`out` must .*cannot be read", graph=graph, out=out)
    (out / "manifest.json").write_text('{"format": 2}')
    refused(ValueError, "`out` must .*format", graph=graph, out=out)
    with pytest.raises(ValueError, match=r"`out` must .*does not exist"):
        TopKStore(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "changes",
    [
        {"bounds": []},
        {"bounds": None},
        {"bounds": [1, 3]},
        {"bounds": [0, 3, 2]},
        {"bounds": [0, 3.0]},
        {"bounds": [0, "3"]},
        {"k": None},
        {"k": 0},
        {"dtype": "int7"},
        {"min_similarity": "a"},
        {"more": 1},
    ],
)
def test_a_damaged_manifest(changes: dict[str, Any], graph: DiskGraph, tmp_path: Path) -> None:
    topk_to_disk(graph, 3, tmp_path, progress=False)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    message = r"`out` must be a folder that .*manifest.json cannot be read"
    refused(ValueError, message, graph=graph, out=tmp_path)
    with pytest.raises(ValueError, match=message):
        TopKStore(tmp_path)


def test_a_manifest_of_fewer_rows(graph: DiskGraph, tmp_path: Path) -> None:
    topk_to_disk(graph, 3, tmp_path, progress=False)
    path = tmp_path / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "bounds": manifest["bounds"][:-1]}))
    message = rf"`out` must have {graph.num_nodes} rows for this graph, got \d+ in"
    refused(ValueError, message, graph=graph, out=tmp_path)


def test_a_folder_below_a_file(graph: DiskGraph, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    message = "`out` must be in a folder, got .*out, where .*file is a file"
    refused(ValueError, message, graph=graph, out=tmp_path / "file" / "out")


def test_a_full_disk(graph: DiskGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    message = r"`out` must be on a disk with 1\d\.\d KiB to write to, got 1000 bytes free"
    with pytest.raises(OSError, match=message) as info:
        topk_to_disk(graph, 3, tmp_path / "out", progress=False)
    assert info.value.errno == errno.ENOSPC
    assert not list((tmp_path / "out").iterdir())  # so other arguments may follow


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

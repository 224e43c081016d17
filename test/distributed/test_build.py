"""Building a graph: what is refused, and what is left behind. For results see test_equal.py."""

import errno
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from helpers.graphs import draw
from helpers.shards import on_disk, write_parquet, write_shards
from torch_geometric_simpool.distributed import DiskGraph, build, parquet, shards

STAR = torch.tensor([[0, 0, 1, 2], [1, 2, 0, 0]])


def refused(
    folder: Path, match: str, error: type[Exception] = ValueError, given: Any = None, **changes: Any
) -> None:
    """The error says so, and nothing is left."""
    arguments = {"num_nodes": 3, "progress": False, **changes}
    with pytest.raises(error, match=match) as info:
        DiskGraph.build(folder if given is None else given, folder / "graph", **arguments)
    assert info.type is error
    assert not (folder / "graph").exists()
    assert not list(folder.glob(".*"))


def saved(folder: Path, name: str, array: Any) -> Path:
    np.save(folder / name, array)
    return folder / name


# ------------------------------------------------------------------ shards


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "CHUNK", 2)


@pytest.mark.parametrize("by_column", [True, False])
@pytest.mark.parametrize(("end", "name"), [(0, "source"), (1, "target")])
@pytest.mark.parametrize("wrong", [-1, 3, 10**12])
def test_ids_out_of_range(wrong: int, end: int, name: str, by_column: bool, tmp_path: Path) -> None:
    write_shards(tmp_path, STAR, count=1)
    edges = np.zeros((2, 7), np.int64)
    edges[end, 5] = wrong
    path = saved(tmp_path, "z.npy", edges if by_column else edges.T)
    # As many as there are, and told apart by the shard.
    np.save(tmp_path / "part-0.npy", np.zeros((2, 4), np.int64))
    place = f"{'column' if by_column else 'row'} 5 of {path}"
    refused(tmp_path, rf"`shards` must hold {name} ids in \[0, 3\), got {wrong} in {place}")


def test_a_negative_id_where_nodes_are_counted(tmp_path: Path) -> None:
    path = saved(tmp_path, "a.npy", [[0, 1, -4], [0, 0, 0]])
    refused(tmp_path, rf"source ids in \[0, 2\), got -4 in column 2 of {path}", num_nodes=None)


@pytest.mark.parametrize("num_nodes", [None, 3])
def test_ids_that_int64_does_not_hold(num_nodes: int | None, tmp_path: Path) -> None:
    path = saved(tmp_path, "a.npy", np.array([[0, 1, 2], [0, 0, 2**64 - 1]], np.uint64))
    wrong = rf"target ids below 2\^63, got {2**64 - 1} in column 2 of {path}"
    refused(tmp_path, wrong, num_nodes=num_nodes)
    np.save(path, STAR.numpy().astype(np.uint64))
    assert DiskGraph.build([path], tmp_path / "graph", progress=False).num_entries == 4


def test_ids_of_a_bipartite_graph(tmp_path: Path) -> None:
    path = saved(tmp_path, "a.npy", [[0, 1, 1], [4, 0, 5]])
    refused(tmp_path, rf"target ids in \[0, 5\), got 5 in column 2 of {path}", num_nodes=(2, 5))
    refused(tmp_path, "`num_nodes` must .*got .2, 5, 1.", num_nodes=(2, 5, 1))
    refused(tmp_path, "`lam` must be 0 for a bipartite graph.*got 1", num_nodes=(2, 6), lam=1.0)


def test_types_that_differ(tmp_path: Path) -> None:
    one = saved(tmp_path, "a.npy", STAR.numpy())
    two = saved(tmp_path, "b.npy", STAR.int().numpy())
    refused(tmp_path, f"`shards` must .*one type, got int32 in {two} and int64 in {one}", TypeError)
    two.unlink()
    write_parquet(tmp_path / "c.parquet", source=[0], target=[1], weight=[0.5])
    refused(tmp_path, "must hold weights of one type, got float64 in .* and none in", TypeError)


@pytest.mark.parametrize(
    ("array", "error", "match"),
    [
        (np.ones((2, 3)), TypeError, "one integer type, got float64"),
        (np.ones((2, 3), bool), TypeError, "one integer type, got bool"),
        (np.ones((3, 3), int), ValueError, r"shape \[2, E\] or \[E, 2\], got \[3, 3\]"),
        (np.ones(3, int), ValueError, r"shape \[2, E\] or \[E, 2\], got \[3\]"),
        (np.array([[None, 1]] * 2), ValueError, r"shape \[2, E\] or \[E, 2\], got .*objects"),
    ],
)
def test_arrays(array: Any, error: type[Exception], match: str, tmp_path: Path) -> None:
    saved(tmp_path, "a.npy", array)
    refused(tmp_path, match, error)


@pytest.mark.parametrize(
    ("columns", "error", "match"),
    [
        ({"source": [0]}, ValueError, "columns 'source' and 'target'.* got 'source' in"),
        ({"source": [0.0], "target": [1.0]}, TypeError, "one integer type, got float64"),
        ({"source": ["a"], "target": ["b"]}, TypeError, "one integer type, got object"),
        ({"source": [0], "target": [1], "weight": ["x"]}, TypeError, "real weights, got object"),
        (
            {"source": [0, 1, 1, None], "target": [1, 0, 0, 0]},
            ValueError,
            "a value in every row, got none for 'source' in row 3 of",
        ),
        (
            {"source": [0] * 4, "target": [1] * 4, "weight": [1.0, 2.0, 3.0, float("nan")]},
            ValueError,
            "finite weights, got nan in row 3 of",
        ),
        (
            {"source": [0], "target": [1], "weight": [float("-inf")]},
            ValueError,
            "finite weights, got -inf in row 0 of",
        ),
    ],
)
def test_tables(columns: Any, error: type[Exception], match: str, tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", **columns)
    refused(tmp_path, f"`shards` must .*{match}", error)


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_text("no array")
    refused(tmp_path, "`shards` must be .npy files of shape .*a.npy")
    (tmp_path / "a.npy").unlink()
    pytest.importorskip("pyarrow")
    (tmp_path / "a.parquet").write_text("no table")
    refused(tmp_path, "`shards` must be Parquet files, got .*a.parquet")


@pytest.mark.parametrize("part", ["pages", "name", "footer"])
def test_a_damaged_table(part: str, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path, source=[0, 1], target=[1, 0])
    table = bytearray(path.read_bytes())
    footer = len(table) - 8 - int.from_bytes(table[-8:-4], "little")
    if part == "pages":
        table[4:footer] = b"\xff" * (footer - 4)
    elif part == "footer":
        table[footer:-8] = b"\xff" * (len(table) - 8 - footer)
    else:  # of a column, in all places
        table = table.replace(b"source", b"s\x90urce")
    path.write_bytes(table)
    refused(tmp_path, f"`shards` must be Parquet files, got {path}: ")


def test_two_columns_of_weights(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    columns = [pyarrow.array(column) for column in ([0], [1], [1.0], [2.0])]
    table = pyarrow.Table.from_arrays(columns, ["source", "target", "weight", "weight"])
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "a.parquet")
    refused(tmp_path, "may have 'weight', got 'source', 'target', 'weight', 'weight' in .*a.parq")


def test_no_shards(tmp_path: Path) -> None:
    expected = "`shards` must be a folder, or a list of .npy and .parquet files"
    refused(tmp_path, f"{expected}, got no such file")
    refused(tmp_path, f"{expected}, got no such file", given=[])
    refused(tmp_path, f"{expected}, got .*lost.npy, not a file", given=[tmp_path / "lost.npy"])
    refused(tmp_path, f"{expected}, got .*nowhere, which is no folder", given=tmp_path / "nowhere")
    refused(tmp_path, f"{expected}, got 3", TypeError, given=3)
    (tmp_path / "edges.csv").touch()
    refused(tmp_path, f"{expected}, got .*edges.csv", given=[tmp_path / "edges.csv"])


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").touch()
    monkeypatch.setattr(parquet, "pyarrow", None)
    refused(tmp_path, r"pip install 'torch-geometric-simpool\[distributed\]'", ImportError)


def test_arguments(tmp_path: Path) -> None:
    write_shards(tmp_path, STAR)
    refused(tmp_path, "`num_nodes` must .*got -1", num_nodes=-1)
    refused(tmp_path, "`lam` must .*got -1", lam=-1.0)
    refused(tmp_path, "`measure` must .*got 'l2'", measure="l2")
    refused(tmp_path, "`progress` must .*got 1", TypeError, progress=1)
    with pytest.raises(TypeError, match="`path` must be a path, got int"):
        DiskGraph.build(tmp_path, 3)  # type: ignore[arg-type]


def test_more_nodes_than_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id that is wrong by much: nothing is allocated."""
    saved(tmp_path, "a.npy", [[0, 10**15], [1, 0]])
    refused(tmp_path, f"`num_nodes`.* must .*got {10**15 + 1}", num_nodes=None)


def test_empty_shards(tmp_path: Path) -> None:
    saved(tmp_path, "a.npy", np.empty((2, 0), np.int64))
    saved(tmp_path, "b.npy", np.empty((0, 2), np.int64))
    built = DiskGraph.build(tmp_path, tmp_path / "graph", progress=False)
    assert (built.num_nodes, built.num_entries) == (0, 0)


# ------------------------------------------------------------------ folders


def test_a_folder_that_exists(tmp_path: Path) -> None:
    built = on_disk(tmp_path, draw("undirected", 0))
    before = {path: path.read_bytes() for path in built.path.iterdir()}
    write_shards(tmp_path, STAR)
    with pytest.raises(ValueError, match=r"`path` must not exist, got .*graph: delete it"):
        DiskGraph.build(tmp_path, built.path, progress=False)
    assert before == {path: path.read_bytes() for path in built.path.iterdir()}


def test_the_root_is_no_graph() -> None:
    with pytest.raises(ValueError, match=r"`path` must be a folder that DiskGraph\.build has"):
        DiskGraph.open("/")


def test_a_path_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    saved(tmp_path, "a.npy", STAR.numpy())
    for number, given in enumerate(("~", ["~/a.npy"])):
        built = DiskGraph.build(given, f"~/graph{number}", progress=False)
        assert built.path == tmp_path / f"graph{number}"
    with pytest.raises(ValueError, match=f"got {tmp_path}/graph, which does not exist"):
        DiskGraph.open("~/graph")


def test_a_path_below_a_file(tmp_path: Path) -> None:
    shard = saved(tmp_path, "a.npy", STAR.numpy())
    for path in (shard / "graph", shard / "deep" / "graph"):
        expected = f"`path` must be in a folder, got {path}, where {shard} is a file"
        with pytest.raises(ValueError, match=expected):
            DiskGraph.build(tmp_path, path, progress=False)
        with pytest.raises(ValueError, match=expected):
            DiskGraph.open(path)


def test_a_build_that_is_killed(tmp_path: Path) -> None:
    """What it has left is never read, nor overwritten."""
    write_shards(tmp_path, STAR)
    program = f"""
import time
from torch_geometric_simpool.distributed import DiskGraph, build

build.scan = lambda *_: time.sleep(60)
DiskGraph.build({str(tmp_path)!r}, {str(tmp_path / "graph")!r}, progress=False)
"""
    process = subprocess.Popen([sys.executable, "-c", program])
    left = tmp_path / ".graph.building"
    end = time.monotonic() + 120
    while not left.exists():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    with pytest.raises(ValueError, match=f"`path` must .*which is half-written, in {left}"):
        DiskGraph.open(tmp_path / "graph")
    with pytest.raises(ValueError, match=f"`path` must not be half-written, .*{left} is left"):
        DiskGraph.build(tmp_path, tmp_path / "graph", progress=False)
    left.rmdir()
    assert DiskGraph.build(tmp_path, tmp_path / "graph", progress=False).num_nodes == 3


def test_an_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_shards(tmp_path, STAR)

    def interrupted(*_: Any, **__: Any) -> None:
        assert (tmp_path / ".graph.building").exists()
        raise KeyboardInterrupt

    monkeypatch.setattr(build.GraphFiles, "write_meta", interrupted)
    refused(tmp_path, "", KeyboardInterrupt)  # type: ignore[arg-type]


def test_a_folder_without_a_graph(tmp_path: Path) -> None:
    expected = "`path` must be a folder that DiskGraph.build has written, got"
    with pytest.raises(ValueError, match=rf"{expected} .*nowhere, which does not exist"):
        DiskGraph.open(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=f"{expected} .*meta.json cannot be read"):
        DiskGraph.open(tmp_path)


def test_changed_contents(tmp_path: Path) -> None:
    path = on_disk(tmp_path, draw("undirected", 0)).path
    assert DiskGraph.open(path, verify=True).num_nodes > 0
    content = (path / "rows_col.bin").read_bytes()
    (path / "rows_col.bin").write_bytes(bytes([content[0] ^ 1]) + content[1:])
    DiskGraph.open(path)
    with pytest.raises(ValueError, match=r"`path` must .*rows_col.bin has been changed"):
        DiskGraph.open(path, verify=True)


def test_another_process_maps_the_arrays_itself(tmp_path: Path) -> None:
    graph = on_disk(tmp_path, draw("undirected", 0))
    size = len(pickle.dumps(graph))
    estimate = graph.estimate(3)
    assert len(pickle.dumps(graph)) == size
    assert pickle.loads(pickle.dumps(graph)).estimate(3)[:4] == estimate[:4]


def test_a_damaged_graph(tmp_path: Path) -> None:
    path = on_disk(tmp_path, draw("undirected", 0)).path
    os.truncate(path / "rows_col.bin", 8)
    with pytest.raises(ValueError, match=r"rows_col.bin has 8 bytes instead of \d+"):
        DiskGraph.open(path)
    (path / "rows_col.bin").unlink()
    with pytest.raises(ValueError, match=r"rows_col.bin has been lost"):
        DiskGraph.open(path)
    meta = json.loads((path / "meta.json").read_text())
    (path / "meta.json").write_text(json.dumps({**meta, "format": 0}))
    with pytest.raises(ValueError, match=r"in format 2, got format 0 .*build it again"):
        DiskGraph.open(path)
    lost = {name: value for name, value in meta.items() if name != "bipartite"}
    for wrong in (lost, {**meta, "arrays": {}}, {**meta, "num_nodes": "3"}):
        (path / "meta.json").write_text(json.dumps(wrong))
        with pytest.raises(ValueError, match=r"`path` must .*meta.json has been changed"):
            DiskGraph.open(path)
    for other in ("null", "[]", "{}", "[" * 100_000):
        (path / "meta.json").write_text(other)
        with pytest.raises(ValueError, match=r"`path` must .*meta.json cannot be read"):
            DiskGraph.open(path)
    (path / "meta.json").write_text(json.dumps(meta)[:50])
    with pytest.raises(ValueError, match=r"meta.json cannot be read"):
        DiskGraph.open(path)


def test_a_disk_that_is_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_shards(tmp_path, STAR)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=100))
    message = r"`path` must be on a disk with \d+ bytes to write to, got 100 bytes free in"
    refused(tmp_path, message, OSError)


@pytest.mark.parametrize(
    ("number", "error", "message"),
    [
        (errno.ENOSPC, OSError, "`path` must be on a disk with"),
        (errno.EACCES, PermissionError, "as the system says"),
    ],
)
def test_a_disk_that_fails_in_the_middle(
    number: int,
    error: type[Exception],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_shards(tmp_path, STAR)

    def fail(*_: Any) -> None:
        raise OSError(number, "as the system says")

    monkeypatch.setattr("torch_geometric_simpool.distributed.graph_files.ArrayWriter.append", fail)
    refused(tmp_path, message, error)

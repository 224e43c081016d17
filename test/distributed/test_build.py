"""Graphs on disk: their top k equals the top k in memory, and bad shards are refused."""

import gzip
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

from helpers.graphs import FLAVORS, Graph, draw
from helpers.shards import write_graph, write_parquet, write_shards
from torch_geometric_simpool import topk_similarity
from torch_geometric_simpool.distributed import DiskGraph, files, topk_to_disk
from torch_geometric_simpool.distributed import graph as graph_module

STAR = torch.tensor([[0, 0, 1, 2], [1, 2, 0, 0]])


def build(folder: Path, shards: Any = None, **arguments: Any) -> DiskGraph:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`shards` hold")
        shards = folder if shards is None else shards
        return DiskGraph.build(shards, folder / "graph", **{"progress": False, **arguments})


def check_equal(folder: Path, graph: Graph, num_nodes: Any = None, **settings: Any) -> None:
    """Asserts that the top k on disk equals the top k in memory, bit for bit."""
    weight = graph.edge_weight()
    num_nodes = graph.num_nodes if num_nodes is None else num_nodes
    values, index = topk_similarity(
        graph.edge_index, 3, weight, num_nodes, backend="numba", **settings
    )
    lam = settings.pop("lam", 0.0)
    stored = build(folder, write_graph(folder / "shards", graph), num_nodes=num_nodes, lam=lam)
    rows = topk_to_disk(stored, 3, folder / "top3", progress=False, **settings).read()
    assert_same(rows, (values, index))


def rows_of(graph: DiskGraph) -> tuple[Tensor, Tensor]:
    """Returns all rows of a graph, which differ between different graphs."""
    return topk_to_disk(graph, 5, graph.path.parent / "rows", progress=False).read()


def assert_same(rows: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]) -> None:
    for part, expected_part in zip(rows, expected):
        assert part.dtype == expected_part.dtype
        assert torch.equal(part, expected_part)


@pytest.mark.parametrize("flavor", FLAVORS)
def test_every_kind_of_graph(flavor: str, tmp_path: Path) -> None:
    for number, settings in enumerate(
        [
            {},
            {"measure": "jaccard", "loop": False},
            {"lam": 1.0},
            {"lam": 0.3, "min_similarity": 0.3},
        ]
    ):
        check_equal(tmp_path / str(number), draw(flavor, number), **settings)


@pytest.mark.parametrize("directed", [False, True])
def test_real_weights(directed: bool, tmp_path: Path) -> None:
    """Weights differ in magnitude, so that norms are scaled, and parallel edges add up."""
    rng = Random(5)
    pairs, weights = [], []
    for _ in range(150):
        i, j = rng.randrange(12), rng.randrange(12)
        weight = rng.uniform(-1, 3) ** rng.randint(1, 40)
        pairs += [(i, j)] if directed else [(i, j), (j, i)]
        weights += [weight] if directed else [weight, weight]
    graph = Graph(13, tuple(pairs), tuple(weights))
    check_equal(tmp_path / "cosine", graph)
    stored = DiskGraph.open(tmp_path / "cosine" / "graph")
    assert stored.description.num_sides == 1 + directed
    check_equal(tmp_path / "jaccard", graph, measure="jaccard", lam=0.7, loop=False)


def test_bipartite_graphs(tmp_path: Path) -> None:
    rng = Random(3)
    pairs = tuple((i, j) for i in range(9) for j in range(5) if rng.random() < 0.4)
    check_equal(tmp_path / "ones", Graph(9, pairs), (10, 6))
    weights = tuple(rng.uniform(0, 9) for _ in pairs)
    check_equal(tmp_path / "weights", Graph(9, pairs, weights), (9, 5), measure="jaccard")
    symmetric = Graph(4, ((0, 1), (0, 2), (1, 0), (2, 0), (3, 3)))
    check_equal(tmp_path / "symmetric", symmetric, (4, 4))


def test_each_undirected_edge_once(tmp_path: Path) -> None:
    graph = draw("undirected", 2)
    edge_index = torch.cat([graph.edge_index, torch.tensor([[1], [1]])], dim=1)
    once = edge_index[:, edge_index[0] <= edge_index[1]]
    both = build(tmp_path / "both", write_shards(tmp_path / "a", edge_index))
    mirrored = build(tmp_path / "once", write_shards(tmp_path / "b", once), undirected=True)
    with pytest.warns(UserWarning, match=r"one direction only.*`undirected=True`"):
        build(tmp_path / "directed", write_shards(tmp_path / "c", once))
    assert both.num_entries == mirrored.num_entries
    assert_same(rows_of(both), rows_of(mirrored))


def test_repeated_edges(tmp_path: Path) -> None:
    """Repeated edges add up with a warning, or one of them is kept."""
    star = build(tmp_path / "star", write_shards(tmp_path / "a", STAR))
    twice = write_shards(tmp_path / "b", torch.cat([STAR, STAR[:, :1]], dim=1))
    with pytest.warns(UserWarning, match=r"`shards` hold repeated edges.*`duplicates='drop'`"):
        summed = DiskGraph.build(twice, tmp_path / "summed", progress=False)
    counts = summed.description.sides.first.rows.value
    assert counts.dtype.itemsize <= 4
    assert sorted(counts.tolist()) == [1, 1, 1, 2]
    dropped = build(tmp_path / "dropped", twice, duplicates="drop")
    assert dropped.description.sides.first.rows.value.size == 0
    assert_same(rows_of(dropped), rows_of(star))


def test_the_order_of_edges_and_the_shards_do_not_matter(tmp_path: Path) -> None:
    graph = draw("parallel_weighted", 2)
    weight = graph.edge_weight()
    assert weight is not None
    one = build(tmp_path / "one", write_graph(tmp_path / "a", graph))
    shuffled = torch.randperm(weight.numel())
    shards = write_shards(tmp_path / "b", graph.edge_index[:, shuffled], weight[shuffled], 5)
    assert_same(rows_of(build(tmp_path / "two", shards)), rows_of(one))


def test_one_of_repeated_edges_is_kept_beside_added_loops(tmp_path: Path) -> None:
    """The edge of the largest weight is kept. A loop that `lam` adds is no repeated edge."""
    edge_index = torch.tensor([[0, 0, 0, 1, 1, 2], [1, 1, 1, 0, 1, 2]])
    weight = torch.tensor([0.5, 2.0, -3.0, 2.0, 0.25, 1.0], dtype=torch.float64)
    shards = write_shards(tmp_path / "shards", edge_index, weight)
    dropped = build(tmp_path, shards, duplicates="drop", lam=0.5)
    kept = torch.tensor([1, 3, 4, 5])
    values, index = topk_similarity(edge_index[:, kept], 5, weight[kept], 3, lam=0.5)
    assert_same(rows_of(dropped), (values, index))


def test_kinds_of_files(tmp_path: Path) -> None:
    """All files hold the edges of one path, and all but one hold the same weights."""
    ends, weights = [[0, 1, 2], [1, 2, 3]], [1.0, 0.5, 2.0]
    np.save(tmp_path / "a.npy", np.array(ends, ">i4"))  # the bytes in reverse order
    write_parquet(tmp_path / "b.parquet", source=ends[0], target=ends[1], extra=["x", "y", "z"])
    write_parquet(tmp_path / "w.parquet", b=ends[1], w=weights, a=ends[0])
    lines = [f"{i},{j},{w}" for i, j, w in zip(*ends, weights)]
    (tmp_path / "w.csv").write_text("\n".join(["# comment", "a,b,w", *lines]) + "\n")
    (tmp_path / "t.txt").write_text("# Nodes: 4\n%\n0\t1\n\n1  2\n 2 3\n")
    with gzip.open(tmp_path / "w.edges.gz", "wt") as file:
        file.write("# i j w time\n" + "".join(f"{line.replace(',', ' ')} 7\n" for line in lines))
    for names, columns, weighted in [
        (["a.npy", "b.parquet", "t.txt"], None, False),
        (["w.csv", "w.parquet", "w.edges.gz"], ("a", "b"), False),
        (["w.csv", "w.parquet", "w.edges.gz"], ("a", "b", "w"), True),
    ]:
        edge_weight = torch.tensor(weights, dtype=torch.float64) if weighted else None
        values, index = topk_similarity(torch.tensor(ends), 5, edge_weight)
        for name in names:
            built = build(tmp_path / f"{name}-{weighted}", tmp_path / name, columns=columns)
            assert (built.num_nodes, built.num_entries) == (4, 3)
            assert (built.description.sides.first.rows.value.size > 0) is weighted
            rows = rows_of(built)
            assert_same((rows[0].to(values.dtype), rows[1]), (values, index))


def test_late_lines_of_a_table_are_not_rounded(tmp_path: Path) -> None:
    """DuckDB guesses the type of a column from its first 20,480 lines."""
    lines = ["source,target,weight", *["0,1,1"] * 30_000, "1,0,0.4"]
    path = tmp_path / "late.csv"
    path.write_text("\n".join(lines))
    weight = torch.tensor([1.0] * 30_000 + [0.4], dtype=torch.float64)
    edge_index = torch.tensor([[0] * 30_000 + [1], [1] * 30_000 + [0]])
    graph = build(tmp_path, path, lam=1.0)
    stored = topk_to_disk(graph, 2, tmp_path / "top", progress=False).read()
    for result, expected in zip(stored, topk_similarity(edge_index, 2, weight, lam=1.0)):
        assert torch.equal(result, expected)
    path.write_text("\n".join(["source,target", *["0,1"] * 30_000, "1,0.4"]))
    with pytest.raises(ValueError, match=r"`shards` must hold integer ids .*DOUBLE"):
        DiskGraph.build(path, tmp_path / "other", progress=False)


def test_shards_without_rows(tmp_path: Path) -> None:
    """Empty shards are ignored, and so are the types of their columns."""
    (tmp_path / "0.csv").write_text("source,target,weight\n")
    (tmp_path / "1.csv").write_text("")
    (tmp_path / "2.txt").write_text("# nothing\n")
    np.save(tmp_path / "3.npy", np.empty((2, 0), np.int64))
    assert build(tmp_path / "none", tmp_path).num_nodes == 0
    (tmp_path / "4.csv").write_text("source,target,weight\n0,1,0.5\n1,0,0.5\n")
    assert build(tmp_path / "one", tmp_path).num_entries == 2


def test_shards_with_and_without_weights(tmp_path: Path) -> None:
    shards = write_shards(tmp_path / "ones", STAR) + write_shards(tmp_path / "w", STAR, STAR[0] / 2)
    for paths in (shards, shards[::-1]):
        with pytest.raises(
            ValueError, match=r"weights for all edges or for none.*an empty cell in .*ones"
        ):
            build(tmp_path, paths)


def test_lines_may_end_differently(tmp_path: Path) -> None:
    (tmp_path / "mixed.txt").write_bytes(b"0 1\n1 0\r\n2 0\n")
    assert build(tmp_path, tmp_path / "mixed.txt").num_entries == 3


def test_no_nodes_and_no_edges(tmp_path: Path) -> None:
    for number, shape in enumerate([(2, 0), (0, 2)]):
        np.save(tmp_path / f"{number}.npy", np.empty(shape, np.int64))
    built = build(tmp_path)
    assert (built.num_nodes, built.num_entries) == (0, 0)
    values, index = topk_to_disk(built, 2, tmp_path / "top", progress=False).read()
    assert values.shape == index.shape == (0, 2)
    edgeless = build(tmp_path / "nodes", tmp_path, num_nodes=3)
    assert (
        topk_to_disk(edgeless, 2, tmp_path / "t", progress=False).read()[0].tolist() == [[0, 0]] * 3
    )


# ------------------------------------------------------------------ bad input

SHARDS: dict[str, tuple[type[Exception], str, Any]] = {
    "float ids": (ValueError, r"hold integer ids .*\(DOUBLE\)", np.ones((2, 3))),
    "booleans": (ValueError, r"hold integer ids .*\(BOOLEAN\)", np.ones((2, 3), bool)),
    "three rows": (ValueError, r"shape \[3, 3\]", np.ones((3, 3), int)),
    "objects": (ValueError, "be .npy files of shape", np.array([[None, 1]] * 2)),
    "a negative id": (ValueError, r"source ids in \[0, 3\), got -1", np.array([[0, -1], [1, 2]])),
    "a large id": (ValueError, r"target ids in \[0, 3\), got 3", np.array([[0, 1], [1, 3]])),
    "beyond int64": (ValueError, "be readable", np.array([[0], [2**64 - 1]], np.uint64)),
    "one column": (ValueError, "in column 'target'.*`columns`", {"source": [0]}),
    "float columns": (ValueError, "'source'.*DOUBLE", {"source": [0.0], "target": [1]}),
    "names": (ValueError, "integer ids .*VARCHAR", {"source": ["a"], "target": ["b"]}),
    "no id": (ValueError, "got an empty cell", {"source": [0, None], "target": [1, 2]}),
    "no real": (ValueError, "real weights", {"source": [0], "target": [1], "weight": ["x"]}),
    "NaN": (ValueError, "finite", {"source": [0], "target": [1], "weight": [float("nan")]}),
    "no table": (ValueError, "be readable", "no table"),
    "words": (ValueError, "expected two ids .*in a line, got 0 b", "0 1\n0 b\n"),
    "fractions": (ValueError, "expected two ids .*in a line, got 0 1.5", "0 1\n0 1.5\n"),
    "another field": (ValueError, "be readable", "source,target\n0,1\n1,2,0\n"),
    "a missing field": (ValueError, "be readable", "source,target\n0,1\n1\n"),
    "a word": (ValueError, "integer ids .*VARCHAR", "source,target\n0,1\n1,x\n"),
    "no header": (
        ValueError,
        "got the columns '0'.*names its columns in the first line",
        "0,1\n1,2\n",
    ),
    "too large": (
        ValueError,
        "expected two ids .*in a line, got 0 9",
        "0 1\n0 99999999999999999999\n",
    ),
    "three fields": (ValueError, "or name three `columns`", "0 1 0.5\n"),
}


@pytest.mark.parametrize("case", SHARDS)
def test_bad_shards(case: str, tmp_path: Path) -> None:
    """The error names the argument and the file, and no files are left."""
    error, message, content = SHARDS[case]
    path = tmp_path / "bad.npy"
    if isinstance(content, dict):
        path = tmp_path / "bad.parquet"
        write_parquet(path, **content)
    elif isinstance(content, str):
        suffix = "csv" if "," in content else "txt"
        path = tmp_path / ("bad.parquet" if case == "no table" else f"bad.{suffix}")
        path.write_text(content)
    else:
        np.save(path, content)
    good = [] if "weight" in content else write_shards(tmp_path / "good", STAR)
    prefix = "" if message.startswith("`") else "`shards` must .*"
    with pytest.raises(error, match=f"(?s){prefix}{message}") as info:
        build(tmp_path, [*good, path], num_nodes=3)
    assert info.type is error
    assert str(path) in str(info.value)
    assert not (tmp_path / "graph").exists()
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (ValueError, "`shards` must .*got none in", {"shards": []}),
        (ValueError, "`shards` must .*lost.npy", {"shards": ["lost.npy"]}),
        (ValueError, "`shards` must .*got .*test_build.py", {"shards": __file__}),
        (TypeError, "`shards` must .*got 3", {"shards": 3}),
        (TypeError, "`path` must be a path, got int", {"path": 3}),
        (ValueError, "`path` must not exist", {"path": Path(__file__).parent}),
        (NotADirectoryError, "test_build.py", {"path": Path(__file__) / "graph"}),
        (ValueError, "`num_nodes` must .*got -1", {"num_nodes": -1}),
        (ValueError, "`num_nodes` must .*got .2, 5, 1.", {"num_nodes": (2, 5, 1)}),
        (ValueError, "`num_nodes` is too large, got 1000000000000000", {"num_nodes": 10**15}),
        (ValueError, "`lam` must be 0 for a bip", {"num_nodes": (3, 3), "lam": 1.0}),
        (ValueError, "`undirected` must be F", {"num_nodes": (3, 3), "undirected": True}),
        (ValueError, "`lam` must .*got -1", {"lam": -1.0}),
        (ValueError, "`duplicates` must .*got 'x'", {"duplicates": "x"}),
        (ValueError, "`columns` must .*got 'ab'", {"columns": "ab"}),
        (ValueError, "`columns` must .*got 3", {"columns": 3}),
        (ValueError, "`columns` must .*got", {"columns": ("a", "a")}),
        (ValueError, "`memory_budget` must .*got 1", {"memory_budget": 1}),
        (TypeError, "`undirected` must .*got 1", {"undirected": 1}),
    ],
)
def test_wrong_arguments(
    error: type[Exception], message: str, arguments: dict[str, Any], tmp_path: Path
) -> None:
    defaults = {"shards": write_shards(tmp_path, STAR), "path": tmp_path / "graph"}
    with pytest.raises(error, match=message):
        DiskGraph.build(**{**defaults, "progress": False, **arguments})
    assert not list(tmp_path.glob(".*"))


# ------------------------------------------------------------------ folders


@pytest.mark.slow
def test_a_killed_build_is_replaced(tmp_path: Path) -> None:
    write_shards(tmp_path, STAR)
    program = f"""
import time
from torch_geometric_simpool.distributed import DiskGraph, edges

edges.EdgeTable.read = lambda *_: time.sleep(60)
DiskGraph.build({str(tmp_path)!r}, {str(tmp_path / "graph")!r}, progress=False)
"""
    process = subprocess.Popen([sys.executable, "-c", program])
    database = tmp_path / ".graph.building" / "edges.duckdb"
    end = time.monotonic() + 120
    while not database.exists():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    with pytest.raises(ValueError, match="`path` must be a folder"):
        DiskGraph.open(tmp_path / "graph")
    assert build(tmp_path).num_nodes == 3
    assert not list(tmp_path.glob(".*"))


def test_an_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        assert (tmp_path / ".graph.building").exists()
        raise KeyboardInterrupt

    monkeypatch.setattr(graph_module, "save_record", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path, write_shards(tmp_path, STAR))
    assert not (tmp_path / "graph").exists()
    assert not list(tmp_path.glob(".*"))


def test_damaged_folders(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`path` must be a folder that DiskGraph\.build"):
        DiskGraph.open(tmp_path / "nowhere")
    path = build(tmp_path, write_graph(tmp_path, draw("undirected", 0))).path
    array, index = max(path.glob("*.bin"), key=os.path.getsize), path / files.INDEX
    text = index.read_text()

    def check() -> None:
        with pytest.raises(ValueError, match=r"`path` must be a folder that DiskGraph\.build"):
            DiskGraph.open(path)

    for wrong in ("null", "{}", text[:50]):
        index.write_text(wrong)
        check()
    index.write_text(text)
    os.truncate(array, 8)
    check()
    array.unlink()
    check()


def test_a_pickled_graph_has_no_arrays(graph: DiskGraph) -> None:
    assert len(pickle.dumps(graph)) < 4000
    assert pickle.loads(pickle.dumps(graph)).id == graph.id

"""A graph on disk has the arrays, and the top k, of the same graph in memory, bit for bit."""

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.graphs import FLAVORS, Graph, draw
from helpers.shards import on_disk, write_parquet, write_shards
from torch_geometric_simpool import estimate_topk, topk_similarity
from torch_geometric_simpool.distributed import DiskGraph, external_sort, run, shards, topk_to_disk
from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.numba import backend as select
from torch_geometric_simpool.topk.numba import disk, plan
from torch_geometric_simpool.topk.numba.arrays import CSRArrays
from torch_geometric_simpool.topk.spec import EdgeList as CheckedGraph
from torch_geometric_simpool.topk.spec import SimilaritySpec

SETTINGS: list[dict[str, Any]] = [
    {},
    {"measure": "jaccard"},
    {"lam": 1.0},
    {"lam": 0.3},
    {"lam": 2.0, "measure": "jaccard"},
]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a graph of a few nodes has many chunks, buckets and blocks."""
    monkeypatch.setattr(shards, "CHUNK", 7)
    monkeypatch.setattr(disk, "CHUNK", 5)
    monkeypatch.setattr(external_sort, "BUCKET", 11)
    monkeypatch.setattr(run, "BLOCK_BYTES", 100)
    monkeypatch.setattr(plan, "SHORTEST_HUB", 3)


def assert_same_arrays(one: Any, other: Any, name: str = "prepared") -> None:
    """Nested tuples of arrays and numbers, whose bits and types are equal."""
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, name
        assert one.shape == other.shape, name
        assert one.tobytes() == other.tobytes(), name
        assert one.flags.writeable == other.flags.writeable, name
    elif isinstance(one, tuple):
        fields = getattr(one, "_fields", range(len(one)))
        for field, part, other_part in zip(fields, one, other, strict=True):
            if field != "building_memory":
                assert_same_arrays(part, other_part, f"{name}.{field}")
    else:
        assert one == other, name


def check_equal(
    folder: Path, graph: Graph, sizes: Any = None, loop: bool = True, **settings: Any
) -> None:
    weight = graph.edge_weight()
    num_nodes = graph.num_nodes if sizes is None else sizes
    stored = on_disk(folder, graph, num_nodes=num_nodes, **settings)
    bipartite = () if sizes is None else sizes
    checked = CheckedGraph(graph.edge_index, weight, *(bipartite or (graph.num_nodes, None)))
    describing = SimilaritySpec(1, settings.get("lam", 0.0), settings.get("measure", "cosine"))
    assert_same_arrays(stored.prepared, select.prepare(checked, describing, Budget(None, True)))

    given = {"num_nodes": num_nodes, "loop": loop, "backend": "numba", **settings}
    values, index = topk_similarity(graph.edge_index, 3, weight, **given)
    store = topk_to_disk(stored, 3, folder / "top3", loop=loop, progress=False)
    assert_same(store.read(), (values, index))
    cost = estimate_topk(graph.edge_index, 3, weight, num_nodes, backend="numba", **settings)
    assert stored.estimate(3)[:2] == cost[:2]


def assert_same(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> None:
    for a, b in zip(one, other):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("flavor", FLAVORS)
def test_every_kind_of_graph(flavor: str, settings: dict[str, Any], tmp_path: Path) -> None:
    for seed in range(2):
        check_equal(tmp_path / str(seed), draw(flavor, seed), **settings)


@pytest.mark.parametrize("measure", ["cosine", "jaccard"])
@pytest.mark.parametrize("directed", [False, True])
def test_real_weights(directed: bool, measure: str, tmp_path: Path) -> None:
    """Of very different sizes, so that norms are scaled; parallel edges add up in one order."""
    rng = Random(5)
    edges, weights = [], []
    for _ in range(150):
        i, j, weight = (
            rng.randrange(12),
            rng.randrange(12),
            rng.uniform(-1, 3) ** rng.randint(1, 40),
        )
        edges += [(i, j)] if directed else [(i, j), (j, i)]
        weights += [weight] if directed else [weight, weight]
    graph = Graph(13, tuple(edges), tuple(weights))
    for number, lam in enumerate((0.0, 0.7)):
        check_equal(tmp_path / str(number), graph, measure=measure, lam=lam, loop=False)


def test_the_sign_of_zero_makes_no_graph_directed(tmp_path: Path) -> None:
    graph = Graph(3, ((0, 1), (1, 0), (1, 2), (2, 1)), (-0.0, 0.0, 2.0, 2.0))
    assert not on_disk(tmp_path, graph).prepared.description.two_sided


@pytest.mark.parametrize("weighted", [False, True])
def test_a_bipartite_graph(weighted: bool, tmp_path: Path) -> None:
    rng = Random(3)
    pairs = [(i, j) for i in range(9) for j in range(5) if rng.random() < 0.4]
    weights = tuple(rng.uniform(0, 9) for _ in pairs) if weighted else None
    check_equal(tmp_path, Graph(9, tuple(pairs), weights), sizes=(10, 6))
    check_equal(tmp_path / "jaccard", Graph(9, tuple(pairs), weights), (9, 5), measure="jaccard")


def test_integer_weights_of_float32_and_min_similarity(tmp_path: Path) -> None:
    """Values then are float32, as those of a graph without weights."""
    graph = draw("integer", 1)
    for dtype in (torch.int64, torch.float32):
        weight = graph.edge_weight(torch.float32)
        assert weight is not None
        folder = tmp_path / str(dtype)
        paths = write_shards(folder, graph.edge_index, weight.to(dtype))
        stored = DiskGraph.build(paths, folder / "graph", graph.num_nodes, progress=False)
        store = topk_to_disk(stored, 4, folder / "top", min_similarity=0.5, progress=False)
        expected = topk_similarity(
            graph.edge_index, 4, weight, graph.num_nodes, min_similarity=0.5, backend="numba"
        )
        assert_same(store.read(), expected)


def test_the_order_of_edges_and_the_shards_do_not_matter(tmp_path: Path) -> None:
    graph = draw("parallel_weighted", 2)
    weight = graph.edge_weight()
    assert weight is not None
    one = on_disk(tmp_path / "one", graph)
    shuffled = torch.randperm(weight.numel())
    paths = write_shards(tmp_path / "two", graph.edge_index[:, shuffled], weight[shuffled], 5)
    other = DiskGraph.build(paths, tmp_path / "two" / "graph", graph.num_nodes, progress=False)
    assert one.fingerprint == other.fingerprint
    changed = on_disk(tmp_path / "three", Graph(graph.num_nodes, graph.edges))
    assert changed.fingerprint != one.fingerprint


def test_the_number_of_nodes_is_that_of_the_ids(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", source=[0, 4], target=[2, 1])
    assert DiskGraph.build(tmp_path, tmp_path / "graph", progress=False).num_nodes == 5


def test_what_is_mapped_is_not_copied(tmp_path: Path) -> None:
    """No page of the files becomes memory of the process, though the arrays could be written to."""
    smaps = Path("/proc/self/smaps")
    if not smaps.exists():
        pytest.skip("there is no /proc/self/smaps")
    for number, flavor in enumerate(("undirected", "signed_directed")):
        stored = on_disk(tmp_path / str(number), draw(flavor, 0))
        topk_to_disk(stored, 3, tmp_path / str(number) / "top", progress=False)
        description = stored.prepared.description
        parts = (part for side in description.sides for part in side)
        assert all(isinstance(part, CSRArrays) and part.ptr.base is not None for part in parts)
        found, inside = [], False
        for line in smaps.read_text().splitlines():
            if "-" in line.split(" ")[0]:
                inside = str(stored.path) in line
            elif inside and line.startswith("Anonymous:"):
                found.append(int(line.split()[1]))
        assert len(found) > 4
        assert sum(found) == 0

"""The benchmark of the top k: its graphs, checks, measurements and files."""

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import pytest
import torch

import topk
from harness.errors import BenchmarkError
from harness.speed import topk_graphs, topk_methods, topk_run, topk_tables
from harness.speed.topk_cases import make_problem, methods_of
from harness.speed.topk_measure import measure
from harness.speed.topk_methods import METHODS, Problem, check
from helpers.traps import trap
from helpers.tu_files import write_tu


def problem() -> Problem:
    return Problem(topk_graphs.power_law(60, 6), 60)


@pytest.mark.parametrize("draw", [topk_graphs.uniform, topk_graphs.power_law])
def test_graphs_are_undirected_and_simple(draw: Callable[[int, int], torch.Tensor]) -> None:
    edge_index = draw(200, 10)
    pairs = set(map(tuple, edge_index.t().tolist()))
    assert len(pairs) == edge_index.size(1)
    assert all((j, i) in pairs and i != j for i, j in pairs)
    assert edge_index.max() < 200
    assert 6 < edge_index.size(1) / 200 <= 10


def test_power_law_graphs_are_those_of_the_stored_results() -> None:
    """They have the stored numbers of edges and of products."""
    stored = Path(topk.__file__).parent / "results" / "topk.json"
    rows = json.loads(stored.read_text())["rows"]
    row = next(row for row in rows if row["graph"] == "power_law-100000-10")
    edge_index = topk_graphs.power_law(100_000, 10)
    assert edge_index.size(1) == row["edges"]
    assert int(edge_index[0].bincount().square().sum()) == row["products"]


def test_graphs_with_hubs() -> None:
    assert topk_graphs.star(3).tolist() == [[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]]
    assert topk_graphs.complete(4).size(1) == 12
    hub = topk_graphs.with_hub(topk_graphs.uniform(50, 4), 50)
    assert (hub[0] == 50).sum() == (hub[1] == 50).sum() == 50


def test_a_stored_problem_is_read_back_and_runs_no_code(tmp_path: Path) -> None:
    data = write_tu(tmp_path, "ENZYMES").parents[1]
    for one in (make_problem("ENZYMES", str(data)), replace(problem(), nodes=torch.arange(3))):
        one.save(tmp_path / "problem.pt")
        other = Problem.load(tmp_path / "problem.pt")
        assert torch.equal(one.edge_index, other.edge_index)
        assert (one.sizes, one.num_rows) == (other.sizes, other.num_rows)
        for graph, stored in zip(one.graphs or (), other.graphs or (), strict=True):
            assert graph.num_nodes == stored.num_nodes
            assert torch.equal(graph.edge_index, stored.edge_index)
    trap(tmp_path / "problem.pt", tmp_path / "executed")
    with pytest.raises(UnpicklingError):
        Problem.load(tmp_path / "problem.pt")
    assert not (tmp_path / "executed").exists()


def test_a_damaged_file_has_no_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "topk.json").write_text("[" * 100_000)
    assert topk.main(["--summary", "--out", str(tmp_path / "topk.json")]) == 2
    assert "nested too deeply" in capsys.readouterr().err


def test_the_methods_agree() -> None:
    check(problem(), 7, ["simpool", "simpool_torch", "scipy"])


def test_a_method_that_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(problem: Problem, k: int) -> topk_methods.Result:
        values, index, seconds = topk_methods.scipy_sort(problem, k)
        values[3, 0] += 0.01
        return values, index, seconds

    monkeypatch.setitem(METHODS, "scipy", wrong)
    with pytest.raises(ValueError, match="scipy differ"):
        check(problem(), 7, ["scipy"])


@pytest.mark.parametrize(
    ("name", "methods", "shape"),
    [
        ("uniform-300-6-queries-20", ["simpool", "simpool_index", "sparse_dot_topn"], (20, 300)),
        ("items-30-50-200", ["simpool", "sparse_dot_topn"], (30, 30)),
        ("users-50-30-200", ["simpool", "sparse_dot_topn"], (50, 50)),
    ],
)
def test_rows_of_some_nodes_and_bipartite_graphs(
    name: str, methods: list[str], shape: tuple[int, int]
) -> None:
    """The methods agree, and are asked for the rows that the name says."""
    problem = make_problem(name, None)
    assert methods_of(name) == methods
    assert (problem.num_rows, problem.num_nodes) == shape
    peers = [m for m in methods if m != "sparse_dot_topn" or find_spec(m)]
    check(problem, 5, peers)
    for method in peers:
        values, index, _ = topk_methods.METHODS[method](problem, 5)
        assert values.shape == index.shape == (shape[0], 5)


def test_interactions_are_distinct_and_skewed() -> None:
    edges = topk_graphs.interactions(200, 50, 1500)
    assert edges.size(1) == edges.unique(dim=1).size(1) == 1500
    assert torch.equal(edges, edges.unique(dim=1))
    users, items = (torch.bincount(ids) for ids in edges)
    assert items[:10].sum() > 2 * items[-10:].sum()
    assert users.max() < items.max()


def test_wrong_order_of_ties_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    star = Problem(topk_graphs.star(5), 6)

    def flipped(edge_index: torch.Tensor, k: int, **settings: Any) -> tuple:
        from torch_geometric_simpool import topk_similarity

        values, index = topk_similarity(edge_index, k, **settings)
        return values, index.flip(1)

    monkeypatch.setattr(topk_methods, "topk_similarity", flipped)
    with pytest.raises(ValueError, match="exactly"):
        check(star, 3, [])


def test_one_measurement(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    path = tmp_path / "problem.pt"
    problem().save(path)
    for method in ("simpool", "scipy"):
        found = measure(str(path), method, "4", str(threads), "2")
        assert len(found["seconds"]) == 2
        assert len(found["product"]) == (2 if method == "scipy" else 0)
        assert found["output"] == 60 * 4 * 12


def results() -> dict:
    row = {
        "graph": "uniform-60-6",
        "nodes": 60,
        "edges": 300,
        "products": 3000,
        "commit": "abc",
        "k": 4,
        "threads": 1,
        "fastest": 0.1,
        "slowest": 0.3,
        "runs": 3,
        "product_seconds": None,
        "peak_mib": 3.0,
        "output_mib": 2.0,
    }
    return {
        "versions": {"torch": "2"},
        "hardware": {"cpus": 2},
        "cpu": "a processor",
        "gpu": "not measured",
        "repeats": 3,
        "rows": [
            {**row, "method": "simpool", "seconds": 0.2},
            {**row, "method": "scipy", "seconds": 0.5, "product_seconds": 0.25},
        ],
    }


def test_tables() -> None:
    assert topk_tables.summary(results()) == ["| uniform-60-6 | 4 | 0.2 |  |  |  | 2.5 |  |  |"]

    text = topk_tables.markdown(results())
    assert "| scipy | 4 | 1 | 0.5 | 0.1 to 0.3 | 3 | 0.25 | 3 | 2 | 2.50 |" in text


def test_the_summary_has_the_time_of_queries() -> None:
    """Of a prepared graph: without the preparation."""
    found = results()
    prepared = {**found["rows"][0], "method": "simpool_index", "product_seconds": 0.00123}
    lines = topk_tables.summary({**found, "rows": [*found["rows"], prepared]})
    assert lines[1:] == ["| uniform-60-6, of a prepared graph | 4 | 0.00123 |  |  |  |  |  |  |"]


def test_finished_rows_are_kept(tmp_path: Path) -> None:
    out = tmp_path / "topk.json"
    assert topk_run.finished_rows(out, results()) == []
    out.write_text(json.dumps(results()))
    assert len(topk_run.finished_rows(out, results())) == 2
    with pytest.raises(BenchmarkError, match="other versions"):
        topk_run.finished_rows(out, {**results(), "cpu": "another"})
    out.write_text("{")
    with pytest.raises(BenchmarkError, match="damaged"):
        topk_run.finished_rows(out, results())
    assert out.read_text() == "{"


@pytest.mark.parametrize("name", ["nonsense", "uniform", "uniform-5", "star-x", "uniform-5-2-3-4"])
def test_a_graph_that_is_not_there(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert topk.main(["--graphs", name, "--out", str(tmp_path / "out.json")]) == 2
    assert repr(name) in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_data_sets_need_a_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert topk.main(["--graphs", "ENZYMES", "--out", str(tmp_path / "out.json")]) == 2
    assert "--root" in capsys.readouterr().err
    assert topk.main(["--graphs", "star-3", "--out", str(tmp_path / "out.txt")]) == 2
    assert ".json" in capsys.readouterr().err


def test_dense_is_the_formula_graph_by_graph() -> None:
    from torch_geometric.data import Data

    graphs = [Data(edge_index=topk_graphs.star(n), num_nodes=n + 1) for n in (2, 4)]
    values, index, _ = topk_methods.dense(Problem(graphs[0].edge_index, 8, graphs), 4)
    assert values.shape == index.shape == (8, 4)
    assert np.allclose(values[0], [1, 0, 0, 0])
    assert (index[0] >= -1).all()

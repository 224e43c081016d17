"""Data sets by name, their splits and their batches."""

import json
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_matrix
from torch_geometric.data import Data
from torch_geometric.utils import to_networkx

from harness.command import BenchmarkError
from harness.data import twins
from harness.data.generated import generate, islands
from harness.data.inputs import TrainingBatches, laplacian_encodings, set_structural_features
from harness.data.load import load
from harness.data.motifs import PAIRS, generate_motifs
from harness.data.similar import set_similar_nodes
from harness.data.splits import make_splits, read_splits, seeded_splits
from harness.run import GENERATED, Run
from helpers.tu_files import write_tu
from torch_geometric_simpool import topk_similarity

RUNS = Path(__file__).parents[2] / "benchmark" / "results" / "runs.parquet"


def user_graphs() -> list[Data]:
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    return [Data(edge_index=edge_index, num_nodes=3, y=torch.tensor([i % 2])) for i in range(8)]


@pytest.mark.parametrize("name", GENERATED)
def test_generated_graphs_depend_on_the_seed_alone(name: str) -> None:
    data, again, other = (load(name, "", False, None, seed) for seed in (0, 0, 1))
    assert data.describe() == again.describe() != other.describe()
    runs = pd.read_parquet(RUNS, columns=["dataset", "data"])
    stored = {row.data["checksum"] for row in runs.itertuples() if row.dataset == name}
    assert stored == {data.describe()["checksum"]}
    counts = np.bincount(data.labels)
    assert len(counts) == data.num_classes
    assert counts.max() - counts.min() <= 1
    assert all(graph.is_undirected() for graph in data.graphs[:5])


def test_marks_of_a_ring_give_the_class_of_motifs() -> None:
    for graph in generate_motifs(30):
        marks = graph.x[:, :4].argmax(dim=1)
        marked = (graph.x[:, 4] == 0).nonzero().view(-1)
        adj = torch.zeros(graph.num_nodes, graph.num_nodes)
        adj[graph.edge_index[0], graph.edge_index[1]] = 1
        near = torch.matrix_power(adj + torch.eye(len(adj)), 7)[marked][:, marked] > 0
        pairs = {
            tuple(sorted((int(marks[a]), int(marks[b]))))
            for i, a in enumerate(marked)
            for j, b in enumerate(marked)
            if i < j and near[i, j]
        }
        assert set(PAIRS[int(graph.y)]) <= pairs


def test_islands_are_components_of_red_nodes() -> None:
    assert {int(graph.y) for graph in generate(islands, 6)} == {0, 1}
    assert all(int(graph.x[:, 1].sum()) == 24 for graph in generate(islands, 6))


@pytest.mark.parametrize("name", twins.NUM_CLASSES)
def test_color_refinement_is_at_chance_on_twins(name: str) -> None:
    """Similar nodes are not at chance: the labels of similar pairs differ between the classes."""
    colors = set()
    by_class: dict[int, list[float]] = {0: [], 1: []}
    for data in twins.generate_twins(name, 40):
        graph = to_networkx(data, to_undirected=True)
        nx.set_node_attributes(graph, dict(enumerate(data.x.argmax(dim=1).tolist())), "color")
        colors.add(nx.weisfeiler_lehman_graph_hash(graph, node_attr="color", iterations=6))
        values, index = topk_similarity(data.edge_index, 1, loop=False)
        alike = (data.x == data.x[index[:, 0]]).all(dim=1).float() * (values[:, 0] > 0.7)
        if int(data.y) in by_class:
            by_class[int(data.y)].append(float(alike.mean()))
    assert len(colors) == 1
    if name == "twin-colors":
        assert min(by_class[0]) > max(by_class[1])


def similar(method: str, control: str = "cosine") -> Data:
    graph = Data(edge_index=torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]]), num_nodes=4)
    graphs = [graph.clone(), graph.clone()]
    set_similar_nodes(Run("x", "narrow", method=method, k=1, similar=control).filled(), graphs)
    one, other = (graph.to_dict() for graph in graphs)
    assert all(torch.equal(one[key], other[key]) for key in one.keys() - {"num_nodes"})
    return graphs[1]


def test_similar_nodes_and_their_controls() -> None:
    """In a star, all leaves are similar to each other, and no node is similar to the center."""
    data = similar("similarity-set")
    leaves = (data.similar_index > 0).all(dim=0)
    assert int(leaves.sum()) == 6
    assert data.similar_attr[leaves].tolist() == [[0, 1]] * 6
    assert data.similar_attr[~leaves].tolist() == [[1, 0]] * 6
    for control in ("constant", "shuffled", "counts"):
        assert torch.equal(similar("similarity-set", control).similar_attr, data.similar_attr)
    data = similar("similarity-set", "neighbors")
    leaves = (data.similar_index > 0).all(dim=0)
    assert data.similar_attr[~leaves].tolist() == [[1, 1]] * 6
    assert data.similar_attr[leaves].tolist() == [[0, 0]] * 6
    data = similar("similarity-edges", "constant")
    assert data.similar_attr[:, 1].tolist() == [1] * 12
    assert similar("similarity-edges", "neighbors").similar_index.tolist()[0] == [0, 0, 0, 1, 2, 3]
    data = similar("simmatch")
    assert data.match0_index.tolist() == [0, 1, 1, 3]
    assert data.coarse0_weight.tolist() == [[1.0]] * 4
    assert similar("simmatch", "neighbors").match0_index.tolist() == [0, 0, 2, 3]


def test_shuffled_similarities_stay_with_their_node() -> None:
    graph = twins.generate_twins("twins", 1)[0]
    run = Run("twins", "narrow", method="similarity-set", k=8).filled()
    cosine, shuffled = ([graph.clone()] for _ in range(2))
    set_similar_nodes(run, cosine)
    set_similar_nodes(replace(run, similar="shuffled"), shuffled)
    one, other = cosine[0].similar_attr, shuffled[0].similar_attr
    assert not torch.equal(one, other)
    for node in range(24):
        rows = cosine[0].similar_index[1] == node
        assert torch.equal(one[rows].sort(dim=0)[0], other[rows].sort(dim=0)[0])


def test_gcb(tmp_path: Path) -> None:
    (tmp_path / "gcb").mkdir()
    path = tmp_path / "gcb" / "hard_small.npz"
    parts = {}
    for part, count in (("tr", 2), ("val", 1), ("te", 1)):
        x, adj = np.empty(count, dtype=object), np.empty(count, dtype=object)
        for i in range(count):
            x[i], adj[i] = np.eye(5, dtype="float32")[:2], csr_matrix(1 - np.eye(2))
        labels = np.eye(3, dtype="float32")[:count]
        parts |= {f"{part}_feat": x, f"{part}_adj": adj, f"{part}_class": labels}
    np.savez(path, **parts)
    data = load("gcb-hard", str(tmp_path), False, "labels", 0)
    assert (len(data.graphs), data.graphs[0].num_edges, data.graphs[0].num_features) == (4, 2, 5)
    assert data.labels.tolist() == [0, 1, 0, 0]
    assert data.split is not None
    assert data.split["test"].tolist() == [3]
    parts["tr_adj"][0] = Path("anything")
    np.savez(path, **parts)
    with pytest.raises(BenchmarkError, match="an object pathlib"):
        load("gcb-hard", str(tmp_path), False, "labels", 0)
    with pytest.raises(BenchmarkError, match="easy_small"):
        load("gcb-easy", str(tmp_path), False, "labels", 0)


def test_a_tu_data_set(tmp_path: Path) -> None:
    write_tu(tmp_path)
    data = load("TINY", str(tmp_path), False, None, 0)
    assert (data.node_features, data.num_attributes, data.graphs[0].num_features) == (
        "labels+attributes",
        2,
        4,
    )
    train = np.arange(6)
    x = torch.cat([data.prepared(train)[i].x for i in train])[:, :2]
    torch.testing.assert_close(x.mean(dim=0), torch.zeros(2), atol=1e-4, rtol=0)
    torch.testing.assert_close(x.std(dim=0, correction=0), torch.ones(2))
    labels = load("TINY", str(tmp_path), False, "labels", 0).prepared(train)
    assert labels[0].x.tolist() == [0, 1, 0, 1, 0]


def test_edges_in_one_direction_are_no_damage(tmp_path: Path) -> None:
    """Some data sets of the collection, such as Fingerprint, have edges in one direction."""
    raw = write_tu(tmp_path, attributes=False)
    edges = (raw / "TINY_A.txt").read_text().splitlines()
    one_way = [e for e in edges if int(e.split(", ")[0]) < int(e.split(", ")[1])]
    (raw / "TINY_A.txt").write_text("\n".join(one_way) + "\n")
    data = load("TINY", str(tmp_path), False, None, 0)
    assert sum(graph.num_edges for graph in data.graphs) == len(one_way)


@pytest.mark.parametrize(
    ("name", "features"),
    [
        ("PLAIN", "labels+attributes"),
        ("no_such_module_of_mine:graphs", None),
        ("test.benchmark.no_module:user_graphs", None),
    ],
)
def test_wrong_data_is_named(tmp_path: Path, name: str, features: str | None) -> None:
    write_tu(tmp_path, "PLAIN", attributes=False)
    with pytest.raises(BenchmarkError, match="--"):
        load(name, str(tmp_path), False, features, 0)


def test_files_that_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.data.load.TUDataset.download", lambda self: 1 / 0)
    with pytest.raises(BenchmarkError, match="--dataset OTHER"):
        load("OTHER", str(tmp_path), False, None, 0)


def test_graphs_of_a_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_own_graphs.py").write_text(
        "import torch\nfrom torch_geometric.data import Data\n"
        "e = torch.tensor([[0, 1], [1, 0]])\n"
        "graphs = [Data(edge_index=e, num_nodes=2, y=torch.tensor([i % 2])) for i in range(8)]\n"
    )
    data = load("my_own_graphs:graphs", "", False, None, 0)
    assert (len(data.graphs), data.num_classes, data.graphs[0].num_features) == (8, 2, 1)


def test_splits() -> None:
    data = load("communities", "", False, None, 0)
    folds = make_splits(data.labels, 10, 0)
    assert sorted(i for _, fold in folds for i in fold) == list(range(400))
    for fold in seeded_splits(data.labels, 10, 0):
        assert sorted(np.concatenate(list(fold.values()))) == list(range(400))
    with pytest.raises(BenchmarkError, match="--folds"):
        make_splits(data.labels, 201, 0)


def test_published_splits(tmp_path: Path) -> None:
    path = tmp_path / "TINY_splits.json"

    def write(*folds: tuple[list[int], list[int], list[int]]) -> None:
        entries = [
            {"test": test, "model_selection": [{"train": train, "validation": validation}]}
            for train, validation, test in folds
        ]
        path.write_text(json.dumps(entries))

    write(([0], [1], [2, 3]), ([2], [3], [0, 1]))
    assert read_splits(tmp_path, "TINY", 4, 2)[1]["test"].tolist() == [0, 1]
    for wrong in (
        [([0], [1], [2, 3])],  # a fold is missing
        [([0], [1], [2, 3]), ([2], [3], [0, 4])],  # no such graph
        [([0], [1], [2, 3]), ([0], [1], [2, 3])],  # tested twice
        [([0], [0], [2, 3]), ([2], [3], [0, 1])],  # in two parts
    ):
        write(*wrong)
        with pytest.raises(BenchmarkError, match="--splits"):
            read_splits(path, "TINY", 4, 2)
    path.write_text("[1]")
    with pytest.raises(BenchmarkError, match="--splits"):
        read_splits(path, "TINY", 4, 2)


def test_random_numbers_leave_the_multiset_of_similarities() -> None:
    graphs = user_graphs()
    run = Run("x", "motifs", k=2, alpha=0.0, order="random-epoch").filled()
    set_structural_features(run, graphs)
    batches = TrainingBatches(replace(run, batch_size=4), graphs, 0)
    first, second = ([batch.sim for batch in batches] for _ in range(2))
    assert [s.shape for s in first] == [s.shape for s in second]
    assert not all(torch.equal(a, b) for a, b in zip(first, second))


def test_signs_of_encodings_are_drawn_for_each_graph() -> None:
    graphs = generate(islands, 6)
    for graph, encodings in zip(graphs, laplacian_encodings(graphs, 0)):
        graph.sim = encodings
    for number, graph in enumerate(graphs):
        graph.number = torch.tensor([number])
    run = Run("islands", "motifs", features="laplacian", batch_size=6).filled()
    batches = TrainingBatches(run, graphs, 0)
    (one,), (other,) = list(batches), list(batches)
    assert not torch.equal(one.sim, other.sim)
    signs = []
    for flipped in one.to_data_list():
        plain = graphs[int(flipped.number)].sim
        signs.append((flipped.sim * plain).sum(dim=0).sign())
        torch.testing.assert_close(flipped.sim, plain * signs[-1])
    assert len(torch.stack(signs).unique(dim=0)) > 1

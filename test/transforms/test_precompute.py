"""`precompute` gives the features of the transform called graph by graph."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch_geometric.transforms as T
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData

from helpers.data_sets import InMemory, assert_same_as_one_by_one, graphs_of_all_flavors
from helpers.graphs import FLAVORS, draw
from torch_geometric_simpool import StructuralSimilarity
from torch_geometric_simpool.transforms.precompute import precompute

SETTINGS: list[dict[str, Any]] = [
    {"k": 4},
    {"k": 9, "p": 2, "lam": 0.5, "alpha": 0.8, "measure": "jaccard"},
    {"k": 3, "loop": False, "min_similarity": 0.4, "max_degree": 3, "attr": "features"},
    {"k": 4, "weight_attr": None, "backend": "torch"},
]


def in_chunks(transform: StructuralSimilarity, dataset: Any, chunk_edges: int) -> list[Data]:
    return precompute(transform, dataset, False, chunk_edges)


@pytest.mark.parametrize("chunk_edges", [1, 20, 60, 10**6])
@pytest.mark.parametrize("settings", SETTINGS)
def test_is_the_transform_graph_by_graph(settings: dict[str, Any], chunk_edges: int) -> None:
    """Bit for bit, for weighted, unweighted, edgeless, empty and single-node graphs together."""
    transform, graphs = StructuralSimilarity(**settings), graphs_of_all_flavors()
    assert_same_as_one_by_one(transform, graphs, in_chunks(transform, graphs, chunk_edges))


@pytest.mark.parametrize("flavor", FLAVORS)
def test_graphs_of_one_kind(flavor: str) -> None:
    transform = StructuralSimilarity(5, lam=0.3)
    graphs = [draw(flavor, seed).data() for seed in range(4)]
    assert_same_as_one_by_one(transform, graphs, transform.precompute(graphs, progress=False))


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.long]
)
def test_weights_of_any_type(dtype: torch.dtype) -> None:
    """Also together with graphs of other types and without weights."""
    transform = StructuralSimilarity(5)
    graphs = [draw("directed", seed).data() for seed in range(4)]
    for data in graphs:
        weight = torch.randint(1, 99, (data.num_edges,))
        data.edge_weight = weight.to(dtype)
    assert_same_as_one_by_one(transform, graphs, transform.precompute(graphs, progress=False))
    others = [draw("undirected", 0).data(), draw("dyadic", 0).data()]
    others[1].edge_weight = others[1].edge_weight.double()
    graphs = [others[0], *graphs, others[1]]
    assert_same_as_one_by_one(transform, graphs, transform.precompute(graphs, progress=False))


def test_weights_together_keep_their_precision() -> None:
    """Beside float32: float64 out of its range, and integers that it rounds to a tie."""
    plain = draw("dyadic", 0).data()
    double = plain.clone()
    double.edge_weight = plain.edge_weight.double() * 1e-60
    large = Data(edge_index=torch.tensor([[0, 0, 1, 1, 2, 2], [3, 4, 3, 4, 3, 4]]), num_nodes=5)
    a, b = 2**24, 2**24 + 1
    large.edge_weight = torch.tensor([b, a, a, b, b, a])
    transform = StructuralSimilarity(3)
    for graphs in ([plain, double], [plain, large]):
        assert_same_as_one_by_one(transform, graphs, transform.precompute(graphs, progress=False))


@pytest.mark.parametrize("size", [1e-120, 1e120])
def test_extreme_weights_do_not_make_those_of_other_graphs_vanish(size: float) -> None:
    path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    graphs = [
        Data(edge_index=path, num_nodes=4),
        Data(edge_index=path, num_nodes=4, edge_weight=size * torch.ones(6, dtype=torch.float64)),
    ]
    transform = StructuralSimilarity(3, p=3)
    assert_same_as_one_by_one(transform, graphs, transform.precompute(graphs, progress=False))


def test_weights_in_a_column() -> None:
    data = draw("dyadic", 0).data()
    data.edge_weight = data.edge_weight.unsqueeze(1)
    transform = StructuralSimilarity(4)
    assert_same_as_one_by_one(transform, [data], transform.precompute([data], progress=False))


def test_all_kinds_of_objects_in_a_list() -> None:
    """Objects that cannot share a call are computed alone, and keep their position."""
    plain = [draw("undirected", seed).data() for seed in range(3)]
    batch = Batch.from_data_list(plain)
    numbered = draw("directed", 1).data()
    numbered.batch = torch.zeros(numbered.num_nodes, dtype=torch.long)
    graphs = [
        plain[0],
        T.ToSparseTensor(layout=torch.sparse_csr)(copy.copy(plain[1])),
        plain[1],
        T.ToDense(12)(copy.copy(plain[2])),
        batch,
        numbered,
        plain[2],
        plain[2],
    ]
    transform = StructuralSimilarity(4)
    for chunk_edges in (1, 10**6):
        done = in_chunks(transform, graphs, chunk_edges)
        assert_same_as_one_by_one(transform, graphs, done)
        assert [type(data) for data in done] == [type(data) for data in graphs]


def test_nothing_in_the_input_is_changed_or_shared() -> None:
    graphs = graphs_of_all_flavors()
    before = [copy.deepcopy(data.to_dict()) for data in graphs]
    done = StructuralSimilarity(4).precompute(graphs, progress=False)
    for data, out, old in zip(graphs, done, before):
        assert out is not data
        assert "sim" not in data
        assert set(data.keys()) == set(old)
        for key, value in old.items():
            assert not isinstance(value, Tensor) or torch.equal(data[key], value)
        # Each has its own memory, and no more than it needs.
        assert out.sim.untyped_storage().nbytes() == out.sim.numel() * 4
        assert out.sim.is_contiguous()
    places = [data.sim.data_ptr() for data in done if data.sim.numel() > 0]
    assert len(set(places)) == len(places)


def test_features_that_are_there_are_replaced() -> None:
    data = draw("path", 1).data(sim=torch.zeros(1))
    done = StructuralSimilarity(4).precompute([data], progress=False)
    assert done[0].sim.shape == (data.num_nodes, 4)
    assert data.sim.shape == (1,)


def test_nothing_is_nothing() -> None:
    assert StructuralSimilarity(4).precompute([], progress=False) == []


def test_any_iterable() -> None:
    graphs = [draw("path", seed).data() for seed in range(3)]

    def one_by_one() -> Iterator[Data]:
        yield from graphs

    transform = StructuralSimilarity(4)
    for dataset in (tuple(graphs), one_by_one()):
        done = transform.precompute(dataset, progress=False)
        assert isinstance(done, list)
        assert_same_as_one_by_one(transform, graphs, done)


# ------------------------------------------------------------------ data sets


def test_a_data_set_stays_one() -> None:
    graphs = [draw("undirected", seed).data(y=torch.tensor([seed])) for seed in range(6)]
    dataset = InMemory(graphs)
    transform = StructuralSimilarity(4)
    done = transform.precompute(dataset, progress=False)
    assert type(done) is InMemory
    assert_same_as_one_by_one(transform, graphs, done)
    assert [data.y.item() for data in done[2:4]] == [2, 3]
    assert "sim" not in dataset[0]
    assert "sim" not in dataset._data


@pytest.mark.parametrize("chosen", [[4, 1], [5], [2, 2, 0]])
def test_a_part_of_a_data_set(chosen: list[int]) -> None:
    graphs = [draw("directed", seed).data(y=torch.tensor([seed])) for seed in range(6)]
    dataset = InMemory(graphs)
    transform = StructuralSimilarity(4)
    done = transform.precompute(dataset[chosen], progress=False)
    assert_same_as_one_by_one(transform, [graphs[i] for i in chosen], done)
    assert len(dataset) == 6


def test_no_part_of_a_data_set() -> None:
    dataset = InMemory([draw("directed", seed).data() for seed in range(3)])
    done = StructuralSimilarity(4).precompute(dataset[[]], progress=False)
    assert len(done) == 0


def test_a_data_set_of_one_graph() -> None:
    graphs = [draw("directed", 1).data()]
    transform = StructuralSimilarity(4)
    done = transform.precompute(InMemory(graphs), progress=False)
    assert_same_as_one_by_one(transform, graphs, done)


def test_a_transform_of_the_data_set_goes_on_to_be_applied() -> None:
    """Once, after the features are computed."""
    seen = []

    def note(data: Data) -> Data:
        seen.append("sim" in data)
        data = copy.copy(data)
        data.noted = torch.tensor([1])
        return data

    graphs = [draw("directed", seed).data() for seed in range(3)]
    dataset = InMemory(graphs, transform=note)
    done = StructuralSimilarity(4).precompute(dataset, progress=False)
    assert seen == []
    assert "noted" not in done._data
    assert done[1].noted.tolist() == [1]
    assert done[1].sim.shape == (graphs[1].num_nodes, 4)
    assert seen == [True, True]
    assert done.transform is dataset.transform is note


# ------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edge_index": torch.tensor([[0, 9], [9, 0]])}, "`edge_index` .* 9"),
        ({"edge_index": torch.tensor([[0, -1], [1, 0]])}, "`edge_index` .* -1"),
        ({"edge_index": torch.ones(3, 2).long()}, r"`edge_index` .*\[3, 2\]"),
        ({"edge_index": torch.ones(2, 2)}, "`edge_index` .*float32"),
        ({"edge_weight": torch.ones(3)}, r"`edge_weight` .*\[3\]"),
        ({"edge_weight": torch.tensor([1.0, float("nan")])}, "`edge_weight` .*NaN"),
        ({"edge_weight": 3.0}, "`edge_weight` .*float"),
        ({"edge_index": None}, "`data` must have"),
    ],
)
@pytest.mark.parametrize("chunk_edges", [1, 10**6])
def test_an_error_names_the_graph(change: dict[str, Any], message: str, chunk_edges: int) -> None:
    graphs = [
        Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2, edge_weight=torch.ones(2))
        for _ in range(5)
    ]
    for key, value in change.items():
        graphs[3][key] = value
    with pytest.raises((TypeError, ValueError), match=message) as info:
        in_chunks(StructuralSimilarity(2), graphs, chunk_edges)
    assert "graph 3 of `dataset`" in str(info.value)
    assert all("sim" not in data for data in graphs)


@pytest.mark.parametrize("wrong", [None, 3, torch.ones(2, 2), HeteroData()])
def test_what_is_no_graph_is_named(wrong: Any) -> None:
    graphs = [draw("path", 0).data(), draw("path", 1).data(), wrong]
    with pytest.raises(TypeError, match="graph 2 of `dataset`") as info:
        StructuralSimilarity(2).precompute(graphs, progress=False)
    assert type(wrong).__name__ in str(info.value)


def test_a_graph_of_unknown_size_is_named() -> None:
    class Unknown(Data):
        """As a data object without edges and features, in some versions of PyG."""

        num_nodes = None

    graphs = [draw("path", 0).data(), Unknown(edge_index=torch.zeros(2, 0, dtype=torch.long))]
    with pytest.raises(ValueError, match=r"graph 1 of `dataset`.*num_nodes"):
        StructuralSimilarity(2).precompute(graphs, progress=False)


def test_an_error_leaves_a_data_set_as_it_is() -> None:
    graphs = [draw("path", seed).data() for seed in range(3)]
    graphs[1].edge_index = graphs[1].edge_index + 100
    dataset = InMemory(graphs)
    with pytest.raises(ValueError, match="graph 1 of `dataset`"):
        StructuralSimilarity(2).precompute(dataset, progress=False)
    assert "sim" not in dataset._data


def test_a_budget_that_is_enough_for_each_graph_is_enough_for_all() -> None:
    """Graphs are computed together only as far as the budget allows."""
    # The tables of a thread are there for a single graph as well.
    for backend, budget in (("numba", 1_250_000), ("torch", 200_000)):
        graphs = [draw("undirected", seed).data() for seed in range(200)]
        transform = StructuralSimilarity(4, memory_budget=budget, backend=backend)
        alone = [transform(data).sim for data in graphs]
        done = transform.precompute(graphs, progress=False)
        assert all(torch.equal(out.sim, sim) for out, sim in zip(done, alone))


# ------------------------------------------------------------------ progress


def test_the_progress_bar(capsys: pytest.CaptureFixture) -> None:
    graphs = [draw("path", seed).data() for seed in range(3)]
    StructuralSimilarity(2).precompute(graphs)
    said = capsys.readouterr()
    assert said.out == ""
    assert "StructuralSimilarity: 100%" in said.err
    assert "3/3" in said.err


def test_no_progress_bar(capsys: pytest.CaptureFixture) -> None:
    StructuralSimilarity(2).precompute([draw("path", 0).data()], progress=False)
    said = capsys.readouterr()
    assert said.out == said.err == ""

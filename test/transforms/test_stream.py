"""`stream` yields the graphs of a data set with the features of the transform, chunk by chunk."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.utils.data
import torch_geometric.transforms as T
from torch_geometric.data import Batch, Data, HeteroData

from helpers.data_sets import InMemory, assert_same_as_one_by_one, graphs_of_all_flavors
from helpers.graphs import draw
from torch_geometric_simpool import StructuralSimilarity
from torch_geometric_simpool.transforms import stream as module

TRANSFORM = StructuralSimilarity(4)


@pytest.mark.parametrize("chunk_bytes", [1, 20_000, 10**9])
def test_is_the_transform_graph_by_graph(chunk_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", chunk_bytes)
    graphs = graphs_of_all_flavors()
    assert_same_as_one_by_one(TRANSFORM, graphs, TRANSFORM.stream(graphs, progress=False))


def test_all_kinds_of_objects() -> None:
    plain = [draw("undirected", seed).data() for seed in range(3)]
    graphs = [
        plain[0],
        T.ToSparseTensor(layout=torch.sparse_csr)(copy.copy(plain[1])),
        T.ToDense(12)(copy.copy(plain[2])),
        Batch.from_data_list(plain),
        plain[1],
    ]
    done = list(TRANSFORM.stream(graphs, progress=False))
    assert_same_as_one_by_one(TRANSFORM, graphs, done)
    assert [type(data) for data in done] == [type(data) for data in graphs]


@pytest.mark.parametrize(
    "kind", ["list", "tuple", "generator", "loader", "subset", "in memory", "positions"]
)
def test_any_data_set(kind: str) -> None:
    graphs = graphs_of_all_flavors()[:9]

    class Positions(torch.utils.data.Dataset):
        """Has no loop of its own, and no end but its length."""

        def __len__(self) -> int:
            return len(graphs)

        def __getitem__(self, i: int) -> Data:
            return dict(enumerate(graphs))[i]

    class Endless(torch.utils.data.IterableDataset):
        """A loader of it has a length, which raises."""

        def __iter__(self) -> Iterator[Data]:
            return iter(graphs)

    dataset = {
        "list": graphs,
        "tuple": tuple(graphs),
        "generator": (data for data in graphs),
        "loader": torch.utils.data.DataLoader(Endless(), batch_size=None),
        "subset": torch.utils.data.Subset([None, *graphs], range(1, 10)),  # type: ignore[arg-type]
        "in memory": InMemory([data for data in graphs if data.edge_weight is None]),
        "positions": Positions(),
    }[kind]
    if kind == "in memory":
        graphs = [data for data in graphs if data.edge_weight is None]
    assert_same_as_one_by_one(TRANSFORM, graphs, TRANSFORM.stream(dataset, progress=False))


def test_nothing() -> None:
    assert list(TRANSFORM.stream([], progress=False)) == []


def test_a_transform_of_the_data_set_is_applied_first() -> None:
    """As in a loop over the data set."""
    dataset = InMemory([draw("directed", seed).data() for seed in range(3)], T.ToUndirected())
    done = list(TRANSFORM.stream(dataset, progress=False))
    assert_same_as_one_by_one(TRANSFORM, [dataset[i] for i in range(3)], done)


def test_graphs_are_read_as_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk ahead, of graphs without edges and tensors as well."""
    read = 0

    def graphs() -> Iterator[Data]:
        nonlocal read
        while True:
            read += 1
            yield Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=1)

    monkeypatch.setattr(module, "CHUNK_BYTES", 3 * module.OBJECT_BYTES + 1)
    endless = TRANSFORM.stream(graphs(), progress=False)
    assert read == 0
    for number in range(1, 10):
        next(endless)
        assert read == -(-number // 3) * 3


@pytest.mark.parametrize("many", ["tensors", "features"])
def test_a_chunk_has_a_size(many: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what the graphs take, and of the features to come."""
    sizes = []
    add_features = module.add_features

    def note(transform: StructuralSimilarity, graphs: list, *rest: Any, **more: Any) -> list:
        sizes.append(len(graphs))
        return add_features(transform, graphs, *rest, **more)

    monkeypatch.setattr(module, "add_features", note)
    monkeypatch.setattr(module, "CHUNK_BYTES", 10**6)
    graphs = [draw("path", 0).data() for _ in range(12)]
    transform = StructuralSimilarity(4)
    if many == "tensors":
        for data in graphs:
            data.image = torch.zeros(10**5)
        graphs[3].image = graphs[3].image.to_sparse()
        list(transform.stream(graphs, progress=False))
        assert sizes == [3, 3, 3, 3]
    else:
        list(StructuralSimilarity(10**5).stream(graphs[:3], progress=False))
        assert sizes == [1, 1, 1]


def test_entries_of_a_sparse_tensor_count() -> None:
    torch_sparse = pytest.importorskip("torch_sparse")
    index = torch.arange(10**4)
    adj_t = torch_sparse.SparseTensor(row=index, col=index, sparse_sizes=(10**4, 10**4))
    assert module._size(StructuralSimilarity(1), Data(adj_t=adj_t, num_nodes=1)) > 10**5


@pytest.mark.parametrize("wrong", [None, 3, torch.ones(2, 2), HeteroData(), Data(edge_index=3.0)])
def test_an_error_names_the_graph(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its number in the data set, and after the chunks before it."""
    monkeypatch.setattr(module, "CHUNK_BYTES", 1)
    graphs = [draw("path", 0).data(), draw("path", 1).data(), wrong]
    found = TRANSFORM.stream(graphs, progress=False)
    next(found), next(found)
    with pytest.raises((TypeError, ValueError), match="graph 2 of `dataset`"):
        next(found)


@pytest.mark.parametrize("dataset", [None, 3, "ENZYMES", Data(), HeteroData()])
def test_what_is_no_data_set_is_refused_at_once(dataset: Any) -> None:
    with pytest.raises(TypeError, match=f"`dataset` .*got {type(dataset).__name__}"):
        TRANSFORM.stream(dataset)
    with pytest.raises(TypeError, match="`progress`"):
        TRANSFORM.stream([], progress=1)  # type: ignore[arg-type]


def test_the_progress_bar(capsys: pytest.CaptureFixture) -> None:
    graphs = [draw("path", seed).data() for seed in range(3)]
    list(TRANSFORM.stream(graphs))
    said = capsys.readouterr()
    assert said.out == ""
    assert "StructuralSimilarity: 100%" in said.err
    assert "3/3" in said.err
    list(TRANSFORM.stream(iter(graphs)))
    assert "3it" in capsys.readouterr().err

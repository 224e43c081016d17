"""`precompute` gives the features of the transform called graph by graph."""

import copy
from typing import Any

import pytest
import torch
import torch_geometric.transforms as T
from torch_geometric.data import Batch, Data, HeteroData

from helpers.data_sets import InMemory, assert_same_as_one_by_one, graphs_of_all_flavors
from helpers.graphs import draw
from torch_geometric_simpool import StructuralSimilarity
from torch_geometric_simpool.transforms import structural_similarity


@pytest.mark.parametrize("chunk_edges", [1, 40, 10**6])
@pytest.mark.parametrize(
    "settings",
    [
        {"k": 4},
        {"k": 9, "p": 2, "lam": 0.5, "alpha": 0.8, "measure": "jaccard", "order": "fiedler"},
        {"k": 3, "loop": False, "min_similarity": 0.4, "max_degree": 3, "attr": "features"},
        {"k": 4, "weight_attr": None, "backend": "torch", "order": None},
    ],
)
def test_is_the_transform_graph_by_graph(
    settings: dict[str, Any], chunk_edges: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bits are equal for weighted, unweighted, edgeless, empty and single-node graphs."""
    monkeypatch.setattr(structural_similarity, "CHUNK_EDGES", chunk_edges)
    transform, graphs = StructuralSimilarity(**settings), graphs_of_all_flavors()
    before = [copy.deepcopy(data.to_dict()) for data in graphs]
    done = transform.precompute(graphs, progress=False)
    assert_same_as_one_by_one(transform, graphs, done)
    for data, out, old in zip(graphs, done, before, strict=True):
        assert out is not data
        assert data.to_dict().keys() == old.keys()
        storage = out[transform.attr].untyped_storage()
        assert storage.size() == out[transform.attr].numel() * 4  # no view of the whole chunk


def test_weights_of_any_type_and_size() -> None:
    graphs = [draw("directed", seed).data() for seed in range(9)]
    dtypes = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.long)
    for data, dtype in zip(graphs, dtypes):
        data.edge_weight = torch.randint(1, 99, (data.num_edges, 1)).to(dtype)
    for data, scale in zip(graphs[5:], (1e-120, 1e120, 1.0)):
        data.edge_weight = scale * torch.ones(data.num_edges, dtype=torch.float64)
    transform = StructuralSimilarity(5, p=3)
    assert_same_as_one_by_one(transform, graphs, transform.precompute(graphs, progress=False))


def test_all_kinds_of_objects_in_a_list() -> None:
    plain = [draw("undirected", seed).data() for seed in range(3)]
    shuffled = Batch.from_data_list(plain)
    shuffled.batch = shuffled.batch.flip(0)
    shuffled.edge_index = shuffled.num_nodes - 1 - shuffled.edge_index
    graphs = [
        plain[0],
        T.ToSparseTensor(layout=torch.sparse_csr)(copy.copy(plain[1])),
        T.ToDense(12)(copy.copy(plain[2])),
        Batch.from_data_list(plain),
        shuffled,
        plain[2],
    ]
    transform = StructuralSimilarity(4)
    done = transform.precompute((data for data in graphs), progress=False)
    assert_same_as_one_by_one(transform, graphs, done)
    assert transform.precompute([], progress=False) == []


def test_a_data_set_in_memory() -> None:
    """A data set keeps its class and its `transform`. Features are of the stored graphs."""
    graphs = [draw("undirected", seed).data() for seed in range(5)]
    dataset = InMemory(graphs, transform=T.ToUndirected())
    transform = StructuralSimilarity(4)
    for part in (dataset, dataset[torch.tensor([3, 1])]):
        result = transform.precompute(part, progress=False)
        assert type(result) is InMemory
        assert result.transform is dataset.transform
        assert "sim" not in part[0]
        assert_same_as_one_by_one(transform, list(part), list(result))
    assert len(transform.precompute(dataset[:0], progress=False)) == 0


def test_a_data_set_that_is_padded_afterwards_is_refused() -> None:
    for pads in (T.ToDense(12), T.Compose([T.Constant(), T.Compose([T.ToDense(12)])])):
        dataset = InMemory([draw("undirected", 0).data()], transform=pads)
        with pytest.raises(ValueError, match="ToDense"):
            StructuralSimilarity(4).precompute(dataset, progress=False)


def test_errors_name_the_graph() -> None:
    right = draw("undirected", 0).data()
    wrong = right.clone()
    wrong.edge_weight = torch.ones(1)
    transform = StructuralSimilarity(4)
    for bad in (wrong, HeteroData(), 3, Data()):
        with pytest.raises((TypeError, ValueError), match="graph 1 of `dataset`: `"):
            transform.precompute([right, bad], progress=False)
    with pytest.raises(ValueError, match="`memory_budget`"):
        StructuralSimilarity(4, memory_budget=1).precompute([right, right], progress=False)
    for dataset in (right, "graphs", None, 3):
        with pytest.raises(TypeError, match="`dataset`"):
            transform.precompute(dataset, progress=False)
    with pytest.raises(TypeError, match="`progress`"):
        transform.precompute([right], progress=1)  # type: ignore[arg-type]

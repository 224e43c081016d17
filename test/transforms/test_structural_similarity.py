"""The transform: equal features for all forms of a graph in PyG, batched or not."""

import copy
import inspect
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch_geometric.transforms as T
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset
from torch_geometric.loader import DataLoader, DenseDataLoader
from torch_geometric.utils import from_networkx

from helpers import oracle
from helpers.graphs import FLAVORS, draw, draw_all
from torch_geometric_simpool import StructuralSimilarity, map_indices, topk_similarity
from torch_geometric_simpool.transforms import structural_similarity

SIMPLE = [f for f in FLAVORS if not f.startswith("parallel") and f != "single"]


def path_of_three(**attributes: Any) -> Data:
    return Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3, **attributes)


def unweighted(seed: int) -> list[Data]:
    return [graph.data() for graph in draw_all(seed) if graph.weights is None]


# ------------------------------------------------------------------ what it computes


@pytest.mark.parametrize("flavor", FLAVORS)
def test_equals_the_oracle(flavor: str) -> None:
    for seed, (k, p, lam, alpha) in enumerate(((3, 1, 0.0, 1.0), (12, 2, 0.5, 0.8))):
        graph = draw(flavor, seed)
        sim = StructuralSimilarity(k, p, lam, alpha, order=None)(graph.data()).sim
        naive = oracle.mapped(graph.exact_adj, k, p, lam, alpha)
        expected = torch.tensor(naive, dtype=torch.float32).view(graph.num_nodes, k)
        torch.testing.assert_close(sim, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("flavor", FLAVORS)
def test_is_the_two_functions_one_after_the_other(flavor: str) -> None:
    graph = draw(flavor, 3)
    settings: dict[str, Any] = {"p": 2, "lam": 0.3, "measure": "jaccard", "loop": False}
    transform = StructuralSimilarity(4, alpha=0.5, order=None, attr="features", **settings)
    out = transform(graph.data())
    weight, n = graph.edge_weight(torch.float32), graph.num_nodes
    values, index = topk_similarity(graph.edge_index, 4, weight, n, **settings)
    assert torch.equal(out.features, map_indices(values, index, n, 0.5))
    assert "sim" not in out


@pytest.mark.parametrize("order", ["bfs", None])
def test_large_graphs_are_computed_in_blocks_of_rows(
    order: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    transform = StructuralSimilarity(3, order=order, p=2)
    batch = Batch.from_data_list(unweighted(2))
    expected = transform(batch).sim
    for places in (1, 10, 90):
        monkeypatch.setattr(structural_similarity, "BLOCK_PLACES", places)
        assert torch.equal(transform(batch).sim, expected)


def test_gradients_of_weights() -> None:
    data = draw("dyadic", 3).data()
    weight = data.edge_weight.double().requires_grad_()
    data.edge_weight = weight
    sim = StructuralSimilarity(3)(data).sim
    expected = StructuralSimilarity(3, order=None)(data)
    assert sim.requires_grad
    sim.sum().backward()
    assert weight.grad is not None
    assert weight.grad.abs().sum() > 0
    assert expected.sim.dtype == torch.float32


def test_type_is_float32_whatever_the_default() -> None:
    try:
        torch.set_default_dtype(torch.float64)
        for data in (path_of_three(), path_of_three(edge_weight=torch.ones(4))):
            assert StructuralSimilarity(2)(data).sim.dtype == torch.float32
            assert StructuralSimilarity(2)(T.ToDense(5)(data)).sim.dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


# ------------------------------------------------------------------ what it reads


def test_without_edges_without_anything_and_isolated_nodes() -> None:
    no_edges = torch.zeros(2, 0, dtype=torch.long)
    for n in (0, 1, 4):
        sim = StructuralSimilarity(3)(Data(edge_index=no_edges, num_nodes=n)).sim
        assert sim.shape == (n, 3)
        assert not sim.any()
    data = path_of_three()
    data.num_nodes = 9
    sim = StructuralSimilarity(2, order=None)(data).sim
    assert not sim[3:].any()
    torch.testing.assert_close(sim[0], torch.tensor([2 / 10, 4 / 10]))


@pytest.mark.parametrize("flavor", SIMPLE)
def test_all_forms_of_edges(flavor: str) -> None:
    graph = draw(flavor, 4)
    data, n = graph.data(), graph.num_nodes
    for transform in (
        StructuralSimilarity(4, p=2, lam=0.5),
        StructuralSimilarity(3, weight_attr=None),
    ):
        expected = transform(data).sim
        for layout in (torch.sparse_csr, torch.sparse_coo):
            sparse = T.ToSparseTensor(layout=layout)(copy.copy(data))
            assert "edge_index" not in sparse
            assert torch.equal(transform(sparse).sim, expected)
        padded = copy.copy(data)
        padded.edge_attr = padded.pop("edge_weight", None)  # ToDense reads the weights there
        dense = transform(T.ToDense(25)(padded))
        assert torch.equal(dense.sim[:n], expected)
        assert dense.sim.shape == (25, transform.k)
        assert not dense.sim[n:].any()


def test_adj_t_of_torch_sparse() -> None:
    pytest.importorskip("torch_sparse")
    data, transform = draw("dyadic", 4).data(), StructuralSimilarity(4, p=2, lam=0.5)
    sparse = T.ToSparseTensor()(copy.copy(data))
    batch = Batch.from_data_list([sparse, sparse])
    assert torch.equal(transform(batch).sim, transform(data).sim.repeat(2, 1))


def test_adj_t_with_entries_that_repeat_is_left_as_it_is() -> None:
    indices = torch.tensor([[0, 0, 0, 1, 2], [1, 1, 2, 0, 0]])
    adj_t = torch.sparse_coo_tensor(indices, torch.ones(5), (3, 3))
    sim = StructuralSimilarity(3)(Data(adj_t=adj_t, num_nodes=3)).sim
    plain = StructuralSimilarity(3)(Data(edge_index=indices.flip(0), num_nodes=3)).sim
    assert torch.equal(sim, plain)
    assert not adj_t.is_coalesced()


def test_edge_features_are_no_weights() -> None:
    plain = StructuralSimilarity(2)(path_of_three()).sim
    data = path_of_three(edge_attr=torch.rand(4, 3) + 0.1)
    assert torch.equal(StructuralSimilarity(2)(data).sim, plain)
    dense = T.ToDense(4)(data)
    assert dense.adj.shape == (4, 4, 3)
    assert torch.equal(StructuralSimilarity(2)(dense).sim[:3], plain)


def test_names_of_weights() -> None:
    data = draw("dyadic", 3).data()
    transform, weight = StructuralSimilarity(3), data.edge_weight
    plain = Data(edge_index=data.edge_index, num_nodes=data.num_nodes)
    weighted, without = transform(data).sim, transform(plain).sim
    assert not torch.equal(weighted, without)

    def of(transform: StructuralSimilarity, **attributes: Tensor) -> Tensor:
        return transform(Data(**plain.to_dict(), **attributes)).sim

    named = StructuralSimilarity(3, weight_attr="length")
    assert torch.equal(of(transform, edge_weight=weight.unsqueeze(1)), weighted)
    assert torch.equal(of(transform, weight=weight), weighted)
    assert torch.equal(of(transform, weight=weight.unsqueeze(1)), weighted)
    assert torch.equal(of(transform, weight=weight + 1, edge_weight=weight), weighted)
    assert torch.equal(of(named, length=weight, edge_weight=weight + 1), weighted)
    assert torch.equal(of(StructuralSimilarity(3, weight_attr=None), weight=weight), without)
    for other in (torch.tensor(2.0), torch.ones(1), weight[:3]):  # not one for each edge
        assert torch.equal(of(transform, weight=other), without)
    with pytest.raises(ValueError, match=r"`weight_attr`.*'length'"):
        of(named, edge_weight=weight)


def test_weights_of_networkx() -> None:
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph()
    graph.add_weighted_edges_from([(0, 1, 2.0), (1, 2, 3.0), (0, 2, 1.0), (2, 3, 5.0)])
    data = from_networkx(graph)
    renamed = Data(edge_index=data.edge_index, edge_weight=data.weight, num_nodes=4)
    sim = StructuralSimilarity(3)(data).sim
    assert torch.equal(sim, StructuralSimilarity(3)(renamed).sim)
    assert not torch.equal(sim, StructuralSimilarity(3, weight_attr=None)(data).sim)


# ------------------------------------------------------------------ batches


@pytest.mark.parametrize("order", ["bfs", "fiedler", None])
def test_a_batch_is_each_graph_alone(order: str | None) -> None:
    graphs, transform = unweighted(5), StructuralSimilarity(5, 2, 0.5, 0.8, order)
    alone = [transform(data).sim for data in graphs]
    batch = Batch.from_data_list(graphs)
    assert torch.equal(transform(batch).sim, torch.cat(alone))
    # Nodes are mixed, so that `batch` is not sorted, but nodes of a graph keep their order.
    chosen = batch.batch[torch.randperm(batch.num_nodes)]
    position = torch.empty_like(chosen)
    position[batch.batch.argsort(stable=True)] = chosen.argsort(stable=True)
    shuffled = Data(edge_index=position[batch.edge_index], batch=chosen, num_nodes=batch.num_nodes)
    assert torch.equal(transform(shuffled).sim[position], torch.cat(alone))
    assert torch.equal(shuffled.batch, chosen)


def test_data_loaders() -> None:
    transform, graphs = StructuralSimilarity(4, lam=0.5), unweighted(8)
    done = [transform(data) for data in graphs]
    (batch,) = DataLoader(done, batch_size=len(done))
    assert torch.equal(batch.sim, torch.cat([data.sim for data in done]))
    assert all(torch.equal(a.sim, b.sim) for a, b in zip(done, batch.to_data_list(), strict=True))

    padded = [transform(T.ToDense(25)(copy.copy(data))) for data in graphs]
    (batch,) = DenseDataLoader(padded, batch_size=len(padded))
    assert torch.equal(batch.sim[batch.mask], torch.cat([data.sim for data in done]))
    assert torch.equal(transform(batch).sim, batch.sim)


def test_a_mask_with_holes() -> None:
    """Nodes between padding are numbered in their order, and padding (NaN) is not read."""
    graph = draw("signed_directed", 2)
    n = graph.num_nodes
    place = torch.randperm(2 * n)[:n].sort().values
    mask = torch.zeros(2 * n, dtype=torch.bool)
    mask[place] = True
    adj = torch.full((2 * n, 2 * n), torch.nan)
    adj[place.unsqueeze(1), place] = graph.adj(torch.float32)
    transform = StructuralSimilarity(4, p=2, lam=0.5)
    sim = transform(Data(adj=adj, mask=mask)).sim
    assert torch.equal(sim[mask], transform(graph.data()).sim)
    assert not sim[~mask].any()
    without = transform(Data(adj=graph.adj(torch.float32))).sim
    assert torch.equal(without, sim[mask])


# ------------------------------------------------------------------ a transform of PyG


class FewGraphs(InMemoryDataset):
    """A user's data set, which applies `pre_transform` once and saves the result."""

    def __init__(self, root: str, pre_transform: Any = None) -> None:
        super().__init__(root, pre_transform=pre_transform)
        self.load(self.processed_paths[0])

    @property
    def processed_file_names(self) -> str:
        return "data.pt"

    def process(self) -> None:
        assert self.pre_transform is not None
        graphs = [self.pre_transform(data) for data in unweighted(9)]
        self.save(graphs, self.processed_paths[0])


def test_pre_transform_is_saved_and_compared(tmp_path: Path) -> None:
    for _ in range(2):
        dataset = FewGraphs(str(tmp_path), StructuralSimilarity(4, p=2))
    for data, graph in zip(dataset, unweighted(9), strict=True):
        assert torch.equal(data.sim, StructuralSimilarity(4, p=2)(graph).sim)
    with pytest.warns(UserWarning, match="pre_transform"):
        FewGraphs(str(tmp_path), StructuralSimilarity(4, alpha=0.8, p=2))


def test_repr_names_every_parameter() -> None:
    other: dict[str, Any] = {
        "k": np.int64(7),
        "p": np.int64(3),
        "lam": 0.25,
        "alpha": 0.5,
        "order": "rcm",
        "attr": "features",
        "weight_attr": None,
        "device": "cpu",
        "measure": "jaccard",
        "loop": False,
        "min_similarity": 0.25,
        "max_degree": 9,
        "memory_budget": 123,
        "force": True,
        "backend": "torch",
    }
    names = [*inspect.signature(StructuralSimilarity).parameters]
    assert list(other)[: len(names) - 1] == names[:-1]
    plain = repr(StructuralSimilarity())
    for name, value in other.items():
        changed = repr(StructuralSimilarity(**{name: value}))
        assert f"{name}={value!r}".replace("np.int64(7)", "7").replace("np.int64(3)", "3") in (
            changed
        )
        assert changed != plain
        again = eval(changed, {"StructuralSimilarity": StructuralSimilarity})
        assert repr(again) == changed
        assert repr(pickle.loads(pickle.dumps(again))) == changed


def test_the_object_that_goes_in_is_not_changed() -> None:
    for data in (
        path_of_three(x=torch.randn(3, 2), sim=torch.zeros(3, 1)),
        T.ToSparseTensor(layout=torch.sparse_csr)(path_of_three()),
        Batch.from_data_list([path_of_three(), path_of_three()]),
    ):
        before = str(data.to_dict())
        out = T.Compose([StructuralSimilarity(2, device=torch.device("cpu"))])(data)
        assert out is not data
        assert out.sim.size(-1) == 2
        assert str(data.to_dict()) == before


# ------------------------------------------------------------------ what it refuses


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("attr", attr) for attr in ("sim_index", "face", "batch", "adj", "x", "a b", "", 3)),
        ("attr", "edge_weight"),
        ("k", 0),
        ("alpha", 1.5),
        ("order", "degree"),
        ("weight_attr", 3),
        ("device", "abacus"),
        ("p", 0),
        ("unknown", 1),
    ],
)
def test_wrong_parameters(name: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=name):
        StructuralSimilarity(**{name: value})


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"edge_index": torch.tensor([[0, -1], [1, 0]])}, "edge_index"),
        ({"edge_index": torch.tensor([[0, 3], [1, 0]])}, "edge_index"),
        ({"edge_index": torch.tensor([[0.0], [1.0]])}, "edge_index"),
        ({"edge_index": torch.tensor([0, 1])}, "edge_index"),
        ({"edge_weight": torch.tensor([1, 1, 1, torch.nan])}, "edge_weight"),
        ({"edge_weight": torch.ones(3)}, "edge_weight"),
        ({"edge_index": None}, "edge_index"),
        ({"edge_index": None, "adj": torch.ones(3, 2)}, "adj"),
        ({"edge_index": None, "adj": torch.ones(3, 3), "mask": torch.ones(2) > 0}, "mask"),
        ({"edge_index": None, "adj": torch.ones(3, 3), "mask": torch.ones(3)}, "mask"),
        ({"edge_index": None, "adj": torch.eye(3).to_sparse()}, "adj"),
        ({"edge_index": None, "adj": torch.full((3, 3), torch.nan)}, "adj"),
        ({"edge_index": None, "adj_t": torch.full((3, 3), torch.inf).to_sparse_csr()}, "adj_t"),
        ({"edge_index": None, "adj_t": torch.ones(3, 2).to_sparse_csr()}, "adj_t"),
        ({"edge_index": None, "adj_t": torch.ones(3, 3)}, "adj_t"),
        ({"batch": torch.tensor([0, 0, 1])}, "edge_index"),  # an edge joins two graphs
        ({"batch": torch.tensor([1, 0, 0])}, "edge_index"),
        ({"batch": torch.tensor([0, 0])}, "batch"),
        ({"batch": torch.tensor([-1, -1, -1])}, "batch"),
    ],
)
def test_on_an_error_nothing_is_written(changes: dict[str, Any], name: str) -> None:
    data = path_of_three()
    for attribute, value in changes.items():
        data[attribute] = value
    before = str(data.to_dict())
    transform = StructuralSimilarity(2)
    with pytest.raises((TypeError, ValueError), match=f"`{name}`"):
        transform(data)
    assert str(data.to_dict()) == before
    with pytest.raises(TypeError, match=r"`data`.*HeteroData"):
        transform(HeteroData())


def test_an_edge_of_weight_zero_is_no_edge() -> None:
    edge_index = torch.tensor([[0, 1, 1, 2, 0, 2], [1, 0, 2, 1, 2, 0]])
    weight = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    weighted = Data(edge_index=edge_index, edge_weight=weight, num_nodes=3)
    without = Data(edge_index=edge_index[:, :4], num_nodes=3)
    transform = StructuralSimilarity(3)
    assert torch.equal(transform(weighted).sim, transform(without).sim)

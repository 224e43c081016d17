"""The transform: the same features for all forms of a graph in PyG, batched or not."""

import copy
import inspect
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch_geometric.transforms as T
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset
from torch_geometric.loader import DataLoader, DenseDataLoader

from helpers import oracle
from helpers.graphs import FLAVORS, Graph, draw, draw_all
from helpers.pretend import needs_gpu
from torch_geometric_simpool import (
    AddSimilarityEdges,
    StructuralSimilarity,
    map_indices,
    topk_similarity,
)

SIMPLE = [f for f in FLAVORS if not f.startswith("parallel") and f != "single"]


def path_of_three(**attributes: Any) -> Data:
    return Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3, **attributes)


def snapshot(data: Data) -> dict[str, Any]:
    return {k: v.clone() if isinstance(v, Tensor) else v for k, v in data.to_dict().items()}


def assert_unchanged(data: Data, before: dict[str, Any]) -> None:
    after = data.to_dict()
    assert after.keys() == before.keys()
    for key, value in before.items():
        if isinstance(value, Tensor):
            assert after[key].layout == value.layout
            torch.testing.assert_close(
                after[key].to_dense(), value.to_dense(), rtol=0, atol=0, equal_nan=True
            )
        else:
            assert after[key] is value


# ------------------------------------------------------------------ what it computes


@pytest.mark.parametrize("flavor", FLAVORS)
def test_equals_the_oracle(flavor: str) -> None:
    for seed in range(2):
        graph = draw(flavor, seed)
        for k, p, lam, alpha in ((3, 1, 0.0, 1.0), (12, 2, 0.5, 0.8)):
            sim = StructuralSimilarity(k, p, lam, alpha)(graph.data()).sim
            naive = oracle.mapped(graph.exact_adj, k, p, lam, alpha)
            expected = torch.tensor(naive, dtype=torch.float32).view(graph.num_nodes, k)
            torch.testing.assert_close(sim, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("flavor", FLAVORS)
def test_is_the_two_functions_one_after_the_other(flavor: str) -> None:
    graph = draw(flavor, 3)
    settings: dict[str, Any] = {"p": 2, "lam": 0.3, "measure": "jaccard", "loop": False}
    out = StructuralSimilarity(4, alpha=0.5, attr="features", **settings)(graph.data())
    values, index = topk_similarity(
        graph.edge_index, 4, graph.edge_weight(torch.float32), graph.num_nodes, **settings
    )
    assert torch.equal(out.features, map_indices(values, index, graph.num_nodes, 0.5))
    assert "sim" not in out


def test_type_and_shape_whatever_the_default() -> None:
    """`[N, k]`, float32, also for other default types and types of weights."""
    dense = T.ToDense(5)(path_of_three())
    try:
        torch.set_default_dtype(torch.float64)
        for data in (path_of_three(), path_of_three(edge_weight=torch.ones(4)), dense):
            sim = StructuralSimilarity(2)(data).sim
            assert sim.dtype == torch.float32
            assert sim.size(-1) == 2
    finally:
        torch.set_default_dtype(torch.float32)


def test_the_object_that_goes_in_is_not_changed() -> None:
    for data in (
        path_of_three(x=torch.randn(3, 2), sim=torch.zeros(3, 1)),
        T.ToSparseTensor(layout=torch.sparse_csr)(path_of_three()),
        T.ToDense(5)(path_of_three()),
        Batch.from_data_list([path_of_three(), path_of_three()]),
    ):
        before = snapshot(data)
        out = StructuralSimilarity(2)(data)
        assert out is not data
        assert out.sim.size(-1) == 2
        assert_unchanged(data, before)
        if isinstance(data, Batch):
            assert all("sim" not in graph for graph in data.to_data_list())


# ------------------------------------------------------------------ what it reads


def test_without_features_without_edges_without_anything() -> None:
    k = 3
    for data, num_nodes in [
        (Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=4), 4),
        (Data(x=torch.randn(2, 1), edge_index=torch.zeros(2, 0, dtype=torch.long)), 2),
        (Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=0), 0),
    ]:
        sim = StructuralSimilarity(k)(data).sim
        assert sim.shape == (num_nodes, k)
        assert (sim == 0).all()


def test_isolated_nodes_count_as_nodes() -> None:
    """Their features are zero, and they count in the numbering and in `n`."""
    data = path_of_three()
    data.num_nodes = 9
    sim = StructuralSimilarity(2)(data).sim
    assert sim.shape == (9, 2)
    assert (sim[3:] == 0).all()
    torch.testing.assert_close(sim[0], torch.tensor([2 / 10, 4 / 10]))


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo])
@pytest.mark.parametrize("flavor", SIMPLE)
def test_adj_t_of_torch(flavor: str, layout: torch.layout) -> None:
    data = draw(flavor, 4).data()
    transform = StructuralSimilarity(4, p=2, lam=0.5)
    sparse = T.ToSparseTensor(layout=layout)(copy.copy(data))
    assert "edge_index" not in sparse
    assert torch.equal(transform(sparse).sim, transform(data).sim)


@pytest.mark.parametrize("flavor", SIMPLE)
def test_adj_t_of_torch_sparse(flavor: str) -> None:
    torch_sparse = pytest.importorskip("torch_sparse")
    data = draw(flavor, 4).data()
    transform = StructuralSimilarity(4, p=2, lam=0.5)
    sparse = T.ToSparseTensor()(copy.copy(data))
    assert isinstance(sparse.adj_t, torch_sparse.SparseTensor)
    assert torch.equal(transform(sparse).sim, transform(data).sim)
    batch = Batch.from_data_list([sparse, sparse])
    assert torch.equal(transform(batch).sim, transform(data).sim.repeat(2, 1))


def test_adj_t_with_entries_that_repeat_is_left_as_it_is() -> None:
    """Repeated entries are parallel edges, and the tensor is not marked as coalesced."""
    indices = torch.tensor([[0, 0, 0, 1, 2], [1, 1, 2, 0, 0]])
    adj_t = torch.sparse_coo_tensor(indices, torch.ones(5), (3, 3))
    data = Data(adj_t=adj_t, num_nodes=3)
    sim = StructuralSimilarity(3)(data).sim
    plain = StructuralSimilarity(3)(Data(edge_index=indices.flip(0), num_nodes=3)).sim
    assert torch.equal(sim, plain)
    assert not adj_t.is_coalesced()


def test_adj_t_with_a_column_of_weights() -> None:
    """`[E, 1]`, which only a COO tensor can hold; `[E, 2]` is no weight."""
    data = draw("dyadic", 3).data()
    transform, plain = StructuralSimilarity(3), StructuralSimilarity(3, weight_attr=None)
    column = copy.copy(data)
    column.edge_weight = data.edge_weight.unsqueeze(1)
    column = T.ToSparseTensor(layout=torch.sparse_coo)(column)
    assert column.adj_t.values().dim() == 2
    assert torch.equal(transform(column).sim, transform(data).sim)
    several = copy.copy(data)
    several.edge_weight = data.edge_weight.unsqueeze(1).repeat(1, 2)
    several = T.ToSparseTensor(layout=torch.sparse_coo)(several)
    assert torch.equal(transform(several).sim, plain(data).sim)


def test_edge_index_goes_before_adj_t() -> None:
    data = T.ToSparseTensor(layout=torch.sparse_csr)(
        Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=3)
    )
    data.edge_index = path_of_three().edge_index
    assert torch.equal(
        StructuralSimilarity(2)(data).sim, StructuralSimilarity(2)(path_of_three()).sim
    )


def test_weights_are_used_where_they_are_and_wanted() -> None:
    data = draw("dyadic", 3).data()
    plain = Data(edge_index=data.edge_index, num_nodes=data.num_nodes)
    transform = StructuralSimilarity(3)
    weighted = transform(data).sim
    assert not torch.equal(weighted, transform(plain).sim)

    column = copy.copy(data)
    column.edge_weight = data.edge_weight.unsqueeze(1)
    assert torch.equal(transform(column).sim, weighted)

    elsewhere = copy.copy(plain)
    elsewhere.length = data.edge_weight
    assert torch.equal(transform(elsewhere).sim, transform(plain).sim)
    assert torch.equal(StructuralSimilarity(3, weight_attr="length")(elsewhere).sim, weighted)

    ignored = StructuralSimilarity(3, weight_attr=None)
    for layout in (None, torch.sparse_csr):
        given = data if layout is None else T.ToSparseTensor(layout=layout)(copy.copy(data))
        assert torch.equal(ignored(given).sim, transform(plain).sim)
        assert torch.equal(transform(given).sim, weighted)


def test_several_features_per_edge_are_no_weight() -> None:
    data = path_of_three(edge_attr=torch.randn(4, 3))
    assert torch.equal(
        StructuralSimilarity(2)(data).sim, StructuralSimilarity(2)(path_of_three()).sim
    )


# ------------------------------------------------------------------ batches


def test_a_batch_is_each_graph_alone() -> None:
    graphs = [graph.data() for graph in draw_all(5) if graph.weights is None]
    transform = StructuralSimilarity(5, p=2, lam=0.5, alpha=0.8)
    together = transform(Batch.from_data_list(graphs)).sim
    assert torch.equal(together, torch.cat([transform(data).sim for data in graphs]))


def test_data_loader_collates_and_separates() -> None:
    transform = StructuralSimilarity(5, lam=0.5)
    graphs = [transform(graph.data()) for graph in draw_all(6) if graph.weights is None]
    for data in graphs:
        data.x = torch.randn(data.num_nodes, 2)
    (batch,) = DataLoader(graphs, batch_size=len(graphs))
    assert torch.equal(batch.sim, torch.cat([data.sim for data in graphs]))
    for data, back in zip(graphs, batch.to_data_list(), strict=True):
        assert torch.equal(data.sim, back.sim)
    # And the features of a loaded batch are those of its graphs.
    assert torch.equal(transform(batch).sim, batch.sim)


def test_a_batch_that_was_transformed_separates() -> None:
    """Also if its graphs did not have the attribute."""
    transform = StructuralSimilarity(5, lam=0.5)
    graphs = [graph.data() for graph in draw_all(6) if graph.weights is None]
    batch = transform(Batch.from_data_list(graphs))
    for data, back in zip(graphs, batch.to_data_list(), strict=True):
        assert torch.equal(back.sim, transform(data).sim)
    for b in (0, len(graphs) - 1):
        assert torch.equal(batch[b].sim, transform(graphs[b]).sim)


def test_data_loader_with_a_worker(tmp_path: Path) -> None:
    transform = StructuralSimilarity(4)
    dataset = FewGraphs(str(tmp_path), transform=transform)
    (batch,) = DataLoader(dataset, batch_size=len(dataset), num_workers=1)
    alone = [transform(graph.data()).sim for graph in FewGraphs.graphs]
    assert torch.equal(batch.sim, torch.cat(alone))


@pytest.mark.parametrize("flavor", FLAVORS)
def test_after_to_dense(flavor: str) -> None:
    """The same rows, padded with zeros."""
    graph = draw(flavor, 7)
    data = graph.data()
    if graph.weights is not None:
        data.edge_attr = data.edge_weight  # where ToDense looks for it
    transform = StructuralSimilarity(4, p=2, lam=0.5)
    dense = transform(T.ToDense(15)(copy.copy(data)))
    assert dense.sim.shape == (15, 4)
    assert dense.sim.dtype == torch.float32
    assert torch.equal(dense.sim[: graph.num_nodes], transform(data).sim)
    assert (dense.sim[graph.num_nodes :] == 0).all()


def test_dense_data_loader() -> None:
    """Applied before batching, graph by graph, and after it, on `[B, N, N]`."""
    transform, size = StructuralSimilarity(4, lam=0.5), 16
    graphs = [graph.data() for graph in draw_all(8) if graph.weights is None]
    dense = [transform(T.ToDense(size)(copy.copy(data))) for data in graphs]
    (batch,) = DenseDataLoader(dense, batch_size=len(dense))
    assert batch.sim.shape == (len(graphs), size, 4)
    again = transform(batch)
    assert torch.equal(again.sim, batch.sim)
    for data, sim, mask in zip(graphs, batch.sim, batch.mask, strict=True):
        assert torch.equal(sim[mask], transform(data).sim)
        assert (sim[~mask] == 0).all()


def test_several_features_per_edge_after_to_dense() -> None:
    """Of `[N, N, D]`, only non-zero or not counts."""
    data = draw("directed", 2).data()
    plain = StructuralSimilarity(3)(data).sim
    data.edge_attr = torch.rand(data.num_edges, 3) + 0.1
    dense = T.ToDense(12)(data)
    assert dense.adj.shape == (12, 12, 3)
    assert torch.equal(StructuralSimilarity(3)(dense).sim[dense.mask], plain)
    (batch,) = DenseDataLoader([dense, dense], batch_size=2)
    assert torch.equal(StructuralSimilarity(3)(batch).sim[1][dense.mask], plain)


def test_weights_of_a_dense_matrix_can_be_ignored() -> None:
    graph = draw("dyadic", 3)
    dense = Data(adj=graph.adj(torch.float32))
    plain = StructuralSimilarity(3)(Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes))
    assert torch.equal(StructuralSimilarity(3, weight_attr=None)(dense).sim, plain.sim)
    assert torch.equal(
        StructuralSimilarity(3)(dense).sim, StructuralSimilarity(3)(graph.data()).sim
    )


def test_an_arbitrary_mask() -> None:
    """Real nodes at any positions are numbered in their order; padding (NaN) is not read."""
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
    assert (sim[~mask] == 0).all()


def test_without_a_mask_all_nodes_are_real() -> None:
    graph = draw("undirected", 1)
    transform = StructuralSimilarity(4)
    dense = transform(Data(adj=graph.adj(torch.float32)))
    assert torch.equal(dense.sim, transform(graph.data()).sim)


# ------------------------------------------------------------------ data sets


class FewGraphs(InMemoryDataset):
    """A data set as a user writes it: `pre_transform` is applied once, and its result saved."""

    graphs: tuple[Graph, ...] = tuple(draw(f, 9) for f in ("undirected", "isolated", "edgeless"))

    def __init__(self, root: str, transform: Any = None, pre_transform: Any = None) -> None:
        super().__init__(root, transform, pre_transform)
        self.load(self.processed_paths[0])

    @property
    def processed_file_names(self) -> str:
        """One file."""
        return "data.pt"

    def process(self) -> None:
        """Applies the `pre_transform`."""
        data_list = [graph.data() for graph in self.graphs]
        if self.pre_transform is not None:
            data_list = [self.pre_transform(data) for data in data_list]
        self.save(data_list, self.processed_paths[0])


def test_pre_transform_is_saved_and_loaded(tmp_path: Path) -> None:
    transform = StructuralSimilarity(4, p=2)
    FewGraphs(str(tmp_path), pre_transform=transform)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = FewGraphs(str(tmp_path), pre_transform=StructuralSimilarity(4, p=2))
    for data, graph in zip(again, FewGraphs.graphs, strict=True):
        assert torch.equal(data.sim, transform(graph.data()).sim)
    (batch,) = DataLoader(again, batch_size=3)
    assert batch.sim.shape == (batch.num_nodes, 4)


def test_another_parameter_is_another_pre_transform(tmp_path: Path) -> None:
    """PyG compares the `repr` with that of the stored results, and warns."""
    FewGraphs(str(tmp_path), pre_transform=StructuralSimilarity(4))
    with pytest.warns(UserWarning, match="pre_transform"):
        FewGraphs(str(tmp_path), pre_transform=StructuralSimilarity(4, alpha=0.8))


def test_repr_does_not_depend_on_the_type_of_an_integer() -> None:
    for transform in (StructuralSimilarity, AddSimilarityEdges):
        given: dict[str, Any] = {"k": 3, "p": 2, "max_degree": 5, "memory_budget": 99}
        numbers: dict[str, Any] = {name: np.int64(value) for name, value in given.items()}
        assert repr(transform(**numbers)) == repr(transform(**given))


def test_repr_names_every_parameter() -> None:
    other: dict[str, Any] = {
        "k": 7,
        "p": 3,
        "lam": 0.25,
        "alpha": 0.5,
        "measure": "jaccard",
        "loop": False,
        "attr": "features",
        "weight_attr": None,
        "device": "cpu",
        "min_similarity": 0.25,
        "max_degree": 9,
        "memory_budget": 123,
        "force": True,
        "backend": "torch",
        "order": "rcm",
        "order_attr": "x",
    }
    assert other.keys() == inspect.signature(StructuralSimilarity).parameters.keys()
    usual: dict[str, Any] = {"k": 4, "order": "bfs"}  # without which there is no `order_attr`
    plain = repr(StructuralSimilarity(**usual))
    for name, value in other.items():
        changed = repr(StructuralSimilarity(**{**usual, name: value}))
        assert f"{name}={value!r}" in changed
        assert changed != plain
        # It can be read back.
        assert repr(eval(changed, {"StructuralSimilarity": StructuralSimilarity})) == changed


def test_pickles() -> None:
    transform = StructuralSimilarity(4, p=2, device="cpu")
    back = pickle.loads(pickle.dumps(transform))
    assert repr(back) == repr(transform)
    assert torch.equal(back(path_of_three()).sim, transform(path_of_three()).sim)


def test_composes() -> None:
    data = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
    composed = T.Compose([T.ToUndirected(), StructuralSimilarity(2)])(data)
    assert torch.equal(composed.sim, StructuralSimilarity(2)(path_of_three()).sim)


def test_computing_elsewhere_brings_the_result_back() -> None:
    data = draw("dyadic", 1).data()
    there = StructuralSimilarity(3, device=torch.device("cpu"))(data).sim
    assert torch.equal(there, StructuralSimilarity(3)(data).sim)
    assert there.device == data.edge_index.device


@needs_gpu
def test_on_a_gpu() -> None:
    for graph in draw_all(1):
        here, data = StructuralSimilarity(4, p=2, lam=0.5), graph.data()
        sim = StructuralSimilarity(4, p=2, lam=0.5, device="cuda")(data).sim
        assert sim.device.type == "cpu"
        torch.testing.assert_close(sim, here(data).sim)
        dense = Data(adj=graph.adj(torch.float32)).cuda()
        assert here(dense).sim.device.type == "cuda"


# ------------------------------------------------------------------ what it refuses


@pytest.mark.parametrize(
    "attr", ["sim_index", "index", "face_sim", "batch", "ptr", "adj", "a b", "", 3]
)
def test_attribute_names_that_pyg_changes_when_it_batches(attr: Any) -> None:
    with pytest.raises(ValueError, match=r"`attr`.*got"):
        StructuralSimilarity(2, attr=attr)


def test_heterogeneous_data() -> None:
    with pytest.raises(TypeError, match=r"`data` must be .*Data, got HeteroData"):
        StructuralSimilarity(2)(HeteroData())


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is there")
def test_a_device_that_is_not_there() -> None:
    with pytest.raises(ValueError, match=r"`device` must be available, got 'cuda'"):
        StructuralSimilarity(2, device="cuda")


def test_a_device_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match=r"`device` must be available, got 'abacus'"):
        StructuralSimilarity(2, device="abacus")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"edge_index": torch.tensor([[0, -1], [1, 0]])}, ValueError, r"`edge_index`.*got -1"),
        ({"edge_index": torch.tensor([[0, 3], [1, 0]])}, ValueError, r"`edge_index`.*3.*got 3"),
        ({"edge_index": torch.tensor([[0.0], [1.0]])}, TypeError, r"`edge_index`.*float32"),
        ({"edge_index": torch.tensor([0, 1])}, ValueError, r"`edge_index`.*\[2, E\].*\[2\]"),
        ({"edge_weight": torch.tensor([1, 1, 1, torch.nan])}, ValueError, r"`edge_weight`.*1 NaN"),
        ({"edge_weight": torch.ones(3)}, ValueError, r"`edge_weight`.*\[4\].*\[3\]"),
        ({"edge_index": None}, ValueError, r"`data` must have `edge_index`.*got"),
        (
            {"edge_index": None, "adj": torch.ones(3, 2)},
            ValueError,
            r"`adj` must have shape \[\*, N, N\].*got",
        ),
        (
            {"edge_index": None, "adj": torch.ones(3, 3), "mask": torch.ones(2) > 0},
            ValueError,
            r"`mask` must have shape.*got",
        ),
        (
            {"edge_index": None, "adj": torch.ones(3, 3), "mask": torch.ones(3)},
            TypeError,
            r"`mask` must be of type torch.bool, got torch.float32",
        ),
        (
            {"edge_index": None, "adj": torch.eye(3).to_sparse()},
            (TypeError, ValueError),
            r"`adj`.*got",
        ),
        (
            {"edge_index": None, "adj": torch.full((3, 3), torch.nan)},
            ValueError,
            r"`adj` must be finite, got 9 NaN",
        ),
        (
            {"edge_index": None, "adj_t": torch.full((3, 3), torch.inf).to_sparse_csr()},
            ValueError,
            r"`adj_t` must be finite, got 9 NaN",
        ),
        (
            {"edge_index": None, "adj_t": torch.ones(3, 2).to_sparse_csr()},
            ValueError,
            r"`adj_t` must have shape \[3, 3\], got \[3, 2\]",
        ),
        (
            {"edge_index": None, "adj_t": torch.ones(3, 3)},
            TypeError,
            r"`adj_t` must be a sparse tensor.*got torch.strided",
        ),
        ({"batch": torch.tensor([1, 0, 0])}, ValueError, r"`batch` must be sorted.*got"),
        # Features of such nodes would name nodes of other graphs.
        ({"batch": torch.tensor([0, 0, 1])}, ValueError, r"`edge_index`.*one graph, got an edge"),
    ],
)
def test_on_an_error_nothing_is_written(changes: dict[str, Any], error: Any, message: str) -> None:
    data = path_of_three()
    for name, value in changes.items():
        data[name] = value
    before = snapshot(data)
    with pytest.raises(error, match=message):
        StructuralSimilarity(2)(data)
    assert_unchanged(data, before)
    assert "sim" not in data

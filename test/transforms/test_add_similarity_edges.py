"""The transform that adds edges: where they go, in all forms of a graph in PyG, batched or not."""

import copy
import inspect
import pickle
from typing import Any

import pytest
import torch
import torch_geometric.transforms as T
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData, TemporalData
from torch_geometric.loader import DataLoader

from helpers.graphs import FLAVORS, draw, draw_all
from torch_geometric_simpool import AddSimilarityEdges, similarity_graph

RATES = ("user", "rates", "item")
LAYOUTS = pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo])


def path_of_three(**attributes: Any) -> Data:
    return Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3, **attributes)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        if (one.layout, one.dtype, one.shape) != (other.layout, other.dtype, other.shape):
            return False
        one, other = one.to_dense(), other.to_dense()
        return bool(((one == other) | (one.isnan() & other.isnan())).all())
    return type(one) is type(other) and one == other


def assert_same(one: Any, other: Any) -> None:
    """The same attributes in the same stores, bit for bit."""
    assert type(one) is type(other)
    one, other = one.to_dict(), other.to_dict()
    for here, there in zip(*(flat(stores) for stores in (one, other)), strict=True):
        assert here[0] == there[0]
        assert same(here[1], there[1]), here[0]


def flat(stores: dict) -> list[tuple[Any, Any]]:
    """Sorted names and values; those of the stores of a `HeteroData` below their keys."""
    pairs = []
    for name, value in stores.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        pairs += [((str(name), key), item) for key, item in inner if key != "_global_store"]
    return sorted(pairs, key=lambda pair: pair[0])


def clone(data: Any) -> Any:
    return data.clone() if isinstance(data, (Data, HeteroData)) else copy.deepcopy(data)


# ------------------------------------------------------------------ added


@pytest.mark.parametrize("flavor", FLAVORS)
def test_edges_are_added_behind_the_present_ones(flavor: str) -> None:
    graph = draw(flavor, 3)
    settings: dict[str, Any] = {"p": 2, "lam": 0.5, "measure": "jaccard", "symmetrize": "union"}
    out = AddSimilarityEdges(3, **settings)(graph.data())
    weight = graph.edge_weight(torch.float32)
    new, similarity = similarity_graph(graph.edge_index, 3, weight, graph.num_nodes, **settings)
    assert torch.equal(out.edge_index, torch.cat([graph.edge_index, new], dim=1))
    present = torch.ones(len(graph.edges)) if weight is None else weight
    assert torch.equal(out.edge_weight, torch.cat([present, similarity]))
    assert out.num_nodes == graph.num_nodes


def test_all_settings_are_used() -> None:
    graph = draw("signed_directed", 5)
    for name, value in {
        "k": 1,
        "p": 2,
        "lam": 0.5,
        "measure": "jaccard",
        "loop": True,
        "flow": "target_to_source",
        "symmetrize": "mutual",
        "min_similarity": 0.4,
        "max_degree": 3,
    }.items():
        settings: dict[str, Any] = {"k": 3, name: value}
        out = AddSimilarityEdges(attr="own_index", **settings)(graph.data())
        weight = graph.edge_weight(torch.float32)
        call: dict[str, Any] = {**settings, "edge_weight": weight, "num_nodes": graph.num_nodes}
        expected = similarity_graph(graph.edge_index, **call)
        assert torch.equal(out.own_index, expected[0])
        assert torch.equal(out.own_weight, expected[1])
        usual = AddSimilarityEdges(3, attr="own_index")(graph.data())
        assert out.own_weight.tolist() != usual.own_weight.tolist() or not torch.equal(
            out.own_index, usual.own_index
        )
    with pytest.raises(ValueError, match="`memory_budget`"):
        AddSimilarityEdges(3, memory_budget=1)(graph.data())
    assert AddSimilarityEdges(3, memory_budget=1, force=True, backend="torch")(graph.data())


def test_what_there_is_of_each_edge_is_zero_for_new_ones() -> None:
    """As in PyG's `TwoHop`. Other attributes stay, whatever their size."""
    data = path_of_three(
        edge_attr=torch.arange(8.0).view(4, 2) + 1,
        edge_color=torch.tensor([1, 2, 3, 4]),
        edge_mask=torch.ones(4, dtype=torch.bool),
        edge_label=torch.ones(4),
        edge_label_index=torch.zeros(2, 4, dtype=torch.long),
        x=torch.ones(3, 2),
        y=torch.tensor([1]),
        own_index=torch.zeros(2, 4, dtype=torch.long),
        own_weight=torch.ones(4),
        name="path",
    )
    before = clone(data)
    out = AddSimilarityEdges(1)(data)
    assert_same(data, before)
    assert out.edge_index.tolist() == [[0, 1, 1, 2, 0, 2], [1, 0, 2, 1, 2, 0]]
    assert out.edge_weight.tolist() == [1] * 6
    assert out.edge_attr.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8], [0, 0], [0, 0]]
    assert out.edge_color.tolist() == [1, 2, 3, 4, 0, 0]
    assert out.edge_mask.tolist() == [True] * 4 + [False] * 2
    for name in (
        "edge_label",
        "edge_label_index",
        "x",
        "y",
        "own_index",
        "own_weight",
        "name",
    ):
        assert same(out[name], data[name])


def test_present_weights_stay() -> None:
    """The weights are those that `weight_attr` names, `[E]` or `[E, 1]`, of any real type."""
    for weight in (torch.tensor([2.0, 2, 3, 3]), torch.tensor([2, 2, 3, 3])):
        out = AddSimilarityEdges(1)(path_of_three(edge_weight=weight))
        assert out.edge_weight.tolist() == [2, 2, 3, 3, 1, 1]
        column = path_of_three(edge_attr=weight.view(4, 1))
        out = AddSimilarityEdges(1, weight_attr="edge_attr")(column)
        assert out.edge_attr.tolist() == [[2], [2], [3], [3], [1], [1]]
        assert "edge_weight" not in out
    # Ignored, and kept.
    skew = torch.tensor([1.0, 1, 9, 9])
    star = torch.tensor([[0, 1, 0, 2, 0, 3], [1, 0, 2, 0, 3, 0]])
    data = Data(edge_index=star, edge_weight=torch.cat([skew, skew[:2]]), num_nodes=4)
    out = AddSimilarityEdges(1, weight_attr=None)(data)
    assert out.edge_weight.tolist() == [1, 1, 9, 9, 1, 1, 1, 1, 1]


def test_an_edge_that_is_there_is_there_twice() -> None:
    """`RemoveDuplicatedEdges` of PyG merges the two, weights added up."""
    triangle = Data(edge_index=torch.tensor([[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]]))
    triangle.num_nodes = 3
    out = AddSimilarityEdges(1)(triangle)
    assert out.num_edges == 9
    assert not out.is_coalesced()
    merged = T.RemoveDuplicatedEdges()(out)
    assert merged.num_edges == 6
    assert merged.edge_weight.sum() == out.edge_weight.sum()


# ------------------------------------------------------------------ in place, and apart


@pytest.mark.parametrize("attributes", [{}, {"x": torch.ones(5, 1)}])
def test_edges_in_place_of_the_present_ones(attributes: dict[str, Tensor]) -> None:
    """Nodes without edges stay nodes."""
    data = Data(edge_index=torch.tensor([[0, 1, 4], [3, 3, 1]]), **attributes)
    data.edge_attr = torch.ones(3, 2)
    data.edge_weight = torch.tensor([[1.0], [1], [1]])
    out = AddSimilarityEdges(2, drop_orig_edges=True)(data)
    assert out.edge_index.tolist() == [[0, 1], [1, 0]]
    assert out.edge_weight.shape == (2, 1)
    assert "edge_attr" not in out
    assert out.num_nodes == data.num_nodes == 5
    assert ("num_nodes" in out) != bool(attributes)


def test_edges_in_an_attribute_of_their_own() -> None:
    data = path_of_three(edge_attr=torch.ones(4, 2))
    out = AddSimilarityEdges(1, attr="sim_index")(data)
    assert out.sim_index.tolist() == [[0, 2], [2, 0]]
    assert out.sim_weight.tolist() == [1, 1]
    assert torch.equal(out.edge_index, data.edge_index)
    assert torch.equal(out.edge_attr, data.edge_attr)
    assert "edge_weight" not in out
    assert out.num_edges == 4
    # PyG moves what has 'index' in its name when it batches.
    batch = Batch.from_data_list([out, out])
    assert batch.sim_index.tolist() == [[0, 2, 3, 5], [2, 0, 5, 3]]
    assert_same(batch.to_data_list()[1], out)


# ------------------------------------------------------------------ batches

WAYS: list[dict[str, Any]] = [
    {},
    {"drop_orig_edges": True},
    {"attr": "sim_index"},
    {"symmetrize": "union", "weight_attr": None},
]


def graphs_of_many_kinds(seed: int, **attributes: bool) -> list[Data]:
    graphs = []
    for graph in draw_all(seed):
        data = Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)
        if attributes.get("weighted"):
            weight = graph.edge_weight(torch.float32)
            data.edge_weight = torch.ones(len(graph.edges)) if weight is None else weight
        if attributes.get("featured"):
            data.edge_attr = torch.rand(len(graph.edges), 2)
            data.x = torch.rand(graph.num_nodes, 2)
            del data["num_nodes"]
        graphs.append(data)
    return graphs


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("attributes", [{}, {"weighted": True}, {"featured": True}])
def test_a_batch_is_its_graphs(attributes: dict[str, bool], way: dict[str, Any]) -> None:
    transform = AddSimilarityEdges(3, **way)
    graphs = graphs_of_many_kinds(1, **attributes)
    batch = Batch.from_data_list(graphs)
    before = clone(batch)
    out = transform(batch)
    assert_same(batch, before)
    alone = [transform(data) for data in graphs]
    for here, there in zip(out.to_data_list(), alone, strict=True):
        assert_same(here, there)
    assert_same(out, Batch.from_data_list(alone))
    for here, there in zip(batch.to_data_list(), graphs, strict=True):
        assert_same(here, there)


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_of_graphs_that_say_nothing_of_their_size(way: dict[str, Any]) -> None:
    """PyG takes it from the edges, which may go."""
    graphs = [
        Data(edge_index=torch.tensor([[0, 1, 4], [3, 3, 1]])),
        Data(edge_index=torch.tensor([[2, 0], [1, 1]])),
    ]
    transform = AddSimilarityEdges(2, **way)
    alone = [transform(data) for data in graphs]
    out = transform(Batch.from_data_list(graphs))
    for here, there in zip(out.to_data_list(), alone, strict=True):
        assert_same(here, there)
    assert [data.num_nodes for data in alone] == [5, 3]


@LAYOUTS
@pytest.mark.parametrize("way", WAYS)
def test_a_batch_of_adj_t(way: dict[str, Any], layout: torch.layout) -> None:
    to_sparse = T.ToSparseTensor(layout=layout)
    graphs = [to_sparse(draw(flavor, 2).data()) for flavor in ("dyadic", "signed", "directed")]
    transform = AddSimilarityEdges(2, **way)
    out = transform(Batch.from_data_list(graphs))
    alone = [transform(data) for data in graphs]
    for data in (out, *alone):
        assert ("adj_t" in data) == (way.get("attr") == "sim_index")
    for name in alone[0].keys():  # noqa: SIM118
        if name not in ("adj_t", "num_nodes"):
            assert torch.equal(out[name], Batch.from_data_list(alone)[name])


def test_follow_batch() -> None:
    graphs = graphs_of_many_kinds(4, featured=True)
    (batch,) = DataLoader(graphs, batch_size=len(graphs), follow_batch=["edge_index", "edge_attr"])
    out = AddSimilarityEdges(2)(batch)
    for name in ("edge_index", "edge_attr"):
        assert torch.equal(out[f"{name}_batch"], out.batch[out.edge_index[0]])
        assert torch.equal(
            out[f"{name}_ptr"].diff(), out[f"{name}_batch"].bincount(minlength=len(graphs))
        )
    dropped = AddSimilarityEdges(2, drop_orig_edges=True)(batch)
    assert torch.equal(dropped.edge_index_batch, dropped.batch[dropped.edge_index[0]])
    assert "edge_attr_batch" not in dropped


def test_large_integer_weights_stay_as_they_are() -> None:
    data = path_of_three()
    large = [2**24 + 1, 2**24 + 1, 3, 3]
    for weight, dtype in ((large, torch.float64), ([1, 2, 3, 4], torch.float32)):
        data.edge_weight = torch.tensor(weight)
        out = AddSimilarityEdges(1)(data).edge_weight
        assert out.dtype == dtype
        assert out[:4].tolist() == weight


def test_what_is_removed_need_not_fit_new_edges() -> None:
    data = path_of_three()
    data.edge_names, data.edge_attr = list("abcd"), torch.ones(3, 2)
    out = AddSimilarityEdges(1, drop_orig_edges=True)(data)
    assert "edge_names" not in out
    assert "edge_attr" not in out
    with pytest.raises((TypeError, ValueError), match=r"`data.edge_(names|attr)` must"):
        AddSimilarityEdges(1)(data)


def test_a_batch_vector_alone() -> None:
    """Without what PyG keeps of a batch that it has collated."""
    batch = Batch.from_data_list([path_of_three(), path_of_three()])
    plain = Data(edge_index=batch.edge_index, batch=batch.batch, num_nodes=6)
    out = AddSimilarityEdges(1)(plain)
    assert torch.equal(out.edge_index, AddSimilarityEdges(1)(batch).edge_index)


# ------------------------------------------------------------------ adj_t


@LAYOUTS
@pytest.mark.parametrize("flavor", ["directed", "signed", "isolated", "edgeless"])
def test_adj_t(flavor: str, layout: torch.layout) -> None:
    data = draw(flavor, 4).data()
    sparse = T.ToSparseTensor(layout=layout)(copy.copy(data))
    for drop in (False, True):
        transform = AddSimilarityEdges(2, drop_orig_edges=drop)
        out, expected = transform(sparse), transform(data)
        assert "adj_t" not in out
        assert out.num_nodes == data.num_nodes
        new = similarity_graph(data.edge_index, 2, data.edge_weight, data.num_nodes)[0].size(1)
        split = out.num_edges - new
        assert torch.equal(out.edge_index[:, split:], expected.edge_index[:, split:])
        assert torch.equal(out.edge_weight[split:], expected.edge_weight[split:])
        assert torch.equal(
            dense(out.edge_index, out.edge_weight, data.num_nodes),
            dense(expected.edge_index, expected.edge_weight, data.num_nodes),
        )


def dense(edge_index: Tensor, weight: Tensor, n: int) -> Tensor:
    return torch.zeros(n, n).index_put(tuple(edge_index), weight, accumulate=True)


def test_an_adj_t_beside_edge_index_is_not_left_as_it_was() -> None:
    data = T.ToSparseTensor(remove_edge_index=False, layout=torch.sparse_csr)(path_of_three())
    assert "adj_t" in data
    assert "adj_t" not in AddSimilarityEdges(1)(data)
    assert "adj_t" in AddSimilarityEdges(1, attr="sim_index")(data)


def test_nodes_without_edges_of_an_adj_t() -> None:
    """It alone tells how many there are."""
    graphs = [Data(adj_t=torch.zeros(n, n).to_sparse_csr()) for n in (4, 2)]
    for way in ({}, {"drop_orig_edges": True}):
        settings: dict[str, Any] = way
        transform = AddSimilarityEdges(1, **settings)
        assert [transform(data).num_nodes for data in graphs] == [4, 2]
        out = transform(Batch.from_data_list(graphs))
        assert [data.num_nodes for data in out.to_data_list()] == [4, 2]


def test_ignored_weights_of_an_adj_t_are_kept() -> None:
    data = path_of_three(edge_weight=torch.tensor([2.0, 2, 3, 3]))
    sparse = T.ToSparseTensor(layout=torch.sparse_csr)(data)
    out = AddSimilarityEdges(1, weight_attr=None)(sparse)
    assert sorted(out.edge_weight.tolist()) == [1, 1, 2, 2, 3, 3]


# ------------------------------------------------------------------ HeteroData


def ratings(seed: int = 0, sizes: tuple[int, int] = (7, 5), weighted: bool = False) -> HeteroData:
    generator = torch.Generator().manual_seed(seed)
    edge_index = (torch.rand(sizes, generator=generator) < 0.4).nonzero().t().contiguous()
    data = HeteroData()
    data["user"].x = torch.rand(sizes[0], 2)
    data["item"].y = torch.arange(sizes[1])
    data["item"].num_nodes = sizes[1]
    data[RATES].edge_index = edge_index
    if weighted:
        data[RATES].edge_weight = torch.rand(edge_index.size(1), generator=generator) + 0.1
    return data


@pytest.mark.parametrize("weighted", [False, True])
def test_nodes_of_either_end(weighted: bool) -> None:
    data = ratings(weighted=weighted)
    before = clone(data)
    edges = data[RATES].edge_index
    weight = data[RATES].get("edge_weight")
    for given, node_type, expected in (
        ({}, "item", similarity_graph(edges.flip(0), 2, weight, (5, 7))),
        ({"node_type": "item"}, "item", similarity_graph(edges.flip(0), 2, weight, (5, 7))),
        ({"node_type": "user"}, "user", similarity_graph(edges, 2, weight, (7, 5))),
    ):
        for edge_type in (None, RATES):
            settings: dict[str, Any] = {**given, "edge_type": edge_type}
            out = AddSimilarityEdges(2, **settings)(data)
            assert_same(data, before)
            new = (node_type, "similar", node_type)
            assert out.edge_types == [RATES, new]
            assert torch.equal(out[new].edge_index, expected[0])
            assert torch.equal(out[new].edge_weight, expected[1])
            assert expected[0].size(1) > 3
            assert out.validate()


def test_an_edge_type_of_one_kind_of_nodes() -> None:
    """Described by edges of both directions, as in a `Data`; others are left alone."""
    graph = draw("directed", 2)
    data = ratings()
    data["user"].num_nodes = graph.num_nodes
    del data["user"].x
    data[RATES].edge_index = data[RATES].edge_index[:, :0]
    data["user", "follows", "user"].edge_index = graph.edge_index
    transform = AddSimilarityEdges(
        2, p=2, lam=0.5, edge_type=("user", "follows", "user"), rel="peer", drop_orig_edges=True
    )
    out = transform(data)
    assert out.edge_types == [RATES, ("user", "peer", "user")]
    expected = similarity_graph(graph.edge_index, 2, num_nodes=graph.num_nodes, p=2, lam=0.5)
    assert torch.equal(out["user", "peer", "user"].edge_index, expected[0])
    assert torch.equal(out["user", "peer", "user"].edge_weight, expected[1])


@LAYOUTS
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("node_type", ["item", "user"])
def test_a_rectangular_adj_t(node_type: str, weighted: bool, layout: torch.layout) -> None:
    """`ToSparseTensor` stores `[num_dst, num_src]`."""
    data = ratings(3, weighted=weighted)
    sparse = T.ToSparseTensor(layout=layout)(copy.copy(data))
    assert tuple(sparse[RATES].adj_t.shape) == (5, 7)
    transform = AddSimilarityEdges(2, node_type=node_type)
    new = (node_type, "similar", node_type)
    assert_same_edges(transform(sparse), transform(data), new)
    assert "adj_t" in transform(sparse)[RATES]


def test_a_rectangular_adj_t_of_torch_sparse() -> None:
    pytest.importorskip("torch_sparse")
    data = ratings(3, weighted=True)
    sparse = T.ToSparseTensor()(copy.copy(data))
    out, expected = AddSimilarityEdges(2)(sparse), AddSimilarityEdges(2)(data)
    assert_same_edges(out, expected, ("item", "similar", "item"))


def assert_same_edges(one: HeteroData, other: HeteroData, edge_type: tuple[str, str, str]) -> None:
    assert torch.equal(one[edge_type].edge_index, other[edge_type].edge_index)
    assert torch.equal(one[edge_type].edge_weight, other[edge_type].edge_weight)


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("node_type", ["item", "user"])
def test_a_batch_of_hetero_data(node_type: str, drop: bool) -> None:
    graphs = [ratings(seed, sizes) for seed, sizes in enumerate([(7, 5), (1, 2), (3, 0), (4, 6)])]
    transform = AddSimilarityEdges(2, node_type=node_type, drop_orig_edges=drop)
    batch = Batch.from_data_list(graphs)
    before = clone(batch)
    out = transform(batch)
    assert_same(batch, before)
    alone = [transform(data) for data in graphs]
    for here, there in zip(out.to_data_list(), alone, strict=True):
        assert_same(here, there)
    assert_same(out, Batch.from_data_list(alone))
    (loaded,) = DataLoader(alone, batch_size=4)
    assert_same(loaded, out)


# ------------------------------------------------------------------ as a transform


def test_gradients_reach_the_weights() -> None:
    weight = torch.tensor([1.0, 2, 3, 4], requires_grad=True)
    out = AddSimilarityEdges(2, loop=True, lam=0.5)(path_of_three(edge_weight=weight))
    out.edge_weight[4:].sum().backward()
    assert weight.grad is not None
    assert weight.grad.abs().sum() > 0


def test_composes_and_pickles() -> None:
    composed = T.Compose([T.ToUndirected(), AddSimilarityEdges(1)])
    data = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
    out = pickle.loads(pickle.dumps(composed))(data)
    assert torch.equal(out.edge_index, AddSimilarityEdges(1)(path_of_three()).edge_index)


def test_repr_names_every_parameter() -> None:
    other: dict[str, Any] = {
        "k": 7,
        "p": 3,
        "lam": 0.25,
        "measure": "jaccard",
        "loop": True,
        "flow": "target_to_source",
        "symmetrize": "mutual",
        "attr": "sim_index",
        "weight_attr": None,
        "drop_orig_edges": True,
        "edge_type": ("user", "rates", "item"),
        "node_type": "user",
        "rel": "alike",
        "min_similarity": 0.25,
        "max_degree": 9,
        "memory_budget": 123,
        "force": True,
        "backend": "torch",
    }
    assert other.keys() == inspect.signature(AddSimilarityEdges).parameters.keys()
    plain = repr(AddSimilarityEdges(4))
    for name, value in other.items():
        changed = repr(AddSimilarityEdges(**{"k": 4, name: value}))
        assert f"{name}={value!r}" in changed
        assert changed != plain
        # It can be read back.
        assert repr(eval(changed, {"AddSimilarityEdges": AddSimilarityEdges})) == changed


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"attr": "similar"}, ValueError, r"`attr` must contain 'index'.*got 'similar'"),
        ({"attr": "batch_index"}, ValueError, r"`attr`.*not 'batch'.*got 'batch_index'"),
        ({"attr": "an index"}, ValueError, r"`attr`.*name.*got 'an index'"),
        ({"attr": None}, ValueError, r"`attr`.*name.*got None"),
        ({"weight_attr": 1}, TypeError, r"`weight_attr`.*got 1"),
        (
            {"attr": "sim_index", "weight_attr": "sim_weight"},
            ValueError,
            r"`attr` must not be 'sim_index', whose weights are written to 'sim_weight'",
        ),
        ({"drop_orig_edges": None}, TypeError, r"`drop_orig_edges`.*got None"),
        (
            {"drop_orig_edges": True, "attr": "sim_index"},
            ValueError,
            r"`drop_orig_edges` must be False.*got True with attr='sim_index'",
        ),
        ({"edge_type": "rates"}, TypeError, r"`edge_type`.*three names, got 'rates'"),
        ({"edge_type": ("user", "item")}, TypeError, r"`edge_type`.*three names, got"),
        ({"edge_type": RATES, "node_type": "x"}, ValueError, r"`node_type`.*end of.*got 'x'"),
        ({"node_type": 3}, TypeError, r"`node_type`.*got 3"),
        ({"rel": None}, TypeError, r"`rel`.*got None"),
    ],
)
def test_bad_parameters(given: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        AddSimilarityEdges(**{"k": 2, **given})


def without(data: HeteroData, *names: Any) -> HeteroData:
    for name in names:
        del data[name]
    return data


def changed(data: Any, key: Any = None, **attributes: Any) -> Any:
    store = data if key is None else data[key]
    for name, value in attributes.items():
        store[name] = value
    return data


NAN = torch.tensor([1, 1, 1, torch.nan])


@pytest.mark.parametrize(
    ("data", "given", "error", "message"),
    [
        (path_of_three(edge_weight=NAN), {}, ValueError, r"`edge_weight`.*1 NaN"),
        (path_of_three(edge_weight=torch.ones(3)), {}, ValueError, r"`edge_weight`.*\[4\]"),
        (
            path_of_three(edge_weight=torch.ones(4, 2)),
            {"weight_attr": None},
            ValueError,
            r"`edge_weight`.*\[4\].*\[4, 2\]",
        ),
        (
            path_of_three(edge_weight=torch.ones(4, 2)),
            {"weight_attr": None, "drop_orig_edges": True},
            ValueError,
            r"`edge_weight`.*\[4\].*\[4, 2\]",
        ),
        (path_of_three(edge_attr=torch.ones(3, 2)), {}, ValueError, r"`data.edge_attr`.*4.*\[3, 2"),
        (path_of_three(edge_type=torch.ones(4)), {}, ValueError, r"`data.edge_type`.*`attr`"),
        (path_of_three(batch=torch.tensor([0, 0, 1])), {}, ValueError, r"`edge_index`.*one graph"),
        (path_of_three(), {"edge_type": RATES}, ValueError, r"`edge_type` must be None.*'rates'"),
        (path_of_three(), {"node_type": "user"}, ValueError, r"`node_type` must be None.*'user'"),
        (Data(adj=torch.ones(3, 3)), {}, ValueError, r"`data` must have `edge_index`.*'adj'"),
        (
            Data(adj_t=torch.ones(3, 2).to_sparse_csr()),
            {},
            ValueError,
            r"`adj_t` must have shape \[3, 3\], got \[3, 2\]",
        ),
        (
            Data(adj_t=torch.ones(3, 3, 2).to_sparse(2)),
            {},
            ValueError,
            r"`adj_t` must hold one value per edge.*\[3, 3, 2\]",
        ),
        (
            TemporalData(src=torch.tensor([0]), dst=torch.tensor([1])),
            {},
            TypeError,
            r"`data`.*HeteroData, got TemporalData",
        ),
        ([1], {}, TypeError, r"`data`.*got list"),
        (ratings(), {"attr": "sim_index"}, ValueError, r"`attr` must be 'edge_index'.*'sim_index'"),
        (ratings(), {"edge_type": ("a", "b", "c")}, ValueError, r"`edge_type` must be one of.*'a'"),
        (HeteroData(), {}, ValueError, r"`edge_type` must be one of \[\], got None"),
        (
            changed(ratings(), ("user", "knows", "user"), edge_index=torch.zeros(2, 0).long()),
            {},
            ValueError,
            r"`edge_type` must be one of.*'rates'.*'knows'.*got None",
        ),
        (ratings(), {"node_type": "shop"}, ValueError, r"`node_type`.*end of.*got 'shop'"),
        (
            changed(ratings(), ("item", "similar", "item"), edge_index=torch.zeros(2, 0).long()),
            {"edge_type": RATES},
            ValueError,
            r"`rel`.*new edge type, got 'similar'",
        ),
        (ratings(), {"p": 2}, ValueError, r"`p` must be 1 for a bipartite graph.*got 2"),
        (ratings(), {"lam": 0.5}, ValueError, r"`lam` must be 0 for a bipartite graph.*got 0.5"),
        (
            changed(ratings(), "item", num_nodes=2),
            {},
            ValueError,
            r"`edge_index\[1\]`.*destination ids.*2, got",
        ),
        (without(ratings(), "item"), {}, ValueError, r"`data\['item'\].num_nodes` must be set"),
        (
            changed(ratings(), RATES, edge_weight=torch.ones(2)),
            {},
            ValueError,
            r"`edge_weight`.*got \[2\]",
        ),
        (
            changed(ratings(), RATES, edge_index=None, size=3),
            {},
            ValueError,
            r"`data\[\('user', 'rates', 'item'\)\]` must have `edge_index`.*\['size'\]",
        ),
        (
            changed(ratings(), RATES, edge_index=None, adj_t=torch.ones(7, 5).to_sparse_csr()),
            {},
            ValueError,
            r"`adj_t` must have shape \[5, 7\], got \[7, 5\]",
        ),
        (
            changed(
                changed(ratings(), "user", batch=torch.tensor([0] * 6 + [1])),
                "item",
                batch=torch.zeros(5, dtype=torch.long),
            ),
            {},
            ValueError,
            r"`edge_index` must join nodes of one graph, got an edge from graph 1 to graph 0",
        ),
    ],
)
def test_on_an_error_nothing_is_written(
    data: Any, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    before = clone(data)
    with pytest.raises(error, match=message):
        AddSimilarityEdges(**{"k": 2, **given})(data)
    if isinstance(data, (Data, HeteroData)):
        assert_same(data, before)


@pytest.mark.parametrize("drop", [False, True])
def test_labels_of_graphs_stay_as_they_are(drop: bool) -> None:
    """PyG takes for an edge attribute what has as many entries as there are edges."""
    one = Data(x=torch.rand(2, 2), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([3]))
    transform = AddSimilarityEdges(1, lam=1.0, drop_orig_edges=drop)
    assert transform(one).y.tolist() == [3]
    # A batch with as many graphs as edges: by its slices, a label belongs to a graph.
    more = [one.clone() for _ in range(2)]
    more.append(Data(x=torch.rand(1, 2), edge_index=torch.empty(2, 0).long(), y=torch.tensor([4])))
    more[0].edge_index = torch.tensor([[0, 1], [1, 0]])
    for i, graph in enumerate(more):
        graph.target, graph.edge_kind = torch.tensor([i]), torch.arange(graph.num_edges)
    batch = transform(Batch.from_data_list(more))
    assert batch.y.tolist() == [3, 3, 4]
    assert batch.target.tolist() == [0, 1, 2]
    assert ("edge_kind" in batch) != drop
    for found, graph in zip(batch.to_data_list(), more, strict=True):
        alone = transform(graph)
        assert same(found.get("edge_kind"), alone.get("edge_kind"))
        assert same(found.edge_index, alone.edge_index)


def test_lists_of_edges_are_refused() -> None:
    with pytest.raises(TypeError, match=r"`data.edge_names` must be a tensor .*, got list"):
        AddSimilarityEdges(1)(path_of_three(edge_names=list("abcd")))
    for name in ("names", "knowledge"):  # perhaps of something else
        assert AddSimilarityEdges(1)(path_of_three(**{name: list("abcd")}))[name] == list("abcd")


@pytest.mark.parametrize("drop", [False, True])
def test_after_a_transform_that_changes_edges_and_no_slices(drop: bool) -> None:
    graphs = [Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3) for _ in range(2)]
    for graph in graphs:
        graph.edge_kind = torch.arange(2)
    batch = T.ToUndirected()(Batch.from_data_list(graphs))
    added = AddSimilarityEdges(1, drop_orig_edges=drop)(batch)
    assert ("edge_kind" in added) != drop
    assert drop or added.edge_kind.numel() == added.num_edges > batch.num_edges

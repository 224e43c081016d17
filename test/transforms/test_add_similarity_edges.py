"""The transform that adds edges: the added edges, and other attributes."""

import pickle
from typing import Any

import pytest
import torch
import torch_geometric.transforms as T
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData, TemporalData
from torch_geometric.loader import DataLoader

from helpers.graphs import FLAVORS, draw, draw_all
from torch_geometric_simpool import (
    AddSimilarityEdges,
    similarity_graph,
    structural_similarity,
)

RATES = ("user", "rates", "item")


def path_of_three(**attributes: Any) -> Data:
    return Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3, **attributes)


def ratings() -> HeteroData:
    data = HeteroData(user={"num_nodes": 4}, item={"num_nodes": 5})
    data[RATES].edge_index = torch.tensor([[0, 0, 1, 2, 2, 3], [0, 2, 1, 2, 4, 0]])
    data[RATES].edge_weight = torch.tensor([1.0, 2, 1, 3, 1, 2])
    return data


def as_set(edge_index: Tensor, weight: Tensor) -> set:
    pairs = {
        (*pair, round(value, 5)) for pair, value in zip(edge_index.t().tolist(), weight.tolist())
    }
    assert len(pairs) == edge_index.size(1)
    return pairs


@pytest.mark.parametrize("flavor", FLAVORS)
@pytest.mark.parametrize("symmetrize", [None, "union", "mutual"])
def test_edges_of_the_similarity_graph_are_appended(flavor: str, symmetrize: str | None) -> None:
    graph = draw(flavor, 3)
    settings: dict[str, Any] = {"p": 2, "lam": 0.5, "measure": "jaccard", "symmetrize": symmetrize}
    data, num_edges = graph.data(), len(graph.edges)
    out = AddSimilarityEdges(3, **settings)(data)
    weight = graph.edge_weight(torch.float32)
    expected = similarity_graph(graph.edge_index, 3, weight, graph.num_nodes, **settings)
    assert torch.equal(out.edge_index[:, :num_edges], graph.edge_index)
    present = torch.ones(num_edges) if weight is None else weight
    assert torch.equal(out.edge_weight[:num_edges], present)
    added = as_set(out.edge_index[:, num_edges:], out.edge_weight[num_edges:])
    assert added == as_set(*expected)
    assert out.num_nodes == graph.num_nodes
    assert data.edge_index.size(1) == num_edges

    replaced = AddSimilarityEdges(3, drop_orig_edges=True, **settings)(data)
    assert as_set(replaced.edge_index, replaced.edge_weight) == added
    assert replaced.num_nodes == graph.num_nodes


@pytest.mark.parametrize("flavor", FLAVORS)
def test_with_ties_edges_are_equivariant(flavor: str) -> None:
    graph = draw(flavor, 2)
    data, n = graph.data(), graph.num_nodes
    number = torch.randperm(n)
    other = data.clone()
    other.edge_index = number[data.edge_index] if n else data.edge_index
    transform = AddSimilarityEdges(2, ties=True, drop_orig_edges=True)
    ours, theirs = transform(data), transform(other)
    renumbered = number[ours.edge_index] if n else ours.edge_index
    assert as_set(renumbered, ours.edge_weight) == as_set(theirs.edge_index, theirs.edge_weight)


@pytest.mark.parametrize("flavor", FLAVORS)
def test_weight_and_similarity_as_edge_attributes(flavor: str) -> None:
    graph = draw(flavor, 1)
    data, num_edges = graph.data(), len(graph.edges)
    out = AddSimilarityEdges(2, ties=True, edge_attr=True, p=2)(data)
    assert torch.equal(out.edge_index[:, :num_edges], data.edge_index)
    weight = graph.edge_weight(torch.float32)
    present = torch.ones(num_edges) if weight is None else weight
    assert torch.equal(out.edge_attr[:num_edges, 0], present)
    assert not out.edge_attr[num_edges:, 0].any()
    similarity = structural_similarity(graph.adj(), p=2)[tuple(out.edge_index)]
    torch.testing.assert_close(out.edge_attr[:, 1], similarity.float(), rtol=1e-4, atol=1e-6)
    plain = AddSimilarityEdges(2, ties=True, p=2, drop_orig_edges=True)(data)
    pairs = {*zip(*data.edge_index.tolist())} | {*zip(*plain.edge_index.tolist())}
    assert {*zip(*out.edge_index.tolist())} == pairs
    new = out.edge_index[:, num_edges:]
    assert new.unique(dim=1).size(1) == new.size(1) == len(pairs) - len({*graph.edges})


def test_other_attributes() -> None:
    """Edge-level attributes are 0 for similarity edges. Other attributes do not change."""
    edge_level: dict[str, Tensor] = {
        "edge_attr": torch.arange(8.0).view(4, 2) + 1,
        "edge_color": torch.tensor([1, 2, 3, 4]),
        "edge_mask": torch.ones(4, dtype=torch.bool),
    }
    others: dict[str, Any] = {
        "edge_label": torch.ones(4),
        "edge_label_index": torch.zeros(2, 4, dtype=torch.long),
        "x": torch.ones(3, 2),
        "y": torch.ones(4),
        "own_index": torch.zeros(2, 4, dtype=torch.long),
        "own_weight": torch.ones(4),
        "name": "path",
    }
    data = path_of_three(**edge_level, **others)
    before = str(data.to_dict())
    out = AddSimilarityEdges(1)(data)
    assert str(data.to_dict()) == before
    assert out.edge_weight.tolist() == [1] * 6
    for name, value in edge_level.items():
        assert torch.equal(out[name], torch.cat([value, torch.zeros_like(value[:2])]))
    dropped = AddSimilarityEdges(1, drop_orig_edges=True)(data)
    for name, value in others.items():
        assert str(out[name]) == str(dropped[name]) == str(value)
    assert {*data.keys()} - {*dropped.keys()} == {*edge_level}
    with_similarity = AddSimilarityEdges(1, edge_attr=True)(
        path_of_three(edge_weight=torch.tensor([2.0, 2, 3, 3]))
    )
    assert with_similarity.edge_weight.tolist() == [2, 2, 3, 3, 0, 0]


def test_names_and_shapes_of_weights() -> None:
    for weight in (torch.tensor([2.0, 2, 3, 3]), torch.tensor([2, 2, 3, 3])):
        for name, transform in (
            ("edge_weight", AddSimilarityEdges(1)),
            ("weight", AddSimilarityEdges(1)),
            ("length", AddSimilarityEdges(1, weight_attr="length")),
        ):
            out = transform(path_of_three(**{name: weight}))
            assert out[name].tolist() == [2, 2, 3, 3, 1, 1]
            out = transform(path_of_three(**{name: weight.unsqueeze(1)}))
            assert out[name].tolist() == [[2], [2], [3], [3], [1], [1]]
    with pytest.raises(ValueError, match="`weight_attr`"):
        AddSimilarityEdges(1, weight_attr="length")(path_of_three())


def test_before_batching() -> None:
    transform = AddSimilarityEdges(2, ties=True)
    graphs = [transform(graph.data()) for graph in draw_all(6) if graph.weights is None]
    (batch,) = DataLoader(graphs, batch_size=len(graphs))
    for data, back in zip(graphs, batch.to_data_list(), strict=True):
        assert torch.equal(data.edge_index, back.edge_index)
    plain = [graph.data() for graph in draw_all(6) if graph.weights is None]
    joined = Batch.from_data_list(plain)
    with pytest.raises(TypeError, match=r"`data`.*batched"):
        transform(joined)
    # A `Data` with an unsorted `batch` is a batch too.
    position = torch.randperm(joined.num_nodes)
    shuffled = torch.empty_like(joined.batch)
    shuffled[position] = joined.batch
    data = Data(edge_index=position[joined.edge_index], batch=shuffled, num_nodes=len(position))
    out = transform(data)
    expected = as_set(position[batch.edge_index], batch.edge_weight + torch.arange(batch.num_edges))
    assert len(expected) == out.num_edges
    new = slice(joined.num_edges, None)
    alone = torch.cat(
        [g.edge_index[:, p.num_edges :] + s for g, p, s in zip(graphs, plain, joined.ptr)], 1
    )
    assert {*zip(*out.edge_index[:, new].tolist())} == {*zip(*position[alone].tolist())}


# ------------------------------------------------------------------ data of several types


def test_a_bipartite_graph() -> None:
    """Items are compared by their users, and with reverse edges, users by their items."""
    data = ratings()
    edge_index, weight = data[RATES].edge_index, data[RATES].edge_weight
    out = AddSimilarityEdges(2)(data)
    store = out["item", "similar", "item"]
    expected = similarity_graph(edge_index.flip(0), 2, weight, (5, 4))
    assert as_set(store.edge_index, store.edge_weight) == as_set(*expected)
    assert RATES in out.edge_types
    assert data.edge_types == [RATES]
    dropped = AddSimilarityEdges(2, drop_orig_edges=True)(data)
    assert dropped.edge_types == [("item", "similar", "item")]
    reverse = AddSimilarityEdges(2, edge_type=("item", "rev_rates", "user"))(T.ToUndirected()(data))
    store = reverse["user", "similar", "user"]
    expected = similarity_graph(edge_index, 2, weight, (4, 5))
    assert as_set(store.edge_index, store.edge_weight) == as_set(*expected)


def test_one_type_of_nodes_and_a_choice_of_edges() -> None:
    data, graph = ratings(), draw("directed", 1)
    follows = ("user", "follows", "user")
    data["user"].num_nodes = graph.num_nodes
    data[follows].edge_index = graph.edge_index
    out = AddSimilarityEdges(2, edge_type=follows, p=2, symmetrize="union")(data)
    store = out["user", "similar", "user"]
    expected = similarity_graph(
        graph.edge_index, 2, num_nodes=graph.num_nodes, p=2, symmetrize="union"
    )
    assert as_set(store.edge_index, store.edge_weight) == as_set(*expected)
    sparse = T.ToSparseTensor(layout=torch.sparse_csr)(ratings())
    store = AddSimilarityEdges(2)(sparse)["item", "similar", "item"]
    plain = AddSimilarityEdges(2)(ratings())["item", "similar", "item"]
    assert as_set(store.edge_index, store.edge_weight) == as_set(
        plain.edge_index, plain.edge_weight
    )
    for settings in (
        {},
        {"edge_type": ("user", "likes", "item")},
        {"edge_type": RATES, "p": 2},
        {"edge_type": RATES, "lam": 0.5},
        {"edge_type": RATES, "edge_attr": True},
    ):
        with pytest.raises(ValueError, match=r"^`"):
            AddSimilarityEdges(2, **settings)(data)
    with pytest.raises(ValueError, match="similar"):
        AddSimilarityEdges(2, edge_type=RATES)(AddSimilarityEdges(2, edge_type=RATES)(data))
    del data["item"].num_nodes
    with pytest.raises(ValueError, match=r"`data\['item'\].num_nodes`"):
        AddSimilarityEdges(2, edge_type=RATES)(data)


# ------------------------------------------------------------------ parameters


def test_repr_names_every_parameter() -> None:
    other: dict[str, Any] = {
        "k": 7,
        "ties": True,
        "symmetrize": "union",
        "edge_attr": True,
        "drop_orig_edges": True,
        "weight_attr": None,
        "edge_type": ("a", "b", "c"),
        "p": 3,
        "max_degree": 9,
    }
    for name, value in other.items():
        shown = repr(AddSimilarityEdges(**{"k": 2, name: value}))
        assert f"{name}={value!r}" in shown
        assert shown != repr(AddSimilarityEdges(2))
        again = eval(shown, {"AddSimilarityEdges": AddSimilarityEdges})
        assert repr(pickle.loads(pickle.dumps(again))) == shown


@pytest.mark.parametrize(
    "settings",
    [
        {"k": 0},
        {"ties": 1},
        {"symmetrize": "both"},
        {"edge_attr": 1},
        {"edge_attr": True, "drop_orig_edges": True},
        {"drop_orig_edges": None},
        {"p": 0},
        {"loop": True},
        {"unknown": 1},
    ],
)
def test_wrong_parameters(settings: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=next(iter(settings))):
        AddSimilarityEdges(**{"k": 2, **settings})


def test_wrong_data() -> None:
    edge_index = path_of_three().edge_index
    for transform, data, name in (
        (AddSimilarityEdges(1), TemporalData(), "data"),
        (AddSimilarityEdges(1), T.ToDense(4)(path_of_three()), "data"),
        (AddSimilarityEdges(1), path_of_three(edge_type=torch.zeros(4)), "data.edge_type"),
        (AddSimilarityEdges(1), path_of_three(edge_name=["a"] * 4), "data.edge_name"),
        (AddSimilarityEdges(1), path_of_three(edge_weight=torch.ones(3)), "edge_weight"),
        (AddSimilarityEdges(1), Data(edge_index=edge_index, num_nodes=2), "edge_index"),
        (AddSimilarityEdges(1, edge_type=RATES), path_of_three(), "edge_type"),
        (
            AddSimilarityEdges(1, edge_attr=True),
            path_of_three(edge_attr=torch.ones(4)),
            "data.edge_attr",
        ),
        (AddSimilarityEdges(1, memory_budget=1), path_of_three(), "memory_budget"),
    ):
        before = str(data.to_dict())
        with pytest.raises((TypeError, ValueError), match=f"`{name}`"):
            transform(data)
        assert str(data.to_dict()) == before

"""Graphs colored by cluster: the drawn marks, and wrong arguments."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.transforms import ToDense, ToSparseTensor

from torch_geometric_simpool.analysis import plotting

matplotlib = pytest.importorskip("matplotlib", reason="needs Matplotlib")
pytest.importorskip("networkx", reason="needs networkx")

HARD = torch.tensor([2, 0, 0, 9, 2])


@pytest.fixture(autouse=True)
def figures() -> Iterator[None]:
    matplotlib.use("Agg")
    yield
    matplotlib.pyplot.close("all")


def graph() -> Data:
    """Returns five nodes with an edge in both directions, a parallel edge and a self-loop."""
    edges = [[0, 1], [1, 0], [1, 2], [1, 2], [2, 2], [2, 3]]
    return Data(edge_index=torch.tensor(edges).t(), num_nodes=5)


def drawn(ax: Any) -> dict[str, tuple[int, str, int]]:
    """Returns the number, the color and the corners of the nodes of each cluster, by its name."""
    return {
        nodes.get_label(): (
            len(nodes.get_offsets()),
            matplotlib.colors.to_hex(nodes.get_facecolor()[0]).upper(),
            len(nodes.get_paths()[0].vertices),
        )
        for nodes in ax.collections
        if nodes.get_label().startswith("cluster ")
    }


def edges_of(ax: Any) -> int:
    (edges,) = (part for part in ax.collections if not part.get_label().startswith("cluster "))
    return len(edges.get_segments())


def soft(hard: Tensor) -> Tensor:
    """Returns an assignment matrix in which the largest entry of a row leads by little."""
    return (0.1 * torch.nn.functional.one_hot(hard, 10) + torch.rand(10) * 0.01).softmax(dim=-1)


@pytest.mark.parametrize(
    "s",
    [HARD, HARD.int(), soft(HARD), soft(HARD).unsqueeze(0), soft(HARD).half()],
    ids=["hard", "int", "soft", "batched", "half"],
)
def test_colors_and_shapes(s: Tensor) -> None:
    ax = plotting.plot_clusters(graph(), s)
    found = drawn(ax)
    assert {name: value[:2] for name, value in found.items()} == {
        "cluster 0": (2, plotting.COLORS[0].upper()),
        "cluster 2": (2, plotting.COLORS[2].upper()),
        "cluster 9": (1, plotting.COLORS[1].upper()),
    }
    assert found["cluster 0"][2] == found["cluster 2"][2] != found["cluster 9"][2]
    assert edges_of(ax) == 3


def test_every_cluster_has_a_color_and_a_shape_of_its_own() -> None:
    cluster = torch.arange(65)
    data = Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=65)
    pos = {i: (i, 0) for i in range(65)}
    ax = plotting.plot_clusters(data, cluster, pos=pos)
    looks = [
        (
            matplotlib.colors.to_hex(nodes.get_facecolor()[0]),
            tuple(map(tuple, nodes.get_paths()[0].vertices.round(3))),
        )
        for nodes in ax.collections
    ]
    assert len(set(looks[:64])) == 64
    assert looks[64] == looks[0]


@pytest.mark.parametrize("transform", [ToDense(7), ToSparseTensor()], ids=["dense", "adj_t"])
def test_forms_of_graphs(transform: Any) -> None:
    """Clusters of a padded graph are given with or without the rows of padding."""
    data = transform(graph())
    for rows in (5, 7) if "adj" in data else (5,):
        s = torch.zeros(1, rows, 3)
        s[0, :5] = torch.eye(3)[[2, 0, 0, 1, 2]]
        ax = plotting.plot_clusters(data, s)
        assert [count for count, *_ in drawn(ax).values()] == [2, 1, 2]
        assert edges_of(ax) == 3


def test_given_axes_places_and_sizes() -> None:
    _, (left, right) = matplotlib.pyplot.subplots(1, 2)
    pos = {i: (float(i), 2.0 * i) for i in range(5)}
    assert plotting.plot_clusters(graph(), HARD, ax=right, pos=pos, node_size=7) is right
    assert not left.collections
    assert len(matplotlib.pyplot.get_fignums()) == 1
    nodes: Any
    (nodes,) = (part for part in right.collections if part.get_label() == "cluster 2")
    assert nodes.get_offsets().tolist() == [[0, 0], [4, 8]]
    assert nodes.get_sizes().tolist() == [7]
    right.set_ylabel("visible")
    assert right.axison


def test_labels_and_legend() -> None:
    labels = ["a", "", None, "b", "c"]
    ax = plotting.plot_clusters(graph(), HARD, labels=labels, legend=True)
    assert {text.get_text() for text in ax.texts} == {"a", "b", "c"}
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "cluster 0",
        "cluster 2",
        "cluster 9",
    ]
    ax = plotting.plot_clusters(graph(), HARD, labels=torch.arange(5))
    assert {text.get_text() for text in ax.texts} == set("01234")
    assert ax.get_legend() is None
    with pytest.raises(ValueError, match="`labels`"):
        plotting.plot_clusters(graph(), HARD, labels="ab")


def test_an_unsorted_batch() -> None:
    """Edges join the same nodes for every order of the graphs."""
    data = Data(edge_index=torch.tensor([[0, 1], [2, 3]]), num_nodes=4)
    data.batch = torch.tensor([1, 0, 1, 0])
    pos = {i: (float(i), 0.0) for i in range(4)}
    ax = plotting.plot_clusters(data, torch.zeros(4).long(), pos=pos)
    segments: Any = ax.collections[0]
    assert sorted(sorted(x) for x in segments.get_segments()[0][:, :1].T.tolist()) == [[0, 2]]


@pytest.mark.parametrize("num_nodes", [0, 1])
def test_small_graphs(num_nodes: int) -> None:
    data = Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=num_nodes)
    for s in (torch.zeros(num_nodes).long(), torch.ones(num_nodes, 3)):
        assert len(drawn(plotting.plot_clusters(data, s))) == num_nodes


@pytest.mark.parametrize("num_nodes", [30, 320])
def test_the_same_picture_each_time(num_nodes: int) -> None:
    data = Data(edge_index=torch.randint(0, num_nodes, (2, 2 * num_nodes)), num_nodes=num_nodes)
    s = torch.zeros(num_nodes).long()
    axes = [plotting.plot_clusters(data, s) for _ in range(2)]
    one, two = (ax.collections[-1].get_offsets().tolist() for ax in axes)
    assert one == two


def test_a_batch() -> None:
    batch = Batch.from_data_list([graph(), graph()])
    ax = plotting.plot_clusters(batch, torch.cat([HARD, HARD]))
    assert drawn(ax)["cluster 9"][0] == 2
    assert edges_of(ax) == 6


WRONG = [
    torch.eye(5).to_sparse(),
    [0, 0, 1, 1, 1],
    torch.zeros(4).long(),
    torch.zeros(2, 5, 3),
    torch.zeros(5, 0),
    torch.tensor(1),
    torch.zeros(5),
    torch.tensor([0, 1, -1, 0, 0]),
    torch.full((5, 2), torch.nan),
]


def test_wrong_arguments() -> None:
    for s in WRONG:
        with pytest.raises((TypeError, ValueError), match="`s`"):
            plotting.plot_clusters(graph(), s)
    assert not matplotlib.pyplot.get_fignums()
    with pytest.raises(TypeError, match="`data`"):
        plotting.plot_clusters(HeteroData(), HARD)
    for pos in ({0: (0, 0)}, [[0, 0]]):
        with pytest.raises(ValueError, match="`pos` must"):
            plotting.plot_clusters(graph(), HARD, pos=pos)  # type: ignore[arg-type]

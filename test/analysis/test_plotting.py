"""Graphs colored by cluster: what is drawn, and what is refused."""

import doctest
import subprocess
import sys
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
    """Five nodes, one of them isolated; an edge in both directions, a parallel one, a loop."""
    edges = [[0, 1], [1, 0], [1, 2], [1, 2], [2, 2], [2, 3]]
    return Data(edge_index=torch.tensor(edges).t(), num_nodes=5)


def drawn(ax: Any) -> dict[str, tuple[int, str, int]]:
    """Of each cluster by its name: how many nodes, their color, corners of their shape."""
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
    """An assignment matrix in which the right cluster has little more than the others."""
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


def test_equal_entries() -> None:
    assert set(drawn(plotting.plot_clusters(graph(), torch.full((5, 3), 1 / 3)))) == {"cluster 0"}


def test_nearly_equal_entries() -> None:
    """They differ beyond the precision of float32."""
    s = torch.full((5, 2), 0.5, dtype=torch.float64)
    s[:, 1] += 1e-12
    assert set(drawn(plotting.plot_clusters(graph(), s))) == {"cluster 1"}


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


def test_components_do_not_overlap() -> None:
    """Each has a rectangle of its own; in it, nodes lie as in a picture of the component."""
    pairs = [
        (first + i, first + (i + 1) % n)
        for first, n in ((0, 20), (20, 10), (30, 10))
        for i in range(n)
    ]
    data = Data(edge_index=torch.tensor(pairs).t(), num_nodes=42)
    component = torch.tensor([0] * 20 + [1] * 10 + [2] * 10 + [3, 4])
    ax = plotting.plot_clusters(data, component)
    boxes = [
        torch.from_numpy(nodes.get_offsets().data).aminmax(dim=0)
        for nodes in ax.collections
        if str(nodes.get_label()).startswith("cluster ")
    ]
    assert len(boxes) == 5
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            gap = torch.maximum(a.min - b.max, b.min - a.max)
            assert gap.max() > 0.1
    alone = plotting.plot_clusters(data.subgraph(torch.arange(20)), component[:20])
    small, large = alone.collections[1].get_offsets(), ax.collections[1].get_offsets()
    small, large = (torch.from_numpy(place.data) for place in (small, large))
    torch.testing.assert_close(torch.cdist(small, small) * 0.4 * 20**0.5, torch.cdist(large, large))


@pytest.mark.parametrize("transform", [ToDense(7), ToSparseTensor()], ids=["dense", "adj_t"])
def test_forms_of_graphs(transform: Any) -> None:
    """Of a padded graph, the rows of the nodes alone, or all of them."""
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


def test_a_new_figure_each_time() -> None:
    first, second = (plotting.plot_clusters(graph(), HARD) for _ in range(2))
    assert first.figure is not second.figure


@pytest.mark.parametrize("num_nodes", [0, 1])
@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_small_graphs(num_nodes: int, kind: str) -> None:
    data = Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=num_nodes)
    s = torch.zeros(num_nodes).long() if kind == "hard" else torch.ones(num_nodes, 3)
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


@pytest.mark.parametrize(
    ("s", "error", "message"),
    [
        (torch.eye(5).to_sparse(), TypeError, r"`s` must be"),
        ([0, 0, 1, 1, 1], TypeError, r"`s` must be a torch.Tensor, got list"),
        (torch.zeros(4).long(), ValueError, r"\[5\], \[5, K\] or \[1, 5, K\].*got \[4\]"),
        (torch.zeros(2, 5, 3), ValueError, r"got \[2, 5, 3\]"),
        (torch.zeros(5, 0), ValueError, r"got \[5, 0\]"),
        (torch.tensor(1), ValueError, r"got \[\]"),
        (torch.zeros(5), TypeError, r"`s` must hold integers where it is \[N\], got torch.float32"),
        (torch.tensor([0, 1, -1, 0, 0]), ValueError, r"`s` must hold clusters >= 0, got -1"),
        (torch.full((5, 2), torch.nan), ValueError, r"`s` must be finite, got 10 NaN"),
        (
            torch.zeros(5, 2, dtype=torch.cfloat),
            TypeError,
            r"`s` must be real, got torch.complex64",
        ),
    ],
)
def test_bad_assignments(s: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        plotting.plot_clusters(graph(), s)
    assert not matplotlib.pyplot.get_fignums()


def test_other_bad_arguments() -> None:
    with pytest.raises(TypeError, match="`data` must be a Data or a Batch of them, got HeteroData"):
        plotting.plot_clusters(HeteroData(), HARD)
    with pytest.raises(ValueError, match="`pos` must hold a place for each of the nodes 0 to 4"):
        plotting.plot_clusters(graph(), HARD, pos={0: (0, 0)})
    with pytest.raises(ValueError, match="`node_size` must be a finite number >= 0, got -1"):
        plotting.plot_clusters(graph(), HARD, node_size=-1)


def test_example() -> None:
    result = doctest.testmod(plotting)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("name", ["matplotlib", "networkx"])
def test_what_is_missing_is_said(name: str) -> None:
    program = f"""
import sys
sys.modules[{name!r}] = None
import torch
from torch_geometric.data import Data
from torch_geometric_simpool import plot_clusters
try:
    plot_clusters(Data(num_nodes=1, edge_index=torch.empty(2, 0).long()), torch.tensor([0]))
except ImportError as error:
    assert "pip install matplotlib networkx" in str(error), error
else:
    raise AssertionError
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

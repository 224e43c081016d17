"""Batches equal those of PyG exactly, in the same order."""

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from harness.data.batches import Batches, as_labels
from helpers.graphs import FLAVORS, draw


def graphs_of(sim: bool, edge_attr: bool) -> list[Data]:
    graphs = []
    for number, flavor in enumerate(FLAVORS):
        plain = draw(flavor, number)
        data = Data(
            x=torch.randn(plain.num_nodes, 3), edge_index=plain.edge_index, y=torch.tensor([number])
        )
        if sim:
            data.sim = torch.rand(plain.num_nodes, 4)
        if edge_attr:
            data.edge_attr = torch.rand(len(plain.edges), 2)
        graphs.append(data)
    return graphs


@pytest.mark.parametrize("sim", [True, False])
@pytest.mark.parametrize("edge_attr", [True, False])
@pytest.mark.parametrize("shuffle", [True, False])
def test_equal_those_of_pyg(shuffle: bool, edge_attr: bool, sim: bool) -> None:
    graphs = graphs_of(sim, edge_attr)
    generators = [torch.Generator().manual_seed(3) for _ in range(2)]
    ours = Batches(graphs, 4, torch.device("cpu"), generators[0] if shuffle else None)
    theirs = DataLoader(graphs, 4, shuffle=shuffle, generator=generators[1])
    for _ in range(3):  # every epoch has another order
        number = 0
        for a, b in zip(ours, theirs, strict=True):
            assert isinstance(b, Batch)
            assert a.num_graphs == b.num_graphs
            for name in ("x", "edge_index", "batch", "y"):
                assert torch.equal(getattr(a, name), b[name]), name
            for name, there in (("sim", sim), ("edge_attr", edge_attr)):
                assert (getattr(a, name) is not None) == there
                assert not there or torch.equal(getattr(a, name), b[name])
            number += a.num_graphs
        assert number == len(graphs)


def test_one_hot_features_become_labels() -> None:
    labels = [torch.tensor([2, 0, 1]), torch.tensor([1])]
    one_hot = [torch.eye(3)[label] for label in labels]
    assert [found.tolist() for found in as_labels(one_hot) or []] == [[2, 0, 1], [1]]
    graphs = [
        Data(x=x, edge_index=torch.zeros(2, 0, dtype=torch.long), y=torch.tensor([0]))
        for x in one_hot
    ]
    (batch,) = Batches(graphs, 2, torch.device("cpu"))
    assert batch.x.tolist() == [2, 0, 1, 1]


@pytest.mark.parametrize(
    "x",
    [
        [[1.0, 0.0], [1.0, 1.0]],
        [[1.0, 0.0], [0.0, 0.0]],
        [[0.5, 0.5]],
        [[2.0, -1.0]],
        [[1.0], [1.0]],
    ],
    ids=str,
)
def test_other_features_stay(x: list[list[float]]) -> None:
    features = [torch.tensor([[1.0, 0.0][: len(x[0])]]), torch.tensor(x)]
    assert as_labels(features) is features
    assert as_labels(None) is None
    assert as_labels([]) == []

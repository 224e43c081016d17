"""Batches equal those of PyG exactly, in the same order."""

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from harness.data.batches import Batches
from helpers.graphs import FLAVOURS, draw


def graphs_of(sim: bool, edge_attr: bool) -> list[Data]:
    graphs = []
    for number, flavour in enumerate(FLAVOURS):
        plain = draw(flavour, number)
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

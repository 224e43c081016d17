"""Data sets of small graphs, and a check of the features of a whole data set."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, InMemoryDataset

from helpers.graphs import draw_all
from torch_geometric_simpool import StructuralSimilarity


def graphs_of_all_flavors() -> list[Data]:
    return [graph.data(y=torch.tensor([n])) for n, graph in enumerate(draw_all(1) + draw_all(2))]


class InMemory(InMemoryDataset):
    def __init__(self, graphs: list[Data], transform: Any = None) -> None:
        super().__init__(None, transform)
        self.data, self.slices = self.collate(graphs)


def assert_same_as_one_by_one(
    transform: StructuralSimilarity, graphs: Iterable[Any], done: Iterable[Any]
) -> None:
    for data, out in zip(graphs, done, strict=True):
        alone = transform(data)
        assert type(out) is type(data)
        assert set(out.keys()) == set(alone.keys())  # PyG's order of keys is arbitrary
        for key, value in alone.to_dict().items():
            if isinstance(value, Tensor):
                assert out[key].dtype == value.dtype
                assert torch.equal(out[key].to_dense(), value.to_dense())

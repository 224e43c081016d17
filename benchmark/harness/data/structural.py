"""Structural features of data sets, with the nodes in given or in random order."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Optional

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from tqdm import tqdm

from harness.data.batches import Batches, GraphBatch, RedrawnBatches
from harness.data.encodings import FlippedBatches
from harness.data.load import WITH_ENCODINGS
from harness.errors import BenchmarkError
from torch_geometric_simpool import StructuralSimilarity

#: What assignment networks read, besides the choices of `SimPoolNet`: eigenvectors alone.
ENCODINGS = "laplacian"


def transform_of(settings: Any, device: str) -> Optional[StructuralSimilarity]:
    """The transform whose features a network reads; `None` if it reads none.

    `settings` are options, or a run of the study.
    """
    s = settings
    if s.method != "simpool" or s.features in ("node", ENCODINGS) or s.gru:
        return None
    order = None if s.order in ("given", "random", "random-epoch") else s.order
    return StructuralSimilarity(s.k, s.alpha, order, device=device, p=s.p, lam=s.lam)


def add_structural_features(
    graphs: list[Data], transform: StructuralSimilarity, at_once: int = 64
) -> None:
    """Writes `sim` to every graph, `at_once` of them at a time."""
    chunks = range(0, len(graphs), at_once)
    for start in tqdm(chunks, desc="structural similarity", leave=False, disable=None):
        chunk = graphs[start : start + at_once]
        features: Tensor = transform(Batch.from_data_list([edges_only(g) for g in chunk])).sim
        for graph, sim in zip(chunk, features.split([g.num_nodes for g in chunk])):
            graph.sim = sim


def edges_only(graph: Data) -> Data:
    """The graph without its features."""
    return Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)


def renumbered_features(
    graph: Data, transform: StructuralSimilarity, generator: torch.Generator
) -> Tensor:
    """The structural features under a random numbering of the nodes, in the given order."""
    number = torch.randperm(graph.num_nodes, generator=generator)
    other = Data(edge_index=number[graph.edge_index], num_nodes=graph.num_nodes)
    return transform(other).sim[number]


class RenumberedBatches(RedrawnBatches):
    """Batches of graphs whose nodes get random numbers whenever they are read."""

    def __init__(self, transform: StructuralSimilarity, graphs: list[Data], *more: Any) -> None:
        super().__init__(graphs, *more)
        self.graphs = graphs
        self.transform = transform

    def batch(self, chosen: Sequence[int]) -> GraphBatch:
        """One batch, its structural features under new numbers."""
        features = self.columns["sim"]
        assert features is not None
        for i in chosen:
            graph = self.graphs[i]
            features[i] = renumbered_features(graph, self.transform, self.drawn).to(self.device)
        return super().batch(chosen)


class RenumberedFlippedBatches(FlippedBatches, RenumberedBatches):
    """Batches of graphs that get both: random signs of eigenvectors, and random numbers."""


def training_batches(
    settings: Any, transform: Optional[StructuralSimilarity]
) -> Callable[..., Batches]:
    """How the training graphs are read, by options or a run and what :func:`transform_of` gives."""
    if settings.order == "random-epoch":
        if transform is None:
            raise BenchmarkError(
                "order: 'random-epoch' numbers nodes for structural features, which are not read "
                f"with method={settings.method!r}, features={settings.features!r}, "
                f"gru={settings.gru}"
            )
        if settings.node_features == WITH_ENCODINGS:
            return partial(RenumberedFlippedBatches, "x", transform)
        return partial(RenumberedBatches, transform)
    if settings.node_features == WITH_ENCODINGS:
        return partial(FlippedBatches, "x")
    if settings.method == "simpool" and settings.features == ENCODINGS:
        return partial(FlippedBatches, "sim")
    return Batches

"""Loads a data set by name: a generated one, or one of the TU collection."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, Optional

import torch
from torch_geometric.data import Data

from harness.data import communities, islands, motifs
from harness.data.encodings import SIZE, laplacian_encodings
from harness.data.graph_data import GraphData
from harness.data.tu import load_tu
from harness.errors import BenchmarkError

WITH_ENCODINGS = "labels+laplacian"
NODE_FEATURES = ("labels", "labels+attributes", WITH_ENCODINGS)


class Generator(NamedTuple):
    """A generated data set."""

    #: Takes the argument `seed`.
    generate: Callable[..., list[Data]]
    num_classes: int


#: The generated data sets by name.
GENERATED: dict[str, Generator] = {
    motifs.NAME: Generator(motifs.generate_motifs, motifs.NUM_CLASSES),
    motifs.BY_RING: Generator(partial(motifs.generate_motifs, by_ring=True), motifs.NUM_CLASSES),
    communities.NAME: Generator(communities.generate_communities, communities.NUM_CLASSES),
    islands.NAME: Generator(islands.generate_islands, islands.NUM_CLASSES),
}


def load(name: str, root: str, cleaned: bool, node_features: Optional[str], seed: int) -> GraphData:
    """Loads a data set. Whatever fails is a :class:`BenchmarkError` that says what to do."""
    if node_features == WITH_ENCODINGS:
        data = load(name, root, cleaned, "labels", seed)
        for graph, encodings in zip(data.graphs, laplacian_encodings(data.graphs, seed)):
            graph.x = torch.cat([encodings, graph.x], dim=1)
        return replace(data, node_features=WITH_ENCODINGS, num_encodings=SIZE)
    if name in GENERATED:
        if cleaned:
            raise BenchmarkError(f"--cleaned: {name!r} is generated, and has no cleaned form")
        if node_features == "labels+attributes":
            raise BenchmarkError(f"--node-features: {name!r} has no attributes, only labels")
        graphs = GENERATED[name].generate(seed=seed)
        return GraphData(name, graphs, GENERATED[name].num_classes, "labels", 0)
    graphs, num_classes, num_attributes, num_labels = load_tu(name, Path(root), cleaned)
    if node_features == "labels+attributes" and num_attributes == 0:
        raise BenchmarkError(f"--node-features labels+attributes: {name} has no node attributes")
    if node_features == "labels" and num_labels == 0:
        raise BenchmarkError(f"--node-features: {name} has no node labels")
    if num_attributes + num_labels == 0:
        node_features = "constant"
        for graph in graphs:
            graph.x = torch.ones(graph.num_nodes, 1)
    elif node_features is None:
        node_features = "labels+attributes" if num_attributes > 0 else "labels"
    if node_features == "labels" and num_attributes > 0:
        for graph in graphs:
            graph.x = graph.x[:, num_attributes:]
        num_attributes = 0
    return GraphData(name, graphs, num_classes, node_features, num_attributes)

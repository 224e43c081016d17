"""Loads a data set by name: generated, of the TU collection, or the user's own."""

import copy
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch
from filelock import FileLock
from torch_geometric.data import Data
from torch_geometric.datasets import TUDataset
from torch_geometric.transforms import Constant

from harness.command import BenchmarkError, first_line, import_object
from harness.data import gcb, motifs, twins
from harness.data.generated import communities, generate, islands
from harness.data.inputs import SIZE, laplacian_encodings
from harness.run import WITH_ENCODINGS

#: Generated data sets by name: how the graphs are made, and the number of classes.
_GENERATED: dict[str, tuple[Callable[..., list[Data]], int]] = {
    "motifs": (motifs.generate_motifs, motifs.NUM_CLASSES),
    "motifs-by-ring": (partial(motifs.generate_motifs, by_ring=True), motifs.NUM_CLASSES),
    "communities": (partial(generate, communities), 2),
    "islands": (partial(generate, islands), 2),
    **{name: (partial(twins.generate_twins, name), n) for name, n in twins.NUM_CLASSES.items()},
}


@dataclass
class GraphData:
    """Graphs to classify, and the meaning of the columns of `x`."""

    name: str
    graphs: list[Data]
    num_classes: int
    #: One of `NODE_FEATURES`, 'constant', or 'x' for a user's data.
    node_features: str
    #: The numbers of leading columns that are continuous, and that are computed from the edges.
    num_attributes: int = 0
    num_encodings: int = 0
    #: The graphs of each part of a published split.
    split: Optional[dict[str, np.ndarray]] = None

    @property
    def labels(self) -> np.ndarray:
        return np.array([int(graph.y) for graph in self.graphs])

    def describe(self) -> dict[str, Any]:
        """Returns the description that is stored with every result."""
        return {
            "name": self.name,
            "num_graphs": len(self.graphs),
            "mean_num_nodes": round(float(np.mean([g.num_nodes for g in self.graphs])), 2),
            "mean_num_edges": round(float(np.mean([g.num_edges / 2 for g in self.graphs])), 2),
            "num_classes": self.num_classes,
            "num_node_features": self.graphs[0].num_features,
            "edge_dim": self.graphs[0].num_edge_features or None,
            "checksum": self._checksum(),
        }

    def _checksum(self) -> str:
        """Returns a checksum, which tells data sets of one name apart.

        Encodings are left out, because they follow from the edges and may differ between CPUs.
        """
        digest = hashlib.sha256()
        for graph in self.graphs:
            x = graph.x[:, self.num_encodings :]
            for tensor in (graph.edge_index, x, graph.y, graph.edge_attr):
                digest.update(b"" if tensor is None else tensor.contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]

    def prepared(self, train: np.ndarray) -> list[Data]:
        """Returns the graphs in the form that networks read.

        Continuous columns get mean 0 and variance 1 over the nodes of the training graphs. One-hot
        features become integer labels `[N]`, which networks read faster.
        """
        x = torch.cat([graph.x for graph in self.graphs])
        attributes, rest = x.tensor_split([self.num_attributes], dim=1)
        if self.num_attributes > 0:
            of_training = torch.cat([self.graphs[i].x[:, : self.num_attributes] for i in train])
            mean, std = of_training.mean(dim=0), of_training.std(dim=0, correction=0)
            std[std == 0] = 1
            x = torch.cat([(attributes - mean) / std, rest], dim=1)
        elif x.size(1) > 1 and bool(((x == 0) | (x == 1)).all() and (x.sum(dim=1) == 1).all()):
            x = x.argmax(dim=1)
        graphs = [copy.copy(graph) for graph in self.graphs]
        for graph, rows in zip(graphs, x.split([graph.num_nodes for graph in graphs])):
            graph.x = rows
        return graphs


def load(name: str, root: str, cleaned: bool, node_features: Optional[str], seed: int) -> GraphData:
    """Loads a data set.

    Args:
        name (str): A generated data set, `gcb-easy` or `gcb-hard`, a data set of the TU collection,
            or `module:name`, a list of `Data` objects or a function that returns one.
        root (str): The folder of TU data sets, as for PyG's `TUDataset`, and of the folder `gcb`.
        cleaned (bool): Whether isomorphic graphs are left out, for TU data sets.
        node_features (str, optional): One of `NODE_FEATURES`. (default: all of the data set)
        seed (int): The seed of generated graphs, and of the signs of encodings.
    """
    if node_features == WITH_ENCODINGS:
        data = load(name, root, cleaned, "labels", seed)
        for graph, encodings in zip(data.graphs, laplacian_encodings(data.graphs, seed)):
            graph.x = torch.cat([encodings, graph.x], dim=1)
        return replace(data, node_features=WITH_ENCODINGS, num_encodings=SIZE)
    if ":" in name:
        return _of_user(name)
    if name in gcb.NAMES:
        graphs, parts = gcb.load_gcb(name, Path(root))
        return GraphData(name, graphs, gcb.NUM_CLASSES, "labels", split=parts)
    if name in _GENERATED:
        generate, num_classes = _GENERATED[name]
        return GraphData(name, generate(seed=seed), num_classes, "labels")
    return _of_collection(name, Path(root), cleaned, node_features)


def _of_user(name: str) -> GraphData:
    graphs = import_object(name, "--dataset")
    graphs = [copy.copy(graph) for graph in (graphs() if callable(graphs) else graphs)]
    for graph in graphs:
        graph.x = torch.ones(graph.num_nodes, 1) if graph.x is None else graph.x.float()
    classes = [graph.y for graph in graphs if graph.y is not None and graph.y.numel() == 1]
    if not graphs or len(classes) < len(graphs) or classes[0].is_floating_point():
        raise BenchmarkError(f"--dataset {name} needs graphs with an integer `y`, their class")
    return GraphData(name, graphs, 1 + max(map(int, classes)), "x")


def _of_collection(name: str, root: Path, cleaned: bool, node_features: Optional[str]) -> GraphData:
    """Loads a TU data set with PyG, which downloads missing files."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f".{name}.lock"):  # PyG's processing is not safe in two processes
            dataset = TUDataset(
                str(root), name, cleaned=cleaned, use_node_attr=node_features != "labels"
            )
    except Exception as error:  # network, files and PyTorch raise errors of many types
        raise BenchmarkError(
            f"--dataset {name} could not be loaded from {root}, nor downloaded: "
            f"{first_line(error)}. Generated data sets need no files, and the folder raw_cleaned "
            "is read with --cleaned: see --help"
        ) from error
    graphs, num_labels = list(dataset), dataset.num_node_labels
    num_attributes = 0 if node_features == "labels" else dataset.num_node_attributes
    if graphs[0].y.is_floating_point():
        raise BenchmarkError(f"--dataset {name} is for regression; this benchmark classifies")
    if (node_features == "labels" and num_labels == 0) or (
        node_features == "labels+attributes" and num_attributes == 0
    ):
        raise BenchmarkError(f"--node-features {node_features}: {name} has no such features")
    if num_attributes + num_labels == 0:
        node_features, graphs = "constant", [Constant()(graph) for graph in graphs]
    node_features = node_features or ("labels+attributes" if num_attributes > 0 else "labels")
    return GraphData(name, graphs, dataset.num_classes, node_features, num_attributes)

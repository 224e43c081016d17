"""A data set of graphs to classify."""

import copy
import hashlib
from dataclasses import dataclass
from typing import Optional

import numpy as np
import torch
from torch_geometric.data import Data


@dataclass
class GraphData:
    """Graphs to classify, and what their columns mean."""

    name: str
    graphs: list[Data]
    num_classes: int
    node_features: str  # one of `harness.data.load.NODE_FEATURES`, or 'constant'
    num_attributes: int  # leading columns of `x` that are continuous
    num_encodings: int = 0  # leading columns of `x` that were computed from the edges

    @property
    def num_features(self) -> int:
        return self.graphs[0].x.size(1)

    @property
    def edge_dim(self) -> Optional[int]:
        edge_attr = self.graphs[0].edge_attr
        return None if edge_attr is None else edge_attr.size(1)

    @property
    def labels(self) -> np.ndarray:
        return np.array([int(graph.y) for graph in self.graphs])

    def describe(self) -> dict:
        """What is stored of the data with every result."""
        edges = [graph.num_edges / 2 for graph in self.graphs]
        return {
            "name": self.name,
            "num_graphs": len(self.graphs),
            "mean_num_nodes": round(float(np.mean([g.num_nodes for g in self.graphs])), 2),
            "mean_num_edges": round(float(np.mean(edges)), 2),
            "num_classes": self.num_classes,
            "num_node_features": self.num_features,
            "edge_dim": self.edge_dim,
            "checksum": self._checksum(),
        }

    def _checksum(self) -> str:
        """Distinguishes data sets of the same name.

        It leaves out encodings, which follow from the edges and may differ from CPU to CPU.
        """
        digest = hashlib.sha256()
        for graph in self.graphs:
            known = [graph.edge_index, graph.x[:, self.num_encodings :], graph.y]
            if graph.edge_attr is not None:
                known.append(graph.edge_attr)
            for value in known:
                digest.update(value.contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]

    def standardized(self, train: np.ndarray) -> list[Data]:
        """The graphs, continuous columns standardized by the nodes of those in `train`."""
        if self.num_attributes == 0:
            return self.graphs
        known = torch.cat([self.graphs[i].x[:, : self.num_attributes] for i in train])
        mean, std = known.mean(dim=0), known.std(dim=0, correction=0)
        std[std == 0] = 1
        graphs = []
        for graph in self.graphs:
            attributes, labels = graph.x.tensor_split([self.num_attributes], dim=1)
            graphs.append(copy.copy(graph))
            graphs[-1].x = torch.cat([(attributes - mean) / std, labels], dim=1)
        return graphs

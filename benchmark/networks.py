"""The network of a run, by method: SimPool's, or a peer's."""

from typing import Any

import numpy as np
import torch

from data import GraphData
from options import BENCHMARK_PRESETS
from peers import PEERS
from torch_geometric_simpool.models import SimPoolNet


def build(settings: Any, data: GraphData, train: np.ndarray) -> torch.nn.Module:
    """The network that options, or a run of the study, describe.

    `train` numbers the graphs to train on: SortPool keeps as many nodes as most of them have.
    """
    architecture = BENCHMARK_PRESETS[settings.preset].architecture.scaled(settings.width)
    ends = (data.num_features, data.num_classes, architecture)
    if settings.method == "simpool":
        s = settings
        return SimPoolNet(*ends, s.k, s.p, s.lam, s.alpha, s.features, s.gru, data.edge_dim)
    more: dict[str, Any] = {}
    if settings.method == "sortpool":
        more["num_nodes"] = torch.tensor([data.graphs[i].num_nodes for i in train])
    return PEERS[settings.method](*ends, data.edge_dim, **more)


def count_parameters(model: torch.nn.Module) -> int:
    """The number of trained numbers."""
    return sum(parameter.numel() for parameter in model.parameters())

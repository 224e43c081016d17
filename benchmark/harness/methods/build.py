"""The network of a run: SimPool's, or a peer's."""

from typing import Any

import numpy as np
import torch

from harness.data.graph_data import GraphData
from harness.data.structural import ENCODINGS
from harness.methods.base import NetworkInput
from harness.methods.presets import BENCHMARK_PRESETS
from harness.methods.registry import PEERS, TGP
from torch_geometric_simpool.models import SimPoolNet


def build(settings: Any, data: GraphData, train: np.ndarray) -> torch.nn.Module:
    """Builds the network that `settings` describe: options, or a run of the study.

    `train` holds the indices of the training graphs.
    """
    s = settings
    architecture = BENCHMARK_PRESETS[s.preset].architecture.scaled(s.width)
    ends = (data.num_features, data.num_classes, architecture)
    if s.method == "simpool":
        return SimPoolNet(
            *ends,
            s.k,
            s.p,
            s.lam,
            s.alpha,
            "structural" if s.features == ENCODINGS else s.features,
            s.gru,
            data.edge_dim,
            readout=s.readout,
            dropout=s.dropout,
        )
    num_nodes = torch.tensor([data.graphs[i].num_nodes for i in train])
    given = NetworkInput(*ends, data.edge_dim, num_nodes, s.dropout, s.readout)
    return (PEERS | TGP)[s.method].build(given)


def count_parameters(model: torch.nn.Module) -> int:
    """The number of trainable parameters."""
    return sum(parameter.numel() for parameter in model.parameters())

"""The paper's classifier and the networks that it is made of."""

from torch_geometric_simpool.models.gmn import GMN, DenseGCN, GMNConv, GMNEncoder, GRUEncoder
from torch_geometric_simpool.models.presets import PRESETS, Architecture, Preset
from torch_geometric_simpool.models.sim_pool_net import SimPoolNet, SimPoolNetOutput
from torch_geometric_simpool.models.similarity_assignment import (
    SimilarityAssignment,
    SimilarNodes,
)

__all__ = [
    "GMN",
    "PRESETS",
    "Architecture",
    "DenseGCN",
    "GMNConv",
    "GMNEncoder",
    "GRUEncoder",
    "Preset",
    "SimPoolNet",
    "SimPoolNetOutput",
    "SimilarNodes",
    "SimilarityAssignment",
]

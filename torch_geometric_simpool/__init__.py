"""Graph pooling by structural similarity for PyTorch Geometric.

The package implements SimPool (Shulman 2020, arXiv:2006.02244). Start with
:class:`SimPool`, a pooling layer, or :func:`topk_similarity`, the most similar nodes of a graph.

Public functions check their arguments. An error names the argument: a `TypeError` for a wrong type,
a `ValueError` for a wrong value or shape.
"""

from torch_geometric_simpool.analysis.locality import locality
from torch_geometric_simpool.analysis.plotting import plot_clusters
from torch_geometric_simpool.functional.assignment import (
    cluster_loss,
    cluster_mask,
    entropy_loss,
    lift,
)
from torch_geometric_simpool.functional.mapping import map_indices
from torch_geometric_simpool.functional.pooling import (
    PooledGraphs,
    SimPoolOutput,
    dense_sim_pool,
    sim_pool,
)
from torch_geometric_simpool.functional.similarity import structural_similarity
from torch_geometric_simpool.layer import SimPool
from torch_geometric_simpool.topk.budget import TooExpensiveError
from torch_geometric_simpool.topk.estimate import TopKEstimate, estimate_topk
from torch_geometric_simpool.topk.matching import match_similar
from torch_geometric_simpool.topk.recommend import recommend
from torch_geometric_simpool.topk.similarity_graph import similarity_graph
from torch_geometric_simpool.topk.similarity_index import SimilarityIndex
from torch_geometric_simpool.topk.similarity_of_pairs import similarity_of_pairs
from torch_geometric_simpool.topk.topk_similarity import topk_similarity
from torch_geometric_simpool.transforms.add_similarity_edges import AddSimilarityEdges
from torch_geometric_simpool.transforms.node_order import node_order
from torch_geometric_simpool.transforms.structural_similarity import StructuralSimilarity

__version__ = "0.1.0"

__all__ = [
    "AddSimilarityEdges",
    "PooledGraphs",
    "SimPool",
    "SimPoolOutput",
    "SimilarityIndex",
    "StructuralSimilarity",
    "TooExpensiveError",
    "TopKEstimate",
    "cluster_loss",
    "cluster_mask",
    "dense_sim_pool",
    "entropy_loss",
    "estimate_topk",
    "lift",
    "locality",
    "map_indices",
    "match_similar",
    "node_order",
    "plot_clusters",
    "recommend",
    "sim_pool",
    "similarity_graph",
    "similarity_of_pairs",
    "structural_similarity",
    "topk_similarity",
]

"""Metrics of assignments, and pictures of clusters."""

from torch_geometric_simpool.analysis.locality import Locality, locality
from torch_geometric_simpool.analysis.plotting import plot_clusters

__all__ = ["Locality", "locality", "plot_clusters"]

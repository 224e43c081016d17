"""Metrics of assignments during and after training, and pictures of clusters."""

from torch_geometric_simpool.analysis.locality import Locality, locality
from torch_geometric_simpool.analysis.plotting import plot_clusters
from torch_geometric_simpool.analysis.recorder import AssignmentRecorder

__all__ = ["AssignmentRecorder", "Locality", "locality", "plot_clusters"]

"""Graphs larger than memory, and the top k on many processes or machines."""

from torch_geometric_simpool.distributed.graph import DiskGraph
from torch_geometric_simpool.distributed.run import topk_to_disk
from torch_geometric_simpool.distributed.store import TopKStore

__all__ = ["DiskGraph", "TopKStore", "topk_to_disk"]

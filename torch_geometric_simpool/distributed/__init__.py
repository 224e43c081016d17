"""Graphs larger than memory, and the top k on many processes or machines."""

try:
    import duckdb  # noqa: F401
    import pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"graphs on disk need {error.name}: pip install 'torch-geometric-simpool[distributed]'"
    ) from error

from torch_geometric_simpool.distributed.graph import DiskGraph
from torch_geometric_simpool.distributed.run import topk_to_disk
from torch_geometric_simpool.distributed.store import TopKStore

__all__ = ["DiskGraph", "TopKStore", "topk_to_disk"]

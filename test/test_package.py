"""Public names, and imports of optional packages."""

import subprocess
import sys
from importlib import metadata, resources

import torch_geometric_simpool
from torch_geometric_simpool import models

#: Names that the specification fixes.
PUBLIC = {
    "AddSimilarityEdges",
    "SimPool",
    "SimilarityIndex",
    "StructuralSimilarity",
    "cluster_loss",
    "cluster_mask",
    "dense_sim_pool",
    "entropy_loss",
    "estimate_topk",
    "lift",
    "map_indices",
    "plot_clusters",
    "sim_pool",
    "similarity_graph",
    "structural_similarity",
    "topk_similarity",
}
OPTIONAL = ["torch_sparse", "torch_scatter", "matplotlib", "networkx", "sklearn", "pyarrow"]
OPTIONAL += ["duckdb", "dask", "distributed", "triton", "tgp"]


def test_public_names() -> None:
    assert set(torch_geometric_simpool.__all__) >= PUBLIC
    assert {"GMNConv", "GMNEncoder", "SimPoolNet"} <= set(models.__all__)
    for module in (torch_geometric_simpool, models):
        assert len(module.__all__) == len(set(module.__all__))
        for name in module.__all__:
            assert getattr(module, name).__doc__, name


def test_types_and_version_are_published() -> None:
    assert resources.files("torch_geometric_simpool").joinpath("py.typed").is_file()
    assert torch_geometric_simpool.__version__ == metadata.version("torch-geometric-simpool")


def test_imports_without_optional_packages() -> None:
    program = f"""
import sys
sys.modules.update(dict.fromkeys({OPTIONAL!r}))
import torch
import torch_geometric_simpool.models
edge_index = torch.tensor([[0, 0, 1, 2], [1, 2, 0, 0]])
index = torch_geometric_simpool.topk_similarity(edge_index, 2)[1]
assert index.tolist() == [[0, -1], [1, 2], [1, 2]]
try:
    import torch_geometric_simpool.tgp
except ImportError as error:
    assert "pip install torch-geometric-pool" in str(error), error
else:
    raise AssertionError
try:
    import torch_geometric_simpool.distributed
except ImportError as error:
    assert "pip install 'torch-geometric-simpool[distributed]'" in str(error), error
else:
    raise AssertionError
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

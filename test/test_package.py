"""What is there to import, and what comes with it."""

import subprocess
import sys
from importlib import metadata, resources

import torch_geometric_simpool
from torch_geometric_simpool import models

#: The names that users rely on.
PUBLIC = {
    "TopKEstimate",
    "estimate_topk",
    "structural_similarity",
    "topk_similarity",
    "similarity_graph",
    "AddSimilarityEdges",
    "map_indices",
    "StructuralSimilarity",
    "dense_sim_pool",
    "sim_pool",
    "SimPool",
    "SimilarityIndex",
    "entropy_loss",
    "cluster_loss",
}
#: What there is beside it.
MORE = {"lift", "cluster_mask", "plot_clusters"}


def test_all_names_are_public() -> None:
    assert set(torch_geometric_simpool.__all__) == PUBLIC | MORE
    assert len(torch_geometric_simpool.__all__) == len(PUBLIC | MORE)
    for name in PUBLIC | MORE:
        assert callable(getattr(torch_geometric_simpool, name))


def test_models() -> None:
    assert {"GMNEncoder", "GMNConv", "SimPoolNet"} <= set(models.__all__)
    for name in models.__all__:
        assert getattr(models, name) is not None


def test_public_names_are_documented() -> None:
    """With what the anchors ask of a docstring: an example and, of a formula, its source."""
    for name in PUBLIC | MORE:
        text = getattr(torch_geometric_simpool, name).__doc__
        assert text is not None
        if name in ("TopKEstimate", "estimate_topk"):
            continue
        assert "Source:" in text or name in ("StructuralSimilarity", "AddSimilarityEdges")
        assert ">>>" in text or name == "cluster_loss"


def test_types_are_published() -> None:
    assert resources.files("torch_geometric_simpool").joinpath("py.typed").is_file()


def test_version_is_that_of_the_distribution() -> None:
    assert torch_geometric_simpool.__version__ == metadata.version("torch-geometric-simpool")


def test_imports_without_the_optional_packages() -> None:
    """Neither the benchmark's nor the sparse ones; numba where a top k is taken on a CPU only."""
    program = """
import sys
for name in (
    "torch_sparse", "torch_scatter", "numba", "matplotlib", "networkx", "sklearn", "pyarrow",
    "dask", "distributed",
):
    sys.modules[name] = None
import torch
import torch_geometric_simpool.distributed
import torch_geometric_simpool.models
assert torch_geometric_simpool.SimPool
assert not [name for name in sys.modules if name.startswith("torch_geometric_simpool.topk.numba")]
edge_index = torch.tensor([[0, 0, 1, 2], [1, 2, 0, 0]])
index = torch_geometric_simpool.topk_similarity(edge_index, 2, backend="torch")[1]
assert index.tolist() == [[0, -1], [1, 2], [1, 2]]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

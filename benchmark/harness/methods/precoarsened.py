"""Poolers of torch-geometric-pool (tgp) that read the edges alone: graphs are pooled once.

Nothing that is trained changes their clusters. To pool in every step, as the networks of
:mod:`harness.methods.tgp` do, would be most of the time of an epoch.
"""

from collections.abc import Sequence
from typing import Any

from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.nn import global_add_pool

from harness.data.structural import edges_only
from harness.errors import BenchmarkError, first_line
from harness.methods.base import PeerInput, PeerOutput
from harness.methods.presets import BENCHMARK_PRESETS
from harness.methods.tgp import PREFIX, TgpNet, clusters_of, pooler, takes_clusters
from harness.store.denormals import flushed_denormals

#: Poolers without parameters, whose clusters do not depend on node features.
NAMES = ("eigen", "ndp", "nmf", "sep")


class PrecoarsenedNet(TgpNet):
    """Reads pooled graphs that were computed before the training.

    Both levels are those of tgp's `PreCoarsening`, which pools every graph by itself. SEP takes
    them from one tree. Batches have them after :func:`set_pooled_graphs`. What the poolers
    are left to do is to reduce node features by the clusters of a level, its `so`.
    """

    def classify(self, graphs: PeerInput) -> PeerOutput:
        """Returns, in evaluation, the clusters of level 0."""
        assert graphs.pooled is not None
        level0, level1 = graphs.pooled
        x, batch = self.pool0.reduce(x=self.embed(graphs), so=level0.so, batch=graphs.batch)
        z1 = self.embed1(x, level0.edge_index, level0.edge_weight).relu()
        x, batch = self.pool1.reduce(x=z1, so=level1.so, batch=batch)
        z2 = self.embed2(x, level1.edge_index, level1.edge_weight).relu()
        logits = self.lin(global_add_pool(z2, batch, graphs.num_graphs))
        clusters = None if self.training else clusters_of(level0.so, graphs)
        return PeerOutput(logits, clusters=clusters)


def precoarsening(name: str, clusters: Sequence[int]) -> Any:
    """tgp's transform that pools a graph twice, to these numbers of clusters."""
    first, second = (pooler(name, clusters=k) for k in clusters)
    from tgp.data.transforms import PreCoarsening

    # Levels of one object are one hierarchy, of a pooler that chooses how many clusters there are.
    return PreCoarsening([first, second if takes_clusters(name) else first])


def set_pooled_graphs(settings: Any, graphs: Sequence[Data]) -> None:
    """Writes `pooled_data` to every graph, if the method reads it, and removes any other.

    `settings` are options, or a run of the study. EigenPooling, NDP and NMF draw from their seed.
    EigenPooling may still give other clusters the next time, of graphs whose pooled graph falls
    apart: where eigenvalues are equal, SciPy's solver draws numbers that have no seed.
    """
    for graph in graphs:
        if "pooled_data" in graph:
            del graph.pooled_data
    name = settings.method.removeprefix(PREFIX)
    if name == settings.method or name not in NAMES:
        return
    transform = precoarsening(name, BENCHMARK_PRESETS[settings.preset].architecture.clusters)
    seed_everything(settings.seed)
    for graph in graphs:
        try:
            # tgp's EigenPooling adds the smallest of all numbers to degrees that may be zero.
            with flushed_denormals(flushed=False):
                graph.pooled_data = transform(edges_only(graph)).pooled_data
        except (RuntimeError, ValueError) as error:  # NDP may keep no node where there is no edge
            raise BenchmarkError(
                f"--method {settings.method} cannot pool a graph of {graph.num_nodes} nodes and "
                f"{graph.num_edges} edges: {first_line(error)}"
            ) from error

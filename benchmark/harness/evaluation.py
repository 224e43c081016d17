"""Computes the metrics of a network on batches of graphs, and its assignments."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from harness.data.inputs import edges_only, make_loader
from harness.run import Drawing
from torch_geometric_simpool.analysis.locality import locality

#: The number of graphs that are stored with their clusters for a picture, and their largest number
#: of nodes.
_DRAWN, _DRAWN_NODES = 6, 130


@torch.no_grad()
def evaluate(model: torch.nn.Module, batches: Iterable[Batch]) -> dict[str, float]:
    """Returns the accuracy and, for each level of soft assignments, L_E, L_C and clusters used.

    All values are means over the graphs.
    """
    model.eval()
    sums: dict[str, Any] = {}
    graphs = 0
    for batch in batches:
        out, size = model(batch), batch.num_graphs
        metrics: dict[str, Any] = {"val_accuracy": (out.logits.argmax(dim=-1) == batch.y).sum()}
        for i, level in enumerate(out.levels):
            s, graph = level.s.flatten(0, -2), batch.batch
            if len(s) != len(graph):  # a coarse level: all graphs have one size
                graph = torch.arange(size, device=s.device).repeat_interleave(len(s) // size)
            metrics |= {
                # A cluster is used if it is the most probable cluster of a node.
                f"clusters_{i}": (graph * s.size(-1) + s.argmax(dim=-1)).unique().size(0),
                f"entropy_loss_{i}": level.entropy_loss * size,
                f"cluster_loss_{i}": level.cluster_loss * size,
            }
        for name, value in metrics.items():
            sums[name] = sums.get(name, 0) + value
        graphs += size
    return {name: float(value) / graphs for name, value in sums.items()}


@torch.no_grad()
def assignments(model: torch.nn.Module, graphs: list[Data], batch_size: int) -> dict[str, Any]:
    """Returns the locality of the clusters of level 0, and some graphs for a picture.

    The result is empty for a method that leaves nodes out.
    """
    model.eval()
    outputs = [model(batch) for batch in make_loader(graphs, batch_size)]
    has_levels = bool(outputs[0].levels)
    rows = [out.levels[0].s.argmax(dim=-1) if has_levels else out.clusters for out in outputs]
    if any(row is None for row in rows):
        return {}
    cluster = torch.cat(rows)
    num_clusters = outputs[0].levels[0].s.size(-1) if has_levels else int(cluster.max()) + 1
    whole = Batch.from_data_list([edges_only(graph) for graph in graphs])
    mean = locality(whole.edge_index, cluster, num_clusters, whole.batch, whole.num_graphs).mean()
    rows = cluster.split(whole.ptr.diff().tolist())
    # Graphs of median size show structure and fit into a picture.
    by_size = sorted(range(len(graphs)), key=lambda i: graphs[i].num_nodes)
    first = max((len(graphs) - _DRAWN) // 2, 0)
    return {
        # NaN, the locality of a graph without distances, is stored as null.
        "locality": {n: None if math.isnan(v) else round(v, 5) for n, v in mean.items()},
        "num_clusters": num_clusters,
        "drawn": [
            _drawing(graphs[i], rows[i])
            for i in sorted(by_size[first : first + _DRAWN])
            if graphs[i].num_nodes <= _DRAWN_NODES
        ],
    }


def _drawing(graph: Data, cluster: Tensor) -> Drawing:
    edges = [[i, j] for i, j in graph.edge_index.t().tolist() if i < j]
    labels = graph.x.tolist() if graph.x.dim() == 1 else None
    return Drawing(int(graph.y), edges, cluster.tolist(), labels)

"""The metrics of a network on batches of graphs, and its assignments."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from harness.command import BenchmarkError
from harness.data.batches import make_loader
from harness.data.structural import edges_only
from harness.run import Drawing
from torch_geometric_simpool.analysis.locality import locality
from torch_geometric_simpool.models import SimPoolNet

#: This many graphs of middling size are stored with their clusters, to be drawn, unless they have
#: more nodes than that.
_DRAWN, _DRAWN_NODES = 6, 130


class DivergedError(BenchmarkError):
    """The loss is infinite or NaN."""


def predict(model: torch.nn.Module, batch: Batch) -> Any:
    """Runs a network on a batch; returns a `SimPoolNetOutput` or a `NetworkOutput`."""
    try:
        if not isinstance(model, SimPoolNet):
            return model(batch)
        return model(
            batch.x,
            batch.edge_index,
            batch.batch,
            batch.get("sim"),
            batch.edge_attr,
            batch_size=batch.num_graphs,
        )
    except (ValueError, RuntimeError, IndexError) as error:
        finite = all(bool(parameter.isfinite().all()) for parameter in model.parameters())
        if finite and "finite" not in str(error):
            raise
        raise DivergedError("a layer returned numbers that are not finite") from error


@torch.no_grad()
def evaluate(model: torch.nn.Module, batches: Iterable[Batch]) -> dict[str, float]:
    """Returns the accuracy and, for each level of soft assignments, L_E, L_C and clusters used.

    All are means over the graphs.
    """
    model.eval()
    sums: dict[str, Tensor] = {}
    graphs = 0
    for batch in batches:
        out = predict(model, batch)
        size = batch.num_graphs
        metrics = {"val_accuracy": (out.logits.argmax(dim=-1) == batch.y).sum()}
        for i, level in enumerate(out.levels):
            s = level.s.flatten(0, -2)
            nodes = batch.batch
            if len(s) != len(nodes):  # a coarse level: all graphs have one size
                nodes = torch.arange(size, device=s.device).repeat_interleave(len(s) // size)
            metrics[f"clusters_{i}"] = clusters_used(s, nodes, size)
            metrics[f"entropy_loss_{i}"] = level.entropy_loss * size
            metrics[f"cluster_loss_{i}"] = level.cluster_loss * size
        for name, value in metrics.items():
            sums[name] = sums.get(name, torch.zeros_like(value)) + value
        graphs += size
    return {name: float(value) / graphs for name, value in sums.items()}


def clusters_used(s: Tensor, batch: Tensor, batch_size: int) -> Tensor:
    """Returns the number of clusters that are the most probable of a node, summed over graphs."""
    used = torch.zeros(batch_size, s.size(-1), dtype=torch.bool, device=s.device)
    used[batch, s.argmax(dim=-1)] = True
    return used.sum()


@torch.no_grad()
def predictions(model: torch.nn.Module, batches: list[Batch]) -> dict[str, Any]:
    """Returns the labels of test graphs, and the probabilities of their classes."""
    model.eval()
    labels = torch.cat([batch.y for batch in batches])
    rows = torch.cat([predict(model, batch).logits.softmax(dim=-1) for batch in batches])
    probabilities = [[round(value, 5) for value in row] for row in rows.tolist()]
    return {"test_labels": labels.tolist(), "test_probabilities": probabilities}


@torch.no_grad()
def assignments(model: torch.nn.Module, graphs: list[Data], batch_size: int) -> dict[str, Any]:
    """Returns the locality of the clusters of level 0, and some graphs to be drawn.

    Empty for a method that leaves nodes out.
    """
    model.eval()
    whole, clusters = Batch.from_data_list([edges_only(graph) for graph in graphs]), []
    num_clusters = 0
    for batch in make_loader(graphs, batch_size):
        out = predict(model, batch)
        if not out.levels and out.clusters is None:
            return {}
        clusters.append(out.levels[0].s.argmax(dim=-1) if out.levels else out.clusters)
        size = out.levels[0].s.size(-1) if out.levels else int(clusters[-1].max()) + 1
        num_clusters = max(num_clusters, size)
    cluster = torch.cat(clusters)
    mean = locality(whole.edge_index, cluster, num_clusters, whole.batch, whole.num_graphs).mean()
    rows = cluster.split(whole.ptr.diff().tolist())
    return {
        # A graph that is too small to have a distance has NaN, which is stored as null.
        "locality": {n: None if math.isnan(v) else round(v, 5) for n, v in mean.items()},
        "num_clusters": num_clusters,
        "drawn": [
            _drawing(graphs[i], rows[i])
            for i in sorted(middling(graphs, _DRAWN))
            if graphs[i].num_nodes <= _DRAWN_NODES
        ],
    }


def _drawing(graph: Data, cluster: Tensor) -> Drawing:
    upper = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
    labels = graph.x.tolist() if graph.x.dim() == 1 else None
    return Drawing(int(graph.y), upper.t().tolist(), cluster.tolist(), labels)


def middling(graphs: list[Data], count: int) -> list[int]:
    """Returns indices of graphs of middling size, which show structure and can be drawn."""
    by_size = sorted(range(len(graphs)), key=lambda i: graphs[i].num_nodes)
    first = max((len(by_size) - count) // 2, 0)
    return by_size[first : first + count]

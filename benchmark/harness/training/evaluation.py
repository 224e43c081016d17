"""The metrics of a network on batches of graphs, and its assignments."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves
from torch_geometric.data import Data

from harness.data.batches import AnyBatch, Batches, GraphBatch
from harness.errors import BenchmarkError
from harness.training.curves import LEVELS
from torch_geometric_simpool.analysis.locality import locality

#: The clusters of this many graphs of middling size are stored, to be drawn, if these have at most
#: this many nodes.
DRAWN, DRAWN_NODES = 6, 130


class DivergedError(BenchmarkError):
    """The loss, or what a layer returns, is infinite or NaN."""


def predict(model: torch.nn.Module, batch: AnyBatch) -> Any:
    """Runs a network on a batch; returns a `SimPoolNetOutput` or a `PeerOutput`.

    Raises :class:`DivergedError` where a pooling cannot go on with infinite numbers, or NaN.
    """
    try:
        return _run(model, batch)
    except (ValueError, RuntimeError, IndexError) as error:
        if "must be finite" in str(error) or _overflows(model, batch):
            raise DivergedError("a layer returns numbers that are not finite") from error
        raise


def _run(model: torch.nn.Module, batch: AnyBatch) -> Any:
    pooled = getattr(batch, "pooled", None)
    return model(
        batch.x,
        batch.edge_index,
        batch.batch,
        getattr(batch, "sim", None),
        batch.edge_attr,
        batch_size=batch.num_graphs,
        **({} if pooled is None else {"pooled": pooled}),
    )


@torch.no_grad()
def _overflows(model: torch.nn.Module, batch: AnyBatch) -> bool:
    """Whether a layer returns infinity, or NaN. Minus infinity may be a mask before a softmax.

    Each method has an error of its own for them, so the network is run again and looked at.
    """
    found = False

    def look(module: torch.nn.Module, given: tuple, returned: Any) -> None:
        nonlocal found
        for value in tree_leaves(returned):
            if isinstance(value, Tensor) and value.layout == torch.strided:
                found = found or bool((value.isnan() | (value == torch.inf)).any())

    hooks = [module.register_forward_hook(look) for module in model.modules()]
    try:
        _run(model, batch)
    except (ValueError, RuntimeError, IndexError):
        pass  # expected: what counts is what the layers before have returned
    finally:
        for hook in hooks:
            hook.remove()
    return found


@torch.no_grad()
def evaluate(model: torch.nn.Module, batches: Iterable[AnyBatch]) -> dict[str, float]:
    """Accuracy and, of methods with assignments, L_E, L_C and the clusters used by a graph.

    The latter are means over the graphs, level by level.
    """
    model.eval()
    sums: dict[str, Tensor] = {}
    graphs = 0
    for batch in batches:
        out = predict(model, batch)
        metrics = {"val_accuracy": (out.logits.argmax(dim=-1) == batch.y).sum()}
        for i, level in zip(LEVELS, out.levels):
            nodes = batch.batch
            if level.s.dim() == 3:  # a coarse level: all graphs have one size
                graph = torch.arange(batch.num_graphs, device=level.s.device)
                nodes = graph.repeat_interleave(level.s.size(1))
            s = level.s.flatten(0, -2)
            metrics[f"clusters_{i}"] = clusters_used(s, nodes, batch.num_graphs)
            metrics[f"entropy_loss_{i}"] = level.entropy_loss * batch.num_graphs
            metrics[f"cluster_loss_{i}"] = level.cluster_loss * batch.num_graphs
        for name, value in metrics.items():
            sums[name] = sums.get(name, torch.zeros_like(value)) + value
        graphs += batch.num_graphs
    return {name: float(value) / graphs for name, value in sums.items()}


@torch.no_grad()
def predictions(model: torch.nn.Module, batches: Iterable[AnyBatch]) -> dict[str, Any]:
    """The labels of test graphs, and the probabilities of their classes."""
    model.eval()
    labels: list[int] = []
    rows: list[list[float]] = []
    for batch in batches:
        labels += batch.y.tolist()
        rows += predict(model, batch).logits.softmax(dim=-1).tolist()
    return {
        "test_labels": labels,
        "test_probabilities": [[round(value, 5) for value in row] for row in rows],
    }


def clusters_used(s: Tensor, batch: Tensor, batch_size: int) -> Tensor:
    """The number of clusters that are the most probable one of a node, summed over graphs."""
    used = torch.zeros(batch_size, s.size(-1), dtype=torch.bool, device=s.device)
    used[batch, s.argmax(dim=-1)] = True
    return used.sum()


@torch.no_grad()
def assignments(model: torch.nn.Module, graphs: list[Data], batch_size: int) -> dict[str, Any]:
    """Locality of the hard assignments of level 0, and some of them, to be drawn.

    Empty for a method that leaves nodes out.
    """
    model.eval()
    found: list[tuple[GraphBatch, Tensor]] = []
    num_clusters = 0
    wanted = middling(graphs, DRAWN)
    drawn: list[dict[str, Any]] = []
    start = 0
    for batch in Batches(graphs, batch_size, torch.device("cpu")):
        out = predict(model, batch)
        if out.levels:
            s = out.levels[LEVELS[0]].s
            cluster, size = s.argmax(dim=-1), s.size(1)
        elif out.clusters is not None:
            cluster, size = out.clusters, int(out.clusters.max()) + 1
        else:
            return {}
        found.append((batch, cluster))
        num_clusters = max(num_clusters, size)
        for i in range(batch.num_graphs):
            graph = graphs[start + i]
            if start + i in wanted and graph.num_nodes <= DRAWN_NODES:
                upper = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
                drawn.append(
                    {
                        "class": int(graph.y),
                        "edges": upper.t().tolist(),
                        "clusters": cluster[batch.batch == i].tolist(),
                    }
                )
        start += batch.num_graphs
    sums = [
        locality(batch.edge_index, cluster, num_clusters, batch.batch, batch.num_graphs)
        for batch, cluster in found
    ]
    measures = type(sums[0])(*(torch.cat(parts) for parts in zip(*sums)))
    return {
        # JSON has no NaN, the value of graphs that are too small to have a distance.
        "locality": {n: None if math.isnan(v) else round(v, 5) for n, v in measures.mean().items()},
        "num_clusters": num_clusters,
        "drawn": drawn,
    }


def middling(graphs: list[Data], count: int) -> list[int]:
    """The indices of graphs of middling size, which show structure and can be drawn."""
    by_size = sorted(range(len(graphs)), key=lambda i: graphs[i].num_nodes)
    first = max((len(by_size) - count) // 2, 0)
    return by_size[first : first + count]

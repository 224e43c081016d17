"""One run of the study: the data that it reads, its training, and what is stored of it."""

import math
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch
from torch_geometric.data import Batch, Data

from batches import Batches, GraphBatch
from data import GraphData, load
from declarations import Run
from errors import BenchmarkError
from graph_classification import make_splits
from networks import build, count_parameters
from results import LEVELS, surroundings
from splits import read_splits, seeded_splits
from store import FORMAT
from torch_geometric_simpool import StructuralSimilarity
from torch_geometric_simpool.analysis.locality import locality
from training import evaluate, predict, run_fold

#: Graphs of middling size whose clusters are stored, to be drawn; on small graphs only.
DRAWN, DRAWN_NODES = 6, 130


class RenumberedBatches(Batches):
    """Batches of graphs that are renumbered at random whenever they are read."""

    def __init__(self, transform: StructuralSimilarity, graphs: list[Data], *more: Any) -> None:
        super().__init__(graphs, *more)
        self.graphs = graphs
        self.transform = transform
        assert self.order.generator is not None
        # Of its own: the order of the graphs stays what it is.
        seed = self.order.generator.initial_seed() + 1
        self.numbers = torch.Generator().manual_seed(seed)

    def batch(self, chosen: Sequence[int]) -> GraphBatch:
        """The graphs of those numbers, their structural features under new numbers."""
        features = self.columns["sim"]
        assert features is not None
        for i in chosen:
            graph = self.graphs[i]
            features[i] = renumbered_features(graph, self.transform, self.numbers).to(self.device)
        return super().batch(chosen)


def renumbered_features(
    graph: Data, transform: StructuralSimilarity, generator: torch.Generator
) -> torch.Tensor:
    """The structural features that the nodes have under numbers drawn at random."""
    number = torch.randperm(graph.num_nodes, generator=generator)
    other = Data(edge_index=number[graph.edge_index], num_nodes=graph.num_nodes)
    return transform(other).sim[number]


def perform(run: Run, root: str, device: str, splits: Optional[Path] = None) -> dict[str, Any]:
    """Trains what the run describes; returns what is stored of it."""
    start, busy = time.perf_counter(), time.process_time()
    data = load_data(run, root)
    parts = split(run, data, splits)
    graphs = data.standardised(parts["train"])
    settings = {**run.settings, "device": device}
    result: dict[str, Any] = {
        "format": FORMAT,
        "settings": run.settings,
        "data": data.describe(),
        "sizes": {name: len(indices) for name, indices in parts.items()},
        **surroundings(torch.device(device)),
    }
    # The order of training graphs, and the weights, differ between repetitions.
    seed = 1000 * run.seed + 100 * run.repetition + run.fold
    structural(run, data.graphs, device)
    for graph, with_sim in zip(graphs, data.graphs):
        graph.sim = with_sim.sim if "sim" in with_sim else None
    chosen: dict[str, Any] = {n: [graphs[i] for i in parts[n]] for n in parts}
    batches: Callable[..., Batches] = Batches
    if run.order == "random-epoch":
        batches = partial(RenumberedBatches, _transform(run, device))
    make = partial(build, run, data, parts["train"])
    result["num_parameters"] = count_parameters(make())
    try:
        fold = run_fold(
            make, chosen["train"], chosen["validation"], settings, seed, run.key, batches
        )
    except BenchmarkError as error:
        return {**result, "error": str(error), "seconds": time.perf_counter() - start}
    assert fold.model is not None
    result.update(
        best_val_accuracy=fold.best_val_accuracy,
        best_epoch=fold.best_epoch,
        seconds_per_epoch=round(fold.seconds_per_epoch, 4),
        history={n: [round(v, 5) for v in curve] for n, curve in fold.history.items()},
    )
    if "test" in chosen:
        tests = Batches(chosen["test"], run.batch_size, torch.device("cpu"))
        result["test_accuracy"] = evaluate(fold.model, tests)["val_accuracy"]
    result.update(assignments(fold.model, chosen["validation"], run.batch_size))
    result["seconds"] = round(time.perf_counter() - start, 1)
    result["cpu_seconds"] = round(time.process_time() - busy, 1)
    return result


def load_data(run: Run, root: str) -> GraphData:
    """The data set of a run, kept for the next one."""
    return _data(run.dataset, root, run.cleaned, run.node_features, run.seed)


@lru_cache(maxsize=2)
def _data(
    name: str, root: str, cleaned: bool, node_features: Optional[str], seed: int
) -> GraphData:
    return load(name, root, cleaned, node_features, seed)


def split(run: Run, data: GraphData, path: Optional[Path] = None) -> dict[str, np.ndarray]:
    """The indices of the graphs to train on, to validate on and, of a final run, to test on."""
    if run.protocol == "paper":
        train, validation = make_splits(data, run.folds, run.seed)[run.fold]
        return {"train": train, "validation": validation}
    if path is None:
        splits = seeded_splits(data.labels, run.folds, run.seed)
    else:
        splits = read_splits(path, run.dataset, len(data.graphs), run.folds)
    parts = dict(splits[run.fold])
    if run.protocol == "nested-selection":
        del parts["test"]
    return parts


def _transform(run: Run, device: str) -> StructuralSimilarity:
    order = None if run.order in ("given", "random", "random-epoch") else run.order
    return StructuralSimilarity(run.k, run.p, run.lam, run.alpha, device=device, order=order)


def structural(run: Run, graphs: list[Data], device: str) -> None:
    """Writes the structural features that a run reads to its graphs, and takes others away."""
    reads = run.method == "simpool" and run.features != "node" and not run.gru
    for graph in graphs:
        if "sim" in graph:
            del graph.sim
    if not reads:
        return
    transform = _transform(run, device)
    generator = torch.Generator().manual_seed(run.seed)
    for graph in graphs:
        if run.order.startswith("random"):
            graph.sim = renumbered_features(graph, transform, generator)
        else:
            plain = Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)
            graph.sim = transform(plain).sim


@torch.no_grad()
def assignments(model: torch.nn.Module, graphs: list[Data], batch_size: int) -> dict[str, Any]:
    """Locality of the hard assignments of level 0, and some of these, to be drawn."""
    model.eval()
    sums: list[Any] = []
    middle = sorted(range(len(graphs)), key=lambda i: graphs[i].num_nodes)
    first = max((len(middle) - DRAWN) // 2, 0)
    wanted = middle[first : first + DRAWN]
    drawn: list[dict[str, Any]] = []
    for start in range(0, len(graphs), batch_size):
        batch = Batch.from_data_list(graphs[start : start + batch_size])
        levels = predict(model, batch).levels
        if not levels:
            return {}
        s = levels[LEVELS[0]].s
        cluster = s.argmax(dim=-1)
        sums.append(locality(batch.edge_index, cluster, s.size(1), batch.batch, batch.num_graphs))
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
    measures = type(sums[0])(*(torch.cat(parts) for parts in zip(*sums)))
    return {
        # JSON knows no NaN: of graphs too small to have a distance, say.
        "locality": {n: None if math.isnan(v) else round(v, 5) for n, v in measures.mean().items()},
        "num_clusters": s.size(1),
        "drawn": drawn,
    }

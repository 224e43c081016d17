"""Performs one run of the study: its data, its training, and what is stored of it."""

import time
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch
from torch_geometric.data import Data

from harness.data.batches import Batches
from harness.data.encodings import laplacian_encodings
from harness.data.graph_data import GraphData
from harness.data.load import load
from harness.data.splits import make_splits, read_splits, seeded_splits
from harness.data.structural import (
    ENCODINGS,
    edges_only,
    renumbered_features,
    training_batches,
    transform_of,
)
from harness.methods.build import build, count_parameters
from harness.methods.precoarsened import set_pooled_graphs
from harness.store.denormals import flushed_denormals
from harness.store.surroundings import surroundings
from harness.study.run import Run
from harness.study.run_files import FORMAT
from harness.training.checkpoint import Checkpoint
from harness.training.evaluation import DivergedError, assignments, evaluate, predictions
from harness.training.fold import Training, run_fold

#: A run in the middle of its training is stored every so many epochs.
CHECKPOINT_EVERY = 10


@flushed_denormals()
def perform(
    run: Run,
    root: str,
    device: str,
    splits: Optional[Path] = None,
    checkpoint: Optional[Path] = None,
) -> dict[str, Any]:
    """Trains the network of a run; returns what is stored of it.

    `checkpoint` is the file of a run in the middle of its training, from which it goes on.
    """
    start, busy = time.perf_counter(), time.process_time()
    data = load_data(run, root)
    parts = split(run, data, splits)
    graphs = data.standardized(parts["train"])
    result: dict[str, Any] = {
        "format": FORMAT,
        "settings": run.settings,
        "data": data.describe(),
        "sizes": {name: len(indices) for name, indices in parts.items()},
        **surroundings(torch.device(device)),
    }
    # Repetitions differ in the initial weights and in the order of the training graphs.
    seed = 1000 * run.seed + 100 * run.repetition + run.fold
    set_structural_features(run, data.graphs, device)
    for graph, with_sim in zip(graphs, data.graphs):
        graph.sim = with_sim.sim if "sim" in with_sim else None
    set_pooled_graphs(run, graphs)
    chosen: dict[str, Any] = {n: [graphs[i] for i in parts[n]] for n in parts}
    make = partial(build, run, data, parts["train"])
    known = {**run.settings, **{f"data.{k}": v for k, v in result["data"].items()}}
    known["device"] = device
    stored = None if checkpoint is None else Checkpoint(checkpoint, known, CHECKPOINT_EVERY)
    result["num_parameters"] = count_parameters(make())
    try:
        fold = run_fold(
            make,
            chosen["train"],
            chosen["validation"],
            Training.of(run, device),
            seed,
            run.key,
            training_batches(run, transform_of(run, device)),
            stored,
        )
    except DivergedError as error:
        return {**result, "error": str(error), "seconds": time.perf_counter() - start}
    assert fold.model is not None
    result.update(
        best_val_accuracy=fold.best_val_accuracy,
        best_epoch=fold.best_epoch,
        seconds_per_epoch=round(fold.seconds_per_epoch, 4),
        history={n: [round(v, 5) for v in curve] for n, curve in fold.history.items()},
    )
    if "test" in chosen:
        tests = list(Batches(chosen["test"], run.batch_size, torch.device("cpu")))
        result["test_accuracy"] = evaluate(fold.model, tests)["val_accuracy"]
        if run.probabilities:
            result.update(predictions(fold.model, tests))
    result.update(assignments(fold.model, chosen["validation"], run.batch_size))
    result["seconds"] = round(fold.seconds_before + time.perf_counter() - start, 1)
    result["cpu_seconds"] = round(fold.cpu_seconds_before + time.process_time() - busy, 1)
    return result


def load_data(run: Run, root: str) -> GraphData:
    """The data set of a run, cached for the next run."""
    return _data(run.dataset, root, run.cleaned, run.node_features, run.seed)


@lru_cache(maxsize=2)
def _data(
    name: str, root: str, cleaned: bool, node_features: Optional[str], seed: int
) -> GraphData:
    return load(name, root, cleaned, node_features, seed)


def split(run: Run, data: GraphData, path: Optional[Path] = None) -> dict[str, np.ndarray]:
    """The indices of training and validation graphs and, for a final run, of test graphs."""
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


def set_structural_features(run: Run, graphs: list[Data], device: str) -> None:
    """Writes the structural features of a run to its graphs, and removes any others."""
    for graph in graphs:
        if "sim" in graph:
            del graph.sim
    if run.features == ENCODINGS:
        for graph, encodings in zip(graphs, laplacian_encodings(graphs, run.seed)):
            graph.sim = encodings
    transform = transform_of(run, device)
    if transform is None:
        return
    generator = torch.Generator().manual_seed(run.seed)
    for graph in graphs:
        if run.order.startswith("random"):
            graph.sim = renumbered_features(graph, transform, generator)
        else:
            graph.sim = transform(edges_only(graph)).sim

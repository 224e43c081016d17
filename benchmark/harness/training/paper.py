"""The folds of protocol 'paper'."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch_geometric.data import Data

from harness.data.graph_data import GraphData
from harness.data.structural import add_structural_features, training_batches, transform_of
from harness.methods.build import build, count_parameters
from harness.methods.precoarsened import set_pooled_graphs
from harness.training.checkpoint import Checkpoint
from harness.training.fold import Training, run_fold


class TrainedFold(NamedTuple):
    """A fold: what is stored of it, and what is drawn."""

    stored: dict[str, Any]
    model: torch.nn.Module
    validation: list[Data]


def train_folds(
    options: Any,
    data: GraphData,
    splits: list[tuple[np.ndarray, np.ndarray]],
    numbers: list[int],
    checkpoint_of: Callable[[int], Checkpoint],
) -> Iterator[TrainedFold]:
    """Trains the folds with these numbers, one after another.

    `options` are those of `graph_classification.py`, `splits` of every fold the training and
    the validation graphs, `checkpoint_of` gives the checkpoint of a fold.
    """
    if not numbers:
        return
    transform = transform_of(options, options.device)
    if transform is not None:
        add_structural_features(data.graphs, transform)
    set_pooled_graphs(options, data.graphs)
    for number in numbers:
        train, val = splits[number]
        graphs = data.standardized(train)
        validation = [graphs[i] for i in val]
        start = time.perf_counter()
        fold = run_fold(
            partial(build, options, data, train),
            [graphs[i] for i in train],
            validation,
            Training.of(options, options.device),
            seed=1000 * options.seed + number,
            label=f"fold {number}",
            batches=training_batches(options, transform),
            checkpoint=checkpoint_of(number),
        )
        assert fold.model is not None
        stored = {
            "fold": number,
            "best_val_accuracy": fold.best_val_accuracy,
            "best_epoch": fold.best_epoch,
            "seconds_per_epoch": fold.seconds_per_epoch,
            "seconds": fold.seconds_before + time.perf_counter() - start,
            "num_parameters": count_parameters(fold.model),
            "num_train": len(train),
            "num_val": len(val),
            "history": fold.history,
        }
        yield TrainedFold(stored, fold.model, validation)

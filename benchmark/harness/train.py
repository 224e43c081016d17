"""Trains the network of one run."""

import copy
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch
from torch import Tensor
from torch.optim.swa_utils import update_bn
from torch_geometric import seed_everything
from torch_geometric.data import Batch, Data

from harness.checkpoint import (
    EVERY,
    load_checkpoint,
    random_state,
    save_checkpoint,
    set_random_state,
)
from harness.data.batches import TrainingBatches, make_loader
from harness.data.load import GraphData, load
from harness.data.similar import set_similar_nodes
from harness.data.splits import make_splits, read_splits, seeded_splits
from harness.data.structural import set_structural_features, training_batches
from harness.evaluation import DivergedError, assignments, evaluate, predict, predictions
from harness.machine import provenance
from harness.methods.pooled import set_pooled_graphs
from harness.methods.registry import build
from harness.run import Result, Run

#: Is called after every epoch with its number, counted from 1, and its metrics.
Report = Callable[[int, dict[str, float]], None]


@dataclass(frozen=True)
class Place:
    """The files and the device of a training."""

    root: str
    device: str = "cpu"
    #: The file of published splits, or a folder with one for each data set.
    splits: Optional[Path] = None


@lru_cache(maxsize=2)
def _load(
    name: str, root: str, cleaned: bool, node_features: Optional[str], seed: int
) -> GraphData:
    return load(name, root, cleaned, node_features, seed)


def load_data(run: Run, root: str) -> GraphData:
    """Returns the data set of a run, which is kept for the next run."""
    return _load(run.dataset, root, run.cleaned, run.node_features, run.seed)


def split(run: Run, data: GraphData, path: Optional[Path] = None) -> dict[str, np.ndarray]:
    """Returns the indices of training and validation graphs and, in a final run, of test graphs."""
    if run.protocol == "paper":
        train, validation = make_splits(data, run.folds, run.seed)[run.fold]
        return {"train": train, "validation": validation}
    if run.protocol == "published" and data.split is not None:
        return data.split
    if path is None or run.protocol == "tested":
        splits = seeded_splits(data.labels, run.folds, run.seed)
    else:
        splits = read_splits(path, run.dataset, len(data.graphs), run.folds)
    parts = dict(splits[run.fold])
    if run.protocol == "nested-selection":
        del parts["test"]
    return parts


def train(
    run: Run, place: Place, checkpoint: Optional[Path] = None, report: Optional[Report] = None
) -> Result:
    """Trains the network of a run and measures it.

    The result depends on `run` and the data alone. Training goes on from `checkpoint` if there is
    such a file.
    """
    start, busy = time.perf_counter(), time.process_time()
    data = load_data(run, place.root)
    parts = split(run, data, place.splits)
    graphs = data.prepared(parts["train"])
    set_structural_features(run, graphs, place.device)
    set_similar_nodes(run, graphs)
    set_pooled_graphs(run, graphs)
    chosen = {name: [graphs[i] for i in numbers] for name, numbers in parts.items()}
    # Repetitions differ in the initial weights and in the order of the training graphs.
    seed = 1000 * run.seed + 100 * run.repetition + run.fold
    seed_everything(seed)
    model = build(run, data, parts["train"]).to(place.device)
    result = Result(
        run,
        data=data.describe(),
        sizes={name: len(numbers) for name, numbers in parts.items()},
        num_parameters=sum(parameter.numel() for parameter in model.parameters()),
        **provenance(torch.device(place.device)),
    )
    training = Training(run, model, training_batches(run, chosen["train"], seed), place.device)
    try:
        if checkpoint is not None:
            training.resume(checkpoint)
        training.fit(chosen["validation"], checkpoint, report)
        model.load_state_dict(training.best_state)
        _measure(result, model.cpu(), chosen)
    except DivergedError as error:
        result.error = str(error)
    result.best_val_accuracy, result.best_epoch = training.best_accuracy, training.best_epoch
    result.seconds_per_epoch = round(training.seconds / run.epochs, 4)
    result.history = {n: [round(v, 5) for v in curve] for n, curve in training.history.items()}
    result.seconds = round(training.seconds_before + time.perf_counter() - start, 1)
    result.cpu_seconds = round(training.cpu_seconds_before + time.process_time() - busy, 1)
    return result


def _measure(result: Result, model: torch.nn.Module, chosen: dict[str, list[Data]]) -> None:
    """Measures the network after its best epoch, on the CPU."""
    size = result.run.batch_size
    if "test" in chosen:
        tests = list(make_loader(chosen["test"], size))
        result.test_accuracy = evaluate(model, tests)["val_accuracy"]
        if result.run.probabilities:
            vars(result).update(predictions(model, tests))
    vars(result).update(assignments(model, chosen["validation"], size))


@dataclass
class Training:
    """A network in training, with the metrics of every epoch."""

    run: Run
    model: torch.nn.Module
    batches: TrainingBatches
    device: str
    history: dict[str, list[float]] = field(default_factory=dict)
    best_accuracy: float = -1.0
    best_epoch: int = 0
    best_state: dict[str, Tensor] = field(default_factory=dict)
    #: Seconds of all epochs by the clock and of the CPU, and their part before a stop.
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    seconds_before: float = 0.0
    cpu_seconds_before: float = 0.0

    def __post_init__(self) -> None:
        run = self.run
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=run.lr, weight_decay=run.weight_decay, fused=True
        )

    def fit(
        self, validation: list[Data], checkpoint: Optional[Path], report: Optional[Report]
    ) -> None:
        """Trains all epochs, and keeps the weights after the best one."""
        loader = make_loader(validation, self.run.batch_size)
        val_batches = [batch.to(self.device) for batch in loader]
        stored = time.monotonic()
        for epoch in range(len(self.history.get("loss", [])) + 1, self.run.epochs + 1):
            start, busy = time.perf_counter(), time.process_time()
            metrics = self._epoch(epoch)
            if not math.isfinite(metrics["loss"]):
                raise DivergedError(f"training diverged in epoch {epoch} at --lr {self.run.lr:g}")
            if self.run.preset == "narrow":  # running averages mislead on regular graphs
                update_bn(self.batches, self.model)
            metrics |= evaluate(self.model, val_batches)
            self.seconds += time.perf_counter() - start
            self.cpu_seconds += time.process_time() - busy
            for name, value in metrics.items():
                self.history.setdefault(name, []).append(value)
            if metrics["val_accuracy"] > self.best_accuracy:
                self.best_accuracy, self.best_epoch = metrics["val_accuracy"], epoch
                self.best_state = copy.deepcopy(self.model.state_dict())
            if report is not None:
                report(epoch, {**metrics, "best": self.best_accuracy})
            if checkpoint is not None and time.monotonic() - stored > EVERY:
                save_checkpoint(checkpoint, self.run, self._state())
                stored = time.monotonic()

    def _epoch(self, epoch: int) -> dict[str, float]:
        """Trains on all batches once."""
        entropy_scaler = 1.0 if self.run.entropy_scaler is None else self.run.entropy_scaler
        warmup = self.run.entropy_warmup * self.run.epochs
        if epoch <= warmup:
            entropy_scaler *= (epoch - 1) / warmup
        cluster_scaler = self.run.cluster_scaler
        loss, accuracy = train_epoch(
            self.model, self.batches, self.optimizer, self.device, entropy_scaler, cluster_scaler
        )
        return {"loss": loss, "train_accuracy": accuracy}

    _STORED = ("history", "best_accuracy", "best_epoch", "best_state", "seconds", "cpu_seconds")

    def _state(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in self._STORED},
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "random": random_state(self.batches.generators),
        }

    def resume(self, checkpoint: Path) -> None:
        """Restores the state of a checkpoint, if there is one of this run."""
        state = load_checkpoint(checkpoint, self.run)
        if state is None:
            return
        for name in self._STORED:
            setattr(self, name, state[name])
        self.seconds_before, self.cpu_seconds_before = self.seconds, self.cpu_seconds
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        set_random_state(state["random"], self.batches.generators)


def train_epoch(
    model: torch.nn.Module,
    batches: Iterable[Batch],
    optimizer: torch.optim.Optimizer,
    device: str = "cpu",
    entropy_scaler: float = 1.0,
    cluster_scaler: Optional[float] = 1.0,
) -> tuple[float, float]:
    """Trains on all batches once; returns the mean loss and the training accuracy."""
    model.train()
    sums, graphs = torch.zeros(2, device=device), 0
    for batch in batches:
        batch = batch.to(device)
        out = predict(model, batch)
        loss = out.loss(batch.y, entropy_scaler, cluster_scaler)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            correct = (out.logits.argmax(dim=-1) == batch.y).sum()
            # Summed on the device, and read at the end of the epoch.
            sums += torch.stack([loss * batch.num_graphs, correct.to(loss.dtype)])
        graphs += batch.num_graphs
    loss_sum, correct_sum = sums.tolist()
    return loss_sum / graphs, correct_sum / graphs

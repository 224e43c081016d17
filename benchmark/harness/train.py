"""Trains the network of one run."""

import copy
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch
from torch import Tensor
from torch.optim.swa_utils import update_bn
from torch_geometric import seed_everything
from torch_geometric.data import Batch, Data

from harness.command import first_line
from harness.data.inputs import TrainingBatches, make_loader, set_structural_features
from harness.data.load import GraphData, load
from harness.data.similar import set_similar_nodes
from harness.data.splits import make_splits, read_splits, seeded_splits
from harness.evaluation import assignments, evaluate
from harness.machine import provenance
from harness.methods.pooled import set_pooled_graphs
from harness.methods.registry import build
from harness.run import Result, Run

#: A function that is called after every epoch with its number, counted from 1, and its metrics.
Report = Callable[[int, dict[str, float]], None]
#: The time between two checkpoints, in seconds.
EVERY = 30.0


@dataclass(frozen=True)
class Place:
    """The files and the device of a training."""

    root: str
    device: str = "cpu"
    #: The file of published splits, or a folder with one for each data set.
    splits: Optional[Path] = None


#: The data set stays in memory for the next run.
_load = lru_cache(maxsize=2)(load)


def split(run: Run, data: GraphData, path: Optional[Path] = None) -> dict[str, np.ndarray]:
    """Returns the indices of training and validation graphs and, in a final run, of test graphs."""
    if run.protocol == "published" and data.split is not None:
        return data.split
    if run.protocol == "paper":
        folds = make_splits(data.labels, run.folds, run.seed)
        splits = [dict(zip(("train", "validation"), fold)) for fold in folds]
    elif run.splits in (None, "seeded"):
        splits = seeded_splits(data.labels, run.folds, run.seed)
    else:
        splits = read_splits(path, run.dataset, len(data.graphs), run.folds)
    unread = "test" if run.protocol == "nested-selection" else ""
    return {part: numbers for part, numbers in splits[run.fold].items() if part != unread}


def train(
    run: Run,
    place: Place,
    checkpoint: Optional[Path] = None,
    report: Report = lambda epoch, metrics: None,
) -> Result:
    """Trains the network of a run and measures it.

    The result depends only on `run` and the data. Training continues from the file `checkpoint` if
    it exists.
    """
    state: dict[str, Any] = {}
    if checkpoint is not None and checkpoint.exists():
        # A file that is read with `weights_only` cannot run code.
        state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    result = Result(run, **state.get("result", {}))
    with _timed(result):
        data = _load(run.dataset, place.root, run.cleaned, run.node_features, run.seed)
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
        batches = TrainingBatches(run, chosen["train"], seed)
    vars(result).update(
        data=data.describe(),
        sizes={name: len(numbers) for name, numbers in parts.items()},
        num_parameters=sum(parameter.numel() for parameter in model.parameters()),
        **provenance(torch.device(place.device)),
    )
    try:
        fit(result, model, batches, chosen["validation"], state, checkpoint, report)
        with _timed(result):
            _measure(result, model.cpu(), chosen)
    except (ValueError, RuntimeError, IndexError) as error:
        finite = all(bool(parameter.isfinite().all()) for parameter in model.parameters())
        if finite and "finite" not in str(error):
            raise
        result.error = f"training diverged: {first_line(error)}"
    result.history = {n: [round(v, 5) for v in curve] for n, curve in result.history.items()}
    return result


@contextmanager
def _timed(result: Result) -> Iterator[None]:
    """Adds the seconds and the CPU seconds of a block to the result."""
    start, busy = time.perf_counter(), time.process_time()
    yield
    result.seconds += time.perf_counter() - start
    result.cpu_seconds = (result.cpu_seconds or 0.0) + time.process_time() - busy


def fit(
    result: Result,
    model: torch.nn.Module,
    batches: TrainingBatches,
    validation: list[Data],
    state: dict[str, Any],
    checkpoint: Optional[Path],
    report: Report,
) -> None:
    """Trains the remaining epochs, and loads the weights of the best epoch."""
    run = result.run
    device = next(model.parameters()).device
    val_batches = [batch.to(device) for batch in make_loader(validation, run.batch_size)]
    optimizer = torch.optim.Adam(
        model.parameters(), lr=run.lr, weight_decay=run.weight_decay, fused=True
    )
    entropy_scaler = 1.0 if run.entropy_scaler is None else run.entropy_scaler
    warmup = run.entropy_warmup * run.epochs
    best_state: dict[str, Tensor] = {}
    generators = [torch.default_generator, *batches.generators]
    if state:
        best_state = state["best_state"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        for generator, stored in zip(generators, state["generators"]):
            generator.set_state(stored)
    last_stored = time.monotonic()
    for epoch in range(len(result.history.get("loss", [])) + 1, run.epochs + 1):
        before = result.seconds
        with _timed(result):
            # The factor of L_E grows from 0 during the warmup.
            factor = entropy_scaler * ((epoch - 1) / warmup if epoch <= warmup else 1.0)
            metrics = train_epoch(model, batches, optimizer, factor, run.cluster_scaler)
            if not math.isfinite(metrics["loss"]):
                raise ValueError(f"the loss is not finite in epoch {epoch} at --lr {run.lr:g}")
            if run.norm:
                update_bn(batches, model)
            metrics |= evaluate(model, val_batches)
        result.seconds_per_epoch += (result.seconds - before) / run.epochs
        for name, value in metrics.items():
            result.history.setdefault(name, []).append(value)
        if metrics["val_accuracy"] > result.best_val_accuracy:
            result.best_val_accuracy, result.best_epoch = metrics["val_accuracy"], epoch
            best_state = copy.deepcopy(model.state_dict())
        report(epoch, {**metrics, "best": result.best_val_accuracy})
        if checkpoint is not None and time.monotonic() - last_stored > EVERY:
            state = {
                "result": {name: v for name, v in vars(result).items() if name != "run"},
                "best_state": best_state,
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "generators": [generator.get_state() for generator in generators],
            }
            _save_checkpoint(checkpoint, state)
            last_stored = time.monotonic()
    model.load_state_dict(best_state)


def _save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Stores the state of a training. If the process is killed, the previous file stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    torch.save(state, temporary)
    os.replace(temporary, path)


def _measure(result: Result, model: torch.nn.Module, chosen: dict[str, list[Data]]) -> None:
    """Measures the network after its best epoch, on the CPU."""
    size = result.run.batch_size
    if "test" in chosen:
        tests = list(make_loader(chosen["test"], size))
        result.test_accuracy = evaluate(model, tests)["val_accuracy"]
        if result.run.probabilities:
            with torch.no_grad():
                rows = torch.cat([model(batch).logits.softmax(dim=-1) for batch in tests]).tolist()
            result.test_probabilities = [[round(value, 5) for value in row] for row in rows]
            result.test_labels = torch.cat([batch.y for batch in tests]).tolist()
    vars(result).update(assignments(model, chosen["validation"], size))


def train_epoch(
    model: torch.nn.Module,
    batches: Iterable[Batch],
    optimizer: torch.optim.Optimizer,
    entropy_scaler: float = 1.0,
    cluster_scaler: Optional[float] = 1.0,
) -> dict[str, float]:
    """Trains on all batches once; returns the mean loss and the training accuracy."""
    model.train()
    device = next(model.parameters()).device
    sums, graphs = torch.zeros(2, device=device), 0
    for batch in batches:
        batch = batch.to(device)
        out = model(batch)
        loss = out.loss(batch.y, entropy_scaler, cluster_scaler)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            correct = (out.logits.argmax(dim=-1) == batch.y).sum()
            # The sums stay on the device during the epoch, so that a step does not wait for it.
            sums += torch.stack([loss * batch.num_graphs, correct.to(loss.dtype)])
        graphs += batch.num_graphs
    loss_sum, correct_sum = sums.tolist()
    return {"loss": loss_sum / graphs, "train_accuracy": correct_sum / graphs}

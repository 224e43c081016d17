"""Training and evaluation on one fold."""

import copy
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Optional, Union

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from tqdm import tqdm

from batches import Batches, GraphBatch
from errors import BenchmarkError
from results import LEVELS

AnyBatch = Union[Batch, GraphBatch]

#: The C library of Linux gives freed memory back to the system beyond twice the largest block
#: that it has had from it and freed, up to blocks of this size; the activations of the next step
#: then come page by page again. One such block, once, and it keeps them: a tenth of the time of
#: an epoch of D&D on a CPU.
KEPT = 31 << 20


@dataclass
class FoldRun:
    """What came of a fold, with its figures after every epoch."""

    best_val_accuracy: float = -1.0
    best_epoch: int = 0  # counted from 1; the first with the best accuracy
    seconds_per_epoch: float = 0.0
    history: dict[str, list[float]] = field(default_factory=dict)
    #: The network as it was after the best epoch.
    model: Optional[torch.nn.Module] = None


def run_fold(
    build: Callable[[], torch.nn.Module],
    train: list[Data],
    val: list[Data],
    settings: dict[str, Any],
    seed: int,
    label: str,
    batches: Callable[..., Batches] = Batches,
) -> FoldRun:
    """Builds a network and trains it on `train`; keeps the best epoch on `val`.

    `batches` makes the batches to train on, in place of :class:`Batches`. The outcome depends
    on the arguments alone, so a fold can be run by itself.
    """
    device = torch.device(settings["device"])
    torch.empty(KEPT, dtype=torch.uint8)
    torch.manual_seed(seed)
    model = build().to(device)
    optimizer = adam(model, settings["lr"])
    generator = torch.Generator().manual_seed(seed)
    shuffled = batches(train, settings["batch_size"], device, generator)
    # Batches of the validation fold do not change, so they are made once.
    val_batches = list(Batches(val, settings["batch_size"], device))
    run = FoldRun()
    best_state: dict[str, Tensor] = {}
    seconds = 0.0
    epochs = tqdm(range(1, settings["epochs"] + 1), desc=label, disable=None)
    for epoch in epochs:
        start = time.perf_counter()
        try:
            figures = {
                **_train_epoch(model, shuffled, optimizer, settings),
                **evaluate(model, val_batches),
            }
        except ValueError as error:
            if "must be finite" not in str(error):
                raise
            figures = {"loss": math.nan}
        if not math.isfinite(figures["loss"]):
            epochs.close()
            raise BenchmarkError(
                f"training diverged in epoch {epoch}: choose a lower --lr than {settings['lr']:g}"
                ", or other scalers"
            )
        seconds += time.perf_counter() - start
        for name, value in figures.items():
            run.history.setdefault(name, []).append(value)
        if figures["val_accuracy"] > run.best_val_accuracy:
            run.best_val_accuracy, run.best_epoch = figures["val_accuracy"], epoch
            best_state = copy.deepcopy(model.state_dict())
        epochs.set_postfix(
            loss=f"{figures['loss']:.3f}",
            val=f"{figures['val_accuracy']:.3f}",
            best=f"{run.best_val_accuracy:.3f}",
            clusters="/".join(
                f"{figures[f'clusters_{i}']:.1f}" for i in LEVELS if f"clusters_{i}" in figures
            ),
        )
    run.seconds_per_epoch = seconds / settings["epochs"]
    model.load_state_dict(best_state)
    run.model = model.cpu()
    return run


def adam(model: torch.nn.Module, lr: float) -> torch.optim.Adam:
    """Adam in one pass over each parameter, which is the same step in a seventh of the time."""
    fused = all(parameter.device.type in ("cpu", "cuda") for parameter in model.parameters())
    return torch.optim.Adam(model.parameters(), lr=lr, fused=fused or None)


def predict(model: torch.nn.Module, batch: AnyBatch) -> Any:
    """Runs a network on a batch: a `SimPoolNetOutput`, or what a peer has for it."""
    return model(
        batch.x,
        batch.edge_index,
        batch.batch,
        getattr(batch, "sim", None),
        batch.edge_attr,
        batch_size=batch.num_graphs,
    )


def _train_epoch(
    model: torch.nn.Module,
    batches: Iterable[AnyBatch],
    optimizer: torch.optim.Optimizer,
    settings: dict[str, Any],
) -> dict[str, float]:
    model.train()
    total, graphs = torch.zeros(2), 0
    for batch in batches:
        out = predict(model, batch)
        loss = out.loss(batch.y, settings["entropy_scaler"], settings["cluster_scaler"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            correct = (out.logits.argmax(dim=-1) == batch.y).sum()
            # Where the loss is; it is read at the end of the epoch.
            total = total.to(loss.device)
            total += torch.stack([loss * batch.num_graphs, correct.to(loss.dtype)])
        graphs += batch.num_graphs
    loss_sum, correct_sum = total.tolist()
    return {"loss": loss_sum / graphs, "train_accuracy": correct_sum / graphs}


@torch.no_grad()
def evaluate(model: torch.nn.Module, batches: Iterable[AnyBatch]) -> dict[str, float]:
    """Accuracy and, per level, L_E, L_C and the clusters that a graph uses, on average.

    Of a method without assignments, accuracy alone.
    """
    model.eval()
    sums: dict[str, Tensor] = {}
    graphs = 0
    for batch in batches:
        out = predict(model, batch)
        figures = {"val_accuracy": (out.logits.argmax(dim=-1) == batch.y).sum()}
        for i, level in zip(LEVELS, out.levels):
            nodes = batch.batch
            if level.s.dim() == 3:  # a coarse level: as many nodes in every graph
                graph = torch.arange(batch.num_graphs, device=level.s.device)
                nodes = graph.repeat_interleave(level.s.size(1))
            s = level.s.flatten(0, -2)
            figures[f"clusters_{i}"] = clusters_used(s, nodes, batch.num_graphs)
            figures[f"entropy_loss_{i}"] = level.entropy_loss * batch.num_graphs
            figures[f"cluster_loss_{i}"] = level.cluster_loss * batch.num_graphs
        for name, value in figures.items():
            sums[name] = sums.get(name, torch.zeros_like(value)) + value
        graphs += batch.num_graphs
    return {name: float(value) / graphs for name, value in sums.items()}


def clusters_used(s: Tensor, batch: Tensor, batch_size: int) -> Tensor:
    """How many clusters are the most probable one of some node, summed over the graphs."""
    used = torch.zeros(batch_size, s.size(-1), dtype=torch.bool, device=s.device)
    used[batch, s.argmax(dim=-1)] = True
    return used.sum()

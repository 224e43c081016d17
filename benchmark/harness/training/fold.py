"""Training on one fold."""

import copy
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Data

from harness.data.batches import AnyBatch, Batches
from harness.training.checkpoint import DAMAGED, Checkpoint, random_state, set_random_state
from harness.training.curves import LEVELS
from harness.training.evaluation import DivergedError, evaluate, predict
from harness.training.progress import Progress

#: glibc returns freed memory to the system if a block is larger than any that was freed before,
#: up to this size; every step would then ask for the memory of its activations again. One such
#: block, allocated once, prevents it and saves a tenth of an epoch of D&D on a CPU.
LARGE_BLOCK = 31 << 20


class Training(NamedTuple):
    """How a network is trained. The scalers are `None` of methods without these losses."""

    epochs: int
    batch_size: int
    lr: float
    entropy_scaler: Optional[float]
    cluster_scaler: Optional[float]
    device: str
    #: Adam's.
    weight_decay: float = 0.0
    #: The share of the epochs in which the scaler of L_E grows linearly from 0.
    entropy_warmup: float = 0.0

    @classmethod
    def of(cls, settings: Any, device: str) -> "Training":
        """What options, or a run of the study, say about training."""
        names = [name for name in cls._fields if name != "device"]
        return cls(**{name: getattr(settings, name) for name in names}, device=device)

    def entropy_scaler_of(self, epoch: int) -> float:
        """The scaler of L_E in an epoch, counted from 1; that of a peer's own loss is 1."""
        scaler = 1.0 if self.entropy_scaler is None else self.entropy_scaler
        warmup = self.entropy_warmup * self.epochs
        return scaler if epoch > warmup else scaler * (epoch - 1) / warmup


@dataclass
class FoldRun:
    """The result of a fold, with its metrics after every epoch."""

    best_val_accuracy: float = -1.0
    best_epoch: int = 0  # counted from 1; the first with the best accuracy
    seconds_per_epoch: float = 0.0
    #: Seconds of all epochs, by the clock and of the CPU, and those of them in an earlier process.
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    seconds_before: float = 0.0
    cpu_seconds_before: float = 0.0
    history: dict[str, list[float]] = field(default_factory=dict)
    #: The network after the best epoch.
    model: Optional[torch.nn.Module] = None


def run_fold(
    build: Callable[[], torch.nn.Module],
    train: list[Data],
    val: list[Data],
    settings: Training,
    seed: int,
    label: str,
    batches: Callable[..., Batches] = Batches,
    checkpoint: Optional[Checkpoint] = None,
) -> FoldRun:
    """Builds a network and trains it on `train`; keeps the best epoch on `val`.

    `batches` makes the training batches, in place of :class:`Batches`. `label` is that of the
    progress. Training goes on from a `checkpoint`, where there is one. The result depends on the
    other arguments alone, so that folds can be run one by one and interrupted.
    """
    device = torch.device(settings.device)
    torch.empty(LARGE_BLOCK, dtype=torch.uint8)
    seed_everything(seed)
    model = build().to(device)
    optimizer = adam(model, settings.lr, settings.weight_decay)
    generator = torch.Generator().manual_seed(seed)
    shuffled = batches(train, settings.batch_size, device, generator)
    # The validation batches are the same in every epoch, so they are made once.
    val_batches = list(Batches(val, settings.batch_size, device))
    run = FoldRun()
    best_state: dict[str, Tensor] = {}
    stored = None if checkpoint is None else checkpoint.load()
    if checkpoint is not None and stored is not None:
        try:
            run, best_state = FoldRun(**stored["run"]), stored["best_state"]
            run.seconds_before, run.cpu_seconds_before = run.seconds, run.cpu_seconds
            model.load_state_dict(stored["model"])
            optimizer.load_state_dict(stored["optimizer"])
            set_random_state(stored["random"], device, shuffled.generators)
        except DAMAGED as error:
            raise checkpoint.damaged() from error
    done = len(run.history.get("loss", []))
    progress = Progress(label, settings.epochs, done)
    for epoch in range(done + 1, settings.epochs + 1):
        start, busy = time.perf_counter(), time.process_time()
        try:
            metrics = {
                **_train_epoch(
                    model,
                    shuffled,
                    optimizer,
                    settings.entropy_scaler_of(epoch),
                    settings.cluster_scaler,
                ),
                **evaluate(model, val_batches),
            }
        except DivergedError:
            metrics = {"loss": math.nan}
        if not math.isfinite(metrics["loss"]):
            progress.close()
            if checkpoint is not None:
                checkpoint.remove()
            raise DivergedError(
                f"training diverged in epoch {epoch}: choose a lower --lr than {settings.lr:g}"
                ", or other scalers"
            )
        run.seconds += time.perf_counter() - start
        run.cpu_seconds += time.process_time() - busy
        for name, value in metrics.items():
            run.history.setdefault(name, []).append(value)
        if metrics["val_accuracy"] > run.best_val_accuracy:
            run.best_val_accuracy, run.best_epoch = metrics["val_accuracy"], epoch
            best_state = copy.deepcopy(model.state_dict())
        progress.show(epoch, _shown(metrics, run.best_val_accuracy))
        if checkpoint is not None and checkpoint.due(epoch):
            checkpoint.save(
                {
                    "run": {k: v for k, v in vars(run).items() if k != "model"},
                    "best_state": best_state,
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "random": random_state(device, shuffled.generators),
                }
            )
    progress.close()
    run.seconds_per_epoch = run.seconds / settings.epochs
    model.load_state_dict(best_state)
    run.model = model.cpu()
    return run


def _shown(metrics: dict[str, float], best: float) -> dict[str, str]:
    """What the progress shows of an epoch."""
    shown = {
        "loss": f"{metrics['loss']:.3f}",
        "val": f"{metrics['val_accuracy']:.3f}",
        "best": f"{best:.3f}",
    }
    clusters = [metrics[f"clusters_{i}"] for i in LEVELS if f"clusters_{i}" in metrics]
    if clusters:
        shown["clusters"] = "/".join(f"{used:.1f}" for used in clusters)
    return shown


def adam(model: torch.nn.Module, lr: float, weight_decay: float = 0.0) -> torch.optim.Adam:
    """Adam, fused where possible: the same step in a seventh of the time."""
    fused = all(parameter.device.type in ("cpu", "cuda") for parameter in model.parameters())
    return torch.optim.Adam(
        model.parameters(), lr=lr, weight_decay=weight_decay, fused=fused or None
    )


def _train_epoch(
    model: torch.nn.Module,
    batches: Iterable[AnyBatch],
    optimizer: torch.optim.Optimizer,
    entropy_scaler: float,
    cluster_scaler: Optional[float],
) -> dict[str, float]:
    model.train()
    total, graphs = torch.zeros(2), 0
    for batch in batches:
        out = predict(model, batch)
        loss = out.loss(batch.y, entropy_scaler, cluster_scaler)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            correct = (out.logits.argmax(dim=-1) == batch.y).sum()
            # Summed on the device, and read at the end of the epoch.
            total = total.to(loss.device)
            total += torch.stack([loss * batch.num_graphs, correct.to(loss.dtype)])
        graphs += batch.num_graphs
    loss_sum, correct_sum = total.tolist()
    return {"loss": loss_sum / graphs, "train_accuracy": correct_sum / graphs}

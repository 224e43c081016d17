"""What denormal numbers cost: one training with them, and one with zeros in their place."""

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from harness.data.batches import Batches
from harness.data.load import load
from harness.data.motifs import NAME
from harness.data.structural import add_structural_features
from harness.methods.presets import BENCHMARK_PRESETS
from harness.speed.pool_training import DEVICE, SIZE, Epoch, epoch_of
from harness.store.denormals import flushed_denormals
from harness.training.evaluation import predict
from harness.training.fold import adam
from torch_geometric_simpool import StructuralSimilarity
from torch_geometric_simpool.models import SimPoolNet

EPOCHS = 60
#: Rows of the table are medians over as many epochs.
ROW = 10


def denormal_metrics(root: str) -> dict[str, Any]:
    """CPU seconds of every epoch of two trainings that begin alike, and take turns.

    They are those of the generated data set, with its preset, in one thread: others would not
    change over from one training to the other.
    """
    torch.set_num_threads(1)
    ways: dict[str, Callable[[], AbstractContextManager[None]]]
    ways = {"kept": nullcontext, "flushed": flushed_denormals}
    trainings = {name: _training(root) for name in ways}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(EPOCHS):
        for name, epoch in trainings.items():
            with ways[name]():
                start = time.process_time()
                epoch()
                seconds[name].append(round(time.process_time() - start, 4))
    return {"data": NAME, "epochs": EPOCHS, "cpu_seconds": seconds}


def _training(root: str) -> Epoch:
    preset = BENCHMARK_PRESETS["motifs"]
    data = load(NAME, root, False, None, 0)
    k, alpha = preset.k, preset.alpha
    add_structural_features(data.graphs, StructuralSimilarity(k, alpha=alpha, order="fiedler"))
    torch.manual_seed(0)
    sizes = (data.num_features, data.num_classes, preset.architecture)
    net = SimPoolNet(*sizes, k, alpha=alpha)
    optimizer = adam(net, preset.lr)
    batches = Batches(data.graphs, SIZE, DEVICE, torch.Generator())
    return epoch_of(lambda batch: predict(net, batch).loss(batch.y), batches, optimizer)


def table(found: dict[str, Any]) -> list[str]:
    """One row for every ten epochs: CPU seconds of an epoch with denormal numbers and without."""
    kept, flushed = (found["cpu_seconds"][name] for name in ("kept", "flushed"))
    rows = []
    for first in range(0, found["epochs"], ROW):
        cells = [f"{statistics.median(of[first : first + ROW]):.2f}" for of in (kept, flushed)]
        rows.append(f"| {first + 1} to {first + ROW} | {' | '.join(cells)} |")
    return rows

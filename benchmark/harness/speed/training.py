"""The time of an epoch of `SimPoolNet`, batches and optimizer included."""

from collections.abc import Callable
from functools import partial
from typing import Optional

import numpy as np
import torch

from harness.data.load import GraphData, load
from harness.data.structural import set_structural_features, training_batches
from harness.methods.registry import build
from harness.run import Run
from harness.speed.measure import Measurement, in_turns
from harness.speed.pooling import graphs_of
from harness.train import train_epoch

#: The paper's network on ENZYMES, and at an eighth of its width on D&D.
RUNS = {
    "ENZYMES, full width": Run("ENZYMES", "enzymes-10fold"),
    "D&D, width 0.125": Run("DD", "dd-10fold", width=0.125),
}


def epoch_of(
    run: Run, root: Optional[str], device: str, count: Optional[int] = None
) -> Callable[[], object]:
    """Returns a function that trains on all graphs once."""
    run = run.filled()
    if root is not None:
        data = load(run.dataset, root, run.cleaned, None, 0)
    else:
        graphs = graphs_of(run.dataset, None, count)
        data = GraphData(run.dataset, graphs, 1 + max(int(g.y) for g in graphs), "labels")
    everything = np.arange(len(data.graphs))
    graphs = data.prepared(everything)
    set_structural_features(run, graphs, device)
    torch.manual_seed(0)
    model = build(run, data, everything).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=run.lr, fused=True)
    batches = training_batches(run, graphs, 0)
    return partial(train_epoch, model, batches, optimizer, device)


def measure_training(
    root: Optional[str], device: str, seconds: float, count: Optional[int] = None
) -> dict[str, Measurement]:
    """Times epochs of all networks in turns."""
    calls = {name: epoch_of(run, root, device, count) for name, run in RUNS.items()}
    return in_turns(calls, seconds, device)

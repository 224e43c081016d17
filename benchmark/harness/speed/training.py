"""The time of an epoch of `SimPoolNet`, batches and optimizer included."""

from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial

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
    "ENZYMES, full width": Run("ENZYMES", "enzymes-10fold").filled(),
    "D&D, width 0.125": Run("DD", "dd-10fold", width=0.125).filled(),
}


def epoch_of(run: Run, options: Namespace) -> Callable[[], object]:
    """Returns a function that trains on all graphs once."""
    if options.root is not None:
        data = load(run.dataset, options.root, run.cleaned, None, 0)
    else:
        graphs = graphs_of(run.dataset, None, options.graphs)
        data = GraphData(run.dataset, graphs, 1 + max(int(g.y) for g in graphs), "labels")
    everything = np.arange(len(data.graphs))
    graphs = data.prepared(everything)
    set_structural_features(run, graphs, options.device)
    torch.manual_seed(0)
    model = build(run, data, everything).to(options.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=run.lr, fused=True)
    return partial(train_epoch, model, training_batches(run, graphs, 0), optimizer)


def measure(options: Namespace) -> Iterator[tuple[str, dict[str, Measurement]]]:
    """Times epochs of all networks in turns."""
    calls = {name: epoch_of(run, options) for name, run in RUNS.items()}
    yield "training", in_turns(calls, options.seconds, options.device)

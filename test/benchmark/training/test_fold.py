from types import SimpleNamespace
from typing import Any, Optional

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from harness.data.batches import Batches
from harness.training.evaluation import clusters_used, evaluate
from harness.training.fold import Training, run_fold


class Fading(torch.nn.Module):
    """Correct at first; training decreases its weight until it is negative."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(0.035))

    def forward(self, x: Tensor, *_: Any, **more: Any) -> SimpleNamespace:
        score = x[:, 0] * self.weight
        logits = torch.stack([-score, score], dim=1)
        return SimpleNamespace(logits=logits, levels=(), loss=lambda *_: self.weight)


def test_the_best_epoch_is_what_is_kept() -> None:
    """The first of the best epochs, and the network after it, not after the last one."""
    none = torch.empty(2, 0, dtype=torch.long)
    graphs = [
        Data(x=torch.tensor([[value]]), edge_index=none, y=torch.tensor([int(value > 0)]))
        for value in (-1.0, 1.0, 2.0, -2.0)
    ]
    settings = Training(6, 4, 0.01, entropy_scaler=1.0, cluster_scaler=1.0, device="cpu")
    run = run_fold(Fading, graphs, graphs, settings, seed=0, label="")
    # It starts at 0.035 and loses 0.01 in each epoch, so it is positive after three.
    assert run.history["val_accuracy"] == [1, 1, 1, 0, 0, 0]
    assert (run.best_val_accuracy, run.best_epoch) == (1, 1)
    assert isinstance(run.model, Fading)
    assert run.model.weight.item() == pytest.approx(0.025, abs=1e-4)
    batches = list(Batches(graphs, 4, torch.device("cpu")))
    assert evaluate(run.model, batches)["val_accuracy"] == 1


@pytest.mark.parametrize(
    ("scaler", "warmup", "expected"),
    [
        (0.4, 0.0, [0.4] * 6),
        (0.4, 0.5, [0.0, 0.4 / 3, 0.8 / 3, 0.4, 0.4, 0.4]),
        (0.4, 1.0, [0.4 * epoch / 6 for epoch in range(6)]),
        (0.0, 0.5, [0.0] * 6),
        (None, 1 / 3, [0.0, 0.5, 1.0, 1.0, 1.0, 1.0]),
    ],
)
def test_the_scaler_of_the_entropy_grows(
    scaler: Optional[float], warmup: float, expected: list[float]
) -> None:
    """Linearly from zero, over a share of the epochs; that of a peer grows to one."""
    given: list[float] = []

    class Noting(Fading):
        def forward(self, x: Tensor, *_: Any, **more: Any) -> SimpleNamespace:
            out = super().forward(x)
            out.loss = self.note
            return out

        def note(self, y: Tensor, entropy_scaler: float, cluster_scaler: None) -> Tensor:
            given.append(entropy_scaler)
            return self.weight

    graphs = [
        Data(x=torch.ones(1, 1), edge_index=torch.empty(2, 0).long(), y=torch.tensor([1]))
    ] * 2
    settings = Training(6, 1, 0.01, scaler, None, "cpu", entropy_warmup=warmup)
    run_fold(Noting, graphs, graphs, settings, seed=0, label="")
    assert given == pytest.approx([value for value in expected for _ in graphs])


@pytest.mark.parametrize(("decay", "left"), [(0.0, 0.035), (0.5, 0.025)])
def test_weight_decay(decay: float, left: float) -> None:
    """Where the loss is flat, Adam's first step by the decay alone is as long as the rate."""

    class Flat(Fading):
        def forward(self, x: Tensor, *_: Any, **more: Any) -> SimpleNamespace:
            out = super().forward(x)
            out.loss = lambda *_: 0 * self.weight
            return out

    graph = Data(x=torch.ones(1, 1), edge_index=torch.empty(2, 0).long(), y=torch.tensor([1]))
    settings = Training(1, 1, 0.01, None, None, "cpu", weight_decay=decay)
    model = run_fold(Flat, [graph], [graph], settings, seed=0, label="").model
    assert isinstance(model, Flat)
    assert model.weight.item() == pytest.approx(left, abs=1e-4)


@pytest.mark.parametrize(
    ("rows", "batch", "expected"),
    [
        ([[0.9, 0.1, 0.0], [0.8, 0.1, 0.1]], [0, 0], 1),
        ([[0.9, 0.1, 0.0], [0.1, 0.8, 0.1]], [0, 0], 2),
        # The same cluster in two graphs counts twice: once for each.
        ([[0.9, 0.1, 0.0], [0.8, 0.1, 0.1]], [0, 1], 2),
        ([[0.9, 0.1, 0.0], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], [0, 1, 1], 3),
    ],
)
def test_clusters_used(rows: list[list[float]], batch: list[int], expected: int) -> None:
    used = clusters_used(torch.tensor(rows), torch.tensor(batch), max(batch) + 1)
    assert int(used) == expected

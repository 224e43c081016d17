"""An epoch of training, against the plain form of the network and a DiffPool."""

import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.loader import DataLoader

from batches import Batches
from data import add_structural_features, load
from plain import DiffPoolNet, PlainSimPoolNet
from torch_geometric_simpool import StructuralSimilarity
from torch_geometric_simpool.models import PRESETS, SimPoolNet
from training import adam, predict

DEVICE = torch.device("cpu")
SIZE = 20
#: In each process; as for the operators, one process can be slower than another throughout.
ROUNDS, PROCESSES = 3, 3


def training_figures(in_child: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """Seconds an epoch of all graphs of a data set, batches and optimiser included.

    `in_child` runs :func:`epochs` of a case in a process of its own.
    """
    figures: dict[str, Any] = {}
    for case in CASES:
        figures[case] = together([in_child(case) for _ in range(PROCESSES)])
        print(f"{case}: {figures[case]}", flush=True)
    return {**figures, "GPU": "not measured"}


def epochs(case: str, root: str) -> dict[str, Any]:
    """What one process measures: seconds of every round, by network, and how far they agree."""
    return CASES[case](root)


def together(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The median over all rounds of all processes, with its range, and against ours."""
    for one in found:
        if "error" in one:
            return one
    figures: dict[str, Any] = {}
    agreements = [one["agreement"] for one in found if "agreement" in one]
    if agreements:
        figures["agreement"] = max(agreements, key=lambda apart: apart["gradients"])
    names = [name for name in found[0] if name != "agreement"]
    for name in names:
        seconds = sorted(second for one in found for second in one[name])
        figures[name] = {
            "seconds": statistics.median(seconds),
            "range": [seconds[0], seconds[-1]],
            "rounds": len(seconds),
            "processes": len(found),
        }
    ours, other = names
    figures["ratio"] = figures[other]["seconds"] / figures[ours]["seconds"]
    return figures


def _enzymes(root: str) -> dict[str, Any]:
    data = load("ENZYMES", root, True, None, 0)
    add_structural_features(data.graphs, StructuralSimilarity(15, alpha=0.8))
    torch.manual_seed(0)
    net = SimPoolNet.from_preset("enzymes-10fold", data.num_features, data.num_classes)
    plain = PlainSimPoolNet(net)
    batches = list(Batches(data.graphs, SIZE, DEVICE))
    figures: dict[str, Any] = {"agreement": agree(net, plain, batches[0])}
    fast = _ours(net, Batches(data.graphs, SIZE, DEVICE, torch.Generator()))
    # The plain form is collated by PyG; a generator of its own gives both the same order.
    loader = DataLoader(data.graphs, SIZE, shuffle=True, generator=torch.Generator())
    slow = _epoch(plain.loss, loader, adam(net, 1e-4))
    return figures | _in_turns({"SimPoolNet": fast, "plain form": slow})


def _dd(root: str) -> dict[str, Any]:
    data = load("DD", root, True, "labels", 0)
    add_structural_features(data.graphs, StructuralSimilarity(32, alpha=0.8))
    preset = PRESETS["dd-10fold"]
    architecture = preset.architecture.scaled(0.125)
    torch.manual_seed(0)
    net = SimPoolNet(data.num_features, data.num_classes, architecture, 32, alpha=0.8)
    batches = Batches(data.graphs, SIZE, DEVICE, torch.Generator())
    other = DiffPoolNet(data.num_features, data.num_classes, architecture)
    same = Batches(data.graphs, SIZE, DEVICE, torch.Generator())
    slow = _epoch(other.loss, same, adam(other, 1e-4))
    return _in_turns({"SimPoolNet": _ours(net, batches), "DiffPool on dense_diff_pool": slow})


CASES = {"ENZYMES, full width": _enzymes, "D&D, width 0.125": _dd}


def agree(net: SimPoolNet, plain: PlainSimPoolNet, batch: Any) -> dict[str, float]:
    """Loss and gradients of both; the largest difference, relative to the largest number."""
    found = []
    for loss in (predict(net, batch).loss(batch.y), plain.loss(batch)):
        net.zero_grad()
        loss.backward()
        gradients = [p.grad.clone() for p in net.parameters() if p.grad is not None]
        found.append((loss.detach(), gradients))
    (loss, gradients), (expected, others) = found
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    apart = [
        float((a - b).abs().max() / b.abs().max().clamp(min=1e-12))
        for a, b in zip(gradients, others)
    ]
    if len(gradients) != len(others) or max(apart) > 1e-3:
        raise ValueError(f"gradients of the plain form differ by {max(apart)}")
    return {"loss": float((loss - expected).abs()), "gradients": max(apart)}


def _ours(net: SimPoolNet, batches: Batches) -> Callable[[], None]:
    optimizer = adam(net, 1e-4)
    return _epoch(lambda batch: predict(net, batch).loss(batch.y), batches, optimizer)


def _epoch(
    loss_of: Callable[[Any], Tensor], batches: Iterable[Any], optimizer: torch.optim.Optimizer
) -> Callable[[], None]:
    def run() -> None:
        for batch in batches:
            optimizer.zero_grad()
            loss_of(batch).backward()
            optimizer.step()

    return run


def _in_turns(networks: dict[str, Callable[[], None]]) -> dict[str, list[float]]:
    """Seconds of each, one after the other, so that a slow minute is everybody's."""
    seconds: dict[str, list[float]] = {name: [] for name in networks}
    for turn in range(-1, ROUNDS):  # the first to warm up
        for name, run in networks.items():
            start = time.perf_counter()
            run()
            if turn >= 0:
                seconds[name].append(time.perf_counter() - start)
    return seconds

"""The time of an epoch, beside the plain form of the network and a DiffPool."""

import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.loader import DataLoader

from harness.data.batches import Batches
from harness.data.graph_data import GraphData
from harness.data.load import load
from harness.data.structural import add_structural_features
from harness.methods.plain import PaddedDiffPoolNet, PlainSimPoolNet
from harness.training.evaluation import predict
from harness.training.fold import adam
from torch_geometric_simpool import StructuralSimilarity
from torch_geometric_simpool.models import PRESETS, SimPoolNet

DEVICE = torch.device("cpu")
SIZE = 20
#: Rounds in each process. As for the operators, one process can be slower than another.
ROUNDS, PROCESSES = 3, 3

#: Trains a network on all graphs, once.
Epoch = Callable[[], None]
#: What is done with a network before it is trained, for example to compile it.
Variant = Callable[[torch.nn.Module], Any]
#: Measures a case and a network in a process of its own, which may keep its memory.
InChild = Callable[[str, str, bool], dict[str, Any]]


def training_metrics(in_child: InChild) -> dict[str, Any]:
    """Seconds of an epoch over all graphs of a data set, with batches and optimizer.

    `in_child` runs :func:`epochs` in a process of its own, as the memory that one network leaves
    would slow down the next. The networks take turns, so that a slow minute affects all of them.
    """
    metrics: dict[str, Any] = {}
    for case, (networks, kept) in CASES.items():
        turns = list(networks) * PROCESSES + [AGREEMENT] * (case in AGREE)
        metrics[case] = combined_epochs([(name, in_child(case, name, kept)) for name in turns])
        print(f"{case}: {metrics[case]}", flush=True)
    return {**metrics, "GPU": "not measured"}


def epochs(case: str, network: str, root: str) -> dict[str, Any]:
    """What one process measures: seconds of every round, or the agreement of two networks."""
    if network == AGREEMENT:
        return {AGREEMENT: AGREE[case](root)}
    networks, _ = CASES[case]
    run = networks[network](root)
    seconds = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return {"seconds": seconds[1:]}  # the first is a warm-up


def combined_epochs(found: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """For each network the median and range over all rounds, and the ratio of the two.

    The first network is ours.
    """
    for _, one in found:
        if "error" in one:
            return one
    metrics = {name: one[AGREEMENT] for name, one in found if name == AGREEMENT}
    names = list(dict.fromkeys(name for name, _ in found if name != AGREEMENT))
    for name in names:
        several = [one["seconds"] for other, one in found if other == name]
        seconds = sorted(second for one in several for second in one)
        metrics[name] = {
            "seconds": statistics.median(seconds),
            "range": [seconds[0], seconds[-1]],
            "rounds": len(seconds),
            "processes": len(several),
        }
    ours, other = names
    metrics["ratio"] = metrics[other]["seconds"] / metrics[ours]["seconds"]
    return metrics


def _as_it_is(net: torch.nn.Module) -> torch.nn.Module:
    return net


def _enzymes(root: str, width: float = 1.0) -> tuple[GraphData, SimPoolNet]:
    data = load("ENZYMES", root, True, None, 0)
    add_structural_features(data.graphs, StructuralSimilarity(15, 0.8, order=None))
    torch.manual_seed(0)
    sizes = (data.num_features, data.num_classes, width)
    return data, SimPoolNet.from_preset("enzymes-10fold", *sizes)


def ours_on_enzymes(root: str, variant: Variant = _as_it_is, width: float = 1.0) -> Epoch:
    data, net = _enzymes(root, width)
    return _ours(variant(net), data)


def _plain_on_enzymes(root: str) -> Epoch:
    data, net = _enzymes(root)
    # PyG collates batches of the plain form. A new generator gives both the same order.
    loader = DataLoader(data.graphs, SIZE, shuffle=True, generator=torch.Generator())
    return epoch_of(PlainSimPoolNet(net).loss, loader, adam(net, 1e-4))


def _agree_on_enzymes(root: str) -> dict[str, float]:
    data, net = _enzymes(root)
    return agree(net, PlainSimPoolNet(net), next(iter(Batches(data.graphs, SIZE, DEVICE))))


DD_WIDTHS = PRESETS["dd-10fold"].architecture.scaled(0.125)


def ours_on_dd(root: str, variant: Variant = _as_it_is) -> Epoch:
    data = load("DD", root, True, "labels", 0)
    add_structural_features(data.graphs, StructuralSimilarity(32, 0.8, order=None))
    torch.manual_seed(0)
    net = SimPoolNet(data.num_features, data.num_classes, DD_WIDTHS, 32, alpha=0.8)
    return _ours(variant(net), data)


def _diff_pool_on_dd(root: str) -> Epoch:
    data = load("DD", root, True, "labels", 0)
    torch.manual_seed(0)
    net = PaddedDiffPoolNet(data.num_features, data.num_classes, DD_WIDTHS)
    batches = Batches(data.graphs, SIZE, DEVICE, torch.Generator())
    return epoch_of(net.loss, batches, adam(net, 1e-4))


#: Ours first.
Networks = dict[str, Callable[[str], Epoch]]
_ENZYMES: Networks = {"SimPoolNet": ours_on_enzymes, "plain form": _plain_on_enzymes}
_DD: Networks = {"SimPoolNet": ours_on_dd, "DiffPool on dense_diff_pool": _diff_pool_on_dd}
#: The networks, and whether their processes keep freed memory.
CASES: dict[str, tuple[Networks, bool]] = {
    "ENZYMES, full width": (_ENZYMES, False),
    "D&D, width 0.125": (_DD, False),
    "D&D, width 0.125, memory kept": (_DD, True),
}
#: The name of a comparison of two networks, and the cases that have one.
AGREEMENT = "agreement"
AGREE = {"ENZYMES, full width": _agree_on_enzymes}


def agree(net: SimPoolNet, plain: PlainSimPoolNet, batch: Any) -> dict[str, float]:
    """Compares loss and gradients; returns the difference, and the largest relative ones."""
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


def _ours(net: Any, data: GraphData) -> Epoch:
    batches = Batches(data.graphs, SIZE, DEVICE, torch.Generator())
    optimizer = adam(net, 1e-4)
    return epoch_of(lambda batch: predict(net, batch).loss(batch.y), batches, optimizer)


def epoch_of(
    loss_of: Callable[[Any], Tensor], batches: Iterable[Any], optimizer: torch.optim.Optimizer
) -> Epoch:
    """Trains on all batches, once."""

    def run() -> None:
        for batch in batches:
            optimizer.zero_grad()
            loss_of(batch).backward()
            optimizer.step()

    return run

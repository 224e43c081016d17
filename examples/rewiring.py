"""Node classification where neighbors mislead
===========================================

Edges between similar nodes in place of those that are given. A generated graph. Every node plays
one of many roles, and a role tells its class. Nodes of a role share their neighbors, but these are
of other classes: a GCN that averages over them mixes classes. `AddSimilarityEdges` joins nodes that
share neighbors. Nothing is downloaded.

Usage: ``python examples/rewiring.py [--out rewiring.png]``
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import Optional

import matplotlib.pyplot as plt
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.utils import homophily, to_undirected

from torch_geometric_simpool import AddSimilarityEdges

CLASSES, ROLES, NODES_PER_ROLE, CONTACTS = 4, 40, 15, 3
#: The chance of an edge between nodes of two roles that are joined, and of any two nodes besides.
JOINED, NOISE = 0.4, 0.03
SEEDS = range(5)


def main(picture: Optional[str] = None, epochs: int = 60) -> dict[str, list[float]]:
    """Prints and draws the test accuracy by method, and returns that of every seed."""
    path = None if picture is None else Path(picture).resolve()
    if path and not (path.parent.is_dir() and path.suffix in (".png", ".pdf", ".svg")):
        sys.exit(f"--out must name a .png, .pdf or .svg in a folder that exists, got {picture}")
    methods: dict[str, Callable[[Data], Data]] = {
        "no edges": lambda data: Data(x=data.x, edge_index=data.edge_index[:, :0]),
        "GCN": lambda data: data,
        "GCN, edges added": AddSimilarityEdges(k=8, symmetrize="union"),
        "GCN, edges replaced": AddSimilarityEdges(k=8, symmetrize="union", drop_orig_edges=True),
    }
    accuracy: dict[str, list[float]] = {name: [] for name in methods}
    share: dict[str, list[float]] = {name: [] for name in methods}
    for seed in SEEDS:
        data = generate(seed)
        for name, method in methods.items():
            changed = method(data)
            share[name].append(homophily(changed.edge_index, data.y, method="edge"))
            torch.manual_seed(seed)
            accuracy[name].append(train(data, changed.edge_index, changed.edge_weight, epochs))
    print(
        f"Test accuracy on {len(SEEDS)} graphs, mean ± standard deviation (chance: {1 / CLASSES}):"
    )
    for name, values in accuracy.items():
        edges = "" if name == "no edges" else f", {mean(share[name]):.2f} of the edges in a class"
        print(f"  {name}: {mean(values):.3f} ± {stdev(values):.3f}{edges}")
    figure = draw(accuracy, methods)
    if path:
        temporary = path.with_name(f".{path.stem}.tmp{path.suffix}")
        figure.savefig(temporary, dpi=110)
        os.replace(temporary, path)
        print(f"Picture: {picture}")
    return accuracy


def generate(seed: int) -> Data:
    """A graph of roles: each is joined to a few others, drawn from those of the other classes."""
    generator = torch.Generator().manual_seed(seed)
    class_of_role = torch.arange(ROLES) % CLASSES
    others = (class_of_role.view(-1, 1) != class_of_role).float()
    contact = torch.multinomial(others, CONTACTS, generator=generator)
    joined = torch.zeros(ROLES, ROLES, dtype=torch.bool)
    joined[torch.arange(ROLES).view(-1, 1), contact] = True

    role = torch.arange(ROLES).repeat_interleave(NODES_PER_ROLE)
    chance = joined[role][:, role] * JOINED + NOISE
    present = torch.rand(chance.shape, generator=generator) < chance
    y = class_of_role[role]
    x = torch.nn.functional.one_hot(y, CLASSES).float()
    x = x + 1.5 * torch.randn(x.shape, generator=generator)
    train_mask = torch.rand(role.numel(), generator=generator) < 0.1
    edge_index = to_undirected(present.nonzero().t())
    return Data(x=x, y=y, edge_index=edge_index, train_mask=train_mask)


def train(data: Data, edge_index: Tensor, edge_weight: Tensor | None, epochs: int) -> float:
    """The test accuracy of a GCN of two layers."""
    first, second = GCNConv(CLASSES, 32), GCNConv(32, CLASSES)
    parameters = [*first.parameters(), *second.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.02, weight_decay=5e-4)

    def logits() -> Tensor:
        hidden = first(data.x, edge_index, edge_weight).relu()
        return second(hidden, edge_index, edge_weight)

    for _ in range(epochs):
        optimizer.zero_grad()
        mask = data.train_mask
        torch.nn.functional.cross_entropy(logits()[mask], data.y[mask]).backward()
        optimizer.step()
    right = logits().argmax(dim=-1) == data.y
    return float(right[~data.train_mask].float().mean())


def draw(
    accuracy: dict[str, list[float]], methods: dict[str, Callable[[Data], Data]]
) -> plt.Figure:
    """Draws the accuracies, and the edges of one graph with its nodes sorted by class."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.5), layout="constrained")
    deviations = [stdev(values) for values in accuracy.values()]
    axes[0].bar(list(accuracy), [mean(values) for values in accuracy.values()], yerr=deviations)
    axes[0].axhline(1 / CLASSES, color="0.5", linestyle="--")
    axes[0].set_title("test accuracy (dashed: chance)")
    axes[0].tick_params(axis="x", labelrotation=20)
    data = generate(0)
    place = data.y.argsort(stable=True).argsort()
    for axis, name in zip(axes[1:], ("GCN", "GCN, edges replaced")):
        source, target = place[methods[name](data).edge_index]
        axis.plot(source, target, ",", color="C0")
        axis.set_title("edges given" if name == "GCN" else "edges between similar nodes")
        axis.set_xlabel("nodes by class")
        axis.set_aspect("equal")
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", dest="picture", help="writes the picture: a .png, .pdf or .svg")
    parser.add_argument("--epochs", type=int, default=60, help="epochs of each training")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error(f"--epochs must be at least 1, got {options.epochs}")
    main(**vars(options))

"""Node classification where neighbors mislead
===========================================

In the generated graph every node has one of many roles, and the role determines the class. Nodes of
one role share their neighbors, but the neighbors belong to other classes, so a GCN mixes the
classes. ``AddSimilarityEdges`` connects nodes that share neighbors.

Usage: ``python examples/rewiring.py [--epochs 60]``
"""

import argparse
from collections.abc import Callable
from statistics import mean, stdev
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.utils import homophily, to_undirected

from torch_geometric_simpool import AddSimilarityEdges

CLASSES, ROLES, NODES_PER_ROLE, CONTACTS = 4, 40, 15, 3
#: The probability of an edge between nodes of roles in contact, and between other nodes.
CONTACT, NOISE = 0.4, 0.03
SEEDS = range(5)
METHODS: dict[str, Callable[[Data], Data]] = {
    "no edges": lambda data: Data(x=data.x, edge_index=data.edge_index[:, :0]),
    "GCN": lambda data: data,
    "GCN, edges added": AddSimilarityEdges(k=8, symmetrize="union"),
    "GCN, edges replaced": AddSimilarityEdges(k=8, symmetrize="union", drop_orig_edges=True),
}


def generate(seed: int) -> Data:
    """Returns a graph in which each role is in contact with a few roles of other classes."""
    torch.manual_seed(seed)
    class_of_role = torch.arange(ROLES) % CLASSES
    different = (class_of_role.view(-1, 1) != class_of_role).float()
    contact = torch.zeros(ROLES, ROLES).scatter(1, torch.multinomial(different, CONTACTS), 1.0)
    role = torch.arange(ROLES).repeat_interleave(NODES_PER_ROLE)
    chance = contact[role][:, role] * CONTACT + NOISE
    y = class_of_role[role]
    x = F.one_hot(y, CLASSES).float()
    return Data(
        x=x + 1.5 * torch.randn(x.shape),
        y=y,
        edge_index=to_undirected((torch.rand(chance.shape) < chance).nonzero().t()),
        train_mask=torch.rand(role.numel()) < 0.1,
    )


def train(data: Data, edge_index: Tensor, edge_weight: Optional[Tensor], epochs: int) -> float:
    """Returns the test accuracy of a GCN with two layers."""
    conv1, conv2 = GCNConv(CLASSES, 32), GCNConv(32, CLASSES)
    parameters = [*conv1.parameters(), *conv2.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.02, weight_decay=5e-4)

    def logits() -> Tensor:
        x = conv1(data.x, edge_index, edge_weight).relu()
        return conv2(x, edge_index, edge_weight)

    for _ in range(epochs):
        optimizer.zero_grad()
        F.cross_entropy(logits()[data.train_mask], data.y[data.train_mask]).backward()
        optimizer.step()
    correct = logits().argmax(dim=-1) == data.y
    return float(correct[~data.train_mask].float().mean())


def main(epochs: int = 60) -> dict[str, list[float]]:
    """Prints the test accuracies, and returns them by method, one for each seed."""
    accuracies: dict[str, list[float]] = {}
    print(f"Test accuracy on {len(SEEDS)} graphs, mean ± standard deviation:")
    for name, method in METHODS.items():
        accuracies[name], within = [], []
        for seed in SEEDS:
            data = generate(seed)
            changed = method(data)
            within.append(homophily(changed.edge_index, data.y, method="edge"))
            accuracy = train(data, changed.edge_index, changed.edge_weight, epochs)
            accuracies[name].append(accuracy)
        share = "" if name == "no edges" else f", {mean(within):.2f} of the edges within a class"
        print(f"  {name}: {mean(accuracies[name]):.3f} ± {stdev(accuracies[name]):.3f}{share}")
    return accuracies


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=60, help="number of epochs of each training")
    main(**vars(parser.parse_args()))

"""Data without node features
==========================

Graph classification where graphs have edges and nothing else, as in the data sets COLLAB and
IMDB-BINARY. Generated graphs, so that nothing is downloaded.

Usage: ``python examples/without_features.py [--epochs 10]``
"""

import argparse
from collections.abc import Iterable

import torch
from torch_geometric import seed_everything
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import barabasi_albert_graph, erdos_renyi_graph

from torch_geometric_simpool.models import SimPoolNet, SimPoolNetOutput

# %%
# The data
# --------
# Without features PyG takes the number of nodes from the edges, and misses isolated nodes at the
# end: set ``num_nodes``.


def generate(count: int) -> list[Data]:
    """Random graphs with and without hubs, of the same number of nodes and, nearly, of edges."""
    graphs = []
    for label in torch.arange(count) % 2:
        size = int(torch.randint(15, 40, ()))
        if label:
            edge_index = barabasi_albert_graph(size, 2)
        else:
            edge_index = erdos_renyi_graph(size, 4 / size)
        graphs.append(Data(edge_index=edge_index, num_nodes=size, y=label.view(1)))
    return graphs


# %%
# The network
# -----------
# It takes ``None`` for the features and reads a 1 for each node, with ``in_channels=1``. ``batch``
# or ``sim`` tell it the number of nodes.


def call(net: SimPoolNet, data: Batch) -> SimPoolNetOutput:
    """The output for a batch, whose `data.x` is None."""
    return net(data.x, data.edge_index, data.batch, data.sim, batch_size=data.num_graphs)


@torch.no_grad()
def accuracy(net: SimPoolNet, loader: Iterable[Batch]) -> float:
    """The share of graphs that are right."""
    net.eval()
    right = torch.cat([call(net, data).logits.argmax(dim=-1) == data.y for data in loader])
    net.train()
    return float(right.float().mean())


def main(epochs: int = 10) -> float:
    """Trains on 80 % of the graphs; returns the accuracy on the rest."""
    seed_everything(0)
    net = SimPoolNet(in_channels=1, num_classes=2, k=12, clusters=(6, 3), width=0.1)
    graphs = net.transform().precompute(generate(300), progress=False)
    train = DataLoader(graphs[:240], batch_size=20, shuffle=True)
    rest = DataLoader(graphs[240:], batch_size=60)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    result = 0.0
    for epoch in range(1, epochs + 1):
        total = 0.0
        for data in train:
            loss = call(net, data).loss(data.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * data.num_graphs
        result = accuracy(net, rest)
        print(f"epoch {epoch}: loss {total / 240:.3f}, accuracy on the rest {result:.3f}")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10, help="the number of epochs")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error(f"--epochs must be at least 1, got {options.epochs}")
    main(**vars(options))

"""Training on several processes
=============================

Graph classification with PyTorch's ``DistributedDataParallel`` (DDP), on CPUs, by the backend
``gloo``. The graphs are generated. The losses do not depend on the number of processes, up to
rounding.

Usage: ``torchrun --nproc-per-node 2 examples/ddp.py [--epochs 5]``
"""

import argparse
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.datasets import FakeDataset
from torch_geometric.loader import DataLoader

from torch_geometric_simpool import StructuralSimilarity
from torch_geometric_simpool.models import SimPoolNet

TRAIN, TEST, BATCH = 240, 61, 24


def generate(transform: StructuralSimilarity) -> list[Data]:
    """Returns graphs whose classes differ in the mean of noisy node features."""
    dataset = FakeDataset(TRAIN + TEST, avg_num_nodes=30, num_channels=4, num_classes=3)
    graphs = transform.precompute(list(dataset), progress=False)
    for data in graphs:
        data.x = data.x + 3 * torch.randn_like(data.x)
    return graphs


# %%
# Threads
# -------
# By default, every process has a thread for each core. The threads of several processes then wait
# for each other, which is many times slower than one process. So each process gets one thread.


def main(epochs: int = 5) -> None:
    """Trains on the processes that torchrun has started."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    try:
        train(epochs)
    finally:
        dist.destroy_process_group()


def train(epochs: int) -> None:
    """Trains on the processes of the group, and prints the metrics of each epoch."""
    rank, processes = dist.get_rank(), dist.get_world_size()
    seed_everything(0)  # every process generates the same graphs and the same network
    net = SimPoolNet(4, 3, k=12, clusters=(8, 4), width=0.1)
    graphs = generate(net.transform())

    # Each process gets an equal part of each batch. DDP averages the gradients, so its loss is the
    # mean loss of the whole batch.
    train: Any = graphs[:TRAIN]
    sampler: DistributedSampler = DistributedSampler(train, drop_last=True)
    train_loader = DataLoader(train, batch_size=BATCH // processes, sampler=sampler)
    # The sampler is not used for test graphs, because it would repeat some of them.
    test_loader = DataLoader(graphs[TRAIN + rank :: processes], batch_size=20)
    model = DistributedDataParallel(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    for epoch in range(1, epochs + 1):
        sampler.set_epoch(epoch)  # without it, all epochs have one order
        for data in train_loader:
            out = model(data.x, data.edge_index, data.batch, data.sim, batch_size=data.num_graphs)
            loss = out.loss(data.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        evaluate(net, test_loader, f"epoch {epoch}")


# %%
# Metrics
# -------
# Sums and counts are added over the processes. The mean of the processes' means would be wrong,
# because their numbers of graphs differ.


@torch.no_grad()
def evaluate(net: SimPoolNet, loader: DataLoader, title: str) -> None:
    """Prints the cross entropy and the accuracy over the graphs of all processes."""
    total = torch.zeros(3, dtype=torch.float64)
    for data in loader:
        logits = net(data.x, data.edge_index, data.batch, data.sim).logits
        cross_entropy = F.cross_entropy(logits, data.y, reduction="sum")
        correct = (logits.argmax(dim=-1) == data.y).sum()
        total += torch.tensor([cross_entropy, correct, data.num_graphs])
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        cross_entropy, correct, count = total.tolist()
        print(f"{title}: loss {cross_entropy / count:.4f}, test accuracy {correct / count:.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=5, help="number of epochs")
    main(**vars(parser.parse_args()))

"""Training on several processes
=============================

Graph classification with PyTorch's ``DistributedDataParallel`` (DDP), on CPUs by the backend
``gloo``; generated graphs, so that nothing is downloaded.

Usage: ``torchrun --nproc-per-node 2 examples/ddp.py [--epochs 5]``, or ``python examples/ddp.py``
for one process. Both print the same losses, up to rounding: a batch has the same graphs, whatever
the number of processes.
"""

import argparse
import os
import tempfile
from collections.abc import Iterable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler
from torch_geometric import seed_everything
from torch_geometric.data import Batch
from torch_geometric.data.data import BaseData
from torch_geometric.datasets import FakeDataset
from torch_geometric.loader import DataLoader

from torch_geometric_simpool import StructuralSimilarity
from torch_geometric_simpool.models import SimPoolNet, SimPoolNetOutput

TRAIN, TEST, BATCH = 240, 61, 24


def main(epochs: int = 5) -> list[tuple[float, float]]:
    """Trains; returns the loss and the accuracy on the rest, before it and after each epoch."""
    if "RANK" not in os.environ:  # torchrun sets it, and the other variables
        alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "0"}
        os.environ |= alone
    dist.init_process_group("gloo")
    try:
        return train(epochs)
    finally:
        dist.destroy_process_group()


# %%
# Threads
# -------
# By default every process takes a thread for each core. Several processes would then wait for each
# other, which is many times slower than one. ``torchrun`` sets one thread for each process, unless
# ``OMP_NUM_THREADS`` is set; here the cores are divided. The number holds for the top k as well.


def divide_the_cores() -> None:
    """As many threads as there are cores for each process of this machine."""
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // processes))


# %%
# Features are computed once
# --------------------------
# The first process computes the features and stores the graphs; the others wait, and read them. On
# several machines the folder must be one that all of them see.


def load(transform: StructuralSimilarity, folder: str) -> list[BaseData]:
    """The graphs, with features."""
    path = os.path.join(folder, "graphs.pt")
    if dist.get_rank() == 0:
        generated = FakeDataset(
            TRAIN + TEST, avg_num_nodes=30, avg_degree=4, num_channels=4, num_classes=3
        )
        # The classes differ in the mean of the features. Noise, so that there is much to learn.
        graphs = transform.precompute(list(generated), progress=False)
        for data in graphs:
            data.x = data.x + 3 * torch.randn_like(data.x)
        torch.save(graphs, path)
    dist.barrier()
    return torch.load(path, weights_only=False)  # written by this very program


def train(epochs: int) -> list[tuple[float, float]]:
    """Trains on the processes of the default group."""
    divide_the_cores()
    rank, processes = dist.get_rank(), dist.get_world_size()
    if BATCH % processes:
        raise SystemExit(f"the number of processes must divide {BATCH}, got {processes}")
    seed_everything(0)
    net = SimPoolNet.from_preset("enzymes", in_channels=4, num_classes=3, width=0.1)
    with tempfile.TemporaryDirectory() as own:
        # All take the folder of the first process.
        folder = [own]
        dist.broadcast_object_list(folder)
        graphs = load(net.transform(), folder[0])
        dist.barrier()  # no folder is removed while another process reads

    # Each process gets another part of a batch, of equal size: DDP averages the gradients of the
    # processes, and the mean of their losses is that of the batch.
    sampler: DistributedSampler = DistributedSampler(graphs[:TRAIN], drop_last=True)  # type: ignore[arg-type]
    loader = DataLoader(graphs[:TRAIN], batch_size=BATCH // processes, sampler=sampler)
    # The rest is divided by hand: the sampler would repeat graphs to make parts of equal size, and
    # the accuracy would count these twice.
    rest = DataLoader(graphs[TRAIN + rank :: processes], batch_size=20)

    model = DistributedDataParallel(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    history = [evaluate(net, rest)]
    report("untrained", history[-1])
    for epoch in range(1, epochs + 1):
        sampler.set_epoch(epoch)  # or every epoch would have the same order
        for data in loader:
            loss = call(model, data).loss(data.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        history.append(evaluate(net, rest))
        report(f"epoch {epoch}", history[-1])
    return history


def call(model: torch.nn.Module, data: Batch) -> SimPoolNetOutput:
    """The output for a batch."""
    return model(data.x, data.edge_index, data.batch, data.sim, batch_size=data.num_graphs)


# %%
# Metrics of all processes
# ------------------------
# Sums and counts are added up over the processes, and divided at the end. A mean of the processes'
# own means would be wrong: their numbers of graphs differ.


@torch.no_grad()
def evaluate(net: SimPoolNet, rest: Iterable[Batch]) -> tuple[float, float]:
    """The cross entropy and the accuracy, over the graphs of all processes."""
    net.eval()
    total = torch.zeros(3, dtype=torch.float64)
    for data in rest:
        logits = call(net, data).logits
        entropy = F.cross_entropy(logits, data.y, reduction="sum")
        correct = (logits.argmax(dim=-1) == data.y).sum()
        total += torch.tensor([entropy, correct, data.num_graphs])
    net.train()
    dist.all_reduce(total)
    entropy, correct, count = total.tolist()
    return entropy / count, correct / count


def report(when: str, result: tuple[float, float]) -> None:
    """Prints, in the first process only."""
    if dist.get_rank() == 0:
        print(f"{when}: loss {result[0]:.4f}, accuracy on the rest {result[1]:.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=5, help="the number of epochs")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error(f"--epochs must be at least 1, got {options.epochs}")
    main(**vars(options))

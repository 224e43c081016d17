"""Time of pooling: operators on batches of D&D, and epochs of `SimPoolNet`."""

from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Batch
from torch_geometric.datasets import FakeDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import dense_diff_pool
from torch_geometric.utils import to_dense_adj, to_dense_batch

from harness.data.inputs import TrainingBatches, set_structural_features
from harness.data.load import GraphData, load
from harness.methods.registry import build
from harness.run import Run
from harness.speed.measure import in_turns
from harness.train import train_epoch
from torch_geometric_simpool import sim_pool

#: The numbers of node features, clusters, graphs in a batch, and graphs in total.
WIDTH, CLUSTERS, BATCH, GRAPHS = 64, 32, 20, 160
#: The mean numbers of nodes and neighbors, and the numbers of labels, classes and graphs.
_SHAPES = {"DD": (284, 5, 89, 2, 1178), "ENZYMES": (32, 4, 3, 6, 600)}
#: The paper's network on ENZYMES, and its network on D&D at an eighth of the width.
RUNS = {
    "ENZYMES, full width": Run("ENZYMES", "enzymes-10fold").filled(),
    "D&D, width 0.125": Run("DD", "dd-10fold", width=0.125).filled(),
}
#: A function that returns the pooled features, the pooled edges and the losses of a batch.
Pool = Callable[[torch.nn.Module, Batch], list[Tensor]]


def data_of(name: str, options: Namespace) -> GraphData:
    """Returns a data set in `--root`, or random graphs of the same mean size."""
    if options.root is not None:
        return load(name, options.root, True, None, 0)
    num_nodes, degree, labels, num_classes, number = _SHAPES[name]
    seed_everything(0)
    graphs = list(FakeDataset(options.graphs or number, num_nodes, degree, labels, 0, num_classes))
    for graph in graphs:
        graph.x = torch.nn.functional.one_hot(graph.x.argmax(dim=1), labels).float()
    return GraphData(name, graphs, num_classes, "labels")


def simpool(lin: torch.nn.Module, batch: Batch) -> list[Tensor]:
    """Pools a sparse batch."""
    size = batch.num_graphs
    return list(sim_pool(batch.x, batch.edge_index, lin(batch.x), batch.batch, batch_size=size))


def dense_diffpool(lin: torch.nn.Module, batch: Batch) -> list[Tensor]:
    """Pads a batch and pools it with PyG's operator."""
    size = batch.num_graphs
    x, mask = to_dense_batch(batch.x, batch.batch, batch_size=size)
    adj = to_dense_adj(batch.edge_index, batch.batch, batch_size=size)
    return list(dense_diff_pool(x, adj, lin(x), mask))


def tgp_diffpool(device: str) -> Pool:
    """Returns the unbatched DiffPool of tgp, with its fastest settings."""
    from tgp.poolers import DiffPool

    pool = DiffPool(
        [WIDTH],
        CLUSTERS,
        batched=False,
        remove_self_loops=False,
        degree_norm=False,
        adj_transpose=False,
    ).to(device)

    def call(_: torch.nn.Module, batch: Batch) -> list[Tensor]:
        out = pool(x=batch.x, adj=batch.edge_index, batch=batch.batch)
        return [out.x, out.edge_index, *out.get_loss_value()]

    return call


def measure_pooling(options: Namespace) -> Iterator[tuple[str, pd.DataFrame]]:
    """Times forward and backward passes over batches of random node features."""
    graphs = data_of("DD", options).graphs[: options.graphs or GRAPHS]
    torch.manual_seed(0)
    batches = [batch.to(options.device) for batch in DataLoader(graphs, BATCH, shuffle=True)]
    for batch in batches:
        batch.x = torch.randn(batch.num_nodes, WIDTH, device=options.device, requires_grad=True)
    lin = torch.nn.Linear(WIDTH, CLUSTERS).to(options.device)

    pools: dict[str, Pool] = {"sim_pool": simpool, "dense_diff_pool (PyG)": dense_diffpool}
    with suppress(ImportError):
        pools["DiffPool, unbatched (tgp)"] = tgp_diffpool(options.device)
    with torch.no_grad():  # both operators must return equal features
        expected, other = (pool(lin, batches[0])[0] for pool in (simpool, dense_diffpool))
    torch.testing.assert_close(expected, other, rtol=1e-3, atol=1e-2)

    def steps(pool: Pool) -> None:
        for batch in batches:
            batch.x.grad = None
            torch.stack([tensor.sum() for tensor in pool(lin, batch)]).sum().backward()

    calls = {name: partial(steps, pool) for name, pool in pools.items()}
    yield "pooling", in_turns(calls, options.seconds, options.device)


def epoch_of(run: Run, options: Namespace) -> Callable[[], object]:
    """Returns a function that trains on all graphs once."""
    data = data_of(run.dataset, options)
    everything = np.arange(len(data.graphs))
    graphs = data.prepared(everything)
    set_structural_features(run, graphs, options.device)
    torch.manual_seed(0)
    model = build(run, data, everything).to(options.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=run.lr, fused=True)
    return partial(train_epoch, model, TrainingBatches(run, graphs, 0), optimizer)


def measure_training(options: Namespace) -> Iterator[tuple[str, pd.DataFrame]]:
    """Times epochs of all networks in turns."""
    calls = {name: epoch_of(run, options) for name, run in RUNS.items()}
    yield "training", in_turns(calls, options.seconds, options.device)

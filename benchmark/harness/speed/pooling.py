"""Pooling operators on batches of D&D: `sim_pool` beside DiffPool, dense and unbatched."""

import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Optional

import torch
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Batch, Data
from torch_geometric.datasets import FakeDataset
from torch_geometric.nn import dense_diff_pool
from torch_geometric.utils import to_dense_adj, to_dense_batch

from harness.data.load import load
from harness.speed.measure import Measurement, in_turns
from torch_geometric_simpool import sim_pool

#: The width of the node features and the number of clusters.
WIDTH, CLUSTERS = 64, 32
#: Mean numbers of nodes and of neighbors, labels, classes and graphs of generated data.
_SHAPES = {"DD": (284, 5, 89, 2, 1178), "ENZYMES": (32, 4, 3, 6, 600)}


def graphs_of(name: str, root: Optional[str], count: Optional[int] = None) -> list[Data]:
    """Returns the graphs of a data set in `root`, or random ones of the same mean size."""
    if root is not None:
        return load(name, root, True, "labels", 0).graphs[:count]
    num_nodes, degree, labels, num_classes, number = _SHAPES[name]
    seed_everything(0)
    graphs = list(FakeDataset(count or number, num_nodes, degree, labels, 0, num_classes))
    for graph in graphs:
        graph.x = torch.nn.functional.one_hot(graph.x.argmax(dim=1), labels).float()
    return graphs


def make_batches(graphs: list[Data], size: int, device: str) -> list[Batch]:
    """Returns batches of shuffled graphs with random features."""
    order = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(0)).tolist()
    batches = []
    for start in range(0, len(graphs), size):
        batch = Batch.from_data_list([graphs[i] for i in order[start : start + size]])
        generator = torch.Generator().manual_seed(start)
        batch.x = torch.randn(batch.num_nodes, WIDTH, generator=generator)
        batches.append(batch.to(device))
    return batches


def simpool(lin: torch.nn.Module, batch: Batch) -> list[Tensor]:
    """Pools a sparse batch."""
    return list(
        sim_pool(batch.x, batch.edge_index, lin(batch.x), batch.batch, batch_size=batch.num_graphs)
    )[:4]


def dense_diffpool(lin: torch.nn.Module, batch: Batch) -> list[Tensor]:
    """Pads a batch and pools it with PyG's operator."""
    size = batch.num_graphs
    x, mask = to_dense_batch(batch.x, batch.batch, batch_size=size)
    adj = to_dense_adj(batch.edge_index, batch.batch, batch_size=size)
    return list(dense_diff_pool(x, adj, lin(x), mask))


class TgpDiffPool:
    """The unbatched DiffPool of tgp, with the settings of the least work."""

    def __init__(self, device: str) -> None:
        from tgp.poolers import DiffPool

        settings = {"remove_self_loops": False, "degree_norm": False, "adj_transpose": False}
        self.pool = DiffPool([WIDTH], CLUSTERS, batched=False, **settings).to(device)

    def __call__(self, lin: torch.nn.Module, batch: Batch) -> list[Tensor]:
        out = self.pool(x=batch.x, adj=batch.edge_index, batch=batch.batch)
        return [out.x, out.edge_index, *out.get_loss_value()]


def measure_pooling(
    root: Optional[str], device: str, seconds: float, size: int = 20, count: Optional[int] = 160
) -> dict[str, Measurement]:
    """Times forward and backward passes over batches of `count` graphs."""
    batches = make_batches(graphs_of("DD", root, count), size, device)
    torch.manual_seed(0)
    lin = torch.nn.Linear(WIDTH, CLUSTERS).to(device)
    methods: dict[str, Callable[..., list[Tensor]]] = {
        "sim_pool": simpool,
        "dense_diff_pool (PyG)": dense_diffpool,
    }
    if importlib.util.find_spec("tgp.poolers") is not None:
        methods["DiffPool, unbatched (tgp)"] = TgpDiffPool(device)
    with torch.no_grad():  # the same pooled features
        expected, other = (method(lin, batches[0])[0] for method in (simpool, dense_diffpool))
    torch.testing.assert_close(expected, other, rtol=1e-3, atol=1e-2)

    def steps(method: Callable[..., list[Tensor]]) -> None:
        for batch in batches:
            batch.x.requires_grad_().grad = None
            torch.stack([tensor.sum() for tensor in method(lin, batch)]).sum().backward()

    return in_turns({name: partial(steps, m) for name, m in methods.items()}, seconds, device)

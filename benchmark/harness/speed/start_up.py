"""The first calls of a process."""

import time
from typing import Any

import torch
from torch_geometric.utils import coalesce, to_undirected

from torch_geometric_simpool import topk_similarity
from torch_geometric_simpool.models import SimPoolNet

#: The cases, and what runs one after another in each.
CASES = {
    "unweighted": ("first top k", "first training step", "second training step"),
    "weighted": ("first top k",),
}


def first_calls(case: str) -> dict[str, float]:
    """The seconds of processor time of each step of a case."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    num_graphs, size = 32, 120
    batch = torch.arange(num_graphs).repeat_interleave(size)
    ends = torch.randint(size, (2, num_graphs, 5 * size)) + size * torch.arange(num_graphs)[:, None]
    edge_index = to_undirected(coalesce(ends.flatten(1)))
    weight = torch.rand(edge_index.size(1)) if case == "weighted" else None
    net = SimPoolNet.from_preset("enzymes", 18, 6)
    optimizer = torch.optim.Adam(net.parameters())
    x, y = torch.randn(batch.numel(), 18), torch.randint(6, (num_graphs,))

    def run(step: str) -> None:
        if step == "first top k":
            topk_similarity(edge_index, 16, weight)
            return
        optimizer.zero_grad()
        net(x, edge_index, batch).loss(y).backward()
        optimizer.step()

    seconds = {}
    for step in CASES[case]:
        start = time.process_time()
        run(step)
        seconds[step] = time.process_time() - start
    return seconds


def table(cases: dict[str, Any]) -> list[str]:
    """One row for each case and step: seconds with an empty cache, and with a full one."""
    return [
        f"| {case} | {step} | {found['cold'][step]:.1f} | {found['warm'][step]:.1f} |"
        for case, found in cases.items()
        for step in ("imports", *CASES[case])
    ]

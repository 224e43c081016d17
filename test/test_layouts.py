"""The memory layout of `edge_index` does not matter: transposed, strided or contiguous."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_simpool import (
    StructuralSimilarity,
    sim_pool,
    topk_similarity,
)
from torch_geometric_simpool.analysis.locality import locality
from torch_geometric_simpool.functional.pooling import SimPoolOutput
from torch_geometric_simpool.models import GMNConv, SimPoolNet
from torch_geometric_simpool.transforms.node_order import node_order

NUM_NODES, NUM_EDGES, SIZES = 600, 4000, [200, 0, 250, 150]
BATCH = torch.arange(4).repeat_interleave(torch.tensor(SIZES))

LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda edge_index: edge_index.t().contiguous().t(),
    "every other": lambda edge_index: edge_index.repeat_interleave(2, dim=1)[:, ::2],
    "after others": lambda edge_index: torch.cat([edge_index, edge_index], dim=1)[:, NUM_EDGES:],
}


def edges_of(by: str) -> Tensor:
    """The edges of three graphs and an empty one."""
    source = torch.randint(0, NUM_NODES, (NUM_EDGES,))
    first, size = BATCH.new_tensor([0, 200, 200, 450])[BATCH], BATCH.new_tensor(SIZES)[BATCH]
    target = first[source] + torch.randint(0, 10**6, (NUM_EDGES,)) % size[source]
    order = {"source": source, "target": target, "nothing": torch.randperm(NUM_EDGES)}[by]
    return torch.stack([source, target])[:, order.argsort(stable=True)]


def gradients(outputs: list[Tensor], inputs: list[Tensor]) -> list[Tensor]:
    total = sum((out.tanh().sum() for out in outputs), torch.zeros(()))
    return [*outputs, *torch.autograd.grad(total, inputs, allow_unused=True)]


def pool(edge_index: Tensor, x: Tensor) -> list[Tensor]:
    logits, weight = x[:, :6].sin(), torch.rand(NUM_EDGES)
    found = sim_pool(x, edge_index, logits, BATCH)
    weighted = sim_pool(x, edge_index, logits, BATCH, weight, batch_size=4)
    return gradients([*found, *weighted], [x])


def conv(act: bool) -> Callable[[Tensor, Tensor], list[Tensor]]:
    def layer(edge_index: Tensor, x: Tensor) -> list[Tensor]:
        model = GMNConv(8, 4, 8, act=act)
        return gradients([model(x, edge_index)], [x, *model.parameters()])

    return layer


def classifier(labels: bool) -> Callable[[Tensor, Tensor], list[Tensor]]:
    def net(edge_index: Tensor, x: Tensor) -> list[Tensor]:
        model = SimPoolNet.from_preset("enzymes", 8, 3, width=0.125)
        x = torch.randint(0, 3, (NUM_NODES,)) if labels else x.detach()
        out = model(x, edge_index, BATCH, batch_size=4)
        level = SimPoolOutput(*out.levels[0])
        loss = out.loss(torch.tensor([0, 1, 2, 0]))
        return gradients([loss, level.s, level.adj, out.logits], list(model.parameters()))

    return net


FUNCTIONS: dict[str, Callable[[Tensor, Tensor], list[Tensor]]] = {
    "sim_pool": pool,
    "GMNConv": conv(True),
    "GMNConv, linear": conv(False),
    "SimPoolNet": classifier(False),
    "SimPoolNet on labels": classifier(True),
    "topk_similarity": lambda edge_index, _: list(
        topk_similarity(edge_index, 5, num_nodes=NUM_NODES)
    ),
    "StructuralSimilarity": lambda edge_index, x: [
        StructuralSimilarity(5, order=order)(Data(x.detach(), edge_index)).sim
        for order in (None, "bfs")
    ],
    "node_order": lambda edge_index, _: [
        node_order(edge_index, order, num_nodes=NUM_NODES) for order in ("rcm", "bfs")
    ],
    "locality": lambda edge_index, _: list(
        locality(edge_index, torch.arange(NUM_NODES) % 5, 5, BATCH, distances=False)
    ),
}


@pytest.mark.parametrize("by", ["source", "target", "nothing"])
@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("function", list(FUNCTIONS))
def test_any_layout(function: str, layout: str, by: str) -> None:
    torch.manual_seed(0)
    edge_index = edges_of(by)
    given = LAYOUTS[layout](edge_index)
    assert torch.equal(given, edge_index)
    assert not given.is_contiguous()
    x = torch.randn(NUM_NODES, 8, requires_grad=True)
    found = []
    for edges in (given, edge_index):
        torch.manual_seed(1)
        found.append(FUNCTIONS[function](edges, x))
    assert found[0]
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5, equal_nan=True)

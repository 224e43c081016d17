"""Gradients that are to be differentiated again are the same gradients.

`gradgradcheck` cannot see this: it differentiates whatever the first derivative is. Inputs that
are made of each other, or that are the same, are where a recomputation could count a path twice.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from helpers.graphs import draw_all, union
from torch_geometric_simpool import dense_sim_pool, sim_pool
from torch_geometric_simpool.functional.segment import segment_matmul_t, spmm
from torch_geometric_simpool.models import Architecture, GMNConv, SimPoolNet

GRAPH, BATCH = union(draw_all(0)[:4])
EDGES, NUM_NODES = GRAPH.edge_index, GRAPH.num_nodes
BATCH_SIZE = int(BATCH.max()) + 1


def squares(outputs: tuple[Tensor, ...]) -> Tensor:
    return sum(((output**2).sum() for output in outputs), torch.zeros(()))


def dense(h: Tensor, s: Tensor, adj: Tensor) -> Tensor:
    mask = torch.tensor([[True] * 5, [True, True, True, False, False]])
    return squares(dense_sim_pool(h, adj, s, mask)) + squares(dense_sim_pool(h, adj, s))


def twice(x: Tensor) -> Tensor:
    torch.manual_seed(1)
    conv = GMNConv(4, 4).double()
    return squares((conv(conv(x, EDGES), EDGES),))


def tied(x: Tensor) -> Tensor:
    torch.manual_seed(1)
    conv = GMNConv(4, 4).double()
    conv.lin_node = conv.lin_message
    return squares((conv(x, EDGES),)) + squares((conv.lin_message.weight,))


def neighbors(x: Tensor) -> Tensor:
    return spmm(EDGES[0], EDGES[1], x, None, NUM_NODES)


CASES: dict[str, Callable[[Tensor], Tensor]] = {
    "logits of the features": lambda x: squares(
        sim_pool(x.tanh(), EDGES, x.tanh() @ x[:4], BATCH, batch_size=BATCH_SIZE)
    ),
    "logits are the features": lambda x: squares(
        sim_pool(x, EDGES, x, BATCH, batch_size=BATCH_SIZE)
    ),
    "weights of the features": lambda x: squares(
        sim_pool(x, EDGES, x.sin(), BATCH, x[EDGES[0], 0] + x[EDGES[1], 0], BATCH_SIZE)
    ),
    "dense, all of one": lambda x: dense(h := x[:10].tanh().view(2, 5, 4), h @ x[:4], h @ h.mT),
    "dense, logits are the features": lambda x: dense(
        h := x[:10].view(2, 5, 4), h, torch.ones(2, 5, 5, dtype=x.dtype)
    ),
    "a layer twice": twice,
    "a layer of tied weights": tied,
    "neighbors": lambda x: squares((neighbors(x * neighbors(x)),)),
    "product with itself": lambda x: squares((segment_matmul_t(x, x, BATCH, BATCH_SIZE),)),
}


@pytest.mark.parametrize("case", list(CASES))
def test_operators(case: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(NUM_NODES, 4, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(CASES[case](x), x)
    (found,) = torch.autograd.grad(CASES[case](x), x, create_graph=True)
    torch.testing.assert_close(found, expected)
    # And its derivative is that of the gradient, by differences.
    direction = torch.randn_like(x)
    (second,) = torch.autograd.grad((found * direction).sum(), x)
    step = 1e-6
    near = []
    for h in (step, -step):
        moved = (x.detach() + h * direction).requires_grad_()
        near.append(torch.autograd.grad(CASES[case](moved), moved)[0])
    torch.testing.assert_close(second, (near[0] - near[1]) / (2 * step), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("features", ["structural", "node", "both"])
def test_classifier(features: str) -> None:
    torch.manual_seed(0)
    architecture = Architecture(8, (8, 8), (8, 8), 8, (8, 8), 8, (6, 3))
    net = SimPoolNet(4, 2, architecture, k=3, features=features).double()
    x = torch.randn(NUM_NODES, 4, dtype=torch.float64)

    def gradients(create_graph: bool) -> tuple[Tensor, ...]:
        out = net(x, EDGES, BATCH, batch_size=BATCH_SIZE)
        loss = out.loss(torch.zeros(BATCH_SIZE, dtype=torch.long))
        return torch.autograd.grad(loss, list(net.parameters()), create_graph=create_graph)

    for a, b in zip(gradients(True), gradients(False), strict=True):
        torch.testing.assert_close(a, b)

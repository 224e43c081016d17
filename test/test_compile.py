"""Pooling in compiled and in exported programs, with dynamic numbers of nodes, edges and graphs."""

import io
import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch.export import Dim

from torch_geometric_simpool import SimPool, dense_sim_pool, sim_pool
from torch_geometric_simpool.models import SimPoolNet

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(torch.__version__ < "2.10", reason="needs PyTorch 2.10"),
]
COMPILER = os.environ.get("CXX", "g++")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def draw_batch(num_graphs: int) -> tuple[Tensor, ...]:
    """Returns `x`, `edge_index`, `batch`, `sim` and `ptr`. The second last graph has no nodes."""
    sizes = torch.randint(3, 12, (num_graphs,))
    sizes[-2] = 0
    batch = torch.arange(num_graphs).repeat_interleave(sizes)
    first = (sizes.cumsum(0) - sizes)[batch]
    source = torch.arange(batch.numel()).repeat(3)
    target = (first + torch.randint(0, 12, batch.shape) % sizes[batch]).repeat(3)
    ptr = torch.zeros(num_graphs + 1, dtype=torch.long)
    n = batch.numel()
    return torch.randn(n, 3), torch.stack([source, target]), batch, torch.rand(n, 4), ptr


class Operator(torch.nn.Module):
    """Calls the operator with weights."""

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, sim: Tensor, ptr: Tensor
    ) -> Any:
        weight = x[edge_index[0], 0] + x[edge_index[1], 0]
        return sim_pool(x, edge_index, sim, batch, weight, ptr.numel() - 1)


class WithoutBatchSize(torch.nn.Module):
    """Calls the operator without `batch_size`."""

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, sim: Tensor, ptr: Tensor
    ) -> Any:
        return sim_pool(x, edge_index, sim, batch)


class Module(torch.nn.Module):
    """Calls a layer or a network with the number of graphs from `ptr`."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, sim: Tensor, ptr: Tensor
    ) -> Any:
        return self.module(x, edge_index, batch, sim, batch_size=ptr.numel() - 1)


CASES: dict[str, Callable[[], torch.nn.Module]] = {
    "operator": Operator,
    "without batch_size": WithoutBatchSize,
    "layer": lambda: Module(SimPool(3, k=4, hidden_channels=6)),
    "net": lambda: Module(SimPoolNet.from_preset("enzymes", 3, 2, width=0.01, k=4)),
}


def tensors_of(result: Any) -> list[Tensor]:
    if isinstance(result, Tensor):
        return [result]
    parts = result if isinstance(result, (tuple, list)) else []
    return [tensor for part in parts for tensor in tensors_of(part)]


def compare(function: Callable[..., Any], expected: Callable[..., Any], *inputs: Tensor) -> None:
    """Compares values and gradients."""
    leaves = [t.requires_grad_() for t in inputs if t.is_floating_point()]
    results = [tensors_of(f(*inputs)) for f in (function, expected)]
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
    losses = [torch.stack([t.square().sum() for t in result]).sum() for result in results]
    gradients = [torch.autograd.grad(loss, leaves, allow_unused=True) for loss in losses]
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("case", CASES)
def test_compiled(case: str) -> None:
    module = CASES[case]()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend=counter)
    for num_graphs in (5, 2, 9, 3, 30):
        compare(compiled, module, *draw_batch(num_graphs))
    assert 1 <= counter.frame_count <= 2


@pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"needs a C++ compiler ({COMPILER})")
def test_inductor() -> None:
    compiled = torch.compile(Operator(), fullgraph=True, dynamic=True)
    for num_graphs in (5, 12):
        compare(compiled, Operator(), *draw_batch(num_graphs))


@pytest.mark.parametrize("masked", [False, True])
def test_compiled_dense_batches(masked: bool) -> None:
    layer = SimPool(3, k=4, features="both", in_channels=4, hidden_channels=6)

    def pool(x: Tensor, adj: Tensor, sim: Tensor, mask: Tensor) -> Any:
        mask = mask if masked else None
        return *layer(x, None, None, sim, adj=adj, mask=mask), *dense_sim_pool(x, adj, sim, mask)

    compiled = torch.compile(pool, fullgraph=True, dynamic=True, backend="aot_eager")
    for b, n in ((2, 5), (4, 7)):
        mask = torch.rand(b, n) < 0.7
        compare(
            compiled, pool, torch.randn(b, n, 4), torch.rand(b, n, n), torch.rand(b, n, 4), mask
        )


@pytest.mark.parametrize("case", CASES)
def test_exported_saved_and_loaded(case: str) -> None:
    module = CASES[case]().eval()
    dynamic = ({0: Dim.DYNAMIC}, {1: Dim.DYNAMIC}, *({0: Dim.DYNAMIC} for _ in range(3)))
    file = io.BytesIO()
    torch.export.save(torch.export.export(module, draw_batch(6), dynamic_shapes=dynamic), file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    for num_graphs in (2, 3, 40):
        compare(loaded, module, *draw_batch(num_graphs))


def test_features_on_the_fly_break_the_graph() -> None:
    layer = SimPool(3, k=4)
    x, edge_index, batch, _, _ = draw_batch(4)
    compiled = torch.compile(layer, backend="eager")
    for a, b in zip(compiled(x, edge_index, batch), layer(x, edge_index, batch), strict=True):
        torch.testing.assert_close(a, b)  # a compiled pooling sums in different blocks
    x, adj = torch.rand(2, 5, 3), torch.rand(2, 5, 5)
    assert torch.equal(compiled(x, adj=adj).s, layer(x, adj=adj).s)

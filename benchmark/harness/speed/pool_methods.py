"""The pooling operators that `pooling.py` compares, on sparse or dense batches."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

import torch
from torch import Tensor
from torch_geometric.nn import DMoNPooling, dense_diff_pool
from torch_geometric.utils import to_dense_adj, to_dense_batch

from torch_geometric_simpool import dense_sim_pool, sim_pool

WIDTH = 64


@dataclass
class Ragged:
    """A sparse batch: `[N, F]`, `[2, E]`, `[N]`, and the number of graphs."""

    x: Tensor
    edge_index: Tensor
    batch: Tensor
    batch_size: int

    def dense(self) -> tuple[Tensor, Tensor, Tensor]:
        x, mask = to_dense_batch(self.x, self.batch, batch_size=self.batch_size)
        adj = to_dense_adj(self.edge_index, self.batch, batch_size=self.batch_size)
        return x, adj, mask


def make_batch(graphs: list[tuple[int, Tensor]], seed: int = 0) -> Ragged:
    """Makes one batch of graphs, given as numbers of nodes and edges, with random features."""
    sizes = torch.tensor([size for size, _ in graphs])
    first = (sizes.cumsum(0) - sizes).tolist()
    edge_index = torch.cat([edges + start for start, (_, edges) in zip(first, graphs)], dim=1)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(int(sizes.sum()), WIDTH, generator=generator)
    return Ragged(x, edge_index, torch.arange(len(graphs)).repeat_interleave(sizes), len(graphs))


#: `X'`, `tanh(S^T A S)` or `None` if the method has another `A'`, and the sum of the losses.
Outputs = tuple[Tensor, Optional[Tensor], Tensor]


class Method(torch.nn.Module):
    """An operator after one linear layer `[F, K]` that computes its logits."""

    dense = False

    def __init__(self, num_clusters: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lin = torch.nn.Linear(WIDTH, num_clusters)
        self.build(num_clusters)

    def build(self, num_clusters: int) -> None:
        """Makes other modules."""

    def prepare(self, batch: Ragged) -> Any:
        """The batch in the form that the method needs; not timed."""
        return batch.dense() if self.dense else batch

    def leaf(self, prepared: Any) -> Tensor:
        return prepared[0] if self.dense else prepared.x

    def forward(self, prepared: Any) -> Outputs:
        raise NotImplementedError


def _linear(module: torch.nn.Module) -> torch.nn.Module:
    """The one linear layer, of PyTorch or of PyG."""
    (found,) = [m for m in module.modules() if type(m).__name__ == "Linear"]
    return found


class SimPoolSparse(Method):
    def forward(self, b: Any) -> Outputs:
        x, adj, *losses = sim_pool(
            b.x, b.edge_index, self.lin(b.x), b.batch, batch_size=b.batch_size
        )
        return x, adj, losses[0] + losses[1]


class SimPoolDense(Method):
    dense = True

    def forward(self, prepared: Any) -> Outputs:
        x, adj, mask = prepared
        x, adj, *losses = dense_sim_pool(x, adj, self.lin(x), mask)
        return x, adj, losses[0] + losses[1]


class DiffPoolDense(Method):
    dense = True

    def forward(self, prepared: Any) -> Outputs:
        x, adj, mask = prepared
        x, adj, *losses = dense_diff_pool(x, adj, self.lin(x), mask)
        return x, adj.tanh(), losses[0] + losses[1]


class DMoN(Method):
    """Its own multi-layer perceptron, with one layer, computes the logits.

    It applies SELU to `X'`, and normalizes `A'`, which cannot be compared.
    """

    dense = True

    def build(self, num_clusters: int) -> None:
        self.pool = DMoNPooling(WIDTH, num_clusters)
        _linear(self.pool).load_state_dict(self.lin.state_dict())

    def forward(self, prepared: Any) -> Outputs:
        _, x, adj, *losses = self.pool(*prepared)
        return x, None, sum(losses) + adj.sum()


class _Tgp(Method):
    batched = True

    def build(self, num_clusters: int) -> None:
        from tgp.poolers import DiffPool

        # The settings with the least work: no loops are removed, nothing is normalized.
        self.pool = DiffPool(
            [WIDTH],
            num_clusters,
            remove_self_loops=False,
            degree_norm=False,
            adj_transpose=False,
            batched=self.batched,
        )
        _linear(self.pool).load_state_dict(self.lin.state_dict())


class TgpBatched(_Tgp):
    dense = True

    def forward(self, prepared: Any) -> Outputs:
        x, adj, mask = prepared
        out = self.pool(x=x, adj=adj, mask=mask)
        return out.x, out.edge_index.tanh(), sum(out.loss.values())


class TgpUnbatched(_Tgp):
    batched = False

    def forward(self, b: Any) -> Outputs:
        out = self.pool(x=b.x, adj=b.edge_index, batch=b.batch)
        return out.x, out.edge_index.tanh(), sum(out.loss.values())


METHODS: dict[str, Callable[[int], Method]] = {
    "sim_pool": SimPoolSparse,
    "dense_sim_pool": SimPoolDense,
    "dense_diff_pool (PyG)": DiffPoolDense,
    "DMoNPooling (PyG)": DMoN,
    "DiffPool, batched (tgp)": TgpBatched,
    "DiffPool, unbatched (tgp)": TgpUnbatched,
}

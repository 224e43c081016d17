"""Structural features of parsed graphs: what the transform writes and what a layer computes."""

from dataclasses import dataclass, field
from typing import Any, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.functional.mapping import mapped_indices
from torch_geometric_simpool.topk.backend import get_backend
from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.parse import BYTES_PER_NODE
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings
from torch_geometric_simpool.topk.topk_similarity import topk_of_edges
from torch_geometric_simpool.transforms.node_order import (
    DEFAULT_ORDER,
    ORDERS,
    check_order,
    order_nodes,
)
from torch_geometric_simpool.utils.checks import check_choice, check_int, check_real

#: Places of the top k that are computed at a time, and the bytes that each takes.
BLOCK_PLACES, PLACE_BYTES = 2**17, 64


@dataclass(frozen=True)
class FeatureSettings:
    """The settings of structural features, checked once."""

    k: int = 16
    alpha: float = 1.0
    order: Optional[str] = DEFAULT_ORDER
    topk: TopKSettings = field(default_factory=TopKSettings)

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", check_int("k", self.k, 1))
        object.__setattr__(self, "alpha", check_real("alpha", self.alpha, 0.0, 1.0))
        if self.order is not None:
            check_choice("order", self.order, ORDERS)

    def asdict(self) -> dict[str, Any]:
        """Returns all settings as keyword arguments."""
        return {"k": self.k, "alpha": self.alpha, "order": self.order, **self.topk.asdict()}


def structural_features(
    edges: EdgeList,
    batch: Tensor,
    batch_size: int,
    settings: FeatureSettings,
    node_attr: Optional[Tensor] = None,
) -> Tensor:
    """Returns the mapped features of the graphs of a batch, `[N, k]`, float32.

    Args:
        edges (EdgeList): The graphs as one block-diagonal graph.
        batch (torch.Tensor): The graph of each node, `[N]`, ascending.
        batch_size (int): The number of graphs.
        settings (FeatureSettings): The settings.
        node_attr (torch.Tensor, optional): Attributes that distinguish nodes in the order, `[N]`
            or `[N, F]`. (default: :obj:`None`)
    """
    topk, k, num_nodes, weight = settings.topk, settings.k, edges.num_nodes, edges.edge_weight
    if weight is not None and weight.dtype.itemsize < 4 and weight.is_floating_point():
        # Similarities of half precision would be rounded before they are float32.
        weight = weight.float()
        edges = edges._replace(edge_weight=weight)
    differentiable = weight is not None and weight.requires_grad and torch.is_grad_enabled()
    block_rows = num_nodes if differentiable else min(num_nodes, BLOCK_PLACES // k + 1)
    bytes_of_result = 4 * num_nodes * k + PLACE_BYTES * block_rows * k
    if settings.order is not None:
        bytes_of_result += edges.edge_index.nbytes + 16 * num_nodes  # renumbered
    budget = Budget(topk.memory_budget, topk.force, bytes_of_result, edges.device)
    if settings.order is not None:
        check_order(edges, settings.order, budget, bytes_of_result + BYTES_PER_NODE * num_nodes)
    budget.check_memory(BYTES_PER_NODE * num_nodes)

    size = torch.bincount(batch, minlength=batch_size)
    first = size.cumsum(0) - size
    position = None  # of each node, by which its row is computed
    if settings.order is not None:
        position = order_nodes(edges, batch, size, settings.order, node_attr) + first[batch]
        edges = edges._replace(edge_index=position[edges.edge_index])

    def mapped(values: Tensor, index: Tensor, graph: Tensor) -> Tensor:
        local = torch.where(index < 0, index, index - first[graph].unsqueeze(-1))
        return mapped_indices(values.float(), local, size[graph].unsqueeze(-1), settings.alpha)

    if block_rows == num_nodes:
        features = mapped(*topk_of_edges(edges, k, topk, budget=budget), batch)
        return features if position is None else features[position]
    selection = topk.selection(k, edges.dtype)
    graph = get_backend(topk, batch.device).prepare(edges, topk.spec(), budget)
    features = torch.empty(num_nodes, k, device=batch.device)
    node = torch.arange(num_nodes, device=batch.device)
    if position is not None:
        node[position] = node.clone()
    for rows in torch.arange(num_nodes, device=batch.device).split(block_rows):
        values, index = graph.topk(rows, selection, budget, edges.dtype)
        features[node[rows]] = mapped(values, index, batch[rows])
    return features

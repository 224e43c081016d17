"""Structural features of parsed graphs: what the transform writes and what a layer computes."""

from dataclasses import dataclass, field
from typing import Optional

import torch
from torch import Tensor

from torch_geometric_simpool.functional.mapping import map_indices
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings
from torch_geometric_simpool.topk.topk_similarity import topk_per_graph
from torch_geometric_simpool.transforms.node_order import ORDERS, node_order
from torch_geometric_simpool.utils.checks import check_choice, check_int, check_real


@dataclass(frozen=True)
class FeatureSettings:
    """The settings of structural features, checked once."""

    k: int
    alpha: float = 1.0
    order: Optional[str] = None
    topk: TopKSettings = field(default_factory=TopKSettings)

    def __post_init__(self) -> None:
        check_int("k", self.k, 1)
        check_real("alpha", self.alpha, 0.0, 1.0)
        if self.order is not None:
            check_choice("order", self.order, ORDERS)


def structural_features(
    edges: EdgeList,
    batch: Tensor,
    batch_size: int,
    settings: FeatureSettings,
    node_attr: Optional[Tensor] = None,
) -> Tensor:
    """Returns the mapped features of the graphs of a batch, `[N, k]`, float32.

    Args:
        edges: The graphs as one block-diagonal graph.
        batch: The graph of each node, `[N]`, ascending.
        batch_size: The number of graphs.
        settings: The settings.
        node_attr: Attributes that distinguish nodes in the order, `[N]` or `[N, F]`.
    """
    edge_index, weight = edges.edge_index, edges.edge_weight
    if weight is not None and weight.dtype in (torch.float16, torch.bfloat16):
        # Similarities of half precision would be rounded before they are float32.
        weight = weight.float()
    number = None
    if settings.order is not None:
        position = node_order(
            edge_index, settings.order, batch.numel(), batch, batch_size, weight, node_attr
        )
        sizes = torch.bincount(batch, minlength=batch_size)
        number = position + (sizes.cumsum(0) - sizes)[batch]
        edge_index = number[edge_index]
    edges = edges._replace(edge_index=edge_index, edge_weight=weight)
    values, index, num_nodes = topk_per_graph(edges, batch, batch_size, settings.k, settings.topk)
    features = map_indices(values.float(), index, num_nodes, settings.alpha)
    return features if number is None else features[number]

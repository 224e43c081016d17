"""Reads the graphs of a data object: the one place that knows the forms that edges come in."""

from typing import NamedTuple, Optional

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from torch_geometric_simpool.utils.batching import block_diagonal, from_adj_t
from torch_geometric_simpool.utils.checks import (
    check_batch,
    check_bipartite_edge_index,
    check_dense,
    check_edge_index,
    check_edge_weight,
    check_finite,
    check_mask,
    check_node_attr,
    check_tensor,
    check_within_graphs,
    shape,
)


class GraphBatch(NamedTuple):
    """Graphs as one block-diagonal graph; its tensors have been checked."""

    #: `[2, E]`, int64; no edge joins two graphs.
    edge_index: Tensor
    #: `[E]`, or `None` of unweighted graphs.
    edge_weight: Optional[Tensor]
    #: The graph of each node, `[N]`, ascending.
    batch: Tensor
    num_graphs: int
    #: Attributes that distinguish nodes, `[N]` or `[N, F]`, or `None`.
    node_attr: Optional[Tensor]


def is_dense(data: Data) -> bool:
    """Whether the edges are a matrix `adj`: there is neither `edge_index` nor `adj_t`."""
    return data.edge_index is None and getattr(data, "adj_t", None) is None


def read_sparse(data: Data, weight_name: Optional[str], attr_name: Optional[str]) -> GraphBatch:
    """The graph or graphs of `edge_index` or `adj_t`.

    `weight_name` and `attr_name` are the names of the edge weights, which need not be there,
    and of the node attributes, which must; `None` reads none.
    """
    edge_index = data.edge_index  # read once: PyG looks it up in a storage, which takes a while
    if edge_index is not None:
        check_tensor("edge_index", edge_index)
        edge_weight = None if weight_name is None else getattr(data, weight_name, None)
    else:
        edge_index, edge_weight = from_adj_t(data.adj_t)
        edge_weight = None if weight_name is None else edge_weight
    num_nodes = data.num_nodes
    if num_nodes is None:
        raise ValueError(
            "`data.num_nodes` must be set where neither node features nor edges tell, got None"
        )
    batch = getattr(data, "batch", None)
    ptr = None if batch is None else getattr(data, "ptr", None)
    num_graphs = None if ptr is None else ptr.numel() - 1
    batch, num_graphs = check_batch(batch, num_nodes, num_graphs, edge_index.device)
    node_attr = _read_node_attr(data, attr_name, (batch.numel(),))
    edge_index, _ = check_edge_index(edge_index, batch.numel())
    edge_weight = check_edge_weight(edge_weight, edge_index.size(1), device=edge_index.device)
    if num_graphs > 1:
        check_within_graphs(edge_index, batch)
    return GraphBatch(edge_index, edge_weight, batch, num_graphs, node_attr)


def read_dense(
    data: Data, weight_name: Optional[str], attr_name: Optional[str]
) -> tuple[GraphBatch, Tensor]:
    """The graph or graphs of a padded matrix `adj`, and the mask of their nodes.

    The mask has the shape that `data` has, `[N]` or `[B, N]`; the nodes of the batch are those
    where it is true, in this order. Padded entries of `adj` and of attributes are not read.
    """
    adj, mask = getattr(data, "adj", None), getattr(data, "mask", None)
    if not isinstance(adj, Tensor):
        raise ValueError(
            f"`data` must have `edge_index`, `adj_t` or a dense `adj`, got {sorted(data.keys())}"
        )
    check_dense("adj", adj)
    single = adj.dim() == 2 or (isinstance(mask, Tensor) and mask.dim() == 1)
    if single:
        adj = adj.unsqueeze(0)
        mask = mask.unsqueeze(0) if isinstance(mask, Tensor) else mask
    if adj.dim() not in (3, 4) or adj.size(1) != adj.size(2):
        raise ValueError(f"`adj` must have shape [*, N, N] or [*, N, N, D], got {shape(adj)}")
    mask = check_mask(mask, tuple(adj.shape[:2]), adj.device, "adj")
    if mask is None:
        mask = adj.new_ones(adj.shape[:2], dtype=torch.bool)
    given_mask = mask[0] if single else mask
    node_attr = _read_node_attr(data, attr_name, tuple(given_mask.shape), sync=False)
    if node_attr is not None:
        node_attr = node_attr[given_mask]
        check_finite(f"data.{attr_name}", node_attr)
    edge_index, edge_weight, batch = block_diagonal(adj, mask)
    check_finite("adj", edge_weight)
    weight = None if weight_name is None else edge_weight
    return GraphBatch(edge_index, weight, batch, adj.size(0), node_attr), given_mask


def read_edge_type(
    data: HeteroData, edge_type: tuple[str, str, str], weight_name: Optional[str]
) -> tuple[Tensor, Optional[Tensor], tuple[int, int]]:
    """The edges of one type, their weights, and the numbers of source and destination nodes.

    They are checked, those of a batch as well: no edge joins two graphs.
    """
    src, _, dst = edge_type
    num_nodes = _read_num_nodes(data, src), _read_num_nodes(data, dst)
    store = data[edge_type]
    if "edge_index" in store:
        edge_index = store["edge_index"]
        edge_weight = None if weight_name is None else store.get(weight_name)
    elif "adj_t" in store:
        edge_index, edge_weight = from_adj_t(store["adj_t"], num_nodes)
        edge_weight = None if weight_name is None else edge_weight
    else:
        raise ValueError(
            f"`data[{edge_type}]` must have `edge_index` or `adj_t`, got {sorted(store.keys())}"
        )
    edge_index, num_nodes = check_bipartite_edge_index(edge_index, num_nodes)
    edge_weight = check_edge_weight(edge_weight, edge_index.size(1))
    if "batch" in data[src] and "batch" in data[dst]:
        check_within_graphs(edge_index, data[src].batch, data[dst].batch)
    return edge_index, edge_weight, num_nodes


def _read_num_nodes(data: HeteroData, node_type: str) -> int:
    store = data[node_type] if node_type in data.node_types else None
    num_nodes = store.num_nodes if store is not None and store.can_infer_num_nodes else None
    if num_nodes is None:
        raise ValueError(
            f"`data[{node_type!r}].num_nodes` must be set where node features do not tell, got None"
        )
    return num_nodes


def _read_node_attr(
    data: Data, name: Optional[str], nodes: tuple[int, ...], sync: bool = True
) -> Optional[Tensor]:
    if name is None:
        return None
    value = getattr(data, name, None)
    if value is None:
        raise ValueError(
            f"`data` must have {name!r}, the node attribute that `order_attr` names, got "
            f"{sorted(data.keys())}"
        )
    return check_node_attr(f"data.{name}", value, nodes, sync)

"""Reads the graphs of a data object, in all forms of edges: `edge_index`, `adj_t` and `adj`."""

from itertools import accumulate
from typing import Any, NamedTuple, Optional, Union

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from torch_geometric_simpool.functional.batches import (
    DenseBatch,
    SparseBatch,
    from_adj_t,
    pad_rows,
    parse_adj,
)
from torch_geometric_simpool.topk.parse import check_edges
from torch_geometric_simpool.topk.spec import EdgeList
from torch_geometric_simpool.utils.checks import check_batch, check_dense

#: The default name of edge weights. If it is missing, `weight` is read, the name in NetworkX.
EDGE_WEIGHT = "edge_weight"

#: The range of absolute weights of graphs that may be joined.
SMALLEST, LARGEST = 1e-9, 1e9


class ParsedGraphs(NamedTuple):
    """The graphs of a data object as one block-diagonal graph, checked."""

    edges: EdgeList
    batch: Tensor  # [N], the graph of each node, in any order
    num_graphs: int
    mask: Optional[Tensor] = None  # [N_max] or [B, N_max], the nodes of padded graphs

    def to_data(self, rows: Tensor) -> Tensor:
        """Returns rows of the nodes, `[N, F]`, in the padding of the data object."""
        return rows if self.mask is None else pad_rows(rows, self.mask)

    def kind(self) -> tuple:
        """Returns the properties that graphs must share to be joined."""
        weight = self.edges.edge_weight
        # A top k scales all weights by one number, so extreme weights of one graph could make
        # weights of another graph underflow.
        size = self.batch.new_ones(1) if weight is None else weight[weight != 0].abs()
        return (
            self.batch.device,
            None if weight is None else weight.dtype,
            None if bool(((size >= SMALLEST) & (size <= LARGEST)).all()) else id(weight),
        )


def join(parts: list[ParsedGraphs]) -> ParsedGraphs:
    """Returns graphs of one kind as one block-diagonal graph."""
    edges = [part.edges for part in parts]
    first = list(accumulate((part.num_nodes for part in edges), initial=0))
    graph = list(accumulate((part.num_graphs for part in parts), initial=0))
    edge_index = torch.cat([part.edge_index + node for part, node in zip(edges, first)], dim=1)
    batch = torch.cat([part.batch + number for part, number in zip(parts, graph)])
    weights = [part.edge_weight for part in edges if part.edge_weight is not None]
    weight = torch.cat(weights) if weights else None
    return ParsedGraphs(EdgeList(edge_index, weight, first[-1]), batch, graph[-1])


def read_graphs(data: Data, weight_attr: Optional[str] = EDGE_WEIGHT) -> ParsedGraphs:
    """Reads `edge_index`, else `adj_t`, else the padded matrix `adj`.

    Args:
        data (Data): One graph or a batch of graphs, whose `batch` need not be sorted.
        weight_attr (str, optional): The name of the edge weights; see :func:`weight_name`.
    """
    if not isinstance(data, Data):
        raise TypeError(f"`data` must be a torch_geometric.data.Data, got {type(data).__name__}")
    if data.edge_index is None and getattr(data, "adj_t", None) is None:
        return _read_dense(data)
    edges = _read_edges(data, weight_attr, data.num_nodes)
    batch, ptr = getattr(data, "batch", None), getattr(data, "ptr", None)
    num_graphs = None if batch is None or ptr is None else ptr.numel() - 1
    batch, num_graphs = check_batch(
        batch, edges.num_nodes, num_graphs, edges.device, edge_index=edges.edge_index
    )
    return ParsedGraphs(edges, batch, num_graphs)


def _read_edges(
    store: Any, weight_attr: Optional[str], num_nodes: Union[int, tuple[int, int], None]
) -> EdgeList:
    """Reads `edge_index`, else `adj_t`, of a data object or an edge type."""
    edge_index = getattr(store, "edge_index", None)
    if edge_index is None:
        edge_index, edge_weight = from_adj_t(store.adj_t, num_nodes)
        edge_weight = None if weight_attr is None else edge_weight
    else:
        name = weight_name(store, weight_attr, edge_index)
        edge_weight = None if name is None else getattr(store, name, None)
    return check_edges(edge_index, edge_weight, num_nodes)


def parsed_batch(graphs: Union[SparseBatch, DenseBatch]) -> ParsedGraphs:
    """Returns the graphs of a checked batch, without padding.

    Nodes of padded graphs may have any positions. They are numbered in their order over all graphs.
    """
    if isinstance(graphs, SparseBatch):
        edges = EdgeList(graphs.edge_index, graphs.edge_weight, graphs.batch.numel())
        return ParsedGraphs(edges, graphs.batch, graphs.batch_size)
    adj, mask = graphs.adj, graphs.mask
    if mask is None:
        mask = adj.new_ones(adj.shape[:2], dtype=torch.bool)
    graph, row, col = adj.nonzero(as_tuple=True)
    node = (mask.view(-1).cumsum(0) - 1).view(mask.shape)
    batch = mask.nonzero()[:, 0]
    edge_index = torch.stack([node[graph, row], node[graph, col]])
    edges = EdgeList(edge_index, adj[graph, row, col], batch.numel())
    return ParsedGraphs(edges, batch, adj.size(0), mask)


def _read_dense(data: Data) -> ParsedGraphs:
    """Reads padded graphs. Padded entries of `adj` are ignored."""
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
    adj, mask = parse_adj(adj, mask)
    graphs = parsed_batch(DenseBatch(adj, adj, mask))
    assert graphs.mask is not None
    return graphs._replace(mask=graphs.mask[0]) if single else graphs


def read_edge_type(
    data: HeteroData, edge_type: tuple[str, str, str], weight_attr: Optional[str]
) -> EdgeList:
    """Reads the edges of one type as a bipartite graph."""
    store = data[edge_type]
    num_nodes = _read_num_nodes(data, edge_type[0]), _read_num_nodes(data, edge_type[2])
    if "edge_index" not in store and "adj_t" not in store:
        raise ValueError(
            f"`data[{edge_type}]` must have `edge_index` or `adj_t`, got {sorted(store.keys())}"
        )
    return _read_edges(store, weight_attr, num_nodes)


def weight_name(store: Any, weight_attr: Optional[str], edge_index: Any) -> Optional[str]:
    """Returns the name of the edge weights to read, which need not be present.

    If `edge_weight` is missing, `weight` is read if it has one entry per edge. Any other name must
    be present.
    """
    if weight_attr is None or getattr(store, weight_attr, None) is not None:
        return weight_attr
    if weight_attr != EDGE_WEIGHT:
        raise ValueError(
            f"`weight_attr` must be the name of an edge attribute of `data`, got {weight_attr!r}, "
            f"which is not among {sorted(store.keys())}"
        )
    value, num_edges = getattr(store, "weight", None), tuple(getattr(edge_index, "shape", ()))[-1:]
    fits = isinstance(value, Tensor) and tuple(value.shape) in (num_edges, (*num_edges, 1))
    return "weight" if fits else weight_attr


def check_attr_name(name: str, value: Any) -> Optional[str]:
    """Raises if a parameter is neither a name nor `None`."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"`{name}` must be a name or None, got {value!r}")
    return value


def _read_num_nodes(data: HeteroData, node_type: str) -> int:
    store = data[node_type] if node_type in data.node_types else None
    num_nodes = store.num_nodes if store is not None and store.can_infer_num_nodes else None
    if num_nodes is None:
        raise ValueError(
            f"`data[{node_type!r}].num_nodes` must be set where node features do not tell, got None"
        )
    return num_nodes

"""Writes edges to data objects: to a copy that a transform has made of its input."""

import re
from typing import Any, Optional

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import cumsum

from torch_geometric_simpool.transforms.inputs import GraphBatch
from torch_geometric_simpool.utils.batching import from_adj_t
from torch_geometric_simpool.utils.checks import check_edge_weight, shape


def write(data: Any, store: Any, attributes: dict[str, Tensor], batch: Optional[Tensor]) -> None:
    """Writes edges between nodes of one type, and what there is one of for each of them.

    `store` is that of the edges in `data`; `attributes` are in the order of the graphs, the first
    of them `[2, L]`; `batch` is the graph of each node.
    """
    for name, value in attributes.items():
        store[name] = value
    if batch is None or getattr(data, "_slice_dict", None) is None:
        return
    edge_index = next(iter(attributes.values()))
    per_graph = torch.bincount(batch[edge_index[0]], minlength=data.num_graphs)
    first_node = cumsum(torch.bincount(batch, minlength=data.num_graphs))[:-1].cpu()
    if store._key is not None:  # of an edge type, whose ends could be of two types
        first_node = first_node.view(-1, 1, 1).expand(-1, 2, 1)
    slices, incs = {}, {}
    for name in attributes:
        slices[name] = cumsum(per_graph).cpu()
        incs[name] = first_node if "index" in name else torch.zeros(data.num_graphs)
        if f"{name}_batch" in store:  # by the `follow_batch` of a loader
            store[f"{name}_batch"] = batch[edge_index[0]]
            store[f"{name}_ptr"] = cumsum(per_graph)
    record(data, store._key, slices, incs)


def record(data: Any, key: Any, slices: dict[str, Tensor], incs: dict[str, Tensor]) -> None:
    """Lets `to_data_list` separate attributes that PyG has not collated.

    `key` is an edge type, or `None` in a batch of :class:`~torch_geometric.data.Data`.
    """
    if key is not None:
        slices, incs = {key: slices}, {key: incs}  # type: ignore[dict-item]
    data._slice_dict = {**data._slice_dict, **slices}
    data._inc_dict = {**data._inc_dict, **incs}


def append(
    data: Data, graphs: GraphBatch, edge_index: Tensor, weight: Tensor, weight_name: str
) -> None:
    """Puts edges behind those of each graph. Where there are no weights, the present ones get 1."""
    if "edge_type" in data:
        raise ValueError(
            "`data.edge_type` must not be there where edges are added, which have no type, got "
            f"{type(data.edge_type).__name__}: write them to an `attr` of their own"
        )
    _remove_adj_t(data, graphs, weight_name)
    present, weight = _alike(data, graphs, weight, weight_name)
    whole = not present.is_floating_point()
    if whole and not torch.equal(present.to(weight.dtype).to(present.dtype), present):
        weight = weight.double()  # large integers have no exact float32
    pairs = {"edge_index": (graphs.edge_index, edge_index), weight_name: (present, weight)}
    for name, value in _other_attributes(data, graphs, weight_name).items():
        size = list(value.shape)
        size[data.__cat_dim__(name, value)] = weight.numel()
        pairs[name] = (value, value.new_zeros(size))
    joined = {
        name: torch.cat(pair, data.__cat_dim__(name, pair[0])) for name, pair in pairs.items()
    }
    if graphs.num_graphs > 1:
        order = graphs.batch[joined["edge_index"][0]].argsort(stable=True)
        joined = {
            name: value.index_select(data.__cat_dim__(name, value), order)
            for name, value in joined.items()
        }
    write(data, data._store, joined, graphs.batch)


def replace(
    data: Data, graphs: GraphBatch, edge_index: Tensor, weight: Tensor, weight_name: str
) -> None:
    """Puts edges in place of the present ones, whose attributes are removed."""
    _keep_num_nodes(data, graphs)
    _remove_adj_t(data, graphs, weight_name)
    for name in _other_names(data, graphs, weight_name):
        for part in (name, f"{name}_batch", f"{name}_ptr"):
            if part in data:
                del data[part]
    _, weight = _alike(data, graphs, weight, weight_name)
    write(data, data._store, {"edge_index": edge_index, weight_name: weight}, graphs.batch)


def _alike(
    data: Data, graphs: GraphBatch, weight: Tensor, weight_name: str
) -> tuple[Tensor, Tensor]:
    """The present weights, ones if there are none, and the new ones: all `[L]`, or all `[L, 1]`."""
    num_edges = graphs.edge_index.size(1)
    present = data.get(weight_name)
    if present is None:
        return weight.new_ones(num_edges), weight
    check_edge_weight(present, num_edges)
    return present, weight.view(-1, *present.shape[1:])


def _other_names(data: Data, graphs: GraphBatch, weight_name: str) -> list[str]:
    """What there is one of for each edge of `edge_index`, apart from its ends and weights."""
    return [
        name
        for name, _ in data
        if name != weight_name
        and not _is_of_other(data, name)
        and (name == "edge_attr" or _is_of_edges(data, graphs, name))
    ]


def _other_attributes(data: Data, graphs: GraphBatch, weight_name: str) -> dict[str, Tensor]:
    """The same with their values, which must be such that values of new edges can follow."""
    num_edges = graphs.edge_index.size(1)
    found = {}
    for name in _other_names(data, graphs, weight_name):
        value = data[name]
        if not isinstance(value, Tensor):
            raise TypeError(
                f"`data.{name}` must be a tensor to be there for other edges as well, got "
                f"{type(value).__name__}"
            )
        if value.dim() == 0 or value.size(data.__cat_dim__(name, value)) != num_edges:
            raise ValueError(
                f"`data.{name}` must have one entry per edge, {num_edges}, got shape {shape(value)}"
            )
        found[name] = value
    return found


def _is_of_edges(data: Data, graphs: GraphBatch, name: str) -> bool:
    """Whether there is one for each edge, in every graph.

    PyG goes by size alone, so that one label of a graph with one edge would be that of the edge.
    """
    if name == "y" or not data.is_edge_attr(name):
        return False
    value = data[name]
    if not isinstance(value, Tensor):
        # A list or an array may as well be of the graph: only its name can tell.
        return re.search(r"(^|_)edges?(_|$)", name) is not None
    slices = (getattr(data, "_slice_dict", None) or {}).get(name)
    if slices is None or slices[-1] != value.size(data.__cat_dim__(name, value)):
        return True  # a transform has changed the attribute, and not the slices
    per_graph = torch.bincount(graphs.batch[graphs.edge_index[0]], minlength=graphs.num_graphs)
    return torch.equal(slices.diff(), per_graph.to(slices.device))


def _is_of_other(data: Data, name: str) -> bool:
    """Whether it belongs to other edges: PyG goes by size, which may be the same by chance."""
    its_index = name.replace("weight", "index")
    return (
        any(part in name for part in ("index", "batch", "ptr"))
        or f"{name}_index" in data  # as `edge_label` and `edge_label_index`
        or (its_index not in (name, "edge_index") and its_index in data)
    )


def _remove_adj_t(data: Data, graphs: GraphBatch, weight_name: str) -> None:
    """Removes a matrix that would hold the edges as they were, once they are in `edge_index`."""
    if "adj_t" not in data:
        return
    if "edge_index" not in data:
        edge_index, weight = from_adj_t(data.adj_t)
        if weight is None and data.adj_t.dim() > 2:
            raise ValueError(
                "`adj_t` must hold one value per edge where it is turned into `edge_index`, got "
                f"shape {list(data.adj_t.size())}"
            )
        data.edge_index = edge_index
        if weight is not None:
            data[weight_name] = weight
    _keep_num_nodes(data, graphs)
    del data["adj_t"]


def _keep_num_nodes(data: Data, graphs: GraphBatch) -> None:
    """Writes the number of nodes where PyG would take it from the edges."""
    if any(name in data for name in ("num_nodes", "x", "pos")):
        return
    data.num_nodes = graphs.batch.numel()
    if getattr(data, "_slice_dict", None) is not None:
        sizes = torch.bincount(graphs.batch, minlength=graphs.num_graphs)
        data._num_nodes = sizes.tolist()  # of each graph, for `to_data_list`

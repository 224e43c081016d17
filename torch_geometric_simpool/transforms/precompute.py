"""Structural features of a whole data set: many graphs at a time, as one block-diagonal graph."""

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Optional

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, InMemoryDataset
from tqdm import tqdm

from torch_geometric_simpool.transforms.node_order import row_ranks
from torch_geometric_simpool.utils.batching import one_per_edge
from torch_geometric_simpool.utils.budget import TooExpensiveError
from torch_geometric_simpool.utils.checks import (
    check_bool,
    check_edge_index,
    check_edge_weight,
    check_int,
    check_tensor,
)

#: Edges of the graphs that are worked on together: enough for the cost of a call not to
#: show, few enough for a progress bar to move.
CHUNK = 500_000

#: The features of a block-diagonal graph: of its edges, their weights, and the graph of each
#: node; the number of graphs; and what else tells nodes apart.
Features = Callable[[Tensor, Optional[Tensor], Tensor, int, Optional[Tensor]], Tensor]


def precompute(
    transform: Any,
    features: Features,
    dataset: Any,
    progress: bool = True,
    chunk_edges: int = CHUNK,
) -> Any:
    """See :meth:`StructuralSimilarity.precompute`, which calls this."""
    check_bool("progress", progress)
    chunk_edges = check_int("chunk_edges", chunk_edges, 1)
    if isinstance(dataset, InMemoryDataset):
        # What is stored, without the data set's own `transform`, which goes on to be applied.
        graphs = [dataset.get(place) for place in dataset.indices()]
        done = _graphs(transform, features, graphs, progress, chunk_edges)
        result = copy.copy(dataset)
        if not done:  # there is nothing to store, and still nothing in it
            return result
        result._indices = None
        result._data_list = None
        result._data, result.slices = dataset.collate(done)
        return result
    if isinstance(dataset, (Data, str)) or not isinstance(dataset, (Sequence, Iterable)):
        raise TypeError(
            "`dataset` must be a PyG data set or a list of torch_geometric.data.Data, got "
            f"{type(dataset).__name__}"
        )
    return _graphs(transform, features, list(dataset), progress, chunk_edges)


def _graphs(
    transform: Any, features: Features, graphs: list, progress: bool, chunk_edges: int
) -> list:
    done: list[Any] = []
    bar = tqdm(total=len(graphs), desc=type(transform).__name__, disable=not progress)
    with bar:
        start = 0
        while start < len(graphs):
            end, edges = start, 0
            while end < len(graphs) and (end == start or edges < chunk_edges):
                if not _is_plain(graphs[end]):
                    break
                edges += graphs[end].edge_index.size(1)
                end += 1
            if end == start:  # dense, or by a sparse matrix, or not a graph at all
                done.append(_alone(transform, graphs[start], start))
                end = start + 1
            else:
                done.extend(_split(transform, features, graphs[start:end], start))
            bar.update(end - start)
            start = end
    return done


def _is_plain(data: Any) -> bool:
    return (
        isinstance(data, Data)
        and not isinstance(data, Batch)
        and isinstance(data.edge_index, Tensor)
        and data.edge_index.dim() == 2
        and getattr(data, "ptr", None) is None
        and getattr(data, "batch", None) is None
    )


def _alone(transform: Any, data: Any, place: int) -> Any:
    try:
        return transform(data)
    except (TypeError, ValueError) as error:
        raise type(error)(f"graph {place} of `dataset`: {error}") from error


def _split(transform: Any, features: Features, graphs: list[Data], start: int) -> list[Data]:
    """As many graphs together as the memory budget allows."""
    try:
        return _together(transform, features, graphs, start)
    except TooExpensiveError:
        if len(graphs) == 1:
            return [_alone(transform, graphs[0], start)]  # which names the graph
        half = len(graphs) // 2
        first = _split(transform, features, graphs[:half], start)
        return first + _split(transform, features, graphs[half:], start + half)


def _together(transform: Any, features: Features, graphs: list[Data], start: int) -> list[Data]:
    """The graphs with their features; on an error in one of them, that graph is named."""
    homes = {data.edge_index.device for data in graphs}
    sizes, edges, weights, ranks = [], [], [], []
    for place, data in enumerate(graphs, start):
        try:
            weight = _weight(transform, data)
            num_nodes = data.num_nodes
            if num_nodes is None:
                raise ValueError(
                    "`data.num_nodes` must be set where neither node features nor edges tell, "
                    "got None"
                )
            edge_index, _ = check_edge_index(data.edge_index, num_nodes)
            check_edge_weight(weight, edge_index.size(1))
            node_attr = transform.node_attr(data, (num_nodes,))
        except (TypeError, ValueError) as error:
            raise type(error)(f"graph {place} of `dataset`: {error}") from error
        sizes.append(num_nodes)
        edges.append(edge_index)
        weights.append(weight)
        if node_attr is not None:
            # The attributes of two graphs may differ in width and type; their ranks do not.
            ranks.append(row_ranks(node_attr))
    if len(homes) > 1:  # graphs on several devices have nothing to share
        return [_alone(transform, data, place) for place, data in enumerate(graphs, start)]

    device = homes.pop()
    size = torch.tensor(sizes, device=device)
    per_graph = torch.tensor([edge_index.size(1) for edge_index in edges], device=device)
    first = size.cumsum(0) - size
    edge_index = torch.cat(edges, dim=1) + first.repeat_interleave(per_graph)
    batch = torch.arange(len(graphs), device=device).repeat_interleave(size)
    edge_weight = None
    if any(weight is not None for weight in weights):
        ones = [
            torch.ones(edges[place].size(1), device=device) if weight is None else weight
            for place, weight in enumerate(weights)
        ]
        dtype = torch.float64 if any(w.dtype == torch.float64 for w in ones) else torch.float32
        if any(not w.is_floating_point() for w in ones):
            dtype = torch.float64  # which holds larger integers
        edge_weight = torch.cat([weight.to(dtype) for weight in ones])
    node_attr = torch.cat(ranks) if ranks else None
    columns = features(edge_index, edge_weight, batch, len(graphs), node_attr).split(sizes)

    done = []
    for data, column in zip(graphs, columns):
        data = copy.copy(data)
        # A copy: a view would keep, and pickle, the features of all the graphs.
        data[transform.attr] = column.clone()
        done.append(data)
    return done


def _weight(transform: Any, data: Data) -> Optional[Tensor]:
    if transform.weight_attr is None:
        return None
    weight = one_per_edge(getattr(data, transform.weight_attr, None))
    return None if weight is None else check_tensor("edge_weight", weight)

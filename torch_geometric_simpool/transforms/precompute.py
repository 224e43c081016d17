"""Structural features of a whole data set, computed for many graphs at a time."""

import copy
from typing import TYPE_CHECKING, Any, Optional

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, InMemoryDataset
from tqdm import tqdm

from torch_geometric_simpool.topk.budget import TooExpensiveError
from torch_geometric_simpool.transforms.datasets import check_dataset, loaded_graphs, stored_graphs
from torch_geometric_simpool.transforms.inputs import GraphBatch, read_sparse
from torch_geometric_simpool.transforms.node_order import row_ranks
from torch_geometric_simpool.utils.checks import check_bool, check_int

if TYPE_CHECKING:
    from torch_geometric_simpool.transforms.structural_similarity import StructuralSimilarity

#: Edges of the graphs of one chunk: enough that the cost of a call does not show, few enough
#: that a progress bar moves.
CHUNK_EDGES = 500_000

#: Sizes of weights with which no graph of a chunk can make those of another vanish: a top k scales
#: all weights by one number, so that products and powers neither overflow nor underflow.
SMALLEST, LARGEST = 1e-9, 1e9


def precompute(
    transform: "StructuralSimilarity",
    dataset: Any,
    progress: bool = True,
    chunk_edges: int = CHUNK_EDGES,
) -> Any:
    """See :meth:`StructuralSimilarity.precompute`, which calls this."""
    check_bool("progress", progress)
    chunk_edges = check_int("chunk_edges", chunk_edges, 1)
    check_dataset(dataset)
    in_memory = isinstance(dataset, InMemoryDataset)
    graphs = list(stored_graphs(dataset) if in_memory else loaded_graphs(dataset))
    with tqdm(total=len(graphs), desc=type(transform).__name__, disable=not progress) as bar:
        done = add_features(transform, graphs, bar, chunk_edges)
    if not in_memory:
        return done
    # The `transform` of the data set stays in place.
    result = copy.copy(dataset)
    if not done:  # an empty data set cannot be collated
        return result
    result._indices = None
    result._data_list = None
    result._data, result.slices = dataset.collate(done)
    return result


def add_features(
    transform: "StructuralSimilarity",
    graphs: list,
    bar: tqdm,
    chunk_edges: int = CHUNK_EDGES,
    first: int = 0,
) -> list:
    """The graphs with their features; `first` is the number of the first graph in errors."""
    done: list[Any] = []
    start = 0
    while start < len(graphs):
        end, edges = start, 0
        while end < len(graphs) and (end == start or edges < chunk_edges):
            if not _can_share(graphs[end]):
                break
            edges += graphs[end].edge_index.size(1)
            end += 1
        if end == start:
            done.append(_alone(transform, graphs[start], first + start))
            end = start + 1
        else:
            done.extend(_within_budget(transform, graphs[start:end], first + start))
        bar.update(end - start)
        start = end
    return done


def _can_share(data: Any) -> bool:
    """Whether it is one graph with an `edge_index`, which can be computed with others."""
    return (
        isinstance(data, Data)
        and not isinstance(data, Batch)
        and isinstance(data.edge_index, Tensor)
        and data.edge_index.dim() == 2
        and getattr(data, "ptr", None) is None
        and getattr(data, "batch", None) is None
    )


def _alone(transform: "StructuralSimilarity", data: Any, number: int) -> Any:
    try:
        return transform(data)
    except (TypeError, ValueError) as error:
        raise _naming(number, error) from error


def _within_budget(transform: "StructuralSimilarity", graphs: list[Data], start: int) -> list[Data]:
    """As many graphs together as the memory budget allows."""
    try:
        return _together(transform, graphs, start)
    except TooExpensiveError:
        if len(graphs) == 1:
            return [_alone(transform, graphs[0], start)]  # so that the error names the graph
        half = len(graphs) // 2
        first = _within_budget(transform, graphs[:half], start)
        return first + _within_budget(transform, graphs[half:], start + half)


def _together(transform: "StructuralSimilarity", graphs: list[Data], start: int) -> list[Data]:
    """The graphs with their features, computed in one call."""
    parts = []
    for number, data in enumerate(graphs, start):
        try:
            parts.append(read_sparse(data, transform.weight_attr, transform.order_attr))
        except (TypeError, ValueError) as error:
            raise _naming(number, error) from error
    joined = None if len({part.batch.device for part in parts}) > 1 else _join(parts)
    if joined is None or not _is_ordinary(joined.edge_weight):
        return [_alone(transform, data, number) for number, data in enumerate(graphs, start)]
    sizes = [part.batch.numel() for part in parts]
    done = []
    for data, features in zip(graphs, transform.features(joined).split(sizes)):
        data = copy.copy(data)
        # A view would keep, and pickle, the features of all the graphs.
        data[transform.attr] = features.clone()
        done.append(data)
    return done


def _join(parts: list[GraphBatch]) -> GraphBatch:
    """Single graphs of one device as a batch."""
    device = parts[0].batch.device
    size = torch.tensor([part.batch.numel() for part in parts], device=device)
    num_edges = torch.tensor([part.edge_index.size(1) for part in parts], device=device)
    first = size.cumsum(0) - size
    edge_index = torch.cat([part.edge_index for part in parts], dim=1)
    edge_index = edge_index + first.repeat_interleave(num_edges)
    batch = torch.arange(len(parts), device=device).repeat_interleave(size)
    # The attributes of two graphs may differ in width and type; ranks do not.
    ranks = [row_ranks(part.node_attr) for part in parts if part.node_attr is not None]
    node_attr = torch.cat(ranks) if ranks else None
    return GraphBatch(edge_index, _join_weights(parts), batch, len(parts), node_attr)


def _join_weights(parts: list[GraphBatch]) -> Optional[Tensor]:
    """Weights of one type that holds all of them; ones for a graph without."""
    if all(part.edge_weight is None for part in parts):
        return None
    weights = [
        torch.ones(part.edge_index.size(1), device=part.batch.device)
        if part.edge_weight is None
        else part.edge_weight
        for part in parts
    ]
    # Large integers have no exact float32.
    double = any(w.dtype == torch.float64 or not w.is_floating_point() for w in weights)
    return torch.cat([w.to(torch.float64 if double else torch.float32) for w in weights])


def _is_ordinary(weight: Optional[Tensor]) -> bool:
    if weight is None or weight.numel() == 0:
        return True
    size = weight.abs()
    return bool(((size == 0) | ((size >= SMALLEST) & (size <= LARGEST))).all())


def _naming(number: int, error: Exception) -> Exception:
    return type(error)(f"graph {number} of `dataset`: {error}")

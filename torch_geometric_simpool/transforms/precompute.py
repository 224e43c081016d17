"""Structural features of data sets, computed for many graphs in one call."""

import copy
from collections.abc import Iterable
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any

import torch
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.transforms import Compose, ToDense
from tqdm import tqdm

from torch_geometric_simpool.topk.spec import EdgeList
from torch_geometric_simpool.transforms.inputs import ParsedGraphs
from torch_geometric_simpool.utils.checks import check_bool

if TYPE_CHECKING:
    from torch_geometric_simpool.transforms.structural_similarity import StructuralSimilarity

#: The number of edges that are joined in one call.
CHUNK_EDGES = 100_000

#: The sizes of the weights of graphs that are joined.
SMALLEST, LARGEST = 1e-9, 1e9


def precompute(transform: "StructuralSimilarity", dataset: Any, progress: bool) -> Any:
    """Computes the features of a data set; see :meth:`StructuralSimilarity.precompute`."""
    check_bool("progress", progress)
    if isinstance(dataset, (Data, str)) or not isinstance(dataset, Iterable):
        raise TypeError(
            "`dataset` must be an InMemoryDataset or a list of torch_geometric.data.Data, got "
            f"{type(dataset).__name__}"
        )
    if not isinstance(dataset, InMemoryDataset):
        return _with_features(transform, list(dataset), progress)
    if _pads(dataset.transform):
        raise ValueError(
            "`dataset.transform` must not contain ToDense, which does not pad "
            f"`{transform.attr}`, got {dataset.transform}: set it to None, and use "
            "Compose([ToDense(...), StructuralSimilarity(...)]) as the transform"
        )
    graphs = [dataset.get(position) for position in dataset.indices()]
    result = copy.copy(dataset)
    if graphs:
        result._indices, result._data_list = None, None
        result._data, result.slices = dataset.collate(_with_features(transform, graphs, progress))
    return result


def _with_features(transform: "StructuralSimilarity", graphs: list, progress: bool) -> list:
    """Returns copies of the graphs with features."""
    parsed, keys, num_edges = [], [], 0
    for number, data in enumerate(graphs):
        try:
            parsed.append(transform._read(data))
        except (TypeError, ValueError) as error:
            raise type(error)(f"graph {number} of `dataset`: {error}") from error
        num_edges += parsed[-1].edges.edge_index.size(1)
        keys.append((num_edges // CHUNK_EDGES, *_joining_key(parsed[-1], number)))
    results = []
    with tqdm(total=len(graphs), desc=type(transform).__name__, disable=not progress) as bar:
        for _, numbers in groupby(range(len(graphs)), keys.__getitem__):
            chunk = list(numbers)
            joined = _join([parsed[number] for number in chunk])
            features = transform.features(joined)
            sizes = [parsed[number].edges.num_nodes for number in chunk]
            for number, rows in zip(chunk, features.split(sizes)):
                data = copy.copy(graphs[number])
                # A view would keep, and pickle, the features of the whole chunk.
                data[transform.attr] = parsed[number].to_data(rows).clone()
                results.append(data)
            bar.update(len(chunk))
    return results


def _joining_key(graphs: ParsedGraphs, number: int) -> tuple:
    """Returns a key that consecutive graphs share if their features can be computed together."""
    weight, attr = graphs.edges.edge_weight, graphs.node_attr
    # A top k scales all weights by one number: extreme weights of a graph could make weights of
    # another graph underflow.
    size = torch.ones(1) if weight is None else weight[weight != 0].abs()
    return (
        graphs.batch.device,
        None if weight is None else weight.dtype,
        None if attr is None else (attr.dtype, attr.shape[1:]),
        None if bool(((size >= SMALLEST) & (size <= LARGEST)).all()) else number,
    )


def _join(parts: list[ParsedGraphs]) -> ParsedGraphs:
    """Returns graphs with one joining key as one block-diagonal graph."""
    edges = [part.edges for part in parts]
    first = list(accumulate((part.num_nodes for part in edges), initial=0))
    graph = list(accumulate((part.num_graphs for part in parts), initial=0))
    weight = [part.edge_weight for part in edges if part.edge_weight is not None]
    attr = [part.node_attr for part in parts if part.node_attr is not None]
    return ParsedGraphs(
        EdgeList(
            torch.cat([part.edge_index + node for part, node in zip(edges, first)], dim=1),
            torch.cat(weight) if weight else None,
            first[-1],
        ),
        torch.cat([part.batch + number for part, number in zip(parts, graph)]),
        graph[-1],
        torch.cat(attr) if attr else None,
    )


def _pads(transform: Any) -> bool:
    """Returns whether a transform contains :class:`~torch_geometric.transforms.ToDense`."""
    if isinstance(transform, Compose):
        return any(_pads(part) for part in transform.transforms)
    return isinstance(transform, ToDense)

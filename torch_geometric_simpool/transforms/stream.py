"""Structural features of graphs as they come, many at a time, in bounded memory."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch_geometric.data.data import BaseData
from torch_geometric.typing import SparseTensor
from tqdm import tqdm

from torch_geometric_simpool.transforms.datasets import check_dataset, loaded_graphs, num_graphs_of
from torch_geometric_simpool.transforms.precompute import add_features
from torch_geometric_simpool.utils.checks import check_bool

if TYPE_CHECKING:
    from torch_geometric_simpool.transforms.structural_similarity import StructuralSimilarity

#: Bytes of the graphs of one chunk: thousands of small graphs, so that neither the cost of a
#: call nor that of a transaction shows.
CHUNK_BYTES = 2**25
#: Bytes of a data object beside its tensors, roughly: bounds the number of graphs of a chunk.
OBJECT_BYTES = 2**12


def stream(transform: "StructuralSimilarity", dataset: Any, progress: bool = True) -> Iterator[Any]:
    """See :meth:`StructuralSimilarity.stream`, which calls this."""
    check_bool("progress", progress)
    check_dataset(dataset)
    return _stream(transform, dataset, progress)


def _stream(transform: "StructuralSimilarity", dataset: Any, progress: bool) -> Iterator[Any]:
    total = num_graphs_of(dataset)
    with tqdm(total=total, desc=type(transform).__name__, disable=not progress) as bar:
        for chunk in chunks_with_features(transform, loaded_graphs(dataset), bar):
            yield from chunk


def chunks_with_features(
    transform: "StructuralSimilarity", graphs: Iterable, bar: tqdm, first: int = 0
) -> Iterator[list]:
    """The graphs with their features, in lists; `first` is the number of the first graph."""
    chunk: list[Any] = []
    size = 0
    for data in graphs:
        chunk.append(data)
        size += _size(transform, data)
        if size >= CHUNK_BYTES:
            yield add_features(transform, chunk, bar, first=first)
            first += len(chunk)
            chunk, size = [], 0
    if chunk:
        yield add_features(transform, chunk, bar, first=first)


def _size(transform: "StructuralSimilarity", data: Any) -> int:
    """The bytes of a graph and its features, roughly."""
    if not isinstance(data, BaseData):
        return OBJECT_BYTES  # an error follows, which names the graph
    values = [v for store in data.stores for v in store.values()]
    # Sparse tensors have no `nbytes`; as dense ones they make smaller chunks.
    size = sum(v.numel() * v.element_size() for v in values if isinstance(v, Tensor))
    # A column and a value for each entry.
    size += sum(16 * v.nnz() for v in values if isinstance(v, SparseTensor))
    return OBJECT_BYTES + size + 4 * transform.k * (data.num_nodes or 0)

"""Reads the graphs of a data set: the one place that knows the kinds of data sets."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Optional

import torch.utils.data
from torch_geometric import data as pyg
from torch_geometric.data import Dataset
from torch_geometric.data.data import BaseData


class OnDiskDataset(pyg.OnDiskDataset):
    """PyG's class, but a `DataLoader` over a part of it loads that part.

    In PyG 2.8.1, `__getitems__` takes positions in the part for positions in the whole. The name
    is that of PyG's class, since it is also that of the table in the database.
    """

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[i] for i in indices]


def check_dataset(dataset: Any) -> None:
    """A data set or an iterable; warns of what PyG loads wrongly. Called by what users call."""
    if isinstance(dataset, (BaseData, str)) or not (
        isinstance(dataset, Iterable) or _has_positions(dataset)
    ):
        raise TypeError(
            "`dataset` must be a PyG data set or a list or another iterable of "
            f"torch_geometric.data.Data, got {type(dataset).__name__}"
        )
    if _is_loaded_wrongly(dataset):
        warnings.warn(
            "`dataset` is a part of an OnDiskDataset. Its graphs are read correctly here, but in "
            "PyG 2.8.1 a DataLoader over such a part loads other graphs "
            "(https://github.com/pyg-team/pytorch_geometric/issues/10621): pass "
            "torch.utils.data.Subset(whole_dataset, indices) to the DataLoader instead",
            stacklevel=4,
        )


def num_graphs_of(dataset: Any) -> Optional[int]:
    """The number of graphs, or `None` of an iterable that does not tell."""
    try:
        return len(dataset)
    except TypeError:  # no length, or, in a `DataLoader`, that of an iterable without one
        return None


def loaded_graphs(dataset: Any) -> Iterator[Any]:
    """The graphs as a loop over the data set gives them."""
    if isinstance(dataset, Iterable):
        return iter(dataset)
    return (dataset[i] for i in range(len(dataset)))


def stored_graphs(dataset: Any, start: int = 0) -> Iterator[Any]:
    """The graphs from a position on, without the `transform` of a PyG data set."""
    if isinstance(dataset, Dataset):
        return (dataset.get(i) for i in dataset.indices()[start:])
    if _has_positions(dataset):
        return (dataset[i] for i in range(start, len(dataset)))
    return islice(dataset, start, None)


def _is_loaded_wrongly(dataset: Any) -> bool:
    """Whether it is a part of a data set on disk, of a class without a correction of its own."""
    return (
        isinstance(dataset, pyg.OnDiskDataset)
        and dataset._indices is not None
        and type(dataset).__getitems__ is pyg.OnDiskDataset.__getitems__
    )


def _has_positions(dataset: Any) -> bool:
    # A torch.utils.data.Subset is no Sequence.
    return isinstance(dataset, (Sequence, torch.utils.data.Dataset)) and all(
        hasattr(dataset, name) for name in ("__len__", "__getitem__")
    )

"""The transform that writes mapped structural features to a data object."""

import os
from collections.abc import Iterator
from typing import Any, Optional, Union

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from torch_geometric_simpool.topk.parse import (
    check_budget,
    check_description,
    check_selection,
)
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings
from torch_geometric_simpool.transforms.features import FeatureSettings, structural_features
from torch_geometric_simpool.transforms.inputs import GraphBatch, is_dense, read_dense, read_sparse
from torch_geometric_simpool.transforms.node_order import ORDERS
from torch_geometric_simpool.transforms.on_disk import precompute_to_disk
from torch_geometric_simpool.transforms.parameters import check_name, check_optional_name, show
from torch_geometric_simpool.transforms.precompute import precompute
from torch_geometric_simpool.transforms.stream import stream
from torch_geometric_simpool.transforms.write_edges import record
from torch_geometric_simpool.utils.checks import check_choice, check_real
from torch_geometric_simpool.utils.untraced import untraced


class StructuralSimilarity(BaseTransform):
    r"""Adds the mapped structural features of every node, as `data.sim`.

    These are :func:`map_indices` of :func:`topk_similarity`: `[N, k]`, float32.

    ==================  =========================================================
    attribute           edges are read from it if
    ==================  =========================================================
    `edge_index`        it is present; with `edge_weight`, if that is present
    `adj_t`             there is no `edge_index`: a sparse PyTorch tensor or a
                        `torch_sparse.SparseTensor`, with its values if there is
                        one per edge
    `adj` and `mask`    there is neither: the result of
                        :class:`~torch_geometric.transforms.ToDense`, or a batch
                        `[B, N, N]` with a `mask` `[B, N]`. The features are padded,
                        `[N_max, k]`, for `DenseDataLoader`. Of edge features,
                        `[N, N, D]`, only non-zero or not counts
    ==================  =========================================================

    Use it as a `transform` or a `pre_transform`, or call it on a data object or on a
    :class:`~torch_geometric.data.Batch`. Data without node features, without edges or with
    isolated nodes is allowed; the features of isolated nodes are zero, unless `lam > 0`. The
    input object is not changed, and nothing is written if an error is raised.

    Args:
        k: The number of similar nodes, `>= 1`.
        p, lam, measure, loop: As in :func:`topk_similarity`.
        alpha: As in :func:`map_indices`.
        min_similarity, max_degree, memory_budget, force, backend: As in
            :func:`topk_similarity`.
        attr: The name of the attribute to write.
        weight_attr: The name of the edge weights, used where present; `None` ignores weights,
            also those of `adj_t` and `adj`.
        device: The device to compute on, for example `'cuda'`; the result is on the device of
            the data. `None` computes there.
        order: An `order` of :func:`node_order`, by which the nodes of a graph are numbered
            before features name them by number; `None` keeps the given numbering. All but
            `'random'` make the features invariant under renumbering, within the limits below.
        order_attr: The name of a node attribute, for example `'x'`, `[N]` or `[N, F]`, real and
            finite, that distinguishes nodes in `order`, together with edges and weights. Needs
            an `order` other than `'random'`.

    Raises:
        ValueError: A parameter is out of range, `attr` is a name that PyG treats in a special
            way when it batches, or `device` is not available. In a call: `data` has no edges in
            any of these forms, or an attribute has a wrong shape or range.
        TypeError: A parameter or an attribute has a wrong type, or `data` is no
            :class:`~torch_geometric.data.Data`.

    Invariance under renumbering, with an `order` by structure: without `order_attr`, the rows of
    the features are the same as a set. Nodes that are symmetric (with respect to directions,
    weights and self-loops) may swap rows; a model that also reads `data.x` then sees other pairs
    of rows if their `data.x` differ. With `order_attr='x'`, the pairs of rows of `data.x` and of
    the features are the same as well. Both hold for graphs in which color refinement
    distinguishes all nodes that are not automorphic: trees and almost all graphs, but not all
    regular ones (the Frucht graph, for example); for real weights up to rounding, as in
    :func:`topk_similarity`.

    The `repr` shows every parameter: PyG compares it to tell whether stored results of a
    `pre_transform` are still valid.

    Example:
        >>> from torch_geometric.data import Data
        >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> StructuralSimilarity(k=2)(path).sim
        tensor([[0.5000, 1.0000],
                [0.7500, 0.0000],
                [0.5000, 1.0000]])
    """

    def __init__(
        self,
        k: int,
        p: int = 1,
        lam: float = 0.0,
        alpha: float = 1.0,
        measure: str = "cosine",
        loop: bool = True,
        attr: str = "sim",
        weight_attr: Optional[str] = "edge_weight",
        device: Union[str, torch.device, None] = None,
        min_similarity: Optional[float] = None,
        max_degree: Optional[int] = None,
        memory_budget: Optional[int] = None,
        force: bool = False,
        backend: str = "auto",
        order: Optional[str] = None,
        order_attr: Optional[str] = None,
    ) -> None:
        self.k, self.loop, self.min_similarity = check_selection(k, loop, min_similarity)
        check_description(p, lam, measure, max_degree, backend)
        check_budget(memory_budget, force)
        self.p = int(p)
        self.lam = float(lam)
        self.alpha = check_real("alpha", alpha, 0.0, 1.0)
        self.measure = measure
        self.attr = _check_attr(attr)
        self.weight_attr = check_optional_name("weight_attr", weight_attr)
        self.device = _check_device(device)
        # As Python's integers, so that the `repr` does not depend on who made them.
        self.max_degree = None if max_degree is None else int(max_degree)
        self.memory_budget = None if memory_budget is None else int(memory_budget)
        self.force = force
        self.backend = backend
        self.order = None if order is None else check_choice("order", order, ORDERS)
        self.order_attr = check_optional_name("order_attr", order_attr)
        for name, value in (("weight_attr", weight_attr), ("order_attr", order_attr)):
            if attr == value:
                raise ValueError(f"`attr` must not be `{name}`, which is read, got {attr!r}")
        if order_attr is not None and order in (None, "random"):
            raise ValueError(
                "`order_attr` must be None where `order` is None or 'random', got "
                f"{order_attr!r} with order={order!r}"
            )

    def forward(self, data: Any) -> Any:
        """Writes the features to `data`, a copy that :meth:`__call__` has made."""
        if not isinstance(data, Data):
            raise TypeError(
                f"`data` must be a torch_geometric.data.Data, got {type(data).__name__}"
            )
        if is_dense(data):
            graphs, mask = read_dense(data, self.weight_attr, self.order_attr)
            features = torch.zeros(*mask.shape, self.k, dtype=torch.float32, device=mask.device)
            features[mask] = self.features(graphs)
        else:
            features = self.features(read_sparse(data, self.weight_attr, self.order_attr))
        data[self.attr] = features
        if (
            getattr(data, "_slice_dict", None) is not None
            and getattr(data, "ptr", None) is not None
        ):
            zeros = torch.zeros(data.num_graphs)
            record(data, None, {self.attr: data.ptr.cpu()}, {self.attr: zeros})
        return data

    @untraced
    def features(self, graphs: GraphBatch) -> Tensor:
        """The features of graphs that have been read and checked, `[N, k]`."""
        edge_index, edge_weight, batch, num_graphs, node_attr = graphs
        home = batch.device
        if edge_weight is not None and edge_weight.dtype in (torch.float16, torch.bfloat16):
            # Similarities of half precision would be rounded before they are float32.
            edge_weight = edge_weight.float()
        if self.device is not None:
            edge_index, batch = edge_index.to(self.device), batch.to(self.device)
            edge_weight = None if edge_weight is None else edge_weight.to(self.device)
        topk = TopKSettings(
            self.p,
            self.lam,
            self.measure,
            self.loop,
            self.min_similarity,
            self.max_degree,
            self.memory_budget,
            self.force,
            self.backend,
        )
        settings = FeatureSettings(self.k, self.alpha, self.order, topk)
        edges = EdgeList(edge_index, edge_weight, batch.numel())
        return structural_features(edges, batch, num_graphs, settings, node_attr).to(home)

    def precompute(
        self,
        dataset: Any,
        progress: bool = True,
        out: Union[str, os.PathLike, None] = None,
    ) -> Any:
        """Adds the features to every graph of a data set, many graphs at a time.

        The features are those that calling the transform on each graph gives, bit for bit;
        small graphs share the cost of a call, so this is many times faster.

        ===================  ===================  ===========================  ==============
        `dataset`            `out=None`           `out=folder`                 :meth:`stream`
        ===================  ===================  ===========================  ==============
        `InMemoryDataset`    data set of its      `OnDiskDataset`; its own     graphs, after
                             class, in memory;    `transform` is not applied,  its `transform`
                             its own `transform`  but is that of the result
                             is not applied, but
                             stays in place
        another PyG data     list of graphs,      the same                     the same
        set                  after its
                             `transform`
        list, generator,     list of graphs       `OnDiskDataset`              graphs
        other iterable
        ===================  ===================  ===========================  ==============

        Args:
            dataset: A PyG data set, a list of data objects, or another iterable.
            progress: Whether to show a progress bar.
            out: A folder for the result, new or empty, if it is larger than memory; it can later
                be opened by `OnDiskDataset(out)` of PyG as well. `None` keeps it in memory.

        Returns:
            As in the table. What goes in is not changed.

        Raises:
            TypeError, ValueError: As the transform itself, with the number of the graph. `out`
                holds something else, or a run with another `repr` of the transform, another number
                of graphs, or other dense tensors in the last graph that is stored.
            OSError: `out` cannot be written, another process writes to it, or the disk is full.

        Resuming: a run with `out` that was interrupted, killed, or stopped by an error or a full
        disk, goes on when it is called again with the same arguments, after the graphs that are
        stored, which are skipped if `dataset` is a generator. Until all graphs are stored, they
        are in a file of another name, which PyG does not read. A finished run is opened and
        returned. Of the graphs that are stored, only the last one is compared with that of
        `dataset`, so choose another `out` after you have changed the data.

        A part of a data set on disk: in PyG 2.8.1 a `DataLoader` over a part of an
        `OnDiskDataset`, for example `dataset[:100]`, loads other graphs than those of the part
        (https://github.com/pyg-team/pytorch_geometric/issues/10621). The data set that is
        returned here loads the right ones. If you open the folder by `OnDiskDataset(out)`, pass
        `torch.utils.data.Subset(dataset, indices)` to the `DataLoader`. A part of PyG's own
        `OnDiskDataset` as `dataset` is read correctly, with a warning.

        Trust: PyG stores the graphs of an `OnDiskDataset` as pickles, and reading a pickle can run
        any code. That holds for `dataset`, and for `out`, of which a run that goes on reads the
        last graph: only give folders that you trust. The same holds for PyG's data sets in
        memory, which read `processed/data.pt`.

        Time and memory: those of :func:`topk_similarity` on chunks of graphs. With `out`, memory
        does not grow with the number of graphs, except for what `dataset` itself keeps; a graph
        takes about 2 KiB on disk beside its tensors. Interruptible, within a second.
        Deterministic.

        Example:
            >>> from torch_geometric.data import Data
            >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
            >>> transform = StructuralSimilarity(k=2)
            >>> graphs = transform.precompute([path, path], progress=False)
            >>> [graph.sim.shape for graph in graphs]
            [torch.Size([3, 2]), torch.Size([3, 2])]
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     dataset = transform.precompute([path, path], progress=False, out=folder)
            ...     print(dataset, dataset[1].sim.shape)
            ...     dataset.close()
            OnDiskDataset(2) torch.Size([3, 2])
        """
        if out is None:
            return precompute(self, dataset, progress)
        return precompute_to_disk(self, dataset, out, progress)

    def stream(self, dataset: Any, progress: bool = True) -> Iterator[Any]:
        """Yields the graphs of a data set with their features, computed many at a time.

        These are those that calling the transform on each graph gives, bit for bit.

        Args:
            dataset: As in :meth:`precompute`. It is looped over, so the graphs of a PyG data set
                come after its own `transform`.
            progress: Whether to show a progress bar.

        Returns:
            An iterator over data objects. What goes in is not changed.

        Raises:
            TypeError, ValueError: As :meth:`precompute`.

        Trust: this stores and reads no file. What `dataset` reads is up to it; PyG's data sets
        on disk read pickles, which can run any code.

        Time and memory: as :meth:`precompute` with `out`; graphs are read and computed in
        chunks of about 32 MiB, ahead of the one that is yielded. Deterministic.

        Example:
            >>> from torch_geometric.data import Data
            >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
            >>> paths = (path for _ in range(1000))
            >>> graphs = StructuralSimilarity(k=2).stream(paths, progress=False)
            >>> next(graphs).sim.shape
            torch.Size([3, 2])
        """
        return stream(self, dataset, progress)

    def __repr__(self) -> str:
        """Every parameter, in the order of the signature."""
        return show(self, StructuralSimilarity)


#: What graphs of PyG hold. Names with 'index', 'batch' and the like are not allowed anyway.
TAKEN = ("x", "y", "z", "pos", "edge_attr", "edge_weight", "mask", "num_nodes", "time", "norm")


def _check_attr(attr: str) -> str:
    check_name("attr", attr)
    for part in ("index", "face", "batch", "ptr", "adj"):
        if part in attr:
            raise ValueError(
                f"`attr` must not contain {part!r}, by which PyG takes an attribute for one that "
                f"names nodes and changes it when it batches, got {attr!r}"
            )
    if attr in TAKEN:
        raise ValueError(
            f"`attr` must not be the name of another attribute of a graph, which would be "
            f"overwritten, got {attr!r}"
        )
    return attr


def _check_device(device: Union[str, torch.device, None]) -> Optional[str]:
    if device is None:
        return None
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0][:200]
        raise ValueError(f"`device` must be available, got {str(device)!r}: {reason}") from error
    return str(device)

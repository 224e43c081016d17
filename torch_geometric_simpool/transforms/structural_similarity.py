"""The transform that writes mapped structural features to data objects."""

import copy
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Optional, Union

import torch
from torch import Tensor
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform
from tqdm import tqdm

from torch_geometric_simpool.functional.batches import DenseBatch, SparseBatch, inverse
from torch_geometric_simpool.functional.mapping import mapped_indices
from torch_geometric_simpool.topk.backend import get_backend
from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.parse import (
    BYTES_PER_EDGE,
    BYTES_PER_NODE,
    BYTES_PER_UNSORTED_EDGE,
    warn_if_one_way,
)
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings
from torch_geometric_simpool.topk.topk_similarity import topk_of_edges
from torch_geometric_simpool.transforms.inputs import (
    EDGE_WEIGHT,
    ParsedGraphs,
    check_attr_name,
    join,
    parsed_batch,
    read_graphs,
)
from torch_geometric_simpool.transforms.node_order import (
    DEFAULT_ORDER,
    ORDERS,
    check_order,
    order_nodes,
)
from torch_geometric_simpool.utils.checks import (
    check_bool,
    check_choice,
    check_floating,
    check_int,
    check_real,
)

#: The number of edges of a data set whose features are computed in one call.
CHUNK_EDGES = 100_000

#: The number of places of the top k that are computed at a time, and the bytes of each place.
BLOCK_PLACES, PLACE_BYTES = 2**17, 64

#: Parts of names that PyG treats as node numbers, and names that data objects already use.
NUMBERS = ("index", "face", "batch", "ptr", "adj")
TAKEN = ("x", "y", "z", "pos", "edge_attr", "edge_weight", "mask", "num_nodes", "time", "norm")


@functional_transform("structural_similarity")
class StructuralSimilarity(BaseTransform):
    r"""Adds the structural features of every node as `data.sim`
    (functional name: :obj:`structural_similarity`).

    The features are :func:`map_indices` of :func:`topk_similarity`, a float32 tensor of shape
    `[N, k]`. By default they do not depend on how the nodes are numbered.

    ==================  ==============================================================
    attribute           edges are read from it if
    ==================  ==============================================================
    `edge_index`        it is present
    `adj_t`             there is no `edge_index`; a sparse tensor or `SparseTensor`
    `adj` and `mask`    there is neither; made by
                        :class:`~torch_geometric.transforms.ToDense`, or a padded batch.
                        The features are padded as well, `[N_max, k]`. Dense edge features
                        are reduced to a binary adjacency matrix
    ==================  ==============================================================

    Args:
        k (int, optional): Number of similar nodes per node. (default: :obj:`16`)
        p (int, optional): Power of the adjacency matrix. (default: :obj:`1`)
        lam (float, optional): Weight of added self-loops. (default: :obj:`0.0`)
        alpha (float, optional): Weight of the similarity in :func:`map_indices`, in `[0, 1]`.
            (default: :obj:`1.0`)
        order (str, optional): The order of :func:`node_order` that numbers the nodes of a graph for
            the features. If set to :obj:`None`, the numbering of the data object is used.
            (default: :obj:`"bfs"`)
        attr (str, optional): Name of the attribute to write. (default: :obj:`"sim"`)
        weight_attr (str, optional): Name of the edge weights. If :obj:`"edge_weight"` is missing,
            `weight` is read, as :func:`~torch_geometric.utils.from_networkx` writes it, if it has
            one entry per edge. A graph without either is unweighted. Any other name must be
            present. If set to :obj:`None`, weights are ignored, also the values of `adj_t` and
            `adj`. (default: :obj:`"edge_weight"`)
        device (str or torch.device, optional): Device of the computation. The features are on the
            device of the data object. (default: :obj:`None`, the device of the data object)
        **settings (optional): Settings of :func:`topk_similarity`, such as `measure`, `loop`,
            `min_similarity` and `memory_budget`. The memory budget includes the features. An order
            by structure uses about 130 bytes per edge or 190 bytes per node, the larger of the two.

    Raises:
        TypeError: If a parameter or an attribute has a wrong type.
        ValueError: If a parameter is out of range, or `data` has no edges in one of these forms,
            lacks a named attribute, or has an attribute of a wrong shape or range.

    The features of isolated nodes are zero, unless `lam > 0`. A
    :class:`~torch_geometric.data.Batch`, or data with an unsorted `batch`, gets the features of
    each graph alone. The `repr` shows every parameter, which PyG compares to tell whether a
    stored `pre_transform` is up to date.

    Time and memory: a call of :func:`topk_similarity`, and of :func:`node_order` for the order.

    Source: sections 'Structural similarity features' and 'Indices mapping trick' of Shulman (2020);
    the orders are beyond the paper.

    .. note::
        With an order by structure, renumbering a graph permutes the rows of the features.
        Automorphic nodes may swap rows. This holds for graphs in which color refinement
        distinguishes all nodes that are not automorphic: trees and almost all graphs, but not all
        regular ones. For real weights, it holds up to rounding.

    Example:
        >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> StructuralSimilarity(k=2, order=None)(path).sim
        tensor([[0.5000, 1.0000],
                [0.7500, 0.0000],
                [0.5000, 1.0000]])
    """

    def __init__(
        self,
        k: int = 16,
        p: int = 1,
        lam: float = 0.0,
        alpha: float = 1.0,
        order: Optional[str] = DEFAULT_ORDER,
        attr: str = "sim",
        weight_attr: Optional[str] = EDGE_WEIGHT,
        device: Union[str, torch.device, None] = None,
        **settings: Any,
    ) -> None:
        self.k = check_int("k", k, 1)
        self.alpha = check_real("alpha", alpha, 0.0, 1.0)
        self.order = check_choice("order", order, (None, *ORDERS))
        #: The settings of :func:`topk_similarity`.
        self.topk = TopKSettings.parse(settings, p=p, lam=lam)
        self.attr = _check_attr(attr)
        self.weight_attr = check_attr_name("weight_attr", weight_attr)
        if weight_attr == attr:
            raise ValueError(f"`attr` must not be `weight_attr`, which is read, got {attr!r}")
        if device is not None:
            try:
                torch.zeros(1, device=device).item()
            except (RuntimeError, AssertionError, TypeError) as error:
                raise ValueError(f"`device` must be available, got {device!r}: {error}") from error
        self.device = None if device is None else str(device)

    def parameters(self) -> dict[str, Any]:
        """Returns all parameters as keyword arguments, which :class:`SimPool` takes as well."""
        shown = {name: value for name, value in vars(self).items() if name != "topk"}
        return {**shown, **vars(self.topk)}

    def forward(self, data: Any) -> Any:
        """Writes the features to `data`, a copy that :meth:`__call__` has made."""
        graphs = read_graphs(data, self.weight_attr)
        data[self.attr] = graphs.to_data(self.features(graphs))
        return data

    def features_of(
        self, graphs: Union[SparseBatch, DenseBatch], sim: Optional[Tensor] = None
    ) -> Tensor:
        """Returns the features of a checked batch, `[N, k]` or `[B, N, k]`.

        Returns `sim` if it is given. Otherwise computes the features that the transform writes, bit
        for bit, in float32.

        Args:
            graphs (SparseBatch or DenseBatch): The graphs.
            sim (torch.Tensor, optional): Precomputed features. (default: :obj:`None`)
        """
        x = graphs.x
        if sim is not None:
            return check_floating("sim", sim, (*x.shape[:-1], self.k), device=x.device, of="x")
        parsed = parsed_batch(graphs)
        return parsed.to_data(self.features(parsed))

    @torch.compiler.disable
    def features(self, graphs: ParsedGraphs) -> Tensor:
        """Returns the features of parsed graphs, `[N, k]`."""
        topk, k, home = self.topk, self.k, graphs.batch.device
        warn_if_one_way(graphs.edges, stacklevel=2)
        device = home if self.device is None else self.device
        edge_index, weight, num_nodes, _ = graphs.edges
        if self.weight_attr is None:
            weight = None
        elif weight is not None:
            # Similarities have the type of the weights, and features should be float32.
            wide = weight.float() if weight.dtype in (torch.float16, torch.bfloat16) else weight
            weight = wide.to(device)
        edges, batch = EdgeList(edge_index.to(device), weight, num_nodes), graphs.batch.to(device)
        differentiable = weight is not None and weight.requires_grad and torch.is_grad_enabled()
        block_rows = num_nodes if differentiable else min(num_nodes, BLOCK_PLACES // k + 1)
        renumbered = edges.edge_index.nbytes + 32 * num_nodes
        bytes_of_result = 4 * num_nodes * k + PLACE_BYTES * block_rows * k + renumbered
        least = BYTES_PER_NODE * num_nodes + BYTES_PER_EDGE * edge_index.size(1)
        budget = Budget(topk.memory_budget, topk.force, bytes_of_result, edges.device)
        if self.order is not None:  # renumbered edges are not sorted
            least += BYTES_PER_UNSORTED_EDGE * edge_index.size(1)
            check_order(edges, self.order, budget, bytes_of_result + least)
        budget.check_memory(least)

        size = torch.bincount(batch, minlength=graphs.num_graphs)
        first = size.cumsum(0) - size
        # Positions count the nodes graph after graph.
        if self.order is None:
            position = inverse(batch.argsort(stable=True))
        else:
            position = order_nodes(edges, batch, self.order)
        edges = edges._replace(edge_index=position[edges.edge_index])
        node = inverse(position)  # of each row
        batch = batch[node]

        def mapped(values: Tensor, index: Tensor, graph: Tensor) -> Tensor:
            local = torch.where(index < 0, index, index - first[graph].unsqueeze(-1))
            return mapped_indices(values.float(), local, size[graph].unsqueeze(-1), self.alpha)

        if block_rows == num_nodes:
            features = mapped(*topk_of_edges(edges, k, topk, budget=budget), batch)
            return features[position].to(home)
        dtype = edges.dtype
        graph = get_backend(topk, batch.device).prepare(edges, topk, budget)
        del edges, position  # about as large as the prepared graph
        features = torch.empty(num_nodes, k, device=batch.device)
        for rows in torch.arange(num_nodes, device=batch.device).split(block_rows):
            values, index = graph.topk(rows, k, budget, dtype)
            features[node[rows]] = mapped(values, index, batch[rows])
        return features.to(home)

    def precompute(self, dataset: Any, progress: bool = True) -> Any:
        """Adds the features to every graph of a data set, many graphs in one call.

        The features equal the features of a call for each graph, bit for bit. Small graphs take
        less time. To store the result, pass the transform as `pre_transform` to a data set.

        Args:
            dataset (list of Data or InMemoryDataset): The graphs. The `transform` of a data set is
                kept, and applied after the features are computed.
            progress (bool, optional): Whether to show a progress bar. (default: :obj:`True`)

        Returns:
            A list of new data objects, or a data set of the same class.

        Raises:
            TypeError, ValueError: As the transform, with the number of the graph.

        Example:
            >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
            >>> graphs = StructuralSimilarity(k=2).precompute([path, path], progress=False)
            >>> [graph.sim.shape for graph in graphs]
            [torch.Size([3, 2]), torch.Size([3, 2])]
        """
        check_bool("progress", progress)
        if isinstance(dataset, (Data, str)) or not isinstance(dataset, Iterable):
            raise TypeError(
                "`dataset` must be an InMemoryDataset or a list of torch_geometric.data.Data, got "
                f"{type(dataset).__name__}"
            )
        if not isinstance(dataset, InMemoryDataset):
            return self._with_features(list(dataset), progress)
        if "ToDense(" in repr(dataset.transform):
            raise ValueError(
                f"`dataset.transform` must not contain ToDense, which does not pad `{self.attr}`, "
                f"got {dataset.transform}: set it to None, and use "
                "Compose([ToDense(...), StructuralSimilarity(...)]) as the transform"
            )
        graphs = [dataset.get(position) for position in dataset.indices()]
        result = copy.copy(dataset)
        if graphs:
            result._indices, result._data_list = None, None
            result._data, result.slices = dataset.collate(self._with_features(graphs, progress))
        return result

    def _with_features(self, graphs: list[Data], progress: bool) -> list[Data]:
        """Returns copies of graphs with features."""
        parsed, keys, num_edges = [], [], 0
        for number, data in enumerate(graphs):
            try:
                part = read_graphs(data, self.weight_attr)
            except (TypeError, ValueError) as error:
                raise type(error)(f"graph {number} of `dataset`: {error}") from error
            num_edges += part.edges.edge_index.size(1)
            parsed.append(part)
            keys.append((num_edges // CHUNK_EDGES, *part.kind()))
        results = []
        with tqdm(total=len(graphs), desc=type(self).__name__, disable=not progress) as bar:
            for _, numbers in groupby(range(len(graphs)), keys.__getitem__):
                chunk = list(numbers)
                features = self.features(join([parsed[number] for number in chunk]))
                sizes = [parsed[number].edges.num_nodes for number in chunk]
                for number, rows in zip(chunk, features.split(sizes)):
                    data = copy.copy(graphs[number])
                    # A view would keep, and pickle, the features of the whole chunk.
                    data[self.attr] = parsed[number].to_data(rows).clone()
                    results.append(data)
                bar.update(len(chunk))
        return results

    def __repr__(self) -> str:
        """Shows every parameter."""
        parameters = ", ".join(f"{name}={value!r}" for name, value in self.parameters().items())
        return f"{type(self).__name__}({parameters})"


def _check_attr(attr: Any) -> str:
    valid = isinstance(attr, str) and attr.isidentifier() and attr not in TAKEN
    if not valid or any(part in attr for part in NUMBERS):
        raise ValueError(
            "`attr` must be the name of an attribute that nothing else uses, for example 'sim', "
            f"and contain none of {', '.join(NUMBERS)}, which PyG treats as node numbers when it "
            f"batches, got {attr!r}"
        )
    return attr

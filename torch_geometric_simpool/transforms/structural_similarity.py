"""The transform that writes mapped structural features to data objects."""

import copy
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Optional, Union

import torch
from torch import Tensor
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform, Compose, ToDense
from tqdm import tqdm

from torch_geometric_simpool.topk.budget import TooExpensiveError
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings
from torch_geometric_simpool.transforms.features import FeatureSettings, structural_features
from torch_geometric_simpool.transforms.inputs import (
    EDGE_WEIGHT,
    ParsedGraphs,
    check_attr_name,
    read_graphs,
)
from torch_geometric_simpool.transforms.node_order import DEFAULT_ORDER
from torch_geometric_simpool.utils.checks import check_bool

#: The number of edges that :func:`precompute` joins in one call of the top k.
CHUNK_EDGES = 500_000

#: The sizes of the weights of graphs that :func:`precompute` joins.
SMALLEST, LARGEST = 1e-9, 1e9

#: Names that PyG or a data object uses for something else.
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
        weight_attr (str, optional): Name of the edge weights. Where :obj:`"edge_weight"` is
            missing, `weight` is read if it has one entry per edge, as
            :func:`~torch_geometric.utils.from_networkx` writes it; a graph without either is
            unweighted. Any other name must be present. If set to :obj:`None`, weights are ignored,
            also the values of `adj_t` and `adj`. (default: :obj:`"edge_weight"`)
        order_attr (str, optional): Name of a node attribute, for example :obj:`"x"`, that
            distinguishes nodes in an order by structure. (default: :obj:`None`)
        device (str or torch.device, optional): Device of the computation. The features are on the
            device of the data object. (default: :obj:`None`, the device of the data object)
        **settings (optional): Settings of :func:`topk_similarity`: `p`, `lam`, `measure`, `loop`,
            `min_similarity`, `max_degree`, `memory_budget`, `force`, `backend`. The memory budget
            limits working memory, without the features. An order by structure uses about 130 bytes
            per edge.

    Raises:
        TypeError: If a parameter or an attribute has a wrong type.
        ValueError: If a parameter is out of range, or `data` has no edges in one of these forms,
            lacks a named attribute, or has an attribute of a wrong shape or range.

    The features of isolated nodes are zero, unless `lam > 0`. A
    :class:`~torch_geometric.data.Batch`, or data with an unsorted `batch`, gets the features of
    each graph alone. The `repr` shows every parameter, which PyG compares to tell whether a
    stored `pre_transform` is up to date.

    .. note::
        With an order by structure, renumbering a graph permutes the rows of the features. Nodes
        that are symmetric (with respect to directions, weights and self-loops) may swap rows; with
        `order_attr="x"`, only if their `x` is equal as well. This holds for graphs in which color
        refinement distinguishes all nodes that are not automorphic: trees and almost all graphs,
        but not all regular ones. For real weights it holds up to rounding.

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
        order_attr: Optional[str] = None,
        device: Union[str, torch.device, None] = None,
        **settings: Any,
    ) -> None:
        #: The settings of the features.
        self.settings = FeatureSettings(k, alpha, order, TopKSettings(p=p, lam=lam, **settings))
        for name, value in (("weight_attr", weight_attr), ("order_attr", order_attr)):
            if check_attr_name(name, value) is not None and attr == value:
                raise ValueError(f"`attr` must not be `{name}`, which is read, got {attr!r}")
        if order_attr is not None and order in (None, "random"):
            raise ValueError(
                "`order_attr` must be None where `order` is None or 'random', got "
                f"{order_attr!r} with order={order!r}"
            )
        self.attr = _check_attr(attr)
        self.weight_attr = weight_attr
        self.order_attr = order_attr
        self.device = _check_device(device)

    @property
    def k(self) -> int:
        """The number of features."""
        return self.settings.k

    def parameters(self) -> dict[str, Any]:
        """Returns all parameters as keyword arguments."""
        names = ("attr", "weight_attr", "order_attr", "device")
        return {**self.settings.asdict(), **{name: getattr(self, name) for name in names}}

    def forward(self, data: Any) -> Any:
        """Writes the features to `data`, a copy that :meth:`__call__` has made."""
        graphs = self._read(data)
        data[self.attr] = graphs.to_data(self.features(graphs))
        return data

    def _read(self, data: Any) -> ParsedGraphs:
        """Returns the parsed graphs of a data object."""
        if not isinstance(data, Data):
            raise TypeError(
                f"`data` must be a torch_geometric.data.Data, got {type(data).__name__}"
            )
        return read_graphs(data, self.weight_attr, self.order_attr)

    @torch.compiler.disable
    def features(self, graphs: ParsedGraphs) -> Tensor:
        """Returns the features of parsed graphs, `[N, k]`."""
        edges, batch, home = graphs.edges, graphs.batch, graphs.batch.device
        if self.device is not None:
            weight = edges.edge_weight
            edges = edges._replace(
                edge_index=edges.edge_index.to(self.device),
                edge_weight=None if weight is None else weight.to(self.device),
            )
            batch = batch.to(self.device)
        features = structural_features(
            edges, batch, graphs.num_graphs, self.settings, graphs.node_attr
        )
        return features.to(home)

    def precompute(self, dataset: Any, progress: bool = True) -> Any:
        """Adds the features to every graph of a data set; see :func:`precompute`.

        Args:
            dataset (list of Data or InMemoryDataset): The graphs.
            progress (bool, optional): Whether to show a progress bar. (default: :obj:`True`)

        Example:
            >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
            >>> graphs = StructuralSimilarity(k=2).precompute([path, path], progress=False)
            >>> [graph.sim.shape for graph in graphs]
            [torch.Size([3, 2]), torch.Size([3, 2])]
        """
        return precompute(self, dataset, progress)

    def __repr__(self) -> str:
        """Shows every parameter."""
        parameters = ", ".join(f"{name}={value!r}" for name, value in self.parameters().items())
        return f"{type(self).__name__}({parameters})"


def precompute(transform: StructuralSimilarity, dataset: Any, progress: bool = True) -> Any:
    """Returns the data set with structural features, computed for many graphs in one call.

    The features have the same bits as a call of the transform on each graph, and small graphs take
    less time. To store the result, pass the transform as `pre_transform` to a data set.

    Args:
        transform (StructuralSimilarity): The transform.
        dataset (list of Data or InMemoryDataset): The graphs. The `transform` of a data set is
            kept, and applied after the features are computed.
        progress (bool, optional): Whether to show a progress bar. (default: :obj:`True`)

    Returns:
        A list of new data objects, or a data set of the same class.

    Raises:
        TypeError, ValueError: As the transform, with the number of the graph.
    """
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


def _with_features(transform: StructuralSimilarity, graphs: list, progress: bool) -> list:
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
            parts = [parsed[number] for number in chunk]
            for number, rows in zip(chunk, _features_of_parts(transform, parts, chunk[0])):
                data = copy.copy(graphs[number])
                # A view would keep, and pickle, the features of the whole chunk.
                data[transform.attr] = parsed[number].to_data(rows).clone()
                results.append(data)
            bar.update(len(chunk))
    return results


def _joining_key(graphs: ParsedGraphs, number: int) -> tuple:
    """Returns a key that consecutive graphs share if their features can be computed together."""
    weight, attr = graphs.edges.edge_weight, graphs.node_attr
    if weight is not None and weight.numel() > 0:
        # A top k scales all weights by one number: extreme weights of a graph could make weights
        # of another graph underflow.
        size = weight[weight != 0].abs()
        if not bool(((size >= SMALLEST) & (size <= LARGEST)).all()):
            return (number,)
    return (
        graphs.batch.device,
        None if weight is None else weight.dtype,
        None if attr is None else (attr.dtype, attr.shape[1:]),
    )


def _features_of_parts(
    transform: StructuralSimilarity, parts: list[ParsedGraphs], first: int
) -> Sequence[Tensor]:
    """Returns the features of each part, computed in one call if the memory budget allows."""
    try:
        sizes = [part.edges.num_nodes for part in parts]
        return transform.features(_join(parts)).split(sizes)
    except TooExpensiveError as error:
        if len(parts) == 1:
            raise TooExpensiveError(f"graph {first} of `dataset`: {error}") from error
        return [
            _features_of_parts(transform, [part], first + place)[0]
            for place, part in enumerate(parts)
        ]


def _join(parts: list[ParsedGraphs]) -> ParsedGraphs:
    """Returns graphs with one joining key as one block-diagonal graph."""
    edge_index, batch, num_nodes, num_graphs = [], [], 0, 0
    for part in parts:
        edge_index.append(part.edges.edge_index + num_nodes)
        batch.append(part.batch + num_graphs)
        num_nodes += part.edges.num_nodes
        num_graphs += part.num_graphs
    weight = [part.edges.edge_weight for part in parts if part.edges.edge_weight is not None]
    attr = [part.node_attr for part in parts if part.node_attr is not None]
    edges = EdgeList(torch.cat(edge_index, 1), torch.cat(weight) if weight else None, num_nodes)
    return ParsedGraphs(edges, torch.cat(batch), num_graphs, torch.cat(attr) if attr else None)


def _pads(transform: Any) -> bool:
    """Returns whether a transform contains :class:`~torch_geometric.transforms.ToDense`."""
    if isinstance(transform, Compose):
        return any(_pads(part) for part in transform.transforms)
    return isinstance(transform, ToDense)


def _check_attr(attr: Any) -> str:
    if not isinstance(attr, str) or not attr.isidentifier() or attr in TAKEN:
        raise ValueError(
            "`attr` must be the name of an attribute that nothing else uses, for example 'sim', "
            f"got {attr!r}"
        )
    for part in ("index", "face", "batch", "ptr", "adj"):
        if part in attr:
            raise ValueError(
                f"`attr` must not contain {part!r}, which PyG treats as node numbers when it "
                f"batches, got {attr!r}"
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

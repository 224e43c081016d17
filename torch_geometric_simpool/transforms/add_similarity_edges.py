"""The transform that joins every node to its most similar nodes."""

from typing import Any, Optional

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from torch_geometric_simpool.topk.parse import check_bipartite_settings, warn_if_one_way
from torch_geometric_simpool.topk.similarity_graph import SYMMETRIZE, similar_pairs, symmetric_pairs
from torch_geometric_simpool.topk.similarity_of_pairs import similarity_of_pairs
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings
from torch_geometric_simpool.transforms.inputs import (
    EDGE_WEIGHT,
    check_attr_name,
    read_edge_type,
    read_graphs,
    weight_name,
)
from torch_geometric_simpool.utils.checks import (
    check_bool,
    check_choice,
    check_int,
    shape,
)


@functional_transform("add_similarity_edges")
class AddSimilarityEdges(BaseTransform):
    r"""Adds edges between every node and its `k` most similar nodes
    (functional name: :obj:`add_similarity_edges`).

    Messages flow from a similar node to the node, unless `symmetrize` is set. The weight of an
    edge is the similarity. There are no self-loops.

    ==============  ==========================================================================
    data            similarity edges are
    ==============  ==========================================================================
    `Data`          appended to `edge_index`. Old edges without weights get weight 1. Other
                    edge-level attributes are 0 for similarity edges, as in
                    :class:`~torch_geometric.transforms.TwoHop`
    `HeteroData`    a new edge type: edges of type `('user', 'rates', 'item')` give edges of
                    type `('item', 'similar', 'item')`
    ==============  ==========================================================================

    Args:
        k (int): Number of similar nodes per node.
        ties (bool, optional): If set to :obj:`True`, a node is also joined to every node that
            ties with its `k`-th most similar node. The edges are then permutation equivariant.
            (default: :obj:`False`)
        symmetrize (str, optional): Joins two nodes in both directions. With
            :obj:`"union"`, either node must be among the other's `k` most similar nodes. With
            :obj:`"mutual"`, both must be. (default: :obj:`None`)
        edge_attr (bool, optional): If set to :obj:`True`, writes :math:`(A_{ij}, C_{ij})` as
            `data.edge_attr`, `[E, 2]`, instead of weights. An edge is added only if two similar
            nodes have none. Only for `Data` without `edge_attr`. (default: :obj:`False`)
        drop_orig_edges (bool, optional): If set to :obj:`True`, removes the edges from which
            similarities are computed, with their attributes. Not with `edge_attr`.
            (default: :obj:`False`)
        weight_attr (str, optional): Name of the edge weights, as in
            :class:`StructuralSimilarity`. (default: :obj:`"edge_weight"`)
        edge_type (tuple of str, optional): Type of the edges of `HeteroData` whose destination
            nodes are compared by their source nodes. To compare the source nodes, add reverse
            edges by :class:`~torch_geometric.transforms.ToUndirected`.
            (default: :obj:`None`, its only edge type)
        **settings (optional): Settings of :func:`topk_similarity`, except `loop`. For an
            `edge_type` between two node types, `p = 1` and `lam = 0`.

    Raises:
        TypeError: If a parameter or an attribute has a wrong type, or `data` is a
            :class:`~torch_geometric.data.Batch`: add edges before batching.
        ValueError: If a parameter is out of range or does not fit `data`.

    Time and memory: a call of :func:`topk_similarity`, and linear in the result.

    Source: beyond Shulman (2020).

    Example:
        >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> AddSimilarityEdges(k=1)(path).edge_index
        tensor([[0, 1, 1, 2, 2, 0],
                [1, 0, 2, 1, 0, 2]])
        >>> ratings = HeteroData(user={"num_nodes": 2}, item={"num_nodes": 3})
        >>> ratings["user", "rates", "item"].edge_index = torch.tensor([[0, 0, 1], [0, 2, 1]])
        >>> AddSimilarityEdges(k=1)(ratings)["item", "similar", "item"].edge_index
        tensor([[2, 0],
                [0, 2]])
    """

    def __init__(
        self,
        k: int,
        ties: bool = False,
        symmetrize: Optional[str] = None,
        edge_attr: bool = False,
        drop_orig_edges: bool = False,
        weight_attr: Optional[str] = EDGE_WEIGHT,
        edge_type: Optional[tuple[str, str, str]] = None,
        **settings: Any,
    ) -> None:
        self.k = check_int("k", k, 1)
        self.ties = check_bool("ties", ties)
        self.symmetrize = check_choice("symmetrize", symmetrize, SYMMETRIZE)
        self.edge_attr = check_bool("edge_attr", edge_attr)
        self.drop_orig_edges = check_bool("drop_orig_edges", drop_orig_edges)
        if edge_attr and drop_orig_edges:
            raise ValueError("`drop_orig_edges` must be False where `edge_attr` is True, got True")
        self.weight_attr = check_attr_name("weight_attr", weight_attr)
        if edge_type is not None and (not isinstance(edge_type, tuple) or len(edge_type) != 3):
            raise TypeError(f"`edge_type` must be a tuple of three names, got {edge_type!r}")
        self.edge_type = edge_type
        self.settings = TopKSettings.parse(settings, loop=False)

    def forward(self, data: Any) -> Any:
        """Writes the edges to `data`, a copy that :meth:`__call__` has made."""
        if isinstance(data, Batch) or not isinstance(data, (Data, HeteroData)):
            raise TypeError(
                "`data` must be a torch_geometric.data.Data or HeteroData, got "
                f"{type(data).__name__}: add edges before graphs are batched"
            )
        if isinstance(data, HeteroData):
            return self._forward_hetero(data)
        if self.edge_type is not None:
            raise ValueError(f"`edge_type` must be None for Data, got {self.edge_type}")
        if data.edge_index is None:
            raise ValueError(
                f"`data` must have `edge_index`, got {sorted(data.keys())}: use `ToSparseTensor` "
                "and `ToDense` after this transform"
            )
        if "edge_type" in data:
            raise ValueError(
                "`data.edge_type` must be absent, since similarity edges have no type, got a "
                f"{type(data.edge_type).__name__}: use `similarity_graph` instead"
            )
        name = weight_name(data, self.weight_attr, data.edge_index) or EDGE_WEIGHT
        graphs = read_graphs(data, self.weight_attr)
        warn_if_one_way(graphs.edges, stacklevel=2)
        pairs, similarity = self._similar_pairs(graphs.edges)
        if self.drop_orig_edges:
            _remove_edges(data, name)
            data.edge_index, data[name] = pairs, similarity
        elif self.edge_attr:
            self._add_with_attributes(data, pairs, graphs.edges.edge_weight)
        else:
            weight = getattr(data, name, None)
            if weight is None:
                weight = similarity.new_ones(data.edge_index.size(1))
            _append_edges(data, pairs, name)
            data[name] = torch.cat([weight, similarity.view(-1, *weight.shape[1:])])
        return data

    def _add_with_attributes(self, data: Data, pairs: Tensor, weight: Optional[Tensor]) -> None:
        """Appends pairs without an edge, and writes weight and similarity of all edges."""
        if "edge_attr" in data:
            raise ValueError(
                "`data.edge_attr` must be absent where `edge_attr` is True, which writes it, got "
                f"shape {shape(data.edge_attr)}"
            )
        edge_index, num_nodes, settings = data.edge_index.long(), data.num_nodes, self.settings
        if weight is None:
            weight = torch.ones(edge_index.size(1), device=pairs.device)
        number_of_pair = pairs[0] * num_nodes + pairs[1]
        joined = torch.isin(number_of_pair, edge_index[0] * num_nodes + edge_index[1])
        pairs = pairs[:, ~joined]
        similarity = similarity_of_pairs(
            edge_index,
            torch.cat([edge_index, pairs], dim=1),
            weight,
            num_nodes,
            settings.p,
            settings.lam,
            settings.measure,
        )
        weight = torch.cat([weight, weight.new_zeros(pairs.size(1))])
        _append_edges(data, pairs)
        data.edge_attr = torch.stack([weight.to(similarity.dtype), similarity], dim=1)

    def _forward_hetero(self, data: HeteroData) -> HeteroData:
        if self.edge_attr:
            raise ValueError("`edge_attr` must be False for HeteroData, got True")
        edge_type = self.edge_type
        if edge_type is None and len(data.edge_types) == 1:
            edge_type = data.edge_types[0]
        if edge_type is None or edge_type not in data.edge_types:
            raise ValueError(f"`edge_type` must be one of {data.edge_types}, got {edge_type}")
        source, _, target = edge_type
        new_type = (target, "similar", target)
        if new_type in data.edge_types:
            raise ValueError(f"`data` must have no edges of type {new_type}: delete them first")
        edges = read_edge_type(data, edge_type, self.weight_attr)
        edges = edges._replace(num_dst=None) if source == target else edges.flipped()
        check_bipartite_settings(edges, self.settings)
        store = data[new_type]
        store.edge_index, store.edge_weight = self._similar_pairs(edges)
        if self.drop_orig_edges:
            del data[edge_type]
        return data

    def _similar_pairs(self, edges: EdgeList) -> tuple[Tensor, Tensor]:
        """Returns the similarity edges and their weights."""
        pairs, similarity = similar_pairs(edges, self.k, self.settings, self.ties)
        if self.symmetrize is None:
            return pairs.flip(0), similarity
        return symmetric_pairs(pairs, similarity, self.symmetrize)

    def __repr__(self) -> str:
        """Shows every parameter."""
        parameters = {**vars(self), **vars(self.settings)}
        listed = ", ".join(
            f"{name}={value!r}"
            for name, value in parameters.items()
            if name not in ("settings", "loop")
        )
        return f"{type(self).__name__}({listed})"


def _edge_level_names(data: Data, weight_name: Optional[str] = None) -> list[str]:
    """Returns the names of edge-level attributes beside edges and weights.

    PyG decides by size. The label `y` belongs to the graph, and some attributes belong to other
    edges: `edge_label` belongs to `edge_label_index`.
    """
    names = {name for name in data.edge_attrs() if "index" not in name} - {weight_name, "y"}
    indices = {*data.keys()} - {"edge_index", *names}
    return [
        name
        for name in sorted(names)
        if not {f"{name}_index", name.replace("weight", "index")} & indices
    ]


def _append_edges(data: Data, pairs: Tensor, weight_name: Optional[str] = None) -> None:
    """Appends edges, with zeros in other edge-level attributes."""
    for name in _edge_level_names(data, weight_name):
        value = data[name]
        if not isinstance(value, Tensor):
            raise TypeError(
                f"`data.{name}` must be a tensor to be extended to similarity edges, got "
                f"{type(value).__name__}"
            )
        dim = data.__cat_dim__(name, value)
        size = list(value.shape)
        size[dim] = pairs.size(1)
        data[name] = torch.cat([value, value.new_zeros(size)], dim)
    data.edge_index = torch.cat([data.edge_index, pairs.to(data.edge_index.dtype)], dim=1)


def _remove_edges(data: Data, weight_name: str) -> None:
    """Removes edge-level attributes, and writes the number of nodes, which edges may define."""
    data.num_nodes = data.num_nodes
    for name in [*_edge_level_names(data), weight_name]:
        if name in data:
            del data[name]

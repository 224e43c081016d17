"""The transform that joins every node to the nodes with the most similar neighborhoods."""

from typing import Any, Optional

from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.transforms import BaseTransform

from torch_geometric_simpool.topk.parse import (
    check_budget,
    check_description,
    check_selection,
)
from torch_geometric_simpool.topk.similarity_graph import (
    FLOWS,
    SYMMETRIZE,
    similarity_graph,
)
from torch_geometric_simpool.transforms import write_edges
from torch_geometric_simpool.transforms.inputs import is_dense, read_edge_type, read_sparse
from torch_geometric_simpool.transforms.parameters import check_name, check_optional_name, show
from torch_geometric_simpool.utils.checks import check_bool, check_choice


class AddSimilarityEdges(BaseTransform):
    r"""Adds edges between every node and its `k` most similar nodes, by :func:`similarity_graph`.

    ==============  ==========================================================================
    data            where the edges go
    ==============  ==========================================================================
    `Data`          behind those of `edge_index`; in their place with `drop_orig_edges`; or into
                    an attribute of their own, for example with `attr='sim_index'`
    `HeteroData`    into an edge type of their own: edges of type `('user', 'rates', 'item')`
                    give edges of type `('item', 'similar', 'item')`
    ==============  ==========================================================================

    The similarities are the weights of the edges. **Added** to the edges of a
    :class:`~torch_geometric.data.Data`:

    - the present edges stay as they are, in front; where they have no weights, they get 1;
    - all else that there is one of per edge, such as `edge_attr`, is 0 for the new edges, as in
      PyG's :class:`~torch_geometric.transforms.TwoHop`;
    - `y` stays as it is, as does what a batch has one of per graph; a list or an array whose name
      says that it is of the edges (`edge_names`) is refused;
    - nodes that are joined already get a second edge;
      :class:`~torch_geometric.transforms.RemoveDuplicatedEdges` merges the two.

    **In place** of the present edges, all that there is one of per edge but `y` is removed. Either
    way an `adj_t`, from which edges are read if there is no `edge_index`, is turned into
    `edge_index`.

    In a :class:`~torch_geometric.data.Batch` no edge joins two graphs, and `to_data_list` gives
    what calling the transform on each graph gives. The input object is not changed, and nothing is
    written if an error is raised.

    Args:
        k: The number of similar nodes of a node, `>= 1`.
        p, lam, measure, loop, flow, symmetrize: As in :func:`similarity_graph`. Where nodes of two
            types are joined, `p = 1` and `lam = 0`.
        attr: The name of the attribute that holds the new edges. If it is not `'edge_index'`, it
            must contain `'index'`, by which PyG knows that it names nodes, for example
            `'sim_index'`; the weights then have the name with `'weight'` instead, `'sim_weight'`.
        weight_attr: The name of the edge weights, used where present, to which those of new edges
            are written; `None` ignores weights, also those of `adj_t`, and writes to
            `'edge_weight'`.
        drop_orig_edges: Whether the edges from which the similarities come are removed; of a
            :class:`~torch_geometric.data.HeteroData`, their type.
        edge_type: For a :class:`~torch_geometric.data.HeteroData`: the type of the edges by which
            nodes are compared. May be `None` if there is one type only.
        node_type: The type of the nodes that are compared and joined, one of both ends of
            `edge_type`; its destination if `None`. They are described by the nodes at the other
            end alone or, if both ends have one type, by edges of both directions.
        rel: The name of the new edge type, `(node_type, rel, node_type)`.
        min_similarity, max_degree, memory_budget, force, backend: As in :func:`similarity_graph`.

    Raises:
        ValueError: A parameter is out of range, or asks for what the data has not: a number of
            nodes, edges in one of these forms, that edge type; the new edge type is there already;
            edges are added where there is an `edge_type` for each edge.
        TypeError: A parameter or an attribute has a wrong type, or `data` is neither a
            :class:`~torch_geometric.data.Data` nor a :class:`~torch_geometric.data.HeteroData`.

    Differentiability, time, memory and determinism are those of :func:`similarity_graph`. The
    `repr` shows every parameter: PyG compares it to tell whether stored results of a
    `pre_transform` are still valid.

    Example:
        >>> import torch
        >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> data = AddSimilarityEdges(k=1)(path)
        >>> data.edge_index
        tensor([[0, 1, 1, 2, 0, 2],
                [1, 0, 2, 1, 2, 0]])
        >>> ratings = HeteroData(user={"num_nodes": 2}, item={"num_nodes": 3})
        >>> ratings["user", "rates", "item"].edge_index = torch.tensor([[0, 0, 1], [0, 2, 1]])
        >>> AddSimilarityEdges(k=1)(ratings)["item", "similar", "item"].edge_index
        tensor([[0, 2],
                [2, 0]])
    """

    def __init__(
        self,
        k: int,
        p: int = 1,
        lam: float = 0.0,
        measure: str = "cosine",
        loop: bool = False,
        flow: str = "source_to_target",
        symmetrize: Optional[str] = None,
        attr: str = "edge_index",
        weight_attr: Optional[str] = "edge_weight",
        drop_orig_edges: bool = False,
        edge_type: Optional[tuple[str, str, str]] = None,
        node_type: Optional[str] = None,
        rel: str = "similar",
        min_similarity: Optional[float] = None,
        max_degree: Optional[int] = None,
        memory_budget: Optional[int] = None,
        force: bool = False,
        backend: str = "auto",
    ) -> None:
        self.k, self.loop, self.min_similarity = check_selection(k, loop, min_similarity)
        check_description(p, lam, measure, max_degree, backend)
        check_budget(memory_budget, force)
        self.p = int(p)
        self.lam = float(lam)
        self.measure = measure
        self.flow = check_choice("flow", flow, FLOWS)
        self.symmetrize = symmetrize
        if symmetrize is not None:
            check_choice("symmetrize", symmetrize, SYMMETRIZE)
        self.attr = _check_attr(attr)
        self.weight_attr = check_optional_name("weight_attr", weight_attr)
        self.drop_orig_edges = check_bool("drop_orig_edges", drop_orig_edges)
        if drop_orig_edges and attr != "edge_index":
            raise ValueError(
                "`drop_orig_edges` must be False where the new edges have an attribute of their "
                f"own, got True with attr={attr!r}"
            )
        written = self.attr.replace("index", "weight")
        if attr != "edge_index" and written == weight_attr:
            raise ValueError(
                f"`attr` must not be {attr!r}, whose weights are written to {written!r}, which is "
                "the `weight_attr` that is read"
            )
        self.edge_type = _check_edge_type(edge_type, node_type)
        self.node_type = node_type
        if not isinstance(rel, str) or not rel:
            raise TypeError(f"`rel` must be a name, got {rel!r}")
        self.rel = rel
        # As Python's integers, so that the `repr` does not depend on who made them.
        self.max_degree = None if max_degree is None else int(max_degree)
        self.memory_budget = None if memory_budget is None else int(memory_budget)
        self.force = force
        self.backend = backend

    def forward(self, data: Any) -> Any:
        """Writes the edges to `data`, a copy that :meth:`__call__` has made."""
        if isinstance(data, HeteroData):
            return self._forward_hetero(data)
        if not isinstance(data, Data):
            raise TypeError(
                "`data` must be a torch_geometric.data.Data or HeteroData, got "
                f"{type(data).__name__}"
            )
        for name in ("edge_type", "node_type"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"`{name}` must be None for data with one type of edges, got "
                    f"{getattr(self, name)!r}"
                )
        if is_dense(data):
            raise ValueError(
                f"`data` must have `edge_index` or `adj_t`, got {sorted(data.keys())}: use "
                "`ToDense` after this transform"
            )
        graphs = read_sparse(data, self.weight_attr, None)
        edge_index, weight = self._graph(
            graphs.edge_index, graphs.edge_weight, graphs.batch.numel()
        )
        if self.attr != "edge_index":
            new = {self.attr: edge_index, self.attr.replace("index", "weight"): weight}
            write_edges.write(data, data._store, new, graphs.batch)
        else:
            change = write_edges.replace if self.drop_orig_edges else write_edges.append
            change(data, graphs, edge_index, weight, self.weight_attr or "edge_weight")
        return data

    def _forward_hetero(self, data: HeteroData) -> HeteroData:
        if self.attr != "edge_index":
            raise ValueError(
                "`attr` must be 'edge_index' for HeteroData, in which the new edges have a type of "
                f"their own, got {self.attr!r}: its name is `rel`"
            )
        edge_type = self.edge_type
        if edge_type is None and len(data.edge_types) == 1:
            (edge_type,) = data.edge_types
        if edge_type is None or edge_type not in data.edge_types:
            raise ValueError(f"`edge_type` must be one of {data.edge_types}, got {edge_type}")
        src, _, dst = edge_type
        node_type = dst if self.node_type is None else self.node_type
        if node_type not in (src, dst):
            raise ValueError(f"`node_type` must be an end of {edge_type}, got {node_type!r}")
        new_type = (node_type, self.rel, node_type)
        if new_type in data.edge_types:
            raise ValueError(f"`rel` must give a new edge type, got {self.rel!r}: {new_type}")

        edge_index, weight, sizes = read_edge_type(data, edge_type, self.weight_attr)
        if src == dst:
            edge_index, weight = self._graph(edge_index, weight, sizes[0])
        elif node_type == src:
            edge_index, weight = self._graph(edge_index, weight, sizes)
        else:
            edge_index, weight = self._graph(edge_index.flip(0), weight, sizes[::-1])
        if self.drop_orig_edges:
            del data[edge_type]
        new = {"edge_index": edge_index, "edge_weight": weight}
        write_edges.write(data, data[new_type], new, data[node_type].get("batch"))
        return data

    def _graph(
        self, edge_index: Tensor, edge_weight: Optional[Tensor], num_nodes: Any
    ) -> tuple[Tensor, Tensor]:
        return similarity_graph(
            edge_index,
            self.k,
            edge_weight,
            num_nodes,
            p=self.p,
            lam=self.lam,
            measure=self.measure,
            min_similarity=self.min_similarity,
            max_degree=self.max_degree,
            memory_budget=self.memory_budget,
            force=self.force,
            backend=self.backend,
            flow=self.flow,
            symmetrize=self.symmetrize,
        )

    def __repr__(self) -> str:
        """Every parameter, in the order of the signature."""
        return show(self, AddSimilarityEdges)


def _check_attr(attr: Any) -> str:
    check_name("attr", attr)
    if "index" not in attr or "batch" in attr:
        raise ValueError(
            "`attr` must contain 'index' and not 'batch', by which PyG knows how to batch it, got "
            f"{attr!r}"
        )
    return attr


def _check_edge_type(edge_type: Any, node_type: Any) -> Optional[tuple[str, str, str]]:
    check_optional_name("node_type", node_type)
    if edge_type is None:
        return None
    if not isinstance(edge_type, tuple) or [type(name) for name in edge_type] != [str] * 3:
        raise TypeError(f"`edge_type` must be a tuple of three names, got {edge_type!r}")
    if node_type is not None and node_type not in (edge_type[0], edge_type[2]):
        raise ValueError(f"`node_type` must be an end of {edge_type}, got {node_type!r}")
    return edge_type

"""An index of a graph for many queries of similar nodes."""

from typing import Any, Optional, Union

import torch
from torch import Tensor

from torch_geometric_simpool.topk.backend import PreparedGraph, get_backend
from torch_geometric_simpool.topk.parse import (
    NodeIds,
    check_edges,
    parse_candidates,
    parse_edges,
    parse_nodes,
)
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings
from torch_geometric_simpool.utils.checks import check_device, check_int


class SimilarityIndex:
    r"""A graph prepared for many queries of similar nodes, and for edits.

    :func:`topk_similarity` reads all edges in every call. An index reads them once, and again
    after an edit, so a query takes only the time of its rows. The rows have the bits that
    :func:`topk_similarity` returns for equal arguments.

    Args:
        edge_index (torch.Tensor): Edges `[2, E]`, integers.
        edge_weight (torch.Tensor, optional): Weights `[E]` or `[E, 1]`, finite.
            (default: :obj:`None`, weights of one)
        num_nodes (int or tuple, optional): Number of nodes, or the numbers of source and
            destination nodes of a bipartite graph. It is fixed, so leave room for nodes that are
            added later. An isolated node costs about 30 bytes.
            (default: :obj:`None`, the largest id plus one)
        candidates (torch.Tensor, list or int, optional): Ids of the nodes that may take a place.
            (default: :obj:`None`, all nodes)
        **settings (optional): Settings of :func:`topk_similarity`, such as `p`, `lam`, `measure`,
            `loop` and `memory_budget`.

    Raises:
        TypeError, ValueError: If an argument is wrong, as in :func:`topk_similarity`.

    Not differentiable: use :func:`topk_similarity` for gradients.

    Time: a few passes over the edges, when it is built and at the first query after an edit.
    Memory: the edges, and about 12 bytes for each entry of :math:`\hat{A}` (36 with weights).
    Deterministic. Queries may run in several threads at once; edits may not.

    Source: none in Shulman (2020), which computes all rows.

    Example:
        >>> star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
        >>> index = SimilarityIndex(star, num_nodes=5)
        >>> index.query(torch.tensor([3, 1]), k=2)
        (tensor([[1., 1.],
                [1., 1.]]), tensor([[1, 2],
                [1, 2]]))
        >>> values, similar = index.query(None, k=2)
        >>> changed = index.add_edges(torch.tensor([[0, 4], [4, 0]]))
        >>> changed
        tensor([0, 1, 2, 3, 4])
        >>> values[changed], similar[changed] = index.query(changed, k=2)
    """

    def __init__(
        self,
        edge_index: Tensor,
        edge_weight: Optional[Tensor] = None,
        num_nodes: Union[int, tuple[int, int], None] = None,
        *,
        candidates: Optional[NodeIds] = None,
        **settings: Any,
    ) -> None:
        self.settings = TopKSettings(**settings)
        edges = parse_edges(edge_index, edge_weight, num_nodes, self.settings)
        self._spec = self.settings.spec(parse_candidates(candidates, edges))
        weight = edges.edge_weight
        # A copy, so that nothing but an edit changes the edges.
        self._graph = edges._replace(
            edge_index=edges.edge_index.clone(),
            edge_weight=None if weight is None else weight.detach().clone(),
        )
        self._prepared: Optional[PreparedGraph] = None
        self._prepare()

    @property
    def num_nodes(self) -> int:
        """The number of nodes that can be asked for."""
        return self._graph.num_nodes

    @property
    def edge_index(self) -> Tensor:
        """The edges as they are now, `[2, E]`. Do not write to them."""
        return self._graph.edge_index

    @property
    def edge_weight(self) -> Optional[Tensor]:
        """The weights as they are now, `[E]`, or `None`. Do not write to them."""
        return self._graph.edge_weight

    def query(self, nodes: Optional[NodeIds], k: int) -> tuple[Tensor, Tensor]:
        """Computes the :obj:`k` most similar nodes of some nodes.

        Args:
            nodes (torch.Tensor, list, int or None): Ids of nodes, `[M]`, in any order. An empty
                list gives an empty result. :obj:`None` stands for all nodes.
            k (int): Number of places in a row.

        Returns:
            `values` and `index`, `[M, k]`, as in :func:`topk_similarity`.

        Raises:
            TypeError, ValueError: If an argument is wrong, as in :func:`topk_similarity`.
        """
        k = check_int("k", k, 1)
        ids = parse_nodes(nodes, self._graph)
        num_rows = self.num_nodes if ids is None else ids.numel()
        budget = self.settings.budget(self._graph, num_rows, k)
        budget.check_memory(0)
        selection = self.settings.selection(k, self._graph.dtype)
        with torch.no_grad():
            return self._prepare().topk(ids, selection, budget, self._graph.dtype)

    def add_edges(self, edge_index: Tensor, edge_weight: Optional[Tensor] = None) -> Tensor:
        """Adds edges. A repeated edge becomes a parallel edge.

        Args:
            edge_index (torch.Tensor): Edges between nodes of the index, `[2, E]`, integers. List an
                undirected edge in both directions.
            edge_weight (torch.Tensor, optional): Weights, `[E]` or `[E, 1]`, finite, in the type of
                the weights of the index. They are required if the index has weights, and refused
                otherwise. (default: :obj:`None`)

        Returns:
            The ids of the nodes whose rows may have changed, ascending. These are all nodes within
            `3p - 1` steps of an end of the edges. In a bipartite graph, they are all nodes within 2
            steps of a source node of the edges.

        Raises:
            TypeError, ValueError: If an argument is wrong. Then nothing is changed.
        """
        graph, edges = self._graph, self._check_edges(edge_index, edge_weight)
        dtype, expected = (
            None if weight is None else weight.dtype
            for weight in (edges.edge_weight, graph.edge_weight)
        )
        if dtype != expected:
            raise ValueError(
                f"`edge_weight` must be of the type of the weights of the index, {expected}, got "
                f"{dtype}"
            )
        weight = None
        if graph.edge_weight is not None and edges.edge_weight is not None:
            weight = torch.cat([graph.edge_weight, edges.edge_weight.detach()])
        edge_index = torch.cat([graph.edge_index, edges.edge_index], dim=1)
        return self._replace_edges(edge_index, weight, edges.edge_index, edge_index)

    def remove_edges(self, edge_index: Tensor) -> Tensor:
        """Removes edges, with all edges parallel to them.

        Args:
            edge_index (torch.Tensor): Edges of the index, `[2, E]`, integers. List an undirected
                edge in both directions.

        Returns:
            The ids of the nodes whose rows may have changed, as in :meth:`add_edges`.

        Raises:
            TypeError, ValueError: If an argument is wrong, or the index lacks an edge. Then nothing
                is changed.
        """
        edges, weight = self._graph.edge_index, self._graph.edge_weight
        removed = self._check_edges(edge_index, None).edge_index
        keys, removed_keys = (row * self._graph.num_cols + col for row, col in (edges, removed))
        missing = ~torch.isin(removed_keys, keys)
        if missing.any():
            i, j = removed[:, missing][:, 0].tolist()
            raise ValueError(f"`edge_index` must hold edges of the index, got ({i}, {j})")
        remains = ~torch.isin(keys, removed_keys)
        weight = None if weight is None else weight[remains]
        return self._replace_edges(edges[:, remains], weight, removed, edges)

    def _prepare(self) -> PreparedGraph:
        """Returns the prepared graph, computed anew if an edit has changed it."""
        if self._prepared is None:
            backend = get_backend(self.settings, self._graph.device)
            budget = self.settings.budget(self._graph, 0, 1)
            with torch.no_grad():
                self._prepared = backend.prepare(self._graph, self._spec, budget)
        return self._prepared

    def _check_edges(self, edge_index: Tensor, edge_weight: Optional[Tensor]) -> EdgeList:
        edges = check_edges(edge_index, edge_weight, self._sizes)
        check_device("edge_index", edges.edge_index, self._graph.device, "SimilarityIndex")
        return edges

    def _replace_edges(
        self, edge_index: Tensor, edge_weight: Optional[Tensor], edited: Tensor, edges: Tensor
    ) -> Tensor:
        """Replaces the edges, and returns the nodes whose rows an edit can change.

        An edit changes descriptions up to `p - 1` steps away from its ends, and rows of nodes that
        share a feature with these, `2p` steps further. Directions of `edges` are ignored.
        """
        self._graph = self._graph._replace(edge_index=edge_index, edge_weight=edge_weight)
        self._prepared = None
        # Destinations of a bipartite graph follow its source nodes.
        offset = self.num_nodes if self._graph.bipartite else 0
        source, target = edges[0], edges[1] + offset
        near = edges.new_zeros(offset + self._graph.num_cols, dtype=torch.bool)
        near[edited[0]] = True
        if offset == 0:
            near[edited[1]] = True
        for _ in range(3 * self._spec.p - 1):
            step = near.clone()
            step[target[near[source]]] = True
            step[source[near[target]]] = True
            near = step
        return near[: self.num_nodes].nonzero().view(-1)

    @property
    def _sizes(self) -> Union[int, tuple[int, int]]:
        """The argument `num_nodes`."""
        graph = self._graph
        return graph.num_nodes if graph.num_dst is None else (graph.num_nodes, graph.num_dst)

    def __repr__(self) -> str:
        """Shows the sizes, and the settings that are not the defaults."""
        sizes = {"num_nodes": self._sizes, "num_edges": self._graph.edge_index.size(1)}
        options = {**sizes, **self.settings.changed()}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in options.items())})"

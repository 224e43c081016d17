"""An index of a graph for many queries of similar nodes."""

from functools import cached_property
from typing import Any, Optional, Union

import torch
from torch import Tensor
from torch_geometric.utils import k_hop_subgraph

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
    after an edit, so a query takes only the time of its rows. The rows equal the rows of
    :func:`topk_similarity`, bit for bit.

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

    Attributes:
        edges (EdgeList): The edges after all edits, a named tuple: `edge_index`, `edge_weight`,
            `num_nodes` and, for a bipartite graph, `num_dst`. Do not write to them.
        settings (TopKSettings): The settings.

    Not differentiable: use :func:`topk_similarity` for gradients.

    .. note::
        `pickle` saves an index. A file of :func:`torch.save` is read by
        `torch.load(path, weights_only=False)`.

    Time: a few passes over the edges, when the index is built and at the first query after an edit.
    Memory: the edges, and 2 to 20 bytes for each entry of :math:`\hat{A}`, or 4 to 40 if
    :math:`\hat{A}` is not symmetric.
    Deterministic. Queries may run in several threads at once; edits may not.

    Source: beyond Shulman (2020), which computes all rows.

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
        self.settings = TopKSettings.parse(settings)
        edges = parse_edges(edge_index, edge_weight, num_nodes, self.settings)
        self._candidates = parse_candidates(candidates, edges)
        weight = edges.edge_weight
        # The index copies the edges, so that only edits change them.
        self.edges = edges._replace(
            edge_index=edges.edge_index.clone(),
            edge_weight=None if weight is None else weight.detach().clone(),
        )
        self._sizes = edges.num_nodes if edges.num_dst is None else (edges.num_nodes, edges.num_dst)
        self._graph  # noqa: B018

    @cached_property
    def _graph(self) -> PreparedGraph:
        """The prepared graph, until an edit removes it."""
        backend = get_backend(self.settings, self.edges.device)
        advice = "raise `memory_budget`, lower `p`, or set `force=True`"
        budget = self.settings.budget(self.edges, 0, 1, advice=advice)
        with torch.no_grad():
            return backend.prepare(self.edges, self.settings, budget, self._candidates)

    def query(self, nodes: Optional[NodeIds], k: int) -> tuple[Tensor, Tensor]:
        """Computes the :obj:`k` most similar nodes of some nodes.

        Args:
            nodes (torch.Tensor, list, int or None): Ids of nodes, `[M]`, in any order. An empty
                list gives an empty result. :obj:`None` stands for all nodes.
            k (int): Number of similar nodes per node.

        Returns:
            `values` and `index`, `[M, k]`, as in :func:`topk_similarity`.

        Raises:
            TypeError, ValueError: If an argument is wrong, as in :func:`topk_similarity`.
        """
        k = check_int("k", k, 1)
        ids = parse_nodes(nodes, self.edges)
        num_rows = self.edges.num_nodes if ids is None else ids.numel()
        budget = self.settings.budget(self.edges, num_rows, k)
        with torch.no_grad():
            return self._graph.topk(ids, k, budget, self.edges.dtype)

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
        added, weight = self._check_edges(edge_index, edge_weight), self.edges.edge_weight
        dtype = None if added.edge_weight is None else added.edge_weight.dtype
        expected = None if weight is None else weight.dtype
        if dtype != expected:
            raise ValueError(
                f"`edge_weight` must be as in the index, {expected or 'without weights'}, got "
                f"{dtype or 'no weights'}"
            )
        if weight is not None and added.edge_weight is not None:
            weight = torch.cat([weight, added.edge_weight.detach()])
        edge_index = torch.cat([self.edges.edge_index, added.edge_index], dim=1)
        return self._replace_edges(edge_index, weight, added.edge_index, edge_index)

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
        edges, weight = self.edges.edge_index, self.edges.edge_weight
        removed = self._check_edges(edge_index).edge_index
        keys, removed_keys = (row * self.edges.num_cols + col for row, col in (edges, removed))
        missing = ~torch.isin(removed_keys, keys)
        if missing.any():
            i, j = removed[:, missing][:, 0].tolist()
            raise ValueError(f"`edge_index` must hold edges of the index, got ({i}, {j})")
        remains = ~torch.isin(keys, removed_keys)
        weight = None if weight is None else weight[remains]
        return self._replace_edges(edges[:, remains], weight, removed, edges)

    def _check_edges(self, edge_index: Tensor, edge_weight: Optional[Tensor] = None) -> EdgeList:
        """Returns the edges of an edit, on the device of the index."""
        edges = check_edges(edge_index, edge_weight, self._sizes)
        check_device("edge_index", edges.edge_index, self.edges.device, "the index")
        return edges

    def _replace_edges(
        self, edge_index: Tensor, edge_weight: Optional[Tensor], edited: Tensor, edges: Tensor
    ) -> Tensor:
        """Replaces the edges, and returns the nodes whose rows an edit can change.

        An edit changes the descriptions of nodes up to `p - 1` steps away from its ends. It changes
        the rows of nodes that share a feature with them, up to `2p` steps further. Directions of
        `edges` are ignored.
        """
        self.edges = self.edges._replace(edge_index=edge_index, edge_weight=edge_weight)
        self.__dict__.pop("_graph", None)
        # Destinations of a bipartite graph follow its source nodes.
        offset = self.edges.num_nodes if self.edges.bipartite else 0
        steps = torch.stack([edges[0], edges[1] + offset])
        near, *_ = k_hop_subgraph(
            edited[0] if self.edges.bipartite else edited.flatten(),
            3 * self.settings.p - 1,
            torch.cat([steps, steps.flip(0)], dim=1),
            num_nodes=offset + self.edges.num_cols,
        )
        return near[near < self.edges.num_nodes]

    def __repr__(self) -> str:
        """Shows the sizes, and the settings that are not the defaults."""
        sizes = {"num_nodes": self._sizes, "num_edges": self.edges.edge_index.size(1)}
        options = (f"{name}={v!r}" for name, v in {**sizes, **self.settings.changed()}.items())
        return f"{type(self).__name__}({', '.join(options)})"

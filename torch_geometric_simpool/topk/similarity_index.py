"""An index of a graph for many queries of similar nodes."""

from typing import Any, Optional, Union

import torch
from torch import Tensor

from torch_geometric_simpool.topk.backend import PreparedGraph, get_backend
from torch_geometric_simpool.topk.parse import (
    NodeIds,
    parse_candidates,
    parse_edges,
    parse_nodes,
)
from torch_geometric_simpool.topk.spec import TopKSettings
from torch_geometric_simpool.utils.checks import (
    check_bipartite_edge_index,
    check_edge_index,
    check_edge_weight,
    check_int,
)


class SimilarityIndex:
    r"""A graph prepared for many queries of similar nodes, and for edits.

    :func:`topk_similarity` reads all edges in every call. An index reads them once, and again
    after an edit, so a query takes only the time of its rows. The rows have the bits that
    :func:`topk_similarity` returns for equal arguments.

    Args:
        edge_index, edge_weight, p, lam, measure: As in :func:`topk_similarity`.
        num_nodes: As in :func:`topk_similarity`. It is fixed, so leave room for nodes
            that are added later. An isolated node costs about 30 bytes.
        max_degree, candidates, memory_budget, force, backend: As in :func:`topk_similarity`.

    Raises:
        TypeError, ValueError: As :func:`topk_similarity`, for these arguments.

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
            nodes (torch.Tensor, list or int): Ids of nodes, `[M]`; none gives an empty result.
                :obj:`None` stands for all nodes.
            k (int): Number of places in a row.

        Returns:
            `values` and `index`, `[M, k]`, as :func:`topk_similarity`.

        Raises:
            TypeError, ValueError: As :func:`topk_similarity`, for these arguments.
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
        """Adds edges. An edge that is there already becomes a parallel edge.

        Args:
            edge_index: The edges, integers, `[2, E]`, between nodes of the index; of an undirected
                graph in both directions.
            edge_weight: The weights, `[E]` or `[E, 1]`, finite, in the type of those of the index;
                given if and only if the index has weights.

        Returns:
            The ids of the nodes whose rows may have changed, ascending. Rows of all others are the
            same as before. These are the ends of the edges, and the nodes that share a feature
            with them; for `p > 1`, with nodes up to `p - 1` steps away.

        Raises:
            TypeError, ValueError: A wrong shape or type, ids or weights out of range, weights
                where the index has none, none where it has. Then nothing is changed.
        """
        edge_index, edge_weight = self._check_edges(edge_index, edge_weight)
        mine = self._graph.edge_weight
        if (edge_weight is None) != (mine is None):
            has, got = ("no weights", "some") if mine is None else ("weights", "None")
            raise ValueError(
                f"`edge_weight` must be given if and only if the index has weights, got {got} "
                f"where it has {has}"
            )
        edges = torch.cat([self._graph.edge_index, edge_index], dim=1)
        if mine is not None and edge_weight is not None:
            if not torch.can_cast(edge_weight.dtype, mine.dtype):
                raise TypeError(
                    f"`edge_weight` must be of a type that fits the weights of the index, "
                    f"{mine.dtype}, got {edge_weight.dtype}"
                )
            given, edge_weight = edge_weight.detach(), edge_weight.detach().to(mine.dtype)
            check_edge_weight(edge_weight, edge_index.size(1))  # a wider type may overflow
            if not mine.is_floating_point() and not torch.equal(edge_weight.to(given.dtype), given):
                raise ValueError(
                    f"`edge_weight` must hold numbers of the type of the weights of the index, "
                    f"{mine.dtype}, got some from {int(given.min())} to {int(given.max())}"
                )
            mine = torch.cat([mine, edge_weight])
        self._graph = self._graph._replace(edge_index=edges, edge_weight=mine)
        self._prepared = None
        return self._changed(edge_index, edges)

    def remove_edges(self, edge_index: Tensor) -> Tensor:
        """Removes edges, with all that are parallel to them.

        Args:
            edge_index: The edges, integers, `[2, E]`, each of which is there; of an undirected
                graph in both directions.

        Returns:
            The ids of the nodes whose rows may have changed, as :meth:`add_edges`.

        Raises:
            TypeError, ValueError: A wrong shape or type, or an edge that is not there. Then
                nothing is changed.
        """
        edge_index, _ = self._check_edges(edge_index, None)
        edges, num_cols = self._graph.edge_index, self._graph.num_cols
        keys, gone = (ends[0] * num_cols + ends[1] for ends in (edges, edge_index))
        missing = ~torch.isin(gone, keys)
        if missing.any():
            i, j = edge_index[:, missing][:, 0].tolist()
            raise ValueError(f"`edge_index` must hold edges of the index, got ({i}, {j})")
        kept = ~torch.isin(keys, gone)
        weight = self._graph.edge_weight
        self._graph = self._graph._replace(
            edge_index=edges[:, kept], edge_weight=None if weight is None else weight[kept]
        )
        self._prepared = None
        return self._changed(edge_index, edges)

    def _prepare(self) -> PreparedGraph:
        """Returns the prepared graph, computed anew if an edit has changed it."""
        if self._prepared is None:
            backend = get_backend(self.settings, self._graph.device)
            budget = self.settings.budget(self._graph, 0, 1)
            with torch.no_grad():
                self._prepared = backend.prepare(self._graph, self._spec, budget)
        return self._prepared

    def _check_edges(
        self, edge_index: Tensor, edge_weight: Optional[Tensor]
    ) -> tuple[Tensor, Optional[Tensor]]:
        graph = self._graph
        for name, value in (("edge_index", edge_index), ("edge_weight", edge_weight)):
            if isinstance(value, Tensor) and value.device != graph.edge_index.device:
                raise ValueError(
                    f"`{name}` must be on the device of the index, {graph.edge_index.device}, got "
                    f"{value.device}"
                )
        if graph.bipartite:
            sizes = graph.num_nodes, graph.num_cols
            edge_index, _ = check_bipartite_edge_index(edge_index, sizes)
        else:
            edge_index, _ = check_edge_index(edge_index, graph.num_nodes)
        edge_weight = check_edge_weight(edge_weight, edge_index.size(1))
        return edge_index, edge_weight

    def _changed(self, edited: Tensor, edges: Tensor) -> Tensor:
        """The nodes whose rows an edit can change; `edges` are all, before or after it."""
        p, loops, bipartite = self._spec.p, self._spec.lam > 0, self._graph.bipartite
        sizes = self._graph.num_nodes, self._graph.num_cols

        def walk(start: Tensor, source: int, steps: int) -> Tensor:
            """Nodes that walks from `start` end at, along edges or (`source=1`) against them."""
            for _ in range(steps):
                ends = start.new_zeros(sizes[1 - source])
                ends[edges[1 - source][start[edges[source]]]] = True
                start = start | ends if loops else ends
            return start

        changed = edges.new_zeros(sizes[0], dtype=torch.bool)
        for source in (0, 1)[: 1 if bipartite else 2]:
            described = edges.new_zeros(sizes[source], dtype=torch.bool)
            described[edited[source]] = True
            # Walks of length `p` that begin with up to `p - 1` other edges.
            for steps in range(p):
                changed |= walk(described, 1 - source, steps)
        # Whom a row names changes with its own description, or with that of a candidate; and with
        # `max_degree`, if an end makes a list too long, with that of any node.
        candidates, named = self._spec.candidates, changed
        if candidates is not None and self._spec.max_degree is None:
            named = changed & candidates
        for source in (0, 1)[: 1 if bipartite else 2]:
            changed = changed | walk(walk(named, source, p), 1 - source, p)
        return changed.nonzero().view(-1)

    def __repr__(self) -> str:
        graph = self._graph
        sizes = {
            "num_nodes": (graph.num_nodes, graph.num_dst) if graph.bipartite else graph.num_nodes,
            "num_edges": graph.edge_index.size(1),
        }
        options = {**sizes, **self.settings.changed()}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in options.items())})"

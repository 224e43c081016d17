"""The transform that writes mapped structural features to a data object."""

from typing import Any, Optional, Union

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from torch_geometric_simpool.functional.mapping import map_indices
from torch_geometric_simpool.functional.topk import check_settings, topk_per_graph
from torch_geometric_simpool.transforms.node_order import ORDERS, node_order
from torch_geometric_simpool.transforms.precompute import precompute
from torch_geometric_simpool.utils.batching import block_diagonal, from_adj_t, one_per_edge
from torch_geometric_simpool.utils.checks import (
    check_batch,
    check_bool,
    check_choice,
    check_edge_index,
    check_edge_weight,
    check_finite,
    check_mask,
    check_node_attr,
    check_real,
    check_tensor,
    check_within_graphs,
    shape,
)


class StructuralSimilarity(BaseTransform):
    r"""Adds the mapped structural features of every node, as `data.sim`.

    They are :func:`map_indices` of :func:`topk_similarity`: `[N, k]`, float32.

    ==================  =========================================================
    reads               where
    ==================  =========================================================
    `edge_index`        it is there; with `edge_weight`, if that is there
    `adj_t`             it is, and `edge_index` is not: a sparse PyTorch tensor or a
                        `torch_sparse.SparseTensor`, with its values if they are
                        one number per edge
    `adj` and `mask`    neither is: after :class:`~torch_geometric.transforms.ToDense`.
                        Writes padded rows, `[N_max, k]`, as `DenseDataLoader` needs
                        them. Of features per edge, `[N, N, D]`, only the presence of
                        edges counts. A batch, `[B, N, N]` with a `mask` of `[B, N]`,
                        is taken as well.
    ==================  =========================================================

    It can be a `transform`, a `pre_transform`, or be called on a data object or on a
    :class:`~torch_geometric.data.Batch`. Data without node features, without edges,
    or with isolated nodes get features too; without edges they are zero. The object
    that goes in is not changed; on an error nothing is written.

    Args:
        k: The number of similar nodes, `>= 1`.
        p, lam, measure, loop: As in :func:`topk_similarity`.
        alpha: As in :func:`map_indices`.
        min_similarity, max_degree, memory_budget, force, backend: As in
            :func:`topk_similarity`.
        attr: The name of the attribute to write.
        weight_attr: The name of the attribute that holds edge weights, used where it
            is present; `None` to ignore weights, those in `adj_t` and `adj` too.
        device: Where to compute, for example `'cuda'`; the result comes back to where
            the data is. `None` computes where the data is.
        order: How to number the nodes of a graph before the features name them by
            number: `None` as they come, or an `order` of :func:`node_order`, which says
            what it costs. All but `'random'` make the features invariant under a
            renumbering, as far as said below.
        order_attr: The name of a node attribute, `'x'` for example, `[N]` or `[N, F]`, real
            and finite, whose rows tell nodes apart as well where `order` settles ties;
            `None` for the edges and their weights alone. Takes an `order` by structure.

    Raises:
        TypeError, ValueError: The error names the argument, what came and what was
            expected.

    What a renumbering leaves with an `order` by structure. Without `order_attr`, the rows of
    the features, as a table: nodes that the graph (its directions, weights and self-loops)
    makes no difference between may swap theirs, and a model that also reads `data.x` then
    sees other pairs of rows where their `data.x` differ. With `order_attr='x'` the pairs of
    rows of `data.x` and of the features stay as well. Both hold where colour refinement
    tells apart all nodes that are not automorphic: in trees and almost all graphs, not in
    all regular ones (not in the Frucht graph, for example); and of real weights up to
    rounding, as in :func:`topk_similarity`.

    Its `repr` names every parameter: PyG keys the cache of a `pre_transform` on it.

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
        check_settings(k, p, lam, measure, max_degree, memory_budget, backend)
        self.k = int(k)
        self.p = int(p)
        self.lam = float(lam)
        self.alpha = check_real("alpha", alpha, 0.0, 1.0)
        self.measure = measure
        self.loop = check_bool("loop", loop)
        self.attr = _check_attr(attr)
        if weight_attr is not None and not isinstance(weight_attr, str):
            raise TypeError(f"`weight_attr` must be a name or None, got {weight_attr!r}")
        self.weight_attr = weight_attr
        self.device = _check_device(device)
        if min_similarity is not None:
            min_similarity = check_real("min_similarity", min_similarity, -1.0, 1.0)
        self.min_similarity = min_similarity
        self.max_degree = max_degree
        self.memory_budget = memory_budget
        self.force = check_bool("force", force)
        self.backend = backend
        self.order = None if order is None else check_choice("order", order, ORDERS)
        if order_attr is not None and not isinstance(order_attr, str):
            raise TypeError(f"`order_attr` must be a name or None, got {order_attr!r}")
        if order_attr is not None and order in (None, "random"):
            raise ValueError(
                "`order_attr` must be None where `order` does not go by structure, got "
                f"{order_attr!r} with order={order!r}"
            )
        self.order_attr = order_attr

    def forward(self, data: Any) -> Any:
        """Writes the features to `data`, a copy that :meth:`__call__` has made."""
        if not isinstance(data, Data):
            raise TypeError(
                f"`data` must be a torch_geometric.data.Data, got {type(data).__name__}"
            )
        edge_index, edge_weight = self._edges(data)
        if edge_index is None:
            adj = getattr(data, "adj", None)
            if not isinstance(adj, Tensor):
                raise ValueError(
                    "`data` must have `edge_index`, `adj_t` or a dense `adj`, got "
                    f"{sorted(data.keys())}"
                )
            features = self._dense(data, adj, getattr(data, "mask", None))
        else:
            batch, num_graphs = _graphs(data, edge_index)
            node_attr = self.node_attr(data, (batch.numel(),))
            features = self._sparse(edge_index, edge_weight, batch, num_graphs, node_attr)
        data[self.attr] = features
        slices = getattr(data, "_slice_dict", None)
        if slices is not None and getattr(data, "ptr", None) is not None:
            # A batch hands out its graphs by these: the features are theirs as well.
            data._slice_dict = {**slices, self.attr: data.ptr.cpu()}
            data._inc_dict = {**data._inc_dict, self.attr: torch.zeros(data.num_graphs)}
        return data

    def precompute(self, dataset: Any, progress: bool = True) -> Any:
        """Adds the features to every graph of a data set, many graphs at a time.

        The features are those that calling the transform on each graph gives, bit for bit;
        small graphs share the cost of a call, so this is many times faster.

        Args:
            dataset: A PyG data set, or a list of data objects. Of an
                :class:`~torch_geometric.data.InMemoryDataset` the stored graphs are taken;
                its own `transform` stays in place and is not applied here.
            progress: Whether to show a progress bar.

        Returns:
            A data set of the same class with the features stored in memory, nothing on
            disk changed; of anything else, a list of data objects. What goes in is not
            changed.

        Raises:
            TypeError, ValueError: As the transform itself, with the number of the graph.

        Time and memory: those of :func:`topk_similarity` on chunks of graphs. Ctrl-C ends
        it within a second. Deterministic.

        Example:
            >>> from torch_geometric.data import Data
            >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
            >>> graphs = StructuralSimilarity(k=2).precompute([path, path], progress=False)
            >>> [graph.sim.shape for graph in graphs]
            [torch.Size([3, 2]), torch.Size([3, 2])]
        """
        # The nodes of a graph are told apart by its offset: no edge can join two graphs.
        return precompute(self, self._features, dataset, progress)

    def node_attr(self, data: Data, nodes: tuple[int, ...], sync: bool = True) -> Optional[Tensor]:
        """What `order_attr` names, checked: a number or a row for each of the `nodes`."""
        if self.order_attr is None:
            return None
        value = getattr(data, self.order_attr, None)
        if value is None:
            raise ValueError(
                f"`data` must have {self.order_attr!r}, the node attribute that `order_attr` "
                f"names, got {sorted(data.keys())}"
            )
        return check_node_attr(f"data.{self.order_attr}", value, nodes, sync)

    def _edges(self, data: Data) -> tuple[Any, Optional[Tensor]]:
        edge_index = data.edge_index
        adj_t = getattr(data, "adj_t", None)
        if edge_index is not None or adj_t is None:
            if edge_index is not None:
                check_tensor("edge_index", edge_index)
            weight = None if self.weight_attr is None else getattr(data, self.weight_attr, None)
            return edge_index, one_per_edge(weight)
        edge_index, edge_weight = from_adj_t(adj_t)
        return edge_index, None if self.weight_attr is None else edge_weight

    def _sparse(
        self,
        edge_index: Tensor,
        edge_weight: Optional[Tensor],
        batch: Tensor,
        num_graphs: int,
        node_attr: Optional[Tensor],
    ) -> Tensor:
        """The features of a block-diagonal graph, given the block of each node."""
        edge_index, _ = check_edge_index(edge_index, batch.numel())
        edge_weight = check_edge_weight(edge_weight, edge_index.size(1))
        if num_graphs > 1:
            check_within_graphs(edge_index, batch)
        return self._features(edge_index, edge_weight, batch, num_graphs, node_attr)

    def _features(
        self,
        edge_index: Tensor,
        edge_weight: Optional[Tensor],
        batch: Tensor,
        num_graphs: int,
        node_attr: Optional[Tensor],
    ) -> Tensor:
        """The same, of edges that have been checked."""
        home = batch.device
        if edge_weight is not None and edge_weight.dtype in (torch.float16, torch.bfloat16):
            # The features are float32, so they need not be rounded to less on the way.
            edge_weight = edge_weight.float()
        if self.device is not None:
            edge_index, batch = edge_index.to(self.device), batch.to(self.device)
            edge_weight = None if edge_weight is None else edge_weight.to(self.device)
        number = None
        if self.order is not None:
            place = node_order(
                edge_index, self.order, batch.numel(), batch, num_graphs, edge_weight, node_attr
            )
            sizes = torch.bincount(batch, minlength=num_graphs)
            number = place + (sizes.cumsum(0) - sizes)[batch]
            edge_index = number[edge_index]
        values, index, num_nodes = topk_per_graph(
            edge_index,
            edge_weight,
            batch,
            num_graphs,
            self.k,
            p=self.p,
            lam=self.lam,
            measure=self.measure,
            loop=self.loop,
            min_similarity=self.min_similarity,
            max_degree=self.max_degree,
            memory_budget=self.memory_budget,
            force=self.force,
            backend=self.backend,
        )
        features = map_indices(values.float(), index, num_nodes, self.alpha)
        return (features if number is None else features[number]).to(home)

    def _dense(self, data: Data, adj: Tensor, mask: Any) -> Tensor:
        """The features of padded graphs: zero rows where there is no node."""
        if adj.layout != torch.strided:
            raise TypeError(f"`adj` must be a dense tensor, got layout {adj.layout}")
        if adj.is_complex():
            raise TypeError(f"`adj` must be real, got {adj.dtype}")
        single = adj.dim() == 2 or (isinstance(mask, Tensor) and mask.dim() == 1)
        if single:
            adj = adj.unsqueeze(0)
            mask = mask.unsqueeze(0) if isinstance(mask, Tensor) else mask
        if adj.dim() not in (3, 4) or adj.size(1) != adj.size(2):
            raise ValueError(f"`adj` must have shape [*, N, N] or [*, N, N, D], got {shape(adj)}")
        mask = check_mask(mask, tuple(adj.shape[:2]))
        if mask is None:
            mask = adj.new_ones(adj.shape[:2], dtype=torch.bool)
        # What stands where there is no node is not read.
        node_attr = self.node_attr(data, tuple(mask.shape)[single:], sync=False)
        if node_attr is not None:
            node_attr = (node_attr.unsqueeze(0) if single else node_attr)[mask]
            check_finite(f"data.{self.order_attr}", node_attr)
        edge_index, edge_weight, batch = block_diagonal(adj, mask)
        check_finite("adj", edge_weight)
        weighted = self.weight_attr is not None
        features = torch.zeros(*mask.shape, self.k, dtype=torch.float32, device=adj.device)
        features[mask] = self._sparse(
            edge_index, edge_weight if weighted else None, batch, adj.size(0), node_attr
        )
        return features[0] if single else features

    def __repr__(self) -> str:
        """Every parameter."""
        settings = ", ".join(
            f"{name}={getattr(self, name)!r}"
            for name in (
                "k",
                "p",
                "lam",
                "alpha",
                "measure",
                "loop",
                "attr",
                "weight_attr",
                "device",
                "min_similarity",
                "max_degree",
                "memory_budget",
                "force",
                "backend",
                "order",
                "order_attr",
            )
        )
        return f"{type(self).__name__}({settings})"


def _graphs(data: Data, edge_index: Tensor) -> tuple[Tensor, int]:
    """The graph of each node, and the number of graphs; a data object may be a batch."""
    num_nodes = data.num_nodes
    if num_nodes is None:
        raise ValueError(
            "`data.num_nodes` must be set where neither node features nor edges tell, got None"
        )
    ptr = getattr(data, "ptr", None)
    batch = getattr(data, "batch", None)
    num_graphs = None if ptr is None else ptr.numel() - 1
    if batch is None:
        num_graphs = None
    return check_batch(batch, num_nodes, num_graphs, edge_index.device)


def _check_attr(attr: str) -> str:
    if not isinstance(attr, str) or not attr.isidentifier():
        raise ValueError(f"`attr` must be the name of an attribute, got {attr!r}")
    for part in ("index", "face", "batch", "ptr", "adj"):
        if part in attr:
            raise ValueError(
                f"`attr` must not contain {part!r}, by which PyG takes an attribute for one that "
                f"names nodes and changes it when it batches, got {attr!r}"
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

"""The select operators: which nodes make up a cluster."""

from typing import Any, Optional, Union

import torch
from tgp.select import MLPSelect, Select, SelectOutput
from tgp.utils import is_dense_adj
from torch import Tensor
from torch_geometric.utils import to_dense_batch

from torch_geometric_simpool.functional.mapping import map_indices
from torch_geometric_simpool.layer import FEATURES
from torch_geometric_simpool.tgp.inputs import read_edges
from torch_geometric_simpool.topk.matching import match_similar
from torch_geometric_simpool.topk.parse import check_description
from torch_geometric_simpool.topk.topk_similarity import topk_per_graph
from torch_geometric_simpool.utils.batching import block_diagonal
from torch_geometric_simpool.utils.checks import (
    check_batch,
    check_choice,
    check_floating,
    check_int,
    check_like_layer,
    check_real,
    shape,
)


class SimSelect(MLPSelect):
    r"""`S = softmax(MLP(features))`, of structural features, node features, or both.

    Args:
        in_channels: The number of node features; or a list of it and the hidden widths.
        k: The number of clusters.
        num_similar: The number of structural features of a node.
        features: `'structural'`, `'node'`, or `'both'`, concatenated in that order.
        p, lam, measure: As in :func:`topk_similarity`.
        alpha: As in :func:`map_indices`.
        batched_representation, act, dropout, s_inv_op: As in :class:`tgp.select.MLPSelect`.
    """

    def __init__(
        self,
        in_channels: Union[int, list[int]],
        k: int,
        num_similar: int,
        features: str,
        p: int,
        lam: float,
        alpha: float,
        measure: str,
        batched_representation: bool,
        act: Optional[str],
        dropout: float,
        s_inv_op: str,
    ) -> None:
        channels = in_channels if isinstance(in_channels, (list, tuple)) else [in_channels]
        if not channels:
            raise ValueError("`in_channels` must hold the number of node features, got []")
        channels = [check_int("in_channels", width, 1) for width in channels]
        check_int("num_similar", num_similar, 1)
        check_description(p, lam, measure, None, "auto")
        check_choice("features", features, FEATURES)
        width = (features != "node") * num_similar + (features != "structural") * channels[0]
        super().__init__(
            [width, *channels[1:]],
            check_int("k", k, 1),
            batched_representation=batched_representation,
            act=act,
            dropout=check_real("dropout", dropout, 0.0, 1.0),
            s_inv_op=s_inv_op,
        )
        self.num_similar, self.features = num_similar, features
        self.p, self.lam, self.measure = p, lam, measure
        self.alpha = check_real("alpha", alpha, 0.0, 1.0)

    def forward(
        self,
        x: Tensor,
        edge_index: Any = None,
        edge_weight: Optional[Tensor] = None,
        mask: Optional[Tensor] = None,
        batch: Optional[Tensor] = None,
        sim: Optional[Tensor] = None,
        **kwargs: Any,
    ) -> SelectOutput:
        """The assignment.

        Args:
            x: Node features, `[N, F]`, or `[B, N, F]` if batched.
            edge_index: The graph, in a form of `adj` of :class:`SimPooling`; dense if batched.
                Read only if structural features are to be computed.
            edge_weight: The weights of `edge_index`, `[E]`.
            mask: The valid nodes, boolean, `[B, N]`, if batched.
            batch: The graph of each node, `[N]`.
            sim: Structural features, `[N, num_similar]` or `[B, N, num_similar]`, as in
                `data.sim`. Computed from the graph if `None`.
        """
        check_like_layer("x", x, next(self.parameters()))
        if self.features != "node":
            if sim is None:
                sim = self._similarity_features(x, edge_index, edge_weight, mask, batch)
            else:
                sim = self._given_features(x, sim, batch)
            structural = sim.to(x.dtype)
            x = structural if self.features == "structural" else torch.cat([structural, x], dim=-1)
        return super().forward(x, mask=mask, batch=batch)

    def _similarity_features(
        self,
        x: Tensor,
        adj: Any,
        edge_weight: Optional[Tensor],
        mask: Optional[Tensor],
        batch: Optional[Tensor],
    ) -> Tensor:
        """The mapped top k. A transposed `adj` describes nodes alike: its halves change places."""
        dense = is_dense_adj(adj)
        if dense:
            if mask is None:
                mask = torch.ones(x.shape[:-1], dtype=torch.bool, device=x.device)
            edge_index, edge_weight, batch = block_diagonal(adj, mask)
            batch_size = x.size(0)
        else:
            edge_index, edge_weight = read_edges(adj, edge_weight, x.size(0))
            batch, batch_size = check_batch(batch, x.size(0), None, x.device)
        values, index, num_nodes = topk_per_graph(
            edge_index,
            edge_weight,
            batch,
            batch_size,
            self.num_similar,
            p=self.p,
            lam=self.lam,
            measure=self.measure,
        )
        sim = map_indices(values, index, num_nodes, self.alpha)
        if not dense:
            return sim
        assert mask is not None
        return sim.new_zeros(*mask.shape, self.num_similar).index_put((mask,), sim)

    def _given_features(self, x: Tensor, sim: Tensor, batch: Optional[Tensor]) -> Tensor:
        check_floating("sim", sim)
        if x.dim() == 3 and sim.dim() == 2:
            sim, _ = to_dense_batch(sim, batch, max_num_nodes=x.size(1), batch_size=x.size(0))
        expected = (*x.shape[:-1], self.num_similar)
        if sim.shape != expected:
            raise ValueError(
                f"`sim` must have shape {list(expected)}, `num_similar` features for each node "
                f"of `x`, got {shape(sim)}"
            )
        return sim

    def __repr__(self) -> str:
        """The settings."""
        return (
            f"{self.__class__.__name__}(in_channels={self.in_channels}, k={self.k}, "
            f"num_similar={self.num_similar}, features={self.features!r}, p={self.p}, "
            f"lam={self.lam}, alpha={self.alpha}, measure={self.measure!r}, act={self.act!r}, "
            f"dropout={self.dropout}, s_inv_op={self.s_inv_op!r})"
        )


class SimMatchSelect(Select):
    """Clusters of two similar nodes, or of one: those of :func:`match_similar`.

    Args:
        num_similar: Its `k`.
        p, lam, measure: As there.
        s_inv_op: As in :class:`tgp.select.SelectOutput`.
    """

    def __init__(self, num_similar: int, p: int, lam: float, measure: str, s_inv_op: str) -> None:
        super().__init__()
        self.num_similar = check_int("num_similar", num_similar, 1)
        check_description(p, lam, measure, None, "auto")
        self.p, self.lam, self.measure = p, lam, measure
        self.s_inv_op = s_inv_op

    def forward(
        self,
        edge_index: Any,
        edge_weight: Optional[Tensor] = None,
        num_nodes: Optional[int] = None,
        **kwargs: Any,
    ) -> SelectOutput:
        """The assignment.

        Args:
            edge_index: The graph, in a form of `adj` of :class:`SimMatch`.
            edge_weight: The weights of `edge_index`, `[E]`.
            num_nodes: The number of nodes.
        """
        edge_index, edge_weight = read_edges(edge_index, edge_weight, num_nodes)
        cluster = match_similar(
            edge_index,
            self.num_similar,
            edge_weight,
            num_nodes,
            p=self.p,
            lam=self.lam,
            measure=self.measure,
        )
        return SelectOutput(
            cluster_index=cluster,
            num_nodes=cluster.numel(),
            num_supernodes=int(cluster.max()) + 1 if cluster.numel() > 0 else 0,
            s_inv_op=self.s_inv_op,
        )

    def __repr__(self) -> str:
        """The settings."""
        return (
            f"{self.__class__.__name__}(num_similar={self.num_similar}, p={self.p}, "
            f"lam={self.lam}, measure={self.measure!r}, s_inv_op={self.s_inv_op!r})"
        )

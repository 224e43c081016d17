"""Matching of similar nodes as a pooler of tgp."""

from typing import Any, Optional, Union

from tgp.connect import SparseConnect
from tgp.lift import BaseLift
from tgp.reduce import BaseReduce
from tgp.select import SelectOutput
from tgp.src import BasePrecoarseningMixin, PoolingOutput, SRCPooling
from torch import Tensor

from torch_geometric_simpool.tgp.inputs import read_edges, readable
from torch_geometric_simpool.tgp.select import SimMatchSelect
from torch_geometric_simpool.tgp.sim_pooling import NUM_SIMILAR
from torch_geometric_simpool.utils.checks import (
    check_batch,
    check_choice,
    check_dense,
    check_within_graphs,
    shape,
)


class SimMatch(BasePrecoarseningMixin, SRCPooling):
    r"""Greedy matching of structurally similar nodes, for tgp; nothing is trained.

    Every cluster is two nodes that are similar, or one node: see :func:`match_similar`, which
    has the algorithm. About half of the nodes remain where most find a partner. As in
    tgp's other poolers of this kind, features and edge weights of a cluster are added up.
    :class:`tgp.data.transforms.PreCoarsening` computes its levels before training.

    Args:
        num_similar: Each node may be matched with that many most similar ones, or with one of
            whose most similar ones it is, `>= 1`.
        p, lam, measure: As in :func:`topk_similarity`.
        lift: How to lift, see :class:`tgp.lift.BaseLift`.
        s_inv_op: How to compute `s_inv`, see :class:`tgp.select.SelectOutput`.
        connect_red_op, remove_self_loops, degree_norm, edge_weight_norm: As in
            :class:`tgp.connect.SparseConnect`.
        lift_red_op: As in :class:`tgp.lift.BaseLift`.
        cached: Whether assignment and edges are kept for the next call, on one graph.

    Raises:
        TypeError, ValueError: A setting is out of range, or, when called, as
            :func:`topk_similarity`.

    Differentiable with respect to `x` and `edge_weight`; the clusters are constant. Time and
    memory: those of :func:`match_similar`. Deterministic.

    Source: beyond Shulman (2020).

    Example:
        >>> import torch
        >>> star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
        >>> out = SimMatch(num_similar=2)(x=torch.tensor([[1.], [2.], [3.], [4.]]), adj=star)
        >>> out.x.T, out.edge_index
        (tensor([[1., 5., 4.]]), tensor([[0, 0, 1, 2],
                [1, 2, 0, 0]]))
    """

    def __init__(
        self,
        num_similar: int = NUM_SIMILAR,
        p: int = 1,
        lam: float = 0.0,
        measure: str = "cosine",
        lift: str = "precomputed",
        s_inv_op: str = "transpose",
        connect_red_op: str = "sum",
        lift_red_op: str = "sum",
        cached: bool = False,
        remove_self_loops: bool = True,
        degree_norm: bool = False,
        edge_weight_norm: bool = False,
    ) -> None:
        check_choice("lift", lift, ("precomputed", "transpose", "inverse"))
        check_choice("s_inv_op", s_inv_op, ("transpose", "inverse"))
        super().__init__(
            selector=SimMatchSelect(num_similar, p, lam, measure, s_inv_op),
            reducer=BaseReduce(),
            lifter=BaseLift(matrix_op=lift, reduce_op=lift_red_op),
            connector=SparseConnect(
                reduce_op=connect_red_op,
                remove_self_loops=remove_self_loops,
                degree_norm=degree_norm,
                edge_weight_norm=edge_weight_norm,
            ),
            cached=cached,
        )

    def forward(
        self,
        x: Tensor,
        adj: Any = None,
        edge_weight: Optional[Tensor] = None,
        so: Optional[SelectOutput] = None,
        batch: Optional[Tensor] = None,
        lifting: bool = False,
        **kwargs: Any,
    ) -> Union[PoolingOutput, Tensor]:
        """Pools a sparse batch, or, with `lifting`, gives nodes the features of their clusters.

        Args:
            x: Node features, `[N, F]`; those of the clusters if `lifting`.
            adj: `edge_index`, `[2, E]`; or a sparse tensor or `SparseTensor`, `[N, N]`.
            edge_weight: The weights of `edge_index`, `[E]`; ones if `None`.
            so: The assignment, if `lifting`.
            batch: The graph of each node, `[N]`, ascending; one graph if `None`.
            lifting: Whether to lift.
            kwargs: Not used; for tgp's loops over all poolers.

        Returns:
            The pooled graphs, in the form of `adj`; or node features `[N, F]`.
        """
        if lifting:
            return self.lift(x_pool=x, so=so)
        if check_dense("x", x).dim() != 2:
            raise ValueError(f"`x` must have shape [N, F], got {shape(x)}")
        adj = readable(adj, x.size(0))
        if batch is not None:
            batch, _ = check_batch(batch, x.size(0), None, x.device, of="x")
            check_within_graphs(read_edges(adj, edge_weight, x.size(0))[0], batch)
        so = self.select(edge_index=adj, edge_weight=edge_weight, num_nodes=x.size(0))
        x_pooled, batch_pooled = self.reduce(x=x, so=so, batch=batch)
        edge_index_pooled, edge_weight_pooled = self.connect(
            edge_index=adj, so=so, edge_weight=edge_weight, batch_pooled=batch_pooled
        )
        return PoolingOutput(
            x=x_pooled,
            edge_index=edge_index_pooled,
            edge_weight=edge_weight_pooled,
            batch=batch_pooled,
            so=so,
        )

    def extra_repr_args(self) -> dict[str, Any]:
        """The settings that no operator shows."""
        return {"cached": self.cached}

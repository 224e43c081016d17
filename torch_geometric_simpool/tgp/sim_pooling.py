"""SimPool as a pooler of tgp."""

from typing import Any, Optional, Union

from tgp.select import SelectOutput
from tgp.src import DenseSRCPooling, PoolingOutput
from tgp.utils import build_pooled_batch, is_dense_adj
from torch import Tensor

from torch_geometric_simpool.functional.losses import cluster_loss, entropy_loss
from torch_geometric_simpool.functional.pooling import check_dense_batch, check_sparse_batch
from torch_geometric_simpool.tgp.inputs import read_edges, readable
from torch_geometric_simpool.tgp.operators import SimConnect, SimLift, SimReduce
from torch_geometric_simpool.tgp.select import SimSelect
from torch_geometric_simpool.transforms.structural_similarity import StructuralSimilarity
from torch_geometric_simpool.utils.checks import (
    check_bool,
    check_choice,
    check_floating,
    check_real,
    shape,
)

#: The default of `num_similar`, and what `data_transforms` computes.
NUM_SIMILAR = 12


class SimPooling(DenseSRCPooling):
    r"""SimPool, from the paper `"SimPool: Towards Topology Based Graph Pooling with Structural
    Similarity Features" <https://arxiv.org/abs/2006.02244>`_ (Shulman 2020), for tgp.

    .. math::
        S &= \mathrm{softmax}(\mathrm{MLP}(\text{features})) \\
        X' &= S^\top X \\
        A' &= \tanh(S^\top A S)

    with the losses :func:`entropy_loss` and :func:`cluster_loss`. These are the numbers of
    :func:`dense_sim_pool` and :func:`sim_pool`; no self-loop is removed, and `A'` is not
    normalized.

    Args:
        in_channels: The number of node features; or a list of it and the widths of the hidden
            layers of the MLP, as in tgp's other poolers. With `features='structural'` the first
            number is not used.
        k: The number of clusters, `>= 1`.
        num_similar: The number of structural features of a node, `>= 1`: the `k` of
            :func:`topk_similarity` and :class:`StructuralSimilarity`.
        features: What the MLP reads: `'structural'` features, `'node'` features, or `'both'`.
        p, lam, measure: As in :func:`topk_similarity`.
        alpha: As in :func:`map_indices`.
        act: The activation of hidden layers of the MLP; none if `None`.
        dropout: The dropout of the MLP, in `[0, 1]`.
        ent_loss_coeff: The factor of the entropy loss, `>= 0`.
        cluster_loss_coeff: The factor of the cluster loss, `>= 0`.
        adj_transpose: Whether dense matrices, those given and those returned, are transposed, so
            that dense layers of PyG send messages along the edges.
        lift: How to lift, see :class:`tgp.lift.BaseLift`.
        s_inv_op: How to compute `s_inv`, see :class:`tgp.select.SelectOutput`.
        batched: Whether graphs are padded to dense matrices. If not, memory does not depend on
            the largest graph.
        sparse_output: Whether the pooled graphs are the edges of one sparse batch, for layers
            such as :class:`torch_geometric.nn.GCNConv`.
        threshold: With `sparse_output`, only edges with :math:`|A'_{ij}|` above it are kept,
            `>= 0`.
        num_neighbors: With `sparse_output`, only that many edges into each cluster are kept,
            `>= 1`: those of the largest :math:`|A'_{ij}|`, then of the smallest i, a self-loop
            being one of them. All if `None`.
        cache_preprocessing: Whether dense matrices of a single graph are kept for the next call.

    Raises:
        TypeError, ValueError: A setting is out of range, or, when called, shapes do not fit each
            other, `adj` is missing, `batch` is unsorted, or there is no node at all.

    Differentiable with respect to `x`, `edge_weight` and the entries of a dense `adj`; through
    the structural features to those that are not zero. Time `O(E K + N K (F + K))` and memory
    `O(E K + N (F + K))` if not batched, else `O(B N^2 K)` and `O(B N^2)` with the largest N; and
    those of :func:`topk_similarity` without `sim`. Deterministic on CPU.

    Source: section 'SimPool' of Shulman (2020).

    Example:
        >>> import torch
        >>> edge_index = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])
        >>> batch = torch.tensor([0, 0, 0, 1, 1])
        >>> pooler = SimPooling(in_channels=16, k=2, num_similar=3)
        >>> out = pooler(x=torch.randn(5, 16), adj=edge_index, batch=batch)
        >>> out.x.shape, out.edge_index.shape, list(out.loss)
        (torch.Size([2, 2, 16]), torch.Size([2, 2, 2]), ['entropy_loss', 'cluster_loss'])
    """

    def __init__(
        self,
        in_channels: Union[int, list[int]],
        k: int,
        num_similar: int = NUM_SIMILAR,
        features: str = "structural",
        p: int = 1,
        lam: float = 0.0,
        alpha: float = 1.0,
        measure: str = "cosine",
        act: Optional[str] = "relu",
        dropout: float = 0.0,
        ent_loss_coeff: float = 1.0,
        cluster_loss_coeff: float = 1.0,
        adj_transpose: bool = True,
        lift: str = "precomputed",
        s_inv_op: str = "transpose",
        batched: bool = True,
        sparse_output: bool = False,
        threshold: float = 0.0,
        num_neighbors: Optional[int] = None,
        cache_preprocessing: bool = False,
    ) -> None:
        # No keyword-only arguments: `get_pooler` would drop them.
        check_choice("lift", lift, ("precomputed", "transpose", "inverse"))
        check_choice("s_inv_op", s_inv_op, ("transpose", "inverse"))
        super().__init__(
            selector=SimSelect(
                in_channels,
                k,
                num_similar,
                features,
                p,
                lam,
                alpha,
                measure,
                batched_representation=check_bool("batched", batched),
                act=act,
                dropout=dropout,
                s_inv_op=s_inv_op,
            ),
            reducer=SimReduce(),
            lifter=SimLift(matrix_op=lift),
            connector=SimConnect(adj_transpose, sparse_output, threshold, num_neighbors),
            adj_transpose=adj_transpose,
            batched=batched,
            sparse_output=sparse_output,
            cache_preprocessing=check_bool("cache_preprocessing", cache_preprocessing),
        )
        self.ent_loss_coeff = check_real("ent_loss_coeff", ent_loss_coeff, 0.0)
        self.cluster_loss_coeff = check_real("cluster_loss_coeff", cluster_loss_coeff, 0.0)

    def forward(
        self,
        x: Tensor,
        adj: Any = None,
        edge_weight: Optional[Tensor] = None,
        so: Optional[SelectOutput] = None,
        mask: Optional[Tensor] = None,
        batch: Optional[Tensor] = None,
        batch_pooled: Optional[Tensor] = None,
        lifting: bool = False,
        sim: Optional[Tensor] = None,
        **kwargs: Any,
    ) -> Union[PoolingOutput, Tensor]:
        """Pools graphs, or, with `lifting`, computes node features from those of the clusters.

        Args:
            x: Node features: `[N, F]`; `[B, N, F]` with a dense `adj`; those of the clusters if
                `lifting`.
            adj: `edge_index`, `[2, E]`; a sparse tensor or `SparseTensor`, `[N, N]`; or, if
                `batched`, dense matrices, `[B, N, N]` or `[N, N]`.
            edge_weight: The weights of `edge_index`, `[E]`; ones if `None`.
            so: The assignment, if `lifting`.
            mask: The valid nodes of a dense `adj`, boolean, `[B, N]`; all if `None`.
            batch: The graph of each node, `[N]`, ascending; one graph if `None`.
            batch_pooled: Not used; tgp's other poolers take it if `lifting`.
            lifting: Whether to lift.
            sim: Structural features, as in `data.sim` of :class:`StructuralSimilarity`,
                `[N, num_similar]` or `[B, N, num_similar]`. Computed if `None`.
            kwargs: Not used; for tgp's loops over all poolers.

        Returns:
            The pooled graphs: `x`, `[B, K, F]`, and `edge_index`, the matrices `[B, K, K]`; with
            `sparse_output` `[B K, F]`, edges, `edge_weight` and `batch`. Or, with `lifting`,
            features `[N, F]`, or `[B, N, F]` if batched.
        """
        if lifting:
            return self.lift(x_pool=x, so=so, batch=batch)
        if check_floating("x", x).dim() not in (2, 3):
            raise ValueError(f"`x` must have shape [N, F] or [B, N, F], got {shape(x)}")
        adj = readable(adj, x.size(-2))
        dense = is_dense_adj(adj)
        if dense and adj.dim() == 2:
            adj, mask = adj.unsqueeze(0), None if mask is None else mask.unsqueeze(0)
        if not dense or not self.batched:
            edge_index, weight = read_edges(adj, edge_weight, x.size(0))
            _, edge_index, batch, weight, _ = check_sparse_batch(x, edge_index, batch, weight, None)
            if x.size(0) == 0:  # tgp cannot mask clusters then
                raise ValueError(f"`x` must have at least one node, got {shape(x)}")
        if self.batched:
            if not dense:
                adj, edge_weight = edge_index, weight
            x, adj, mask = self._ensure_batched_inputs(x, adj, edge_weight, batch, mask)
            x, adj, _ = check_dense_batch(x, adj, mask)
        else:
            mask = None
        so = self.select(
            x=x, edge_index=adj, edge_weight=edge_weight, mask=mask, batch=batch, sim=sim
        )
        x_pooled, batch_pooled = self.reduce(x=x, so=so, batch=batch, return_batched=True)
        adj_pooled, weight_pooled = self.connect(
            edge_index=adj, so=so, edge_weight=edge_weight, batch=batch
        )
        if self.sparse_output:
            batch_pooled = build_pooled_batch(*x_pooled.shape[:2], x_pooled.device)
            x_pooled = x_pooled.flatten(0, 1)
        return PoolingOutput(
            x=x_pooled,
            edge_index=adj_pooled,
            edge_weight=weight_pooled,
            batch=batch_pooled if self.sparse_output or not self.batched else None,
            so=so,
            loss=self.compute_loss(so.s, mask, None if self.batched else batch),
        )

    def compute_loss(
        self, s: Tensor, mask: Optional[Tensor] = None, batch: Optional[Tensor] = None
    ) -> dict[str, Tensor]:
        """The two losses on an assignment, times their factors.

        Args:
            s: The assignment, `[B, N, K]`, or `[N, K]` of a sparse batch.
            mask: The valid nodes, boolean, `[B, N]`.
            batch: The graph of each node of a sparse batch, `[N]`.
        """
        return {
            "entropy_loss": entropy_loss(s, batch, mask) * self.ent_loss_coeff,
            "cluster_loss": cluster_loss(s, batch, mask) * self.cluster_loss_coeff,
        }

    @staticmethod
    def data_transforms() -> StructuralSimilarity:
        """Computes `data.sim` for poolers with default settings; pass it as `sim`.

        For other settings, use :class:`StructuralSimilarity` with those of the pooler.
        """
        return StructuralSimilarity(NUM_SIMILAR, order=None)

    def extra_repr_args(self) -> dict[str, Any]:
        """The settings that no operator shows."""
        return {
            "batched": self.batched,
            "ent_loss_coeff": self.ent_loss_coeff,
            "cluster_loss_coeff": self.cluster_loss_coeff,
        }

"""SimPool as a pooler of tgp."""

from dataclasses import fields
from functools import partial
from typing import Any, Optional, Union

from tgp.connect import Connect
from tgp.lift import BaseLift
from tgp.reduce import BaseReduce
from tgp.select import MLPSelect, SelectOutput
from tgp.src import DenseSRCPooling, PoolingOutput
from tgp.utils import (
    Signature,
    build_pooled_batch,
    connectivity_to_edge_index,
    foo_signature,
    is_dense_adj,
)
from tgp.utils.ops import dense_to_block_diag
from torch import Tensor
from torch_geometric.utils import is_sparse, is_torch_sparse_tensor, to_dense_batch

from torch_geometric_simpool.functional.assignment import (
    FEATURES,
    assignment_input,
    cluster_loss,
    entropy_loss,
)
from torch_geometric_simpool.functional.batches import (
    DenseBatch,
    SparseBatch,
    parse_dense_batch,
    parse_sparse_batch,
)
from torch_geometric_simpool.functional.segment import segment_matmul_t, spmm
from torch_geometric_simpool.topk.spec import TopKSettings
from torch_geometric_simpool.transforms.structural_similarity import StructuralSimilarity
from torch_geometric_simpool.utils.checks import check_choice, check_floating, check_int, shape

#: The settings of :func:`topk_similarity` that the poolers pass on.
TOPK_SETTINGS = [field.name for field in fields(TopKSettings)]

#: The other settings of :class:`StructuralSimilarity`.
FEATURE_SETTINGS = ["alpha", "order", "attr", "weight_attr", "device"]


def as_coo(adj: Any) -> Any:
    """Returns sparse tensors in coalesced COO form, the only one that tgp reads."""
    sparse = isinstance(adj, Tensor) and is_torch_sparse_tensor(adj)
    return adj.to_sparse_coo().coalesce() if sparse else adj


def read_edges(adj: Any, edge_weight: Optional[Tensor]) -> tuple[Tensor, Optional[Tensor]]:
    """Returns the edges and weights of `edge_index`, a sparse tensor or a `SparseTensor`.

    Unlike PyG's `adj_t`, sparse matrices are not transposed in tgp.
    """
    if not (isinstance(adj, Tensor) or is_sparse(adj)):
        raise TypeError(
            f"`adj` must be the edges or the adjacency matrices, got {type(adj).__name__}"
        )
    adj = as_coo(adj)
    if is_dense_adj(adj):
        raise ValueError(
            f"`adj` must be sparse for a pooler with batched=False, got a dense one, {shape(adj)}"
        )
    return connectivity_to_edge_index(adj, edge_weight)


class SimSelect(MLPSelect):
    r"""Computes `S = softmax(MLP(features))` from structural features, node features, or both.

    Args:
        in_channels (int or list of int): Number of node features, or a list with the widths of the
            hidden layers as well.
        k (int): Number of clusters.
        transform (StructuralSimilarity): Computes the structural features.
        features (str): `'structural'`, `'node'` or `'both'`.
        adj_transpose (bool): Whether dense adjacency matrices are transposed.
        **kwargs (optional): Arguments of :class:`tgp.select.MLPSelect`.
    """

    def __init__(
        self,
        in_channels: Union[int, list[int]],
        k: int,
        transform: StructuralSimilarity,
        features: str,
        adj_transpose: bool,
        **kwargs: Any,
    ) -> None:
        check_choice("features", features, FEATURES)
        widths = in_channels if isinstance(in_channels, (list, tuple)) else [in_channels]
        channels, *hidden = [check_int("in_channels", width, 1) for width in widths or [0]]
        width = {"structural": transform.k, "node": channels, "both": transform.k + channels}
        super().__init__([width[features], *hidden], check_int("k", k, 1), **kwargs)
        self.transform, self.features, self.adj_transpose = transform, features, adj_transpose

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
        """Returns the assignment. See :meth:`SimPooling.forward` for the arguments."""
        if self.features != "node":
            if sim is None:
                sim = self.compute_sim(x, edge_index, edge_weight, mask, batch)
            if check_floating("sim", sim).dim() < x.dim():
                sim, _ = to_dense_batch(sim, batch, 0.0, x.size(1), x.size(0))
            check_floating("sim", sim, (*x.shape[:-1], self.transform.k))
            x = assignment_input(self.features, sim.to(x.dtype), x)
        return super().forward(x, mask=mask, batch=batch)

    def compute_sim(
        self,
        x: Tensor,
        adj: Any,
        edge_weight: Optional[Tensor] = None,
        mask: Optional[Tensor] = None,
        batch: Optional[Tensor] = None,
    ) -> Tensor:
        """Returns the structural features of the nodes of `x`."""
        graphs: Union[SparseBatch, DenseBatch]
        if is_dense_adj(adj):
            graphs = parse_dense_batch(x, adj.mT if self.adj_transpose else adj, mask)
        else:
            edge_index, edge_weight = read_edges(adj, edge_weight)
            graphs = parse_sparse_batch(x, edge_index, batch, edge_weight, None)
        return self.transform.features_of(graphs)

    def __repr__(self) -> str:
        """Shows the settings."""
        return (
            f"{type(self).__name__}(in_channels={self.in_channels}, k={self.k}, "
            f"features={self.features!r}, transform={self.transform}, act={self.act!r}, "
            f"dropout={self.dropout}, s_inv_op={self.s_inv_op!r})"
        )


class SimConnect(Connect):
    r"""Computes :math:`\tanh(S^\top A S)`.

    Args:
        adj_transpose (bool): Whether dense matrices, as arguments and as results, are transposed.
        sparse_output (bool): Whether to return edges: an edge from cluster i to cluster j has the
            weight :math:`A'_{ij}`.
    """

    def __init__(self, adj_transpose: bool, sparse_output: bool) -> None:
        super().__init__()
        self.adj_transpose, self.sparse_output = adj_transpose, sparse_output

    def forward(
        self,
        edge_index: Any,
        so: SelectOutput,
        *,
        edge_weight: Optional[Tensor] = None,
        batch: Optional[Tensor] = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Optional[Tensor]]:
        """Returns matrices `[B, K, K]` and `None`, or edges and their weights."""
        s, dense = so.s, is_dense_adj(edge_index)
        if dense:
            adj = s.mT @ (edge_index.to(s.dtype) @ s)
        else:
            (row, col), weight = read_edges(edge_index, edge_weight)
            weight = None if weight is None else weight.to(s.dtype)
            if batch is None:
                batch = row.new_zeros(s.size(0))
            neighbors = spmm(row, col, s, weight, s.size(0))
            adj = segment_matmul_t(s, neighbors, batch, int(batch.max()) + 1)
        if self.adj_transpose and dense == self.sparse_output:
            adj = adj.mT
        adj = adj.tanh()
        return dense_to_block_diag(adj) if self.sparse_output else (adj, None)


class SimPooling(DenseSRCPooling):
    r"""Pools graphs by SimPool, for tgp. The method is from the paper `"SimPool: Towards Topology
    Based Graph Pooling with Structural Similarity Features" <https://arxiv.org/abs/2006.02244>`_
    (Shulman 2020).

    .. math::
        S &= \mathrm{softmax}(\mathrm{MLP}(\text{features})) \\
        X' &= S^\top X \\
        A' &= \tanh(S^\top A S)

    The losses are :func:`entropy_loss` and :func:`cluster_loss`. The results equal the results of
    :func:`sim_pool` and :func:`dense_sim_pool`: self-loops are kept, and `A'` is not normalized.

    Args:
        in_channels (int or list of int): Number of node features, or a list of this number and the
            widths of the hidden layers of the MLP. An MLP of structural features ignores the number
            of node features.
        k (int): Number of clusters.
        num_similar (int, optional): Number of similar nodes per node: the `k` of
            :class:`StructuralSimilarity`. (default: :obj:`16`)
        features (str, optional): Features that the MLP reads: :obj:`"structural"`, :obj:`"node"` or
            :obj:`"both"`. (default: :obj:`"structural"`)
        act (str, optional): Activation of the hidden layers of the MLP. (default: :obj:`"relu"`)
        dropout (float, optional): Dropout probability of the MLP. (default: :obj:`0.0`)
        ent_loss_coeff (float, optional): Coefficient of the entropy loss. (default: :obj:`1.0`)
        cluster_loss_coeff (float, optional): Coefficient of the cluster loss.
            (default: :obj:`1.0`)
        adj_transpose (bool, optional): Whether dense matrices are transposed, in arguments and in
            results. Dense layers of PyG then send messages along the edges.
            (default: :obj:`True`)
        lift (str, optional): See :class:`tgp.lift.BaseLift`. (default: :obj:`"precomputed"`)
        s_inv_op (str, optional): See :class:`tgp.select.SelectOutput`.
            (default: :obj:`"transpose"`)
        batched (bool, optional): Whether graphs are padded to dense matrices. If set to
            :obj:`False`, memory does not depend on the largest graph. (default: :obj:`True`)
        sparse_output (bool, optional): Whether to return the pooled graphs as the edges of one
            sparse batch, for layers such as :class:`torch_geometric.nn.GCNConv`.
            (default: :obj:`False`)
        cache_preprocessing (bool, optional): Whether the dense matrix of a single graph is kept for
            the next call. (default: :obj:`False`)
        **settings (optional): Settings of :class:`StructuralSimilarity`, such as `alpha`, `order`
            and `weight_attr`, and settings of :func:`topk_similarity`.

    Raises:
        TypeError: If a setting or a tensor has a wrong type, or `adj` is missing.
        ValueError: If a setting is out of range, shapes do not fit each other, or there is no node.

    With `batched=False`, time is `O(E K + N K (F + K))` and memory `O(E K + N (F + K))`. Otherwise,
    time is `O(B N^2 K)` and memory `O(B N^2)`, where N is the size of the largest graph. The costs
    of the structural features are not included. Differentiable with respect to `x`, `edge_weight`
    and the entries of a dense `adj`.

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
        num_similar: int = 16,
        features: str = "structural",
        act: Optional[str] = "relu",
        dropout: float = 0.0,
        ent_loss_coeff: float = 1.0,
        cluster_loss_coeff: float = 1.0,
        adj_transpose: bool = True,
        lift: str = "precomputed",
        s_inv_op: str = "transpose",
        batched: bool = True,
        sparse_output: bool = False,
        cache_preprocessing: bool = False,
        **settings: Any,
    ) -> None:
        check_choice("lift", lift, ("precomputed", "transpose", "inverse"))
        check_choice("s_inv_op", s_inv_op, ("transpose", "inverse"))
        selector = SimSelect(
            in_channels,
            k,
            StructuralSimilarity(check_int("num_similar", num_similar, 1), **settings),
            features,
            adj_transpose,
            batched_representation=batched,
            act=act,
            dropout=dropout,
            s_inv_op=s_inv_op,
        )
        super().__init__(
            selector=selector,
            reducer=BaseReduce(),
            lifter=BaseLift(matrix_op=lift),
            connector=SimConnect(adj_transpose, sparse_output),
            adj_transpose=adj_transpose,
            batched=batched,
            sparse_output=sparse_output,
            cache_preprocessing=cache_preprocessing,
        )
        self.ent_loss_coeff, self.cluster_loss_coeff = ent_loss_coeff, cluster_loss_coeff
        # On the class, `data_transforms` has default settings. A pooler has its own settings.
        self.data_transforms = partial(StructuralSimilarity, num_similar, **settings)  # type: ignore[method-assign]

    @classmethod
    def get_signature(cls) -> Signature:
        """Returns the arguments that `get_pooler` passes on; it ignores all others."""
        args = [*foo_signature(cls).args, *FEATURE_SETTINGS, *TOPK_SETTINGS]
        return Signature(args, has_varargs=False, has_kwargs=False)

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
        """Pools graphs, or computes node features from cluster features if `lifting` is true.

        Args:
            x (torch.Tensor): Node features `[N, F]`, or `[B, N, F]` with a dense `adj`. With
                `lifting`, cluster features.
            adj (torch.Tensor or SparseTensor): The edges as `edge_index`, `[2, E]`, or as a sparse
                matrix, `[N, N]`. With `batched`, also dense matrices, `[B, N, N]` or `[N, N]`.
            edge_weight (torch.Tensor, optional): Weights of `edge_index`, `[E]`.
                (default: :obj:`None`, ones)
            so (SelectOutput, optional): The assignment, for `lifting`. (default: :obj:`None`)
            mask (torch.Tensor, optional): The valid nodes of a dense `adj`, boolean, `[B, N]`.
                (default: :obj:`None`, all nodes)
            batch (torch.Tensor, optional): The graph of each node, `[N]`, ascending.
                (default: :obj:`None`, one graph)
            batch_pooled (torch.Tensor, optional): Ignored. (default: :obj:`None`)
            lifting (bool, optional): Whether to lift. (default: :obj:`False`)
            sim (torch.Tensor, optional): Structural features as in `data.sim` of
                :class:`StructuralSimilarity`, `[N, num_similar]` or `[B, N, num_similar]`.
                (default: :obj:`None`, computed)
            **kwargs (optional): Ignored: arguments of other poolers.

        Returns:
            PoolingOutput: `x` `[B, K, F]`, and matrices `[B, K, K]` as `edge_index`. With
            `sparse_output`, `x` `[B K, F]`, edges, `edge_weight` and `batch`. With `lifting`, a
            tensor of node features, `[N, F]`, or `[B, N, F]` if `batched`.
        """
        if lifting:
            return self.lift(x_pool=x, so=so, batch=batch)
        adj = as_coo(adj)
        if self.batched and is_dense_adj(adj):
            adj = adj.unsqueeze(0) if adj.dim() == 2 else adj
            mask = mask.unsqueeze(0) if mask is not None and mask.dim() == 1 else mask
            x, adj, _ = parse_dense_batch(x.unsqueeze(0) if x.dim() == 2 else x, adj, mask)
        else:
            edge_index, weight = read_edges(adj, edge_weight)
            checked = parse_sparse_batch(x, edge_index, batch, weight, None)
            x, adj, batch, edge_weight, _ = checked
            if x.size(0) == 0:
                raise ValueError(f"`x` must have at least one node, got {shape(x)}")
            # tgp's operators read a batch with a single id as one graph.
            one_id = not self.batched and bool(batch[0] == batch[-1] > 0)
            if one_id or bool((batch[1:] < batch[:-1]).any()):
                raise ValueError(
                    "`batch` must be ascending, and 0 for a single graph, got ids from "
                    f"{int(batch.min())} to {int(batch.max())}"
                )
            if self.batched:
                if sim is None and self.selector.features != "node":
                    sim = self.selector.transform.features_of(checked)
                x, adj, mask = self._ensure_batched_inputs(x, adj, edge_weight, batch, None)
        so = self.select(
            x=x, edge_index=adj, edge_weight=edge_weight, mask=mask, batch=batch, sim=sim
        )
        x, _ = self.reduce(x=x, so=so, batch=batch, return_batched=True)
        adj, weight = self.connect(edge_index=adj, so=so, edge_weight=edge_weight, batch=batch)
        loss = self.compute_loss(so.s, mask, None if self.batched else batch)
        if not self.sparse_output:
            return PoolingOutput(x=x, edge_index=adj, so=so, loss=loss)
        batch = build_pooled_batch(x.size(0), x.size(1), x.device)
        return PoolingOutput(x.flatten(0, 1), adj, weight, batch, so, loss)

    def compute_loss(
        self, s: Tensor, mask: Optional[Tensor] = None, batch: Optional[Tensor] = None
    ) -> dict[str, Tensor]:
        """Returns the losses of an assignment, times their coefficients."""
        return {
            "entropy_loss": entropy_loss(s, batch, mask) * self.ent_loss_coeff,
            "cluster_loss": cluster_loss(s, batch, mask) * self.cluster_loss_coeff,
        }

    @staticmethod
    def data_transforms() -> StructuralSimilarity:
        """Returns the transform that computes `data.sim`, with the settings of the pooler.

        Called on the class, it returns the transform with default settings.
        """
        return StructuralSimilarity()

    def extra_repr_args(self) -> dict[str, Any]:
        """Returns the settings that no operator shows."""
        return {
            "adj_transpose": self.adj_transpose,
            "batched": self.batched,
            "sparse_output": self.sparse_output,
            "ent_loss_coeff": self.ent_loss_coeff,
            "cluster_loss_coeff": self.cluster_loss_coeff,
        }

"""The pooling layer: structural features, an assignment network, and the operator."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Optional

import torch
from torch import Tensor
from torch_geometric.nn.inits import reset
from torch_geometric.utils import is_sparse, to_dense_adj

from torch_geometric_simpool.functional.mapping import map_indices
from torch_geometric_simpool.functional.pooling import (
    SimPoolOutput,
    check_dense,
    check_sparse,
    pool_dense,
    pool_sparse,
)
from torch_geometric_simpool.functional.similarity import MEASURES, structural_similarity
from torch_geometric_simpool.functional.topk import topk_per_graph, topk_similarity
from torch_geometric_simpool.functional.topk_request import SPARSE_MEASURES
from torch_geometric_simpool.utils.batching import block_diagonal, from_adj_t
from torch_geometric_simpool.utils.checks import (
    check_choice,
    check_floating,
    check_int,
    check_real,
    is_labels,
    shape,
)

FEATURES = ("structural", "node", "both")

#: Pools node features: `(x, s, edge_index, batch, batch_size) -> X'`.
PoolX = Callable[[Tensor, Tensor, Tensor, Tensor, int], Tensor]

#: What a layer can pass to its assignment network, besides the features.
INPUTS = {
    "sparse": ("edge_index", "edge_weight", "edge_attr", "batch", "batch_size", "num_nodes"),
    "dense": ("adj", "mask", "num_nodes"),
}
ALL_INPUTS = tuple(dict.fromkeys(INPUTS["sparse"] + INPUTS["dense"]))


class SimPool(torch.nn.Module):
    r"""Pools every graph to `K` clusters, assigned by structural similarity.

    The layer computes structural features of the nodes, has the network
    `assignment` turn them into logits over the clusters, and applies
    :func:`sim_pool` (sparse batch) or :func:`dense_sim_pool` (dense batch).

    ==================  =========================================================
    given               structural features
    ==================  =========================================================
    `sim`               that tensor, for example `data.sim` of
                        :class:`StructuralSimilarity`
    else `k`            the `k` mapped features of :func:`topk_similarity` and
                        :func:`map_indices`, computed on the fly
    else                the rows of :func:`structural_similarity` as they are,
                        `N` wide; of a sparse batch, padded with zeros to its
                        largest graph (memory `O(B N^2)`: meant for small graphs
                        and a recurrent network)
    ==================  =========================================================

    Args:
        assignment: The network that computes logits. It is called with the features,
            `[N, D]` or `[B, N, D]`, as first argument, and by name with those of

            * sparse: `edge_index`, `edge_weight`, `edge_attr`, `batch`,
              `batch_size`, `num_nodes` (the size of each row's graph, `[N]`)
            * dense: `adj`, `mask`, `num_nodes` (`[B, N]`)

            that its `forward` has a parameter for, so it may be an MLP, a GRU or a GNN.
            Arguments that are `None` are not passed. On dense batches a network must
            take `[B, N, D]`: of :class:`torch_geometric.nn.MLP`, with `norm=None`.
        features: What the network reads: `'structural'`, `'node'` features, or
            `'both'`, concatenated in that order.
        k: The number of mapped features, or `None`, see above.
        p, lam, measure: As in :func:`structural_similarity`.
        alpha: As in :func:`map_indices`; used only if `k` is given.
        inputs: Names of the tensors to pass to `assignment` besides the features, for
            a network whose `forward` does not list them (`*args`, say).

    Example:
        >>> from torch_geometric.nn import MLP
        >>> pool = SimPool(MLP([12, 64, 8], norm=None), k=12)
        >>> out = pool(torch.randn(30, 16), torch.randint(0, 30, (2, 90)))
        >>> out.x.shape, out.adj.shape
        (torch.Size([1, 8, 16]), torch.Size([1, 8, 8]))
        >>> deeper = SimPool(MLP([8, 64, 4], norm=None))
        >>> deeper(out.x, adj=out.adj).x.shape
        torch.Size([1, 4, 16])

    Raises:
        TypeError, ValueError: `assignment` is not a module, a setting is out of range, or, when
            called, shapes do not fit each other or an input is missing.

    The cost is that of the features, of `assignment`, and of the operator. On deeper levels
    gradients flow through the rows of `C` to `adj`. Deterministic if `assignment` and the
    operator are.

    Source: section 'SimPool' of Shulman (2020).
    """

    def __init__(
        self,
        assignment: torch.nn.Module,
        features: str = "structural",
        k: Optional[int] = None,
        p: int = 1,
        lam: float = 0.0,
        alpha: float = 1.0,
        measure: str = "cosine",
        inputs: Optional[Sequence[str]] = None,
    ) -> None:
        super().__init__()
        if not isinstance(assignment, torch.nn.Module):
            raise TypeError(
                f"`assignment` must be a torch.nn.Module, got {type(assignment).__name__}"
            )
        self.assignment = assignment
        self.features = check_choice("features", features, FEATURES)
        self.k = None if k is None else check_int("k", k, 1)
        self.p = check_int("p", p, 1)
        self.lam = check_real("lam", lam, 0.0)
        self.alpha = check_real("alpha", alpha, 0.0, 1.0)
        self.measure = check_choice("measure", measure, tuple(MEASURES))
        #: The inputs to pass, and whether the network needs them.
        self.inputs: dict[str, bool]
        if inputs is None:
            self.inputs = _parameters(assignment)
        else:
            self.inputs = {check_choice("inputs", name, ALL_INPUTS): True for name in inputs}

    def reset_parameters(self) -> None:
        """Resets the parameters of the assignment network."""
        reset(self.assignment)

    def forward(
        self,
        x: Tensor,
        edge_index: Optional[Tensor] = None,
        batch: Optional[Tensor] = None,
        sim: Optional[Tensor] = None,
        *,
        adj: Optional[Tensor] = None,
        mask: Optional[Tensor] = None,
        edge_weight: Optional[Tensor] = None,
        edge_attr: Optional[Tensor] = None,
        batch_size: Optional[int] = None,
        assign_x: Optional[Tensor] = None,
        pool_x: Optional[PoolX] = None,
    ) -> SimPoolOutput:
        """Pools a sparse batch (`edge_index`) or a dense one (`adj`).

        Args:
            x: What is pooled: node features, `[N, F]` with `edge_index`, `[B, N, F]`
                or `[N, F]` with `adj`.
            edge_index: The edges of a sparse batch, `[2, E]`, or a transposed sparse matrix
                `adj_t`, with its values as weights if `edge_weight` is `None`.
            batch: The graph of each node of a sparse batch, `[N]`, ascending.
            sim: Precomputed structural features, `[N, k]` or `[B, N, k]`.
            adj: Dense adjacency matrices, `[B, N, N]` or `[N, N]`. Of edge features,
                `[B, N, N, D]` or `[N, N, D]`, only non-zero or not counts.
            mask: The valid nodes of a dense batch, boolean, `[B, N]` or `[N]`.
            edge_weight: The weights of a sparse batch, `[E]` or `[E, 1]`.
            edge_attr: Edge features, `[E, *]`, for the assignment network only.
            batch_size: The number of graphs of a sparse batch.
            assign_x: The node features for the assignment network, if they are not `x` (the
                paper's network reads the input features and pools embedded ones). May be
                integer labels, `[N]`, if `assignment` reads them.
            pool_x: How to pool the features of a sparse batch, in place of `S^T X`: a function
                `(x, s, edge_index, batch, batch_size) -> X'`, for example
                :meth:`GMNConv.pooled` of a linear layer that is applied after the pooling.

        Returns:
            The named tuple `(s, x, adj, entropy_loss, cluster_loss)`.
        """
        if (edge_index is None) == (adj is None):
            got = "neither" if adj is None else "both"
            raise ValueError(f"exactly one of `edge_index` and `adj` must be given, got {got}")
        if adj is None:
            if mask is not None:
                raise ValueError("`mask` must be None for a sparse batch, got a tensor")
            assert edge_index is not None
            if is_sparse(edge_index):
                edge_index, weight = from_adj_t(edge_index, x.size(0))
                edge_weight = weight if edge_weight is None else edge_weight
            elif isinstance(edge_index, Tensor) and edge_index.is_floating_point():
                raise TypeError(
                    "`edge_index` must hold integers (torch.long); a dense adjacency matrix goes "
                    f"to `adj`; got {edge_index.dtype}"
                )
            return self._sparse(
                x, edge_index, batch, sim, edge_weight, edge_attr, batch_size, assign_x, pool_x
            )
        for name, value in (
            ("batch", batch),
            ("edge_weight", edge_weight),
            ("edge_attr", edge_attr),
            ("batch_size", batch_size),
            ("pool_x", pool_x),
        ):
            if value is not None:
                raise ValueError(f"`{name}` must be None for a dense batch, got a value")
        return self._dense(x, adj, mask, sim, assign_x)

    def _sparse(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Optional[Tensor],
        sim: Optional[Tensor],
        edge_weight: Optional[Tensor],
        edge_attr: Optional[Tensor],
        batch_size: Optional[int],
        assign_x: Optional[Tensor],
        pool_x: Optional[PoolX],
    ) -> SimPoolOutput:
        x, edge_index, batch, edge_weight, batch_size = check_sparse(
            x, edge_index, batch, edge_weight, batch_size
        )
        count = batch.new_zeros(batch_size).index_add(0, batch, torch.ones_like(batch))
        num_nodes = count[batch]
        structural = None
        if self.features != "node":
            if sim is not None:
                structural = _check_features("sim", sim, x)
            elif self.k is not None:
                values, index, _ = topk_per_graph(
                    edge_index,
                    edge_weight,
                    batch,
                    batch_size,
                    self.k,
                    p=self.p,
                    lam=self.lam,
                    measure=self.measure,
                )
                structural = map_indices(values, index, num_nodes, self.alpha)
            else:
                structural = self._rows(edge_index, batch, edge_weight, batch_size, count)
        logits = self._assign(
            "sparse",
            self._read(structural, assign_x, x),
            {
                "edge_index": edge_index,
                "edge_weight": edge_weight,
                "edge_attr": edge_attr,
                "batch": batch,
                "batch_size": batch_size,
                "num_nodes": num_nodes,
            },
        )
        if pool_x is None:
            return pool_sparse(x, edge_index, batch, edge_weight, batch_size, logits)
        s, _, adj, *losses = pool_sparse(None, edge_index, batch, edge_weight, batch_size, logits)
        return SimPoolOutput(s, pool_x(x, s, edge_index, batch, batch_size), adj, *losses)

    def _rows(
        self,
        edge_index: Tensor,
        batch: Tensor,
        edge_weight: Optional[Tensor],
        batch_size: int,
        count: Tensor,
    ) -> Tensor:
        """The rows of C of a sparse batch, `[N, N_max]`."""
        if batch.numel() == 0:
            return torch.zeros(0, 0, device=batch.device)
        adj = to_dense_adj(edge_index, batch, edge_weight, batch_size=batch_size)
        mask = torch.arange(adj.size(1), device=batch.device) < count.unsqueeze(-1)
        return structural_similarity(adj, self.p, self.lam, self.measure, mask)[mask]

    def _dense(
        self,
        x: Tensor,
        adj: Tensor,
        mask: Optional[Tensor],
        sim: Optional[Tensor],
        assign_x: Optional[Tensor],
    ) -> SimPoolOutput:
        single = isinstance(x, Tensor) and x.dim() == 2
        x, adj, mask = check_dense(x, adj, mask)
        if single:
            sim = None if sim is None else check_floating("sim", sim).unsqueeze(0)
            if assign_x is not None:
                assign_x = check_floating("assign_x", assign_x).unsqueeze(0)
        if mask is None:
            num_nodes = torch.full(x.shape[:2], x.size(1), device=x.device)
        else:
            num_nodes = mask.sum(dim=1, keepdim=True).expand(mask.shape)
        structural = None
        if self.features != "node":
            if sim is not None:
                structural = _check_features("sim", sim, x)
            else:
                structural = structural_similarity(adj, self.p, self.lam, self.measure, mask)
                if self.k is not None:
                    structural = self._mapped(structural, adj, mask, num_nodes)
        read = self._read(structural, assign_x, x)
        if mask is not None:
            read = read.masked_fill(~mask.unsqueeze(-1), 0)
        logits = self._assign("dense", read, {"adj": adj, "mask": mask, "num_nodes": num_nodes})
        return pool_dense(x, adj, mask, logits)

    def _mapped(
        self, sim: Tensor, adj: Tensor, mask: Optional[Tensor], num_nodes: Tensor
    ) -> Tensor:
        """The mapped features of dense similarities, in the order of :func:`topk_similarity`."""
        assert self.k is not None
        if mask is None:
            mask = adj.new_ones(adj.shape[:2], dtype=torch.bool)
        index = torch.full((*mask.shape, self.k), -1, device=adj.device)
        if self.measure in SPARSE_MEASURES:
            # By exact keys: the square root in the similarities rounds.
            edge_index, edge_weight, batch = block_diagonal(adj.detach(), mask)
            _, chosen = topk_similarity(
                edge_index,
                self.k,
                edge_weight,
                batch.numel(),
                p=self.p,
                lam=self.lam,
                measure=self.measure,
            )
            place = mask.nonzero()[:, 1]
            if place.numel() > 0:
                index[mask] = torch.where(chosen >= 0, place[chosen], chosen)
        else:
            # Stable: equal similarities stay in the order of their indices.
            chosen = sim.detach().argsort(dim=-1, descending=True, stable=True)[..., : self.k]
            index[..., : chosen.size(-1)] = chosen
        if adj.size(1) == 0:
            return sim.new_zeros(index.shape)
        values = sim.gather(-1, index.clamp(min=0)).masked_fill(index < 0, 0)
        # A node's number is its rank among the valid ones.
        rank = (mask.cumsum(dim=1) - 1).unsqueeze(1).expand(sim.shape)
        number = rank.gather(-1, index.clamp(min=0)).masked_fill(values == 0, -1)
        return map_indices(values, number, num_nodes, self.alpha)

    def _read(self, structural: Optional[Tensor], assign_x: Optional[Tensor], x: Tensor) -> Tensor:
        if self.features == "structural":
            assert structural is not None
            return structural.to(x.dtype)
        node = x
        if assign_x is not None and is_labels(assign_x) and self.features == "node":
            if assign_x.size(0) != x.size(0):
                raise ValueError(
                    f"`assign_x` must hold one label for each node of `x`, [{x.size(0)}], "
                    f"got {shape(assign_x)}"
                )
            node = assign_x
        elif assign_x is not None:
            node = _check_features("assign_x", assign_x, x)
        if structural is None:
            return node
        return torch.cat([structural.to(node.dtype), node], dim=-1)

    def _assign(self, kind: str, features: Tensor, available: dict[str, Any]) -> Tensor:
        for name, required in self.inputs.items():
            if required and name not in INPUTS[kind]:
                raise ValueError(
                    f"`assignment` ({type(self.assignment).__name__}) reads `{name}`, "
                    f"but a {kind} batch has only {', '.join(INPUTS[kind])}"
                )
        named = {n: available[n] for n in self.inputs if available.get(n) is not None}
        logits = self.assignment(features, **named)
        nodes = features.shape if is_labels(features) else features.shape[:-1]
        if not isinstance(logits, Tensor) or logits.shape[:-1] != nodes:
            got = shape(logits) if isinstance(logits, Tensor) else type(logits).__name__
            raise ValueError(
                f"`assignment` ({type(self.assignment).__name__}) must return one row of logits "
                f"for each node, [{', '.join(map(str, nodes))}, K], got {got}"
            )
        return logits

    def extra_repr(self) -> str:
        """The settings, as in the constructor."""
        return (
            f"features={self.features!r}, k={self.k}, p={self.p}, lam={self.lam}, "
            f"alpha={self.alpha}, measure={self.measure!r}"
        )


def _check_features(name: str, value: Any, x: Tensor) -> Tensor:
    check_floating(name, value)
    if value.dim() != x.dim() or value.shape[:-1] != x.shape[:-1]:
        raise ValueError(
            f"`{name}` must hold one row for each node of `x`, "
            f"[{', '.join(map(str, x.shape[:-1]))}, D], got {shape(value)}"
        )
    return value


def _parameters(module: torch.nn.Module) -> dict[str, bool]:
    """The inputs that `module.forward` has parameters for, and which have no default."""
    parameters: Any = inspect.signature(module.forward).parameters
    # A torch_geometric.nn.Sequential takes *args, and keeps its names elsewhere.
    parameters = getattr(getattr(module, "signature", None), "param_dict", parameters)
    return {
        name: parameter.default is inspect.Parameter.empty
        for name, parameter in list(parameters.items())[1:]
        if name in ALL_INPUTS
    }

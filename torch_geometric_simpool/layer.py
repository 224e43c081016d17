"""The pooling layer: structural features, an assignment network, and the operator."""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, Optional

import torch
from torch import Tensor
from torch_geometric.nn.inits import reset
from torch_geometric.utils import degree, is_sparse

from torch_geometric_simpool.functional.pooling import (
    DenseBatch,
    SimPoolEdgeOutput,
    SimPoolOutput,
    SparseBatch,
    check_dense_batch,
    check_sparse_batch,
    pool_dense,
    pool_edge_attr,
    pool_sparse,
)
from torch_geometric_simpool.functional.similarity import MEASURES, structural_similarity
from torch_geometric_simpool.topk.spec import SPARSE_MEASURES, EdgeList
from torch_geometric_simpool.transforms.inputs import ParsedGraphs
from torch_geometric_simpool.transforms.on_the_fly import (
    dense_features,
    mapped_rows,
    sparse_features,
    sparse_rows,
)
from torch_geometric_simpool.transforms.structural_similarity import StructuralSimilarity
from torch_geometric_simpool.utils.batching import from_adj_t
from torch_geometric_simpool.utils.checks import (
    check_bool,
    check_choice,
    check_device,
    check_edge_attr,
    check_floating,
    check_int,
    check_real,
    check_tensor,
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

#: The settings of features that are arguments of the layer; it gets others from a transform.
_ARGUMENTS = ("k", "p", "lam", "alpha", "measure")
_OTHERS = tuple(
    name for name in StructuralSimilarity().parameters() if name not in _ARGUMENTS
)


class SimPool(torch.nn.Module):
    r"""Pools every graph to `K` clusters, assigned by structural similarity.

    The layer computes structural features of the nodes, has the network
    `assignment` turn them into logits over the clusters, and applies
    :func:`sim_pool` (sparse batch) or :func:`dense_sim_pool` (dense batch).

    ==================  =========================================================
    given               structural features
    ==================  =========================================================
    `sim`               that tensor, for example `data.sim` of
                        :class:`StructuralSimilarity`; if `k` is set, `k` wide
    else `k`            the `k` features that :meth:`transform` would write, bit
                        for bit, computed on the fly
    else                the rows of :func:`structural_similarity` as they are,
                        `N` wide; of a sparse batch, padded with zeros to its
                        largest graph (memory `O(B N^2)`: meant for small graphs
                        and a recurrent network)
    ==================  =========================================================

    So that training on `data.sim` and serving on the fly give the same numbers, take the settings
    from one place: build the layer by :meth:`from_transform`, or compute `data.sim` by
    `pool.transform()`. A tensor `sim` does not tell by which settings it was computed: only its
    width is checked.

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
        >>> pool.transform().k
        12

    Raises:
        TypeError, ValueError: `assignment` is not a module, a setting is out of range, or, when
            called, shapes do not fit each other or an input is missing: neither `sim` nor `k`, for
            a network that does not take rows, among others.

    The cost is that of the features, of `assignment`, and of the operator. On an accelerator, with
    `batch_size` or of a dense batch, values are not checked, so nothing synchronizes but what
    `assignment` does and features that are computed on the fly with `k`. On deeper levels
    gradients flow through the rows of `C` to `adj`; with `k` and a measure that has a sparse form,
    through the similarities of the chosen nodes, to the entries of `adj` that are not zero. What
    the transform could have written is float32, as there. Deterministic if `assignment` and the
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
        #: Settings of the transform that are not arguments.
        self._others: dict[str, Any] = {}
        #: The inputs to pass, and whether the network needs them.
        self.inputs: dict[str, bool]
        if inputs is None:
            self.inputs = _parameters(assignment)
        elif not isinstance(inputs, Sequence):
            raise TypeError(
                f"`inputs` must be a sequence of names or None, got {type(inputs).__name__}"
            )
        else:
            self.inputs = {check_choice("inputs", name, ALL_INPUTS): True for name in inputs}

    @classmethod
    def from_transform(
        cls,
        transform: StructuralSimilarity,
        assignment: torch.nn.Module,
        features: str = "structural",
        inputs: Optional[Sequence[str]] = None,
    ) -> "SimPool":
        """A layer that computes, where `sim` is not given, what this transform writes.

        All settings are those of the transform, `order`, `loop`, `min_similarity` and `max_degree`
        among them.

        Args:
            transform: The transform by which `data.sim` is computed.
            assignment, features, inputs: As in the constructor.

        Example:
            >>> from torch_geometric.nn import MLP
            >>> transform = StructuralSimilarity(k=12, alpha=0.8, order="fiedler", loop=False)
            >>> pool = SimPool.from_transform(transform, MLP([12, 64, 8], norm=None))
            >>> repr(pool.transform()) == repr(transform)
            True
        """
        check_transform(transform)
        parameters = transform.parameters()
        arguments = {name: parameters.pop(name) for name in _ARGUMENTS}
        pool = cls(assignment, features, inputs=inputs, **arguments)
        pool._others = parameters
        return pool

    def transform(self) -> StructuralSimilarity:
        """The transform that writes the features of this layer.

        Raises `ValueError` if `k` is `None` or `measure` has no sparse form.
        """
        if self.k is None:
            raise ValueError(
                "`k` must be set for a transform, which writes `k` features of each node, got None"
            )
        arguments = {name: getattr(self, name) for name in _ARGUMENTS}
        return StructuralSimilarity(**arguments, **{"order": None, **self._others})

    @property
    def order_attr(self) -> Optional[str]:
        """The name of the attribute that is given as `node_attr`, or `None`."""
        return self._others.get("order_attr")

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
        pool_edge_attr: bool = False,
        node_attr: Optional[Tensor] = None,
    ) -> SimPoolOutput:
        """Pools a sparse batch (`edge_index`) or a dense one (`adj`).

        Args:
            x: What is pooled: node features, `[N, F]` with `edge_index`, `[B, N, F]`
                or `[N, F]` with `adj`.
            edge_index: The edges of a sparse batch, `[2, E]`, or a transposed sparse matrix
                `adj_t`, with its values as weights if `edge_weight` is `None`.
            batch: The graph of each node of a sparse batch, `[N]`, ascending.
            sim: Precomputed structural features, `[N, k]` or `[B, N, k]`; of any width if the
                layer has no `k`.
            adj: Dense adjacency matrices, `[B, N, N]` or `[N, N]`. Of edge features,
                `[B, N, N, D]` or `[N, N, D]`, only non-zero or not counts.
            mask: The valid nodes of a dense batch, boolean, `[B, N]` or `[N]`.
            edge_weight: The weights of a sparse batch, `[E]` or `[E, 1]`.
            edge_attr: Edge features, `[E, *]`, for the assignment network; pooled as well with
                `pool_edge_attr`.
            batch_size: The number of graphs of a sparse batch.
            assign_x: The node features for the assignment network, if they are not `x` (the
                paper's network reads the input features and pools embedded ones). Of a sparse
                batch, may be integer labels, `[N]`, if `assignment` reads them.
            pool_x: How to pool the features of a sparse batch, in place of `S^T X`: a function
                `(x, s, edge_index, batch, batch_size) -> X'`, for example
                :meth:`GMNConv.pooled` of a linear layer that is applied after the pooling.
            pool_edge_attr: Whether to pool `edge_attr`, `[E, D]`, as :func:`sim_pool` does.
            node_attr: The node attribute that is named by `order_attr` of the transform, `[N]` or
                `[N, F]` (dense: `[B, N]` or `[B, N, F]`). Read only where the features are
                computed on the fly.

        Returns:
            The named tuple `(s, x, adj, entropy_loss, cluster_loss)`; with `pool_edge_attr` a
            :class:`SimPoolEdgeOutput`, which has `edge_attr` as well.
        """
        check_bool("pool_edge_attr", pool_edge_attr)
        check_floating("x", x)  # before the edges: a `Data` in its place has them inside
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
            if pool_edge_attr and edge_attr is None:
                raise ValueError("`edge_attr` must be given for `pool_edge_attr`, got None")
            return self._sparse(
                x,
                edge_index,
                batch,
                sim,
                edge_weight,
                edge_attr,
                batch_size,
                assign_x,
                pool_x,
                pool_edge_attr,
                node_attr,
            )
        for name, value in (
            ("batch", batch),
            ("edge_weight", edge_weight),
            ("edge_attr", edge_attr),
            ("batch_size", batch_size),
            ("pool_x", pool_x),
            ("pool_edge_attr", pool_edge_attr or None),
        ):
            if value is not None:
                raise ValueError(f"`{name}` must be None for a dense batch, got a value")
        return self._dense(x, adj, mask, sim, assign_x, node_attr)

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
        pool_edge_attr_: bool,
        node_attr: Optional[Tensor],
    ) -> SimPoolOutput:
        sync = batch_size is None or (isinstance(x, Tensor) and x.device.type == "cpu")
        x, edge_index, batch, edge_weight, batch_size = check_sparse_batch(
            x, edge_index, batch, edge_weight, batch_size
        )
        if pool_x is not None and not callable(pool_x):
            raise TypeError(f"`pool_x` must be a function or None, got {type(pool_x).__name__}")
        if pool_edge_attr_:
            check_edge_attr(edge_attr, edge_index.size(1), edge_index.device, sync)
        count = degree(batch, batch_size, torch.long)
        num_nodes = count[batch]
        structural = None
        if self.features != "node":
            if sim is not None:
                structural = _check_features("sim", sim, x, self.k)
            else:
                edges = EdgeList(edge_index, edge_weight, batch.numel())
                parsed = ParsedGraphs(edges, batch, batch_size, node_attr)
                if self.k is not None:
                    structural = sparse_features(self.transform(), parsed, sync)
                else:
                    structural = sparse_rows(parsed, count, self.p, self.lam, self.measure)
        logits = self._assign(
            "sparse",
            self._read(structural, assign_x, x),
            structural is not None and sim is None and self.k is None,
            {
                "edge_index": edge_index,
                "edge_weight": edge_weight,
                "edge_attr": edge_attr,
                "batch": batch,
                "batch_size": batch_size,
                "num_nodes": num_nodes,
            },
        )
        graphs = SparseBatch(x, edge_index, batch, edge_weight, batch_size)
        assignment, pooled = pool_sparse(graphs, logits)
        if pool_x is not None:
            pooled = pooled._replace(x=pool_x(x, assignment.s, edge_index, batch, batch_size))
        out = SimPoolOutput(assignment.s, *pooled)
        if not pool_edge_attr_:
            return out
        assert edge_attr is not None
        pooled_edges = pool_edge_attr(graphs, assignment.s, edge_attr)
        return SimPoolEdgeOutput(*out, pooled_edges)  # type: ignore[return-value]

    def _dense(
        self,
        x: Tensor,
        adj: Tensor,
        mask: Optional[Tensor],
        sim: Optional[Tensor],
        assign_x: Optional[Tensor],
        node_attr: Optional[Tensor],
    ) -> SimPoolOutput:
        single = isinstance(x, Tensor) and x.dim() == 2
        given = mask  # what the network reads, also where there is no padding
        x, adj, mask = check_dense_batch(x, adj, mask)
        if single:
            sim = None if sim is None else check_floating("sim", sim).unsqueeze(0)
            if assign_x is not None:
                assign_x = check_floating("assign_x", assign_x).unsqueeze(0)
            if given is not None and given.dim() == 1:
                given = given.unsqueeze(0)
            if node_attr is not None:
                node_attr = check_tensor("node_attr", node_attr).unsqueeze(0)
        if mask is None:
            num_nodes = torch.full(x.shape[:2], x.size(1), device=x.device)
        else:
            num_nodes = mask.sum(dim=1, keepdim=True).expand(mask.shape)
        structural = None
        if self.features != "node":
            if sim is not None:
                structural = _check_features("sim", sim, x, self.k)
            elif self.k is not None and self.measure in SPARSE_MEASURES:
                structural = dense_features(self.transform(), adj, mask, node_attr)
            else:
                structural = structural_similarity(adj, self.p, self.lam, self.measure, mask)
                if self.k is not None:
                    structural = mapped_rows(structural, mask, self.k, self.alpha)
                elif mask is not None:  # n similarities, then zeros, wherever the padding is
                    first = (~mask).long().argsort(dim=-1, stable=True)
                    structural = structural.gather(-1, first.unsqueeze(1).expand_as(structural))
        read = self._read(structural, assign_x, x)
        if mask is not None:
            read = read.masked_fill(~mask.unsqueeze(-1), 0)
        rows = structural is not None and sim is None and self.k is None
        named = {"adj": adj, "mask": given, "num_nodes": num_nodes}
        logits = self._assign("dense", read, rows, named)
        assignment, pooled = pool_dense(DenseBatch(x, adj, mask), logits)
        return SimPoolOutput(assignment.s, *pooled)

    def _read(self, structural: Optional[Tensor], assign_x: Optional[Tensor], x: Tensor) -> Tensor:
        if self.features == "structural":
            assert structural is not None
            return structural.to(x.dtype)
        node = x
        if assign_x is not None:
            check_device("assign_x", check_tensor("assign_x", assign_x), x.device, "x")
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

    def _assign(self, kind: str, features: Tensor, rows: bool, available: dict[str, Any]) -> Tensor:
        """The logits. `rows` says whether the network reads rows of C."""
        for name, required in self.inputs.items():
            if required and name not in INPUTS[kind]:
                raise ValueError(
                    f"`assignment` ({type(self.assignment).__name__}) reads `{name}`, "
                    f"but a {kind} batch has only {', '.join(INPUTS[kind])}"
                )
        named = {n: available[n] for n in self.inputs if available.get(n) is not None}
        try:
            logits = self.assignment(features, **named)
        except (RuntimeError, ValueError) as error:
            if not _is_of_shapes(error):
                raise
            if not rows and "cannot be multiplied" in str(error):
                raise ValueError(
                    f"`assignment` ({type(self.assignment).__name__}) must take features "
                    f"{shape(features)}, one row for each node, got an error: {error}"
                ) from error
            if not rows:
                raise
            raise ValueError(
                f"`sim` or `k` must be given where `assignment` ({type(self.assignment).__name__}) "
                f"does not take rows of C, got neither, and features {shape(features)}: {error}"
            ) from error
        nodes = features.shape if is_labels(features) else features.shape[:-1]
        if not isinstance(logits, Tensor) or logits.shape[:-1] != nodes:
            got = shape(logits) if isinstance(logits, Tensor) else type(logits).__name__
            raise ValueError(
                f"`assignment` ({type(self.assignment).__name__}) must return one row of logits "
                f"for each node, [{', '.join(map(str, nodes))}, K], got {got}"
            )
        return logits

    def extra_repr(self) -> str:
        """The settings, as in the constructor; then others of the transform, if they are set."""
        names = ("features", *_ARGUMENTS)
        defaults = {**StructuralSimilarity().parameters(), "order": None}
        others = {name: value for name, value in self._others.items() if value != defaults[name]}
        settings = {**{name: getattr(self, name) for name in names}, **others}
        return ", ".join(f"{name}={value!r}" for name, value in settings.items())


def check_transform(value: Any) -> StructuralSimilarity:
    """A transform that writes structural features."""
    if not isinstance(value, StructuralSimilarity):
        raise TypeError(f"`transform` must be a StructuralSimilarity, got {type(value).__name__}")
    return value


def _check_features(name: str, value: Any, x: Tensor, width: Optional[int] = None) -> Tensor:
    check_floating(name, value)
    wide = width is None or value.dim() == 0 or value.size(-1) == width
    if value.dim() != x.dim() or value.shape[:-1] != x.shape[:-1] or not wide:
        what = "one row for each node of `x`" if wide else f"`k` = {width} features of each node"
        rows = ", ".join(map(str, x.shape[:-1]))
        raise ValueError(f"`{name}` must hold {what}, [{rows}, {width or 'D'}], got {shape(value)}")
    check_device(name, value, x.device, "x")
    return value


def _is_of_shapes(error: Exception) -> bool:
    """Whether a network may have failed because of the shape of what it was given."""
    if isinstance(error, torch.OutOfMemoryError) or "more than 1 value" in str(error):
        return False  # the latter is that of a batch norm of one node
    return re.search(r"shape|size|dim|multipl|channels|features|elements", str(error)) is not None


def _wrapped(module: torch.nn.Module) -> Optional[torch.nn.Module]:
    """The module that a compiled or distributed one has been made of."""
    if isinstance(module, torch.nn.DataParallel):
        return None  # it would cut a batch and its edges into parts of equal size
    kinds = {parameter.kind for parameter in _signature(module).values()}
    if kinds - {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        return None
    inner = getattr(module, "_orig_mod", getattr(module, "module", None))
    return inner if isinstance(inner, torch.nn.Module) else None


def _signature(module: torch.nn.Module) -> Any:
    try:
        return inspect.signature(module.forward).parameters
    except ValueError:
        raise TypeError(
            "`assignment` must have a `forward` whose parameters can be read where `inputs` is "
            f"None, got {type(module).__name__}: name them by `inputs`"
        ) from None


def _parameters(module: torch.nn.Module) -> dict[str, bool]:
    """The inputs that `module.forward` has parameters for, and which have no default.

    The `forward` of a wrapper (`torch.compile`, `DistributedDataParallel`) takes anything, so that
    of the module in it counts.
    """
    while (inner := _wrapped(module)) is not None:
        module = inner
    parameters: Any = _signature(module)
    # A torch_geometric.nn.Sequential takes *args, and keeps its names elsewhere.
    parameters = getattr(getattr(module, "signature", None), "param_dict", parameters)
    return {
        name: parameter.default is inspect.Parameter.empty
        for name, parameter in list(parameters.items())[1:]
        if name in ALL_INPUTS
    }

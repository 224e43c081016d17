"""The pooling layer: structural features, an assignment network, and the pooling operator."""

import inspect
from typing import Any, Optional, Union

import torch
from torch import Tensor
from torch_geometric.nn import MLP
from torch_geometric.nn.inits import reset
from torch_geometric.utils import degree

from torch_geometric_simpool.functional.assignment import FEATURES, assignment_input
from torch_geometric_simpool.functional.batches import (
    DenseBatch,
    SparseBatch,
    pad_rows,
    parse_dense_batch,
    parse_sparse_batch,
)
from torch_geometric_simpool.functional.pooling import SimPoolOutput, pool
from torch_geometric_simpool.functional.similarity import similarity_rows, structural_similarity
from torch_geometric_simpool.transforms.structural_similarity import StructuralSimilarity
from torch_geometric_simpool.utils.checks import (
    check_choice,
    check_dense,
    check_floating,
    check_int,
)

#: The inputs that a network can read in addition to the features.
INPUTS = (
    "edge_index",
    "edge_weight",
    "edge_attr",
    "batch",
    "batch_size",
    "adj",
    "mask",
    "num_nodes",
)


class SimPool(torch.nn.Module):
    r"""Pools every graph to `K` clusters, assigned by structural similarity.

    The layer computes structural features of the nodes. An assignment network turns the features
    into logits over the clusters. Then :func:`sim_pool` pools sparse batches, or
    :func:`dense_sim_pool` dense batches. Pass either `num_clusters` or `assignment`.

    Args:
        num_clusters (int, optional): Number of clusters `K`. The layer then builds an MLP with one
            hidden layer. (default: :obj:`None`)
        k (int, optional): Number of similar nodes per node. If set to :obj:`None`, the network
            reads the rows of C, :func:`structural_similarity`, which suits pooled graphs. In a
            sparse batch, rows are padded to the largest graph and need memory `O(B N^2)`.
            (default: :obj:`16`)
        assignment (torch.nn.Module, optional): Network that computes logits, `[N, K]`, from
            features, `[N, D]`, such as an MLP, a recurrent network or a GNN; see below.
            (default: :obj:`None`)
        features (str, optional): Input of the network: `'structural'` features, `'node'` features
            `x`, or `'both'`, concatenated in this order. (default: :obj:`"structural"`)
        in_channels (int, optional): Size of the node features, for `num_clusters` with `'node'` or
            `'both'`. (default: :obj:`None`, taken from the first batch)
        hidden_channels (int, optional): Hidden size of the MLP. (default: :obj:`64`)
        **settings (optional): Settings of :class:`StructuralSimilarity`, such as `alpha`, `order`,
            `p`, `lam`, `measure` and `loop`. With `k=None`, only `p`, `lam` and `measure`.

    Inputs of the network:

    * The first argument is the features. `edge_index`, `edge_weight`, `edge_attr`, `batch`,
      `batch_size` and `num_nodes` (the size of each node's graph, `[N]`) are passed by name, if
      its `forward` has a parameter of that name.
    * On a dense batch, a network with a parameter `adj` or `mask` gets features `[B, N, D]`, and
      by name `adj`, `mask` and `num_nodes` `[B, N]`. Any other network gets the rows of the valid
      nodes, `[N, D]`, with `batch`, `batch_size` and `num_nodes`, so that batch norm gives the same
      values as on a sparse batch.

    If `sim` is passed to :meth:`forward`, it holds the structural features. Otherwise the layer
    computes them on the fly, with the values that :meth:`transform` writes. Only the width of `sim`
    is checked: compute `sim` by `pool.transform()`, or build the layer with the parameters of the
    transform, `SimPool(num_clusters=8, **transform.parameters())`.

    Gradients flow through the similarities to `edge_weight` and `adj`. Features computed on the
    fly are float32, like `data.sim`. With `batch_size` and `sim`, values on a GPU are not checked,
    so the layer does not synchronize.

    Raises:
        TypeError, ValueError: If a parameter or an input of :meth:`forward` is wrong.

    Time is the time of :func:`topk_similarity` without `sim`, of the network, and of
    :func:`sim_pool` or :func:`dense_sim_pool`.

    Source: section 'SimPool' of Shulman (2020).

    Example:
        >>> pool = SimPool(num_clusters=8, k=16)
        >>> out = pool(torch.randn(30, 64), torch.randint(0, 30, (2, 90)))
        >>> out.x.shape, out.adj.shape
        (torch.Size([1, 8, 64]), torch.Size([1, 8, 8]))
        >>> deeper = SimPool(num_clusters=4, k=None)
        >>> deeper(out.x, adj=out.adj, mask=out.mask).x.shape
        torch.Size([1, 4, 64])
    """

    def __init__(
        self,
        num_clusters: Optional[int] = None,
        k: Optional[int] = 16,
        *,
        assignment: Optional[torch.nn.Module] = None,
        features: str = "structural",
        in_channels: Optional[int] = None,
        hidden_channels: int = 64,
        **settings: Any,
    ) -> None:
        super().__init__()
        if (num_clusters is None) == (assignment is None):
            got = "neither" if assignment is None else "both"
            raise ValueError(
                f"exactly one of `num_clusters` and `assignment` must be given, got {got}"
            )
        self.features = check_choice("features", features, FEATURES)
        self._transform = None if k is None else StructuralSimilarity(k, **settings)
        self._row_settings: dict[str, Any] = {}
        if k is None:
            self._row_settings = {"p": 1, "lam": 0.0, "measure": "cosine", **settings}
            structural_similarity(torch.zeros(0, 0), **self._row_settings)  # checks them
        check_int("in_channels", 1 if in_channels is None else in_channels, 1)
        check_int("hidden_channels", hidden_channels, 1)
        if assignment is None:
            num_clusters = check_int("num_clusters", num_clusters, 1)
            widths = {"structural": [k], "node": [in_channels], "both": [k, in_channels]}[features]
            # A width of -1 is read from the first batch.
            width = -1 if None in widths else sum(w or 0 for w in widths)
            assignment = MLP([width, hidden_channels, num_clusters], norm=None)
        elif not isinstance(assignment, torch.nn.Module):
            raise TypeError(
                f"`assignment` must be a torch.nn.Module, got {type(assignment).__name__}"
            )
        self.assignment = assignment

    def __setattr__(self, name: str, value: Any) -> None:
        """Reads the parameters of an assignment network whenever it is assigned."""
        super().__setattr__(name, value)
        if name == "assignment":
            self._inputs = _inputs_of(value)

    @property
    def k(self) -> Optional[int]:
        """The number of similar nodes per node, read only; :obj:`None` for rows of C."""
        return None if self._transform is None else self._transform.k

    def transform(self) -> StructuralSimilarity:
        """Returns the transform that writes the features of this layer."""
        if self._transform is None:
            raise ValueError("`k` must be set for a transform, which writes `k` features, got None")
        return self._transform

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
    ) -> SimPoolOutput:
        """Pools a sparse batch (`edge_index`) or a dense batch (`adj`).

        Args:
            x (torch.Tensor): Node features, `[N, F]`, or `[B, N, F]` with `adj`.
            edge_index (torch.Tensor, optional): The edges, `[2, E]`, or a transposed sparse
                matrix, whose values are the weights. (default: :obj:`None`)
            batch (torch.Tensor, optional): The graph of each node, `[N]`, in any order.
                (default: :obj:`None`, one graph)
            sim (torch.Tensor, optional): Precomputed structural features, `[N, k]` or
                `[B, N, k]`. (default: :obj:`None`)
            adj (torch.Tensor, optional): Dense adjacency matrices, `[B, N, N]` or `[N, N]`. Dense
                edge features, `[B, N, N, D]`, are reduced to a binary adjacency matrix.
                (default: :obj:`None`)
            mask (torch.Tensor, optional): The valid nodes of a dense batch, boolean, `[B, N]` or
                `[N]`. (default: :obj:`None`)
            edge_weight (torch.Tensor, optional): Weights of a sparse batch, `[E]` or `[E, 1]`.
                (default: :obj:`None`)
            edge_attr (torch.Tensor, optional): Edge features of a sparse batch, `[E, *]`, which
                only the assignment network reads. (default: :obj:`None`)
            batch_size (int, optional): The number of graphs of a sparse batch.
                (default: :obj:`None`, taken from `batch`)

        Returns:
            SimPoolOutput: The named tuple `(s, x, adj, entropy_loss, cluster_loss, mask)`.
        """
        check_floating("x", x)  # the error is useful if `x` is a Data object
        if (edge_index is None) == (adj is None):
            got = "neither" if adj is None else "both"
            raise ValueError(f"exactly one of `edge_index` and `adj` must be given, got {got}")
        sparse: dict[str, Any] = {
            "batch": batch,
            "edge_weight": edge_weight,
            "edge_attr": edge_attr,
            "batch_size": batch_size,
        }
        for name, value in ({"mask": mask} if adj is None else sparse).items():
            if value is not None:
                kind = "sparse" if adj is None else "dense"
                raise ValueError(
                    f"`{name}` must be None for a {kind} batch, got {type(value).__name__}"
                )
        if edge_index is not None:
            graphs = parse_sparse_batch(x, edge_index, batch, edge_weight, batch_size)
            if edge_attr is not None:
                num_edges = graphs.edge_index.size(1)
                shapes = (num_edges,), (num_edges, "D")
                check_dense("edge_attr", edge_attr, *shapes, device=x.device, of="x")
            features = self._features(graphs, sim)
            return pool(graphs, self._assign_sparse(graphs, features, edge_attr))
        assert adj is not None
        if x.dim() == 2 and isinstance(sim, Tensor):
            sim = sim.unsqueeze(0)
        padded = parse_dense_batch(x, adj, mask)
        return pool(padded, self._assign_dense(padded, self._features(padded, sim)))

    def _features(self, graphs: Union[SparseBatch, DenseBatch], sim: Optional[Tensor]) -> Tensor:
        """Returns the input of the assignment network."""
        x = graphs.x
        if self.features == "node":
            return x
        if self._transform is not None:
            sim = self._transform.features_of(graphs, sim)
        elif sim is None:
            sim = similarity_rows(graphs, **self._row_settings)
        else:
            check_floating("sim", sim, (*x.shape[:-1], "D"), device=x.device, of="x")
        return assignment_input(self.features, sim.to(x.dtype), x)

    def _assign_sparse(
        self, graphs: SparseBatch, features: Tensor, edge_attr: Optional[Tensor]
    ) -> Tensor:
        """Returns the logits of a sparse batch, `[N, K]`."""
        count = degree(graphs.batch, graphs.batch_size, torch.long)
        inputs = {**graphs._asdict(), "edge_attr": edge_attr, "num_nodes": count[graphs.batch]}
        return self._call_network(features, inputs, "sparse")

    def _assign_dense(self, graphs: DenseBatch, features: Tensor) -> Tensor:
        """Returns the logits of a dense batch, `[B, N, K]`."""
        mask = graphs.mask
        if mask is None:
            mask = torch.ones(features.shape[:2], dtype=torch.bool, device=features.device)
        num_nodes = mask.sum(dim=1, keepdim=True).expand(mask.shape)
        inputs: dict[str, Any] = {"adj": graphs.adj, "mask": mask, "num_nodes": num_nodes}
        if "adj" in self._inputs or "mask" in self._inputs:
            features = features.masked_fill(~mask.unsqueeze(-1), 0)
            return self._call_network(features, inputs, "dense")
        batch = torch.arange(mask.size(0), device=mask.device).unsqueeze(1).expand(mask.shape)

        def rows(values: Tensor) -> Tensor:
            return values.flatten(0, 1) if graphs.mask is None else values[mask]

        inputs = {"batch": rows(batch), "batch_size": mask.size(0), "num_nodes": rows(num_nodes)}
        return pad_rows(self._call_network(rows(features), inputs, "dense"), mask)

    def _call_network(self, features: Tensor, inputs: dict[str, Any], kind: str) -> Tensor:
        name = f"`assignment` ({type(self.assignment).__name__})"
        inputs = {key: inputs[key] for key in self._inputs if inputs.get(key) is not None}
        for key, required in self._inputs.items():
            if required and key not in inputs:
                raise ValueError(f"{name} reads `{key}`, which this {kind} batch does not have")
        if isinstance(self.assignment, MLP):
            width = self.assignment.lins[0].in_channels
            if width not in (-1, features.size(-1)):
                raise ValueError(
                    f"{name} reads {width} features of each node, got {features.size(-1)}: check "
                    "`in_channels`, and with `k=None` pass graphs of the size of the first"
                )
        logits = self.assignment(features, **inputs)
        return check_floating("assignment(...)", logits, (*features.shape[:-1], "K"))

    def extra_repr(self) -> str:
        """Shows the settings of the features."""
        rows = {"k": None, **self._row_settings}
        settings = rows if self._transform is None else self._transform.parameters()
        shown = {"features": self.features, **settings}
        return ", ".join(f"{name}={value!r}" for name, value in shown.items())


def _inputs_of(module: torch.nn.Module) -> dict[str, bool]:
    """Returns the inputs that `module.forward` has parameters for, and whether it needs them."""
    parameters: Any = inspect.signature(module.forward).parameters
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if all(parameter.kind in variadic for parameter in parameters.values()):
        # A compiled or distributed module wraps another; PyG's Sequential has its own signature.
        inner = getattr(module, "_orig_mod", getattr(module, "module", None))
        if isinstance(inner, torch.nn.Module):
            return _inputs_of(inner)
        parameters = getattr(getattr(module, "signature", None), "param_dict", parameters)
    return {
        name: parameter.default is inspect.Parameter.empty
        for name, parameter in list(parameters.items())[1:]
        if name in INPUTS
    }

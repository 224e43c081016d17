"""A network around any pooling layer of torch-geometric-pool (tgp) or of the user."""

import inspect
import warnings
from contextlib import nullcontext
from typing import Any, NamedTuple, Optional
from unittest import mock

import torch
from torch import Tensor
from torch.distributions import Beta
from torch_geometric import seed_everything
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, global_add_pool
from torch_geometric.utils import scatter

from harness.command import BenchmarkError, first_line, import_object
from harness.data.inputs import edges_only
from harness.methods.nodes import GMNBackbone, Level, NetworkOutput, NetworkSpec, last_layer
from harness.run import Run

PREFIX = "tgp:"
#: The poolers of tgp 1.0.2, and `simmatch` of this package. `graclus` is left out, because it needs
#: torch-cluster, and so is `pan`, which needs its own propagation.
NAMES = (
    *("acc", "asap", "bnpool", "diff", "dmon", "ec", "eigen", "hosc", "jb", "kmis", "lap"),
    *("maxcut", "mincut", "ndp", "nmf", "nopool", "sag", "sep", "topk", "simmatch"),
)
#: Poolers that read only the edges. They pool each graph once, before the training.
PRECOARSENED = tuple(PREFIX + name for name in ("eigen", "ndp", "nmf", "sep", "simmatch"))
#: tgp's classes by name. The module of this package registers `simmatch`.
_POOLERS = "torch_geometric_simpool.tgp:pooler_map"
#: The largest ratio of kept nodes. tgp reads a ratio of one as a number of nodes.
_ALL = 1 - 1e-6
#: Settings that differ from tgp's defaults. MaxCutPooling assigns a node to the nearest kept node
#: within `max_iter` steps (tgp: 5), and a node without a kept node in reach at random.
_SETTINGS: dict[str, dict[str, Any]] = {"MaxCutPooling": {"max_iter": 200}}


class _Pooled(NamedTuple):
    """The output of a pooling layer as a sparse batch."""

    x: Tensor
    edge_index: Tensor
    edge_weight: Optional[Tensor]
    batch: Tensor
    losses: list[Tensor]
    #: The selection of a pooler of tgp.
    so: Any = None
    level: Optional[Level] = None


class PooledNet(GMNBackbone):
    """Applies Z0, a pooling layer, Z1, a second pooling layer and Z2, and sums over the nodes.

    A layer that takes a number of clusters gets SimPool's numbers. Another layer keeps a share of
    the nodes, which gives equal numbers for a training graph of mean size. For the poolers of
    :data:`PRECOARSENED`, :func:`set_pooled_graphs` writes both levels to `pooled_data`.
    """

    def __init__(self, name: str, spec: NetworkSpec) -> None:
        super().__init__(spec)
        first, second = spec.run.architecture.clusters
        share = min(_ALL, first / float(spec.num_nodes.double().mean()))
        self.pool0 = make_pool(name, self.widths[0], first, share)
        self.pool1 = make_pool(name, self.widths[1], second, second / first)
        # EigenPooling returns several columns (modes) for each column.
        parts = getattr(self.pool0, "num_modes", 1)
        self.embed1 = GCNConv(self.widths[0] * parts, self.widths[1])
        self.embed2 = GCNConv(self.widths[1] * parts, self.widths[2])
        self.lin = last_layer(spec, self.widths[2])

    def forward(self, data: Batch) -> NetworkOutput:
        # tgp's BNPool draws from Beta distributions in evaluation too. Means replace the draws.
        mean = mock.patch.object(Beta, "rsample", lambda distribution, *_: distribution.mean)
        with nullcontext() if self.training else mean:
            return self._forward(data)

    def _forward(self, data: Batch) -> NetworkOutput:
        size = data.num_graphs
        first, second = data.pooled_data if "pooled_data" in data else (None, None)
        z0 = self.embed(data)
        level0 = _pool(self.pool0, z0, data.edge_index, None, data.batch, size, first)
        z1 = self.embed1(level0.x, level0.edge_index, level0.edge_weight).relu()
        level1 = _pool(
            self.pool1, z1, level0.edge_index, level0.edge_weight, level0.batch, size, second
        )
        z2 = self.embed2(level1.x, level1.edge_index, level1.edge_weight).relu()
        logits = self.lin(global_add_pool(z2, level1.batch, size))
        losses = sum(level0.losses + level1.losses)
        levels = (level0.level, level1.level) if level0.level and level1.level else ()
        is_read = level0.so is not None and not self.training
        clusters = clusters_of(level0.so, data.batch, size) if is_read else None
        return NetworkOutput(logits, losses, levels, clusters)


def _pool(
    pool: Any,
    x: Tensor,
    edge_index: Tensor,
    weight: Optional[Tensor],
    batch: Tensor,
    size: int,
    pooled: Any,
) -> _Pooled:
    """Calls a pooling layer, by the interface of tgp or of `SimPool`, and returns a sparse batch.

    If the graphs were pooled before the training, the layer only reduces node features.
    """
    if pooled is not None:
        x, coarse = pool.reduce(x=x, so=pooled.so, batch=batch)
        return _Pooled(x, pooled.edge_index, pooled.edge_weight, coarse, [], pooled.so)
    if "so" in inspect.signature(pool.forward).parameters:
        out = pool(x=x, adj=edge_index, edge_weight=weight, batch=batch)
        losses = list(out.get_loss_value()) if out.has_loss else []
        return _Pooled(out.x, out.edge_index, out.edge_weight, out.batch, losses, out.so)
    out = pool(x, edge_index, batch=batch, edge_weight=weight, batch_size=size)
    num_clusters = out.x.size(1)
    graph, row, col = out.adj.nonzero(as_tuple=True)
    weight = out.adj[graph, row, col]
    edge_index = torch.stack([row, col]) + graph * num_clusters
    level = Level(out.s, out.entropy_loss, out.cluster_loss)
    coarse = torch.arange(size, device=x.device).repeat_interleave(num_clusters)
    losses = [out.entropy_loss, out.cluster_loss]
    return _Pooled(out.x.flatten(0, 1), edge_index, weight, coarse, losses, None, level)


def make_pool(name: str, channels: int = 1, clusters: int = 1, ratio: float = _ALL) -> Any:
    """Returns a pooling layer.

    Args:
        name (str): `tgp:NAME`, or `module:Class`, a class with the interface of tgp's poolers or
            of `SimPool`.
        channels (int): The width, passed as `in_channels`. (default: :obj:`1`)
        clusters (int): The number of clusters, passed as `num_clusters` or else as `k`.
            (default: :obj:`1`)
        ratio (float): The share of kept nodes, passed as `ratio`. Arguments that the class does
            not have are left out. (default: almost :obj:`1`)
    """
    is_tgp = name.startswith(PREFIX)
    imported = import_object(_POOLERS if is_tgp else name, "--method")
    cls = imported[name.removeprefix(PREFIX)] if is_tgp else imported
    parameters = inspect.signature(cls).parameters
    number = "num_clusters" if "num_clusters" in parameters else "k"
    settings: dict[str, Any] = {"in_channels": channels, number: clusters, "ratio": ratio}
    if is_tgp:
        # PyTorch warns because tgp builds sparse tensors without `check_invariants`.
        warnings.filterwarnings("ignore", "Sparse invariant checks", UserWarning, r"tgp\.")
        # A pooler with clusters has an assignment network of two layers. tgp's default has no
        # activation between them.
        widths = [channels, channels] if "k" in parameters else channels
        settings |= {
            "in_channels": widths,
            "sparse_output": True,
            **_SETTINGS.get(cls.__name__, {}),
        }
    return cls(**{key: value for key, value in settings.items() if key in parameters})


def clusters_of(so: Any, batch: Tensor, size: int) -> Optional[Tensor]:
    """Returns the cluster of every node, counted from 0 in each graph; `None` if a node has none.

    `so` is the selection of a pooler of tgp.
    """
    num_nodes = batch.numel()
    if not so.s.is_sparse:
        s = so.s if so.in_mask is None else so.s[so.in_mask]
        return s.view(num_nodes, -1).argmax(dim=-1)
    if not torch.equal(so.node_index.sort()[0], torch.arange(num_nodes, device=batch.device)):
        return None
    cluster = torch.empty_like(batch)
    cluster[so.node_index] = so.cluster_index
    return cluster - scatter(cluster, batch, dim_size=size, reduce="min")[batch]


def set_pooled_graphs(run: Run, graphs: list[Data]) -> None:
    """Writes `pooled_data` to every graph, if the method reads it.

    EigenPooling, NDP and NMF draw from the seed of the run. EigenPooling may still give different
    clusters in a second run, if the pooled graph is not connected: for equal eigenvalues, SciPy's
    solver draws numbers without a seed.
    """
    if run.method not in PRECOARSENED:
        return
    first, second = (make_pool(run.method, clusters=k) for k in run.architecture.clusters)
    from tgp.data.transforms import PreCoarsening

    # A pooler that chooses the number of clusters itself computes both levels in one pass.
    several = "k" in inspect.signature(type(first)).parameters
    transform = PreCoarsening([first, second if several else first])
    seed_everything(run.seed)
    # tgp's EigenPooling adds the smallest float to degrees that may be zero.
    torch.set_flush_denormal(False)
    for graph in graphs:
        try:
            graph.pooled_data = transform(edges_only(graph)).pooled_data
        except (RuntimeError, ValueError) as error:  # NDP may keep no node without an edge
            raise BenchmarkError(
                f"--method {run.method} cannot pool a graph of {graph.num_nodes} nodes and "
                f"{graph.num_edges} edges: {first_line(error)}"
            ) from error
    torch.set_flush_denormal(True)

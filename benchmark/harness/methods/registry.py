"""The methods by name. A new one is a class and one line of `NETWORKS`."""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch_geometric.data import Batch
from torch_geometric.nn import GCNConv, SAGPooling, TopKPooling

from harness.data.load import GraphData
from harness.methods.clusters import DiffPoolNet, SimilarityEdges, SimMatchNet, SoftPool
from harness.methods.nodes import Baseline, NetworkSpec, NoPool, SelectionNet, SortPoolNet
from harness.methods.pooled import NAMES, PREFIX, PooledNet
from harness.run import ENCODINGS, Run
from torch_geometric_simpool.models import SimPoolNet, SimPoolNetOutput


class SimPool(torch.nn.Module):
    """Builds a `SimPoolNet`, and calls it with a batch, as all networks are called."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        run = spec.run
        self.network = SimPoolNet(
            spec.in_channels,
            spec.num_classes,
            run.architecture,
            k=run.k,
            p=run.p,
            lam=run.lam,
            alpha=run.alpha,
            features="structural" if run.features == ENCODINGS else run.features,
            gru=run.gru,
            edge_dim=spec.edge_dim,
            readout=run.readout,
            dropout=run.dropout,
        )

    def forward(self, data: Batch) -> SimPoolNetOutput:
        return self.network(
            data.x,
            data.edge_index,
            data.batch,
            data.get("sim"),
            data.edge_attr,
            batch_size=data.num_graphs,
        )


#: Networks by name, in the order of the tables.
NETWORKS: dict[str, Callable[[NetworkSpec], torch.nn.Module]] = {
    "simpool": SimPool,
    "baseline": Baseline,
    "diffpool": DiffPoolNet,
    "diffpool-unnormalized": partial(DiffPoolNet, normalize=False),
    "nopool": NoPool,
    # Ratios of kept nodes are from the paper of SAGPool, and from PyG's examples of TopKPooling.
    "sagpool": partial(SelectionNet, pooling=partial(SAGPooling, ratio=0.5, GNN=GCNConv)),
    "gunet": partial(SelectionNet, pooling=partial(TopKPooling, ratio=0.8)),
    "sortpool": SortPoolNet,
    "similarity-edges": SimilarityEdges,
    "similarity-set": SoftPool,
    "index-assignment": partial(SoftPool, reads="indices"),
    "mlp-assignment": partial(SoftPool, reads="node"),
    "simmatch": SimMatchNet,
}
METHODS = tuple(NETWORKS)
#: The methods of tables with all methods.
PEERS = METHODS[: METHODS.index("similarity-edges")]
#: The poolers of torch-geometric-pool.
TGP = tuple(f"{PREFIX}{name}" for name in NAMES)


def build(run: Run, data: GraphData, train: np.ndarray) -> torch.nn.Module:
    """Builds the network of a run; `train` holds the indices of the training graphs."""
    graph, num_nodes = data.graphs[0], torch.tensor([data.graphs[i].num_nodes for i in train])
    edge_dim = graph.num_edge_features or None
    spec = NetworkSpec(run, graph.num_features, data.num_classes, edge_dim, num_nodes)
    return NETWORKS.get(run.method, partial(PooledNet, run.method))(spec)

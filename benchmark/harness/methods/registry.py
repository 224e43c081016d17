"""The methods by name. A new one is a class and one line of `NETWORKS`."""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from harness.data.load import GraphData
from harness.data.structural import ENCODINGS
from harness.methods.base import NetworkSpec
from harness.methods.clusters import DiffPoolNet, SimilarityEdges, SimMatchNet, SoftPool
from harness.methods.nodes import Baseline, NoPool, SortPoolNet, graph_u_net, sag_pool
from harness.methods.pooled import NAMES, PREFIX, PooledNet
from harness.run import Run
from torch_geometric_simpool.models import SimPoolNet

#: In the order of the tables, after SimPool.
NETWORKS: dict[str, Callable[[NetworkSpec], torch.nn.Module]] = {
    "baseline": Baseline,
    "diffpool": DiffPoolNet,
    "diffpool-unnormalized": partial(DiffPoolNet, normalize=False),
    "nopool": NoPool,
    "sagpool": sag_pool,
    "gunet": graph_u_net,
    "sortpool": SortPoolNet,
    "similarity-edges": SimilarityEdges,
    "similarity-set": SoftPool,
    "index-assignment": partial(SoftPool, reads="indices"),
    "mlp-assignment": partial(SoftPool, reads="node"),
    "simmatch": SimMatchNet,
}
METHODS = ("simpool", *NETWORKS)
#: The methods of the tables over all methods.
PEERS = METHODS[: METHODS.index("similarity-edges")]
#: The poolers of torch-geometric-pool.
TGP = tuple(f"{PREFIX}{name}" for name in NAMES)


def build(run: Run, data: GraphData, train: np.ndarray) -> torch.nn.Module:
    """Builds the network of a run; `train` holds the indices of the training graphs."""
    if run.method == "simpool":
        return SimPoolNet(
            data.num_features,
            data.num_classes,
            run.architecture,
            k=run.k,
            p=run.p,
            lam=run.lam,
            alpha=run.alpha,
            features="structural" if run.features == ENCODINGS else run.features,
            gru=run.gru,
            edge_dim=data.edge_dim,
            readout=run.readout,
            dropout=run.dropout,
        )
    spec = NetworkSpec(
        data.num_features,
        data.num_classes,
        run.architecture,
        data.edge_dim,
        torch.tensor([data.graphs[i].num_nodes for i in train]),
        run.dropout,
        run.readout,
        run.preset == "narrow",
        run.k or 0,
    )
    return NETWORKS.get(run.method, partial(PooledNet, run.method))(spec)

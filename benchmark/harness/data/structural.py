"""Structural features of the graphs of a run."""

from typing import Optional

import torch
from torch_geometric.data import Batch, Data

from harness.data.batches import TrainingBatches, edges_only, renumbered_features
from harness.data.encodings import laplacian_encodings
from harness.data.load import WITH_ENCODINGS
from harness.run import Run
from torch_geometric_simpool import StructuralSimilarity

#: An input of assignment networks besides the choices of `SimPoolNet`: eigenvectors.
ENCODINGS = "laplacian"
#: The number of graphs whose features are computed at once.
_BLOCK = 64


def transform_of(run: Run, device: str = "cpu") -> Optional[StructuralSimilarity]:
    """Returns the transform whose features the network reads; `None` if it reads none."""
    reads = run.features not in ("node", ENCODINGS) and not run.gru
    if not reads or run.method not in ("simpool", "index-assignment"):
        return None
    order = None if run.order in ("given", "random", "random-epoch") else run.order
    return StructuralSimilarity(
        run.k, p=run.p, lam=run.lam, alpha=run.alpha, order=order, device=device
    )


def set_structural_features(run: Run, graphs: list[Data], device: str = "cpu") -> None:
    """Writes `sim` to every graph if the network of the run reads it."""
    if run.features == ENCODINGS:
        for graph, encodings in zip(graphs, laplacian_encodings(graphs, run.seed)):
            graph.sim = encodings
    transform = transform_of(run, device)
    if transform is None:
        return
    if run.order.startswith("random"):
        generator = torch.Generator().manual_seed(run.seed)
        for graph in graphs:
            graph.sim = renumbered_features(graph, transform, generator)
        return
    for start in range(0, len(graphs), _BLOCK):
        block = graphs[start : start + _BLOCK]
        sim = transform(Batch.from_data_list([edges_only(graph) for graph in block])).sim
        for graph, rows in zip(block, sim.split([graph.num_nodes for graph in block])):
            graph.sim = rows


def training_batches(run: Run, graphs: list[Data], seed: int) -> TrainingBatches:
    """Returns the batches of the training graphs of a run."""
    renumber = transform_of(run) if run.order == "random-epoch" else None
    flip = None
    if run.node_features == WITH_ENCODINGS:
        flip = "x"
    elif run.method == "simpool" and run.features == ENCODINGS:
        flip = "sim"
    return TrainingBatches(graphs, run.batch_size, seed, renumber, flip)

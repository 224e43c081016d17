"""Structural features of the graphs of a run."""

from typing import Optional

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from harness.data.encodings import laplacian_encodings
from harness.run import Run
from torch_geometric_simpool import StructuralSimilarity

#: An input of assignment networks besides the choices of `SimPoolNet`: eigenvectors.
ENCODINGS = "laplacian"
#: The number of graphs whose features are computed at once.
_BLOCK = 64


def edges_only(graph: Data) -> Data:
    """Returns the graph without its features."""
    return Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)


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
        renumber(graphs, transform, torch.Generator().manual_seed(run.seed))
        return
    for start in range(0, len(graphs), _BLOCK):
        block = graphs[start : start + _BLOCK]
        sim = transform(Batch.from_data_list([edges_only(graph) for graph in block])).sim
        for graph, rows in zip(block, sim.split([graph.num_nodes for graph in block])):
            graph.sim = rows


def renumber(
    graphs: list[Data], transform: StructuralSimilarity, generator: torch.Generator
) -> None:
    """Writes features under random numbers of the nodes, in the given order of the nodes."""
    for graph in graphs:
        number: Tensor = torch.randperm(graph.num_nodes, generator=generator)
        other = Data(edge_index=number[graph.edge_index], num_nodes=graph.num_nodes)
        graph.sim = transform(other).sim[number]

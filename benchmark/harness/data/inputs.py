"""The inputs of networks: structural features, encodings, and batches of graphs.

Some inputs are drawn anew for each epoch.
"""

import sys
from collections.abc import Iterator
from typing import Any, Optional

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import AddLaplacianEigenvectorPE

from harness.run import ENCODINGS, WITH_ENCODINGS, Run
from torch_geometric_simpool import StructuralSimilarity

#: The number of eigenvectors.
SIZE = 8


def edges_only(graph: Data) -> Data:
    """Returns the graph without its features."""
    return Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)


def set_structural_features(run: Run, graphs: list[Data], device: str = "cpu") -> None:
    """Writes `sim` to every graph if the network of the run reads it."""
    if run.features == ENCODINGS:
        for graph, encodings in zip(graphs, laplacian_encodings(graphs, run.seed)):
            graph.sim = encodings
    write_features(run, graphs, torch.Generator().manual_seed(run.seed), device)


def write_features(
    run: Run, graphs: list[Data], generator: torch.Generator, device: str = "cpu"
) -> None:
    """Writes features if the network reads any, for randomly numbered nodes if `order` is random.

    Rows stay in the given order of the nodes.
    """
    is_read = run.features not in ("node", ENCODINGS) and not run.gru
    if not is_read or run.method not in ("simpool", "index-assignment"):
        return
    order = None if run.order in ("given", "random", "random-epoch") else run.order
    transform = StructuralSimilarity(
        run.k, p=run.p, lam=run.lam, alpha=run.alpha, order=order, device=device
    )
    whole = Batch.from_data_list([edges_only(graph) for graph in graphs])
    number, sizes = torch.arange(whole.num_nodes), whole.ptr.diff().tolist()
    if run.order.startswith("random"):
        drawn = [torch.randperm(size, generator=generator) for size in sizes]
        number = torch.cat(drawn) + whole.ptr[whole.batch]
    whole.edge_index = number[whole.edge_index]
    for graph, rows in zip(graphs, transform(whole).sim[number].split(sizes)):
        graph.sim = rows


class _Dense(AddLaplacianEigenvectorPE):
    """Computes all eigenvectors of every graph, because SciPy's sparse solver starts at random."""

    SPARSE_THRESHOLD = sys.maxsize


def laplacian_encodings(graphs: list[Data], seed: int) -> list[Tensor]:
    """Returns eigenvectors of the Laplacian of every graph, `[N, SIZE]`.

    The Laplacian is normalized, and the trivial eigenvector is left out (Dwivedi et al., 2020,
    'Benchmarking Graph Neural Networks'). Eigenvectors have a mean square of 1 and random signs.
    Missing eigenvectors of a small graph are zero. Equal rings of `motifs` give equal eigenvalues,
    whose eigenvectors are not unique and may differ between CPUs. Graphs must be undirected.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return [_encodings(graph) for graph in graphs]


def _encodings(graph: Data) -> Tensor:
    size = min(SIZE, graph.num_nodes - 1)
    edges = Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)
    encodings = _Dense(size, "encodings", is_undirected=True)(edges).encodings.float()
    return pad(encodings * graph.num_nodes**0.5, (0, SIZE - size))


def make_loader(
    graphs: list[Data], batch_size: int, generator: Optional[torch.Generator] = None
) -> DataLoader:
    """Returns a loader of batches, shuffled if there is a generator."""
    cls: Any = DataLoader
    if len(graphs) > 0 and "pooled_data" in graphs[0]:
        from tgp.data.loaders import PoolDataLoader

        cls = PoolDataLoader  # collates graphs that were pooled beforehand
    return cls(graphs, batch_size, shuffle=generator is not None, generator=generator)


class TrainingBatches:
    """Iterates over shuffled batches of the training graphs of a run.

    With the order 'random-epoch', each epoch numbers the nodes anew and computes features again.
    Eigenvectors of each graph of a batch get new random signs (Dwivedi et al., 2020).

    Args:
        run (Run): The settings.
        graphs (list[Data]): The training graphs.
        seed (int): The seed of the order of the graphs, of random numbers of nodes and of signs.
    """

    def __init__(self, run: Run, graphs: list[Data], seed: int) -> None:
        self.run, self.graphs = run, graphs
        order = torch.Generator().manual_seed(seed)
        # The second generator lets random numbers of nodes and signs leave the order unchanged.
        self.draws = torch.Generator().manual_seed(seed + 1)
        self.generators = [order, self.draws]
        self.loader = make_loader(graphs, run.batch_size, order)

    def __iter__(self) -> Iterator[Batch]:
        if self.run.order == "random-epoch":
            write_features(self.run, self.graphs, self.draws)
        attributes = ["x"] if self.run.node_features == WITH_ENCODINGS else []
        attributes += ["sim"] if self.run.features == ENCODINGS else []
        for batch in self.loader:
            for name in attributes:
                signs = 2 * torch.randint(2, (batch.num_graphs, SIZE), generator=self.draws) - 1
                signs = pad(signs, (0, batch[name].size(1) - SIZE), value=1)
                batch[name] = batch[name] * signs.to(batch[name])[batch.batch]
            yield batch
